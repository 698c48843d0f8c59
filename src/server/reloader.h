/* reloader.h - the thread that reads policies, tokens and certificates again, and keeps the log of it.
 *
 * One reload at a time. All who ask while one runs get the result of the next one: it begins after
 * the last of them has asked, so it has read what each of them had changed. Replacing waits for
 * loops, and these never wait for a reload. */
#ifndef WEIR_SERVER_RELOADER_H
#define WEIR_SERVER_RELOADER_H

#include "weir.h"

struct reloader;
struct server;

/* A request for one. It stays the asker's, who leaves it alone until done() is called, in the
 * reloader's thread. */
struct reload {
    const char *why; /* for the log; stays */
    const char *who; /* for the audit log; NULL: as for the log */
    void (*done)(struct reload *r);
    weir_err err;
    weir_diag diag;
    struct reload *next;
};

WEIR_MUSTCHECK weir_err reloader_start(struct reloader **out, struct server *s, weir_diag *diag);

/* From any thread; these never wait. The second is for who need not know how it went. */
void reloader_ask(struct reloader *r, struct reload *request);
void reloader_wake(struct reloader *r, const char *why);

/* When there are no loops any more. NULL is fine. */
void reloader_stop(struct reloader *r);

#endif
