/* reload_log.h - reloads in the audit log: which instance has loaded other policies, by what, what has
 * changed, and what has failed.
 *
 * A reload that changes no policy is not written, nor is a failure that was written last. What the
 * store could not take, or what comes too often, is written later, all together in one entry. All of
 * it is the reloader's thread's. */
#ifndef WEIR_SERVER_RELOAD_LOG_H
#define WEIR_SERVER_RELOAD_LOG_H

#include "weir.h"

struct reload_log;
struct server;

enum { RELOAD_LOG_MOST = 60 }; /* entries an hour */

/* Compares the policies with those of the last run: others are written as a reload. A store that
 * forgets with the process is not asked. */
WEIR_MUSTCHECK weir_err reload_log_open(struct reload_log **out, struct server *s, weir_diag *diag);
void reload_log_close(struct reload_log *l); /* NULL is fine */

/* A reload has ended; `problem` is NULL if nothing was wrong. What can be written is, when it
 * returns. */
void reload_log_note(struct reload_log *l, const char *who, const char *problem);

/* Is there something left to write? Then try again after a while. */
bool reload_log_is_due(const struct reload_log *l);
void reload_log_try(struct reload_log *l);

#endif
