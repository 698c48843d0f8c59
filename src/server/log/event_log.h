/* event_log.h - lines about what happens, JSON or for people: lifecycle, reloads, denials. Never
 * an identity.
 *
 *     {"time":"2026-11-15T23:06:42.123Z","level":"info","event":"ready","message":"..."}
 *
 * A thread of its own writes them. Other threads only put lines into a bounded queue, so a slow
 * reader of the log never holds up a decision; what does not fit is counted and told when there is
 * room again. */
#ifndef WEIR_SERVER_LOG_EVENT_LOG_H
#define WEIR_SERVER_LOG_EVENT_LOG_H

#include "base/buf.h"
#include "server/log/log_format.h"
#include "weir.h"

struct event_log;

/* Append to a file (mode 0640 if it is new), or write to stderr if `file` is NULL. */
WEIR_MUSTCHECK weir_err event_log_open(const char *file, struct event_log **out, weir_diag *diag);

/* Before others have it: from which level on lines are written, and how. It begins with JSON from
 * info on. */
void event_log_style(struct event_log *log, enum log_level least, enum log_format format);

/* Are lines of this level written? From any thread. */
bool event_log_wants(const struct event_log *log, enum log_level level);

/* Writes what waits, unless the reader of a pipe takes nothing for a second. NULL is fine. */
void event_log_close(struct event_log *log);

/* After a log rotation has moved the file away: go on in a new one of the same name. What was put
 * before goes into the old one. If that fails, the old one is kept and told so. */
void event_log_reopen(struct event_log *log);

void event_log_write(struct event_log *log, const char *level, const char *event,
                     const char *format, ...) __attribute__((format(printf, 4, 5)));

/* With more members: `members` is `"policy":"login","tag":"…"` without braces, or "". */
void event_log_write_members(struct event_log *log, const char *level, const char *event,
                             const char *message, const char *members);

uint64_t event_log_dropped(struct event_log *log); /* lines, since it was opened */

#endif
