/* event_log.h - JSON lines about what happens: lifecycle, reloads, refusals. Never an identity.
 *
 * Lines are written by whoever has them; a slow reader of the log never holds up a decision: what
 * does not fit into the bounded queue is counted and reported as dropped. */
#ifndef WEIR_SERVER_EVENT_LOG_H
#define WEIR_SERVER_EVENT_LOG_H

#include "base/buf.h"
#include "weir.h"

struct event_log;

WEIR_MUSTCHECK weir_err event_log_open(const char *file, struct event_log **out, weir_diag *diag);
void event_log_close(struct event_log *log); /* writes what waits */

/* {"time":"2026-…Z","level":"info","event":"started","message":"…"} */
void event_log_write(struct event_log *log, const char *level, const char *event,
                     const char *format, ...) __attribute__((format(printf, 4, 5)));

/* With more members: `members` is `"policy":"login","tag":"…"` without braces. */
void event_log_write_members(struct event_log *log, const char *level, const char *event,
                             const char *message, const char *members);

#endif
