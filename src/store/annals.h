/* annals.h - the history of decisions, wherever the store keeps it.
 *
 * For threads that may wait. Calls of several threads at once are fine. */
#ifndef WEIR_STORE_ANNALS_H
#define WEIR_STORE_ANNALS_H

#include "base/dir.h"
#include "base/hash.h"
#include "store/history.h"

/* How often one rule refused one identity in one minute. */
struct limited_entry {
    int64_t at; /* its beginning, in ms since the epoch */
    const char *policy, *rule;
    char tag[TAG_HEX + 1]; /* of the identity */
    uint64_t denied;
};

struct annals {
    const struct annals_ops *ops;
};

struct annals_ops {
    /* Add what was decided, in the order of time. On WEIR_EIO nothing was, as far as can be told:
     * try again later. */
    weir_err (*add)(struct annals *a, const struct history_entry *entries, size_t n,
                    weir_diag *diag);
    /* The same for who was refused. NULL: that is not kept there. */
    weir_err (*add_limited)(struct annals *a, const struct limited_entry *entries, size_t n,
                            weir_diag *diag);
    weir_err (*read)(struct annals *a, const struct history_query *q, history_each *each, void *ctx,
                     weir_diag *diag);
    void (*close)(struct annals *a);
};

/* Lines for people go to `log`, which may be NULL. */
struct annals_options {
    weir_allocator allocator;
    void (*log)(void *ctx, const char *line);
    void *log_ctx;
};

/* In the memory of this process and, unless `dir` is NULL, in the file "history" there. A file that
 * cannot be read is set aside as "history.damaged", with all that can be read of it kept, and one
 * that cannot be written is told of and tried again: neither is an error. The directory outlives
 * the annals. */
WEIR_MUSTCHECK weir_err annals_open_local(struct annals **out, struct dir *dir,
                                          const struct annals_options *options, weir_diag *diag);

/* In a database, together with those of all who share it. `conninfo` is as libpq takes it, and
 * outlives the annals. Connects when it must. */
WEIR_MUSTCHECK weir_err annals_open_postgres(struct annals **out, const char *conninfo,
                                             const struct annals_options *options, weir_diag *diag);

/* In Redis, together with those of all who share it. The URI outlives the annals. */
struct redis_uri;
WEIR_MUSTCHECK weir_err annals_open_redis(struct annals **out, const struct redis_uri *uri,
                                          const struct annals_options *options, weir_diag *diag);

#define ANNALS_FILE "history"
#define ANNALS_DAMAGED "history.damaged"

#endif
