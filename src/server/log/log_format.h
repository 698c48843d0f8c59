/* log_format.h - how a line of the log looks: JSON for programs, text for people. */
#ifndef WEIR_SERVER_LOG_LOG_FORMAT_H
#define WEIR_SERVER_LOG_LOG_FORMAT_H

#include "base/buf.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR, LOG_LEVELS };
enum log_format { LOG_AUTO, LOG_JSON, LOG_TEXT, LOG_FORMATS }; /* auto: text on a terminal */

extern const char *const log_level_names[LOG_LEVELS];
extern const char *const log_format_names[LOG_FORMATS];

enum log_level log_level_of(const char *name); /* of one of the names; else LOG_INFO */

/* Both end in a newline. `members` is `"policy":"login","tag":"…"` without braces, or "". */
void log_format_json(struct buf *line, const char *level, const char *event, const char *message,
                     const char *members);
void log_format_text(struct buf *line, const char *level, const char *event, const char *message,
                     const char *members);

#endif
