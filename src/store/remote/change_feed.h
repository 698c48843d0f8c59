/* change_feed.h - tells of changes that other processes make in a shared store, by its pub/sub.
 *
 * A thread has one connection to the store for this alone. Every CHANGE_FEED_BEAT_MS it asks for
 * the store's clock. The answer comes after all announcements before it, so nothing before is
 * missing. It also shows whether that clock was set.
 *
 * Where a connection cannot be told of changes, it is asked every CHANGE_FEED_POLL_MS. Of a key
 * that was refunded or reset it then knows nothing.
 *
 * RULES (test_change_feed.c has tests of each)
 *   E1  What may have been missed is told as STORE_EVENT_ALL: first of all after each connect; when
 *       the connection is lost; when a clock is set.
 *   E2  STORE_EVENT_UP_TO is told only for a moment at which the connection was there and
 *       subscribed, never by one that is asked.
 *   E3  An announcement that is not understood is STORE_EVENT_ALL: a newer version may have sent
 *       it.
 *   E4  A lost connection is made again by itself, and losing it is logged once. */
#ifndef WEIR_STORE_REMOTE_CHANGE_FEED_H
#define WEIR_STORE_REMOTE_CHANGE_FEED_H

#include "base/span.h"
#include "store/store.h"

enum {
    CHANGE_FEED_BEAT_MS = 250,
    CHANGE_FEED_POLL_MS = 500,
    CHANGE_FEED_PATIENCE_MS = 1000, /* for the answer to a beat */
    CHANGE_FEED_RETRY_MS = 250,     /* before the first try to connect again; then twice as long */
    CHANGE_FEED_RETRY_MOST_MS = 2000,
};

struct change_feed;

struct change_feed_ops {
    /* Connect and subscribe; blocks. */
    weir_err (*open)(void *backend, struct change_feed *feed, void **out, weir_diag *diag);

    /* Until `ms` have passed, or `end_fd` can be read from: hand announcements to
     * change_feed_heard(). */
    weir_err (*listen)(void *connection, int end_fd, int64_t ms, weir_diag *diag);

    /* The store's clock, in ms; what was announced before is heard before this returns. */
    weir_err (*clock)(void *connection, int64_t patience, int64_t *out, weir_diag *diag);

    /* Is it asked instead of told? NULL: no connection is. */
    bool (*is_asked)(const void *connection);

    void (*close)(void *connection);
};

struct change_feed_options {
    const struct change_feed_ops *ops;
    void *backend;
    const char *name; /* for people: "Postgres" */
    /* On the feed's thread, or in change_feed_tick(). */
    void (*heard)(void *ctx, const struct store_event *event);
    void *heard_ctx;
    void (*log)(void *ctx, const char *line); /* may be NULL */
    void *log_ctx;
    bool no_thread; /* change_feed_tick() does it */
    weir_allocator allocator;
};

WEIR_MUSTCHECK weir_err change_feed_new(struct change_feed **out,
                                        const struct change_feed_options *options, weir_diag *diag);
/* The same with these of a store's options. */
WEIR_MUSTCHECK weir_err change_feed_of_store(struct change_feed **out,
                                             const struct change_feed_ops *ops, const void *backend,
                                             const char *name, const struct store_options *options,
                                             weir_diag *diag);
void change_feed_free(struct change_feed *f); /* NULL is fine */

/* Without a thread: what there is to do now. */
void change_feed_tick(struct change_feed *f);

/* An announcement: "key" and the 32 hexadecimal digits of a key, with hyphens or without; or
 * "ledger". Any other, such as "policies", is STORE_EVENT_ALL. */
void change_feed_heard(struct change_feed *f, struct span text);

#endif
