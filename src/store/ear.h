/* ear.h - listens to what is changed in a shared store, by whomever.
 *
 * A thread keeps one connection to the store that is for nothing else. Every EAR_BEAT_MS it asks for
 * the store's clock: the answer comes after all that was announced before, so from then on nothing
 * before is missing, and it shows whether that clock was set.
 *
 * RULES (test_ear.c has tests of each)
 *   E1  Whatever may have been missed is told as NEWS_ALL: after each connecting, before anything
 *       else; when the connection is lost; when a clock is set.
 *   E2  NEWS_UP_TO is told only for a moment at which the connection was there and subscribed.
 *   E3  What is announced in words that nobody knows is NEWS_ALL: a newer version may have said it.
 *   E4  A lost connection is tried again by itself, and losing it is logged once. */
#ifndef WEIR_STORE_EAR_H
#define WEIR_STORE_EAR_H

#include "base/span.h"
#include "store/store.h"

enum {
    EAR_BEAT_MS = 250,
    EAR_PATIENCE_MS = 1000, /* for the answer to a beat */
    EAR_RETRY_MS = 250,     /* before the first try to connect again; then twice as long */
    EAR_RETRY_MOST_MS = 2000,
};

struct ear;

struct ear_ops {
    /* Connect and subscribe; may wait. */
    weir_err (*open)(void *backend, struct ear *ear, void **out, weir_diag *diag);

    /* Until `ms` have passed, or `bell` can be read from: hand what is announced to ear_heard(). */
    weir_err (*listen)(void *connection, int bell, int64_t ms, weir_diag *diag);

    /* The store's clock, in ms; what was announced before is heard before this returns. */
    weir_err (*clock)(void *connection, int64_t patience, int64_t *out, weir_diag *diag);

    void (*close)(void *connection);
};

struct ear_options {
    const struct ear_ops *ops;
    void *backend;
    const char *name;                                  /* for people: "Postgres" */
    void (*heard)(void *ctx, const struct news *news); /* on the ear's thread, or in ear_tick() */
    void *heard_ctx;
    void (*log)(void *ctx, const char *line); /* may be NULL */
    void *log_ctx;
    bool no_thread; /* ear_tick() does it */
    weir_allocator allocator;
};

WEIR_MUSTCHECK weir_err ear_new(struct ear **out, const struct ear_options *options,
                                weir_diag *diag);
void ear_free(struct ear *e); /* NULL is fine */

/* Without a thread: what there is to do now. */
void ear_tick(struct ear *e);

/* What is announced: "key" and the 32 hexadecimal digits of a key, with hyphens or without; or
 * "ledger". What else there is, such as "policies", is NEWS_ALL. */
void ear_heard(struct ear *e, struct span text);

#endif
