/* history_store.h - the history of decisions, wherever the store keeps it.
 *
 * For threads that may wait. Calls of several threads at once are fine. */
#ifndef WEIR_STORE_HISTORY_STORE_H
#define WEIR_STORE_HISTORY_STORE_H

#include "base/dir.h"
#include "base/hash.h"
#include "store/history.h"

/* How often one rule refused one identity in one minute. */
struct denied_minutes_entry {
    int64_t at; /* its beginning, in ms since the epoch */
    const char *policy, *rule;
    char tag[TAG_HEX + 1]; /* of the identity */
    uint64_t denied;
};

struct history_store {
    const struct history_store_ops *ops;
};

struct history_store_ops {
    /* Add what was decided, in the order of time. On WEIR_EIO nothing was, as far as can be told:
     * try again later. */
    weir_err (*add)(struct history_store *a, const struct history_entry *entries, size_t n,
                    weir_diag *diag);
    /* The same for who was refused. NULL: that is not kept there. */
    weir_err (*add_limited)(struct history_store *a, const struct denied_minutes_entry *entries,
                            size_t n, weir_diag *diag);
    weir_err (*read)(struct history_store *a, const struct history_query *q, history_each *each,
                     void *ctx, weir_diag *diag);
    void (*close)(struct history_store *a);
};

/* Lines for people go to `log`, which may be NULL. */
struct history_store_options {
    weir_allocator allocator;
    void (*log)(void *ctx, const char *line);
    void *log_ctx;
};

/* In the memory of this process and, unless `dir` is NULL, in the file "history" there. A file that
 * cannot be read is set aside as "history.damaged", with all that can be read of it kept, and one
 * that cannot be written is told of and tried again: neither is an error. The directory outlives
 * the history_store. */
WEIR_MUSTCHECK weir_err history_store_open_local(struct history_store **out, struct dir *dir,
                                                 const struct history_store_options *options,
                                                 weir_diag *diag);

/* In a database, together with those of all who share it. `conninfo` is as libpq takes it, and
 * outlives the history_store. Connects when it must. */
WEIR_MUSTCHECK weir_err history_store_open_postgres(struct history_store **out,
                                                    const char *conninfo,
                                                    const struct history_store_options *options,
                                                    weir_diag *diag);

/* In Redis, together with those of all who share it. The URI outlives the history_store. */
struct redis_uri;
WEIR_MUSTCHECK weir_err history_store_open_redis(struct history_store **out,
                                                 const struct redis_uri *uri,
                                                 const struct history_store_options *options,
                                                 weir_diag *diag);

#define HISTORY_STORE_FILE "history"
#define HISTORY_STORE_DAMAGED "history.damaged"

#endif
