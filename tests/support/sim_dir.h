/* sim_dir.h - a disk in memory that can fail, lose power, and be looked at.
 *
 * A write, a truncation or a new name is pending until it is synced: the content of a file by
 * sync(), names by sync_dir(), neither by the other. Readers see what is pending, as they do
 * in a running system; sim_cut() makes the disk that the next start may find. After a failed
 * sync the writes before it are never made durable by a later one, as with a kernel that has
 * dropped its dirty pages. */
#ifndef WEIR_TESTS_SIM_DIR_H
#define WEIR_TESTS_SIM_DIR_H

#include <stdbool.h>

#include "base/dir.h"

enum sim_op {
    SIM_CREATE,
    SIM_OPEN,
    SIM_SIZE,
    SIM_READ,
    SIM_WRITE,
    SIM_TRUNCATE,
    SIM_SYNC,
    SIM_WRITE_OUT,
    SIM_MAP,
    SIM_RENAME,
    SIM_REMOVE,
    SIM_SYNC_DIR,
    SIM_LIST,
};

static inline bool sim_changes(enum sim_op op)
{
    return op != SIM_MAP && op != SIM_OPEN && op != SIM_SIZE && op != SIM_READ && op != SIM_LIST;
}

struct sim {
    struct dir dir;
    _Atomic uint64_t ops; /* so far; a failed one counts */

    /* The operations with the numbers from fail_from to fail_until - 1 fail with fail_why. */
    uint64_t fail_from, fail_until;
    uint64_t fail_odds; /* only one in so many of them does, by chance; 0: all do */
    uint64_t fail_seed;
    int fail_why;
    bool fail_half; /* a failing write has written half; other operations have happened */

    bool can_map; /* as a new one can; stores to mapped memory are unsynced writes */
    bool is_off;  /* every operation fails and does nothing: for the end of a killed process */

    /* Called before each operation, without a lock. */
    void (*before)(void *ctx, struct sim *s, enum sim_op op, const char *name);
    void *ctx;

    struct sim_rest *rest;
};

struct sim *sim_new(void);
void sim_free(struct sim *s);

/* What becomes of what is pending. */
enum sim_fate {
    SIM_LOST,
    SIM_KEPT,
    SIM_MIXED, /* each of its own: lost, kept, or in pieces, of which some are garbled */
};

/* The disk after the power went. With everything kept, it is the disk after a kill. */
struct sim *sim_cut(const struct sim *s, enum sim_fate writes, enum sim_fate names, uint64_t seed);

/* The bytes of a file, as a reader sees them; NULL: there is none. Borrowed. */
const char *sim_bytes(const struct sim *s, const char *name, size_t *size);
void sim_put(struct sim *s, const char *name, const void *bytes, size_t size); /* and durably */
bool sim_has_dropped(const struct sim *s); /* a sync failed, and a name leads to what it lost */
size_t sim_files(const struct sim *s);     /* with names */
size_t sim_handles(const struct sim *s);   /* open */
bool sim_is_done(const struct sim *s);     /* ops->done() */

#endif
