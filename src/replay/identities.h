/* identities.h - what is known of each identity of each rule: requests, denied ones, its peak.
 *
 * All counts are exact while there is room for all identities. The table is bounded. If it is full,
 * identities that were never denied and have not been seen in their current window are forgotten
 * (their peaks stay in the histogram); then how many there were is an estimate of a HyperLogLog.
 * What is known of identities that were denied is never forgotten, but no new ones are added once
 * there are IDENTITIES_MOST_DENIED: they are only counted. */
#ifndef WEIR_REPLAY_IDENTITIES_H
#define WEIR_REPLAY_IDENTITIES_H

#include "base/buf.h"
#include "base/hash.h"
#include "base/hyperloglog.h"
#include "replay/peaks.h"

enum {
    IDENTITIES_MOST = 3 << 19, /* 1.5 million, in 80 MiB */
    IDENTITIES_MOST_DENIED = 1 << 20,
};

/* One identity of one rule. */
struct seen {
    uint64_t key;            /* 0: free */
    int64_t in_window, peak; /* what was asked for in its window, and the most in any */
    uint32_t window;         /* which, counted from 1970, as far as 32 bits tell */
    uint32_t requests;
    uint32_t denied; /* 1 + place among the denied; 0: it is not */
    uint16_t row;
};

/* … that was denied. */
struct denied_identity {
    struct key tag;
    uint64_t key;                 /* of its `seen` */
    int64_t requests, peak;       /* filled by identities_finish() */
    int64_t denied, longest_wait; /* longest: WEIR_NEVER is longest */
    int64_t first, last;          /* times of denials */
    uint16_t row;
    uint16_t raw_len;
    uint32_t raw; /* where its value is in `raw` */
};

/* Of one rule. */
struct identity_counts {
    int64_t identities, denied_identities; /* exact, unless is_estimated */
    struct hyperloglog all;
    struct peaks peaks; /* of those that were forgotten; of all, after identities_finish() */
};

struct identities {
    struct seen *slots;
    size_t room, count; /* room is a power of two */
    struct denied_identity *denied;
    size_t denied_count, denied_room;
    struct identity_counts *rows;
    size_t row_count;
    struct buf raw;
    bool keeps_raw;
    bool is_estimated;  /* identities were forgotten: how many there were is an estimate */
    bool is_denied_cut; /* not all that were denied are in `denied` */
    bool failed;        /* out of memory: what is new is not counted by identity */
};

/* False: out of memory. */
bool identities_init(struct identities *t, size_t rows, bool keeps_raw);
void identities_done(struct identities *t);

static inline void identities_prefetch(const struct identities *t, uint64_t key)
{
    const struct seen *const home = &t->slots[key & (t->room - 1)];

    __builtin_prefetch(home, 1);
    __builtin_prefetch(home + 1, 1); /* a slot may lie across two cache lines */
}

/* Count a request of an identity. The place is valid until the next call; NULL: out of memory. */
struct seen *identities_count(struct identities *t, uint16_t row, struct key key, int64_t cost,
                              uint32_t window);

/* Of a request that was denied: its entry; NULL: there is no room. A new one has no tag: `tag.low`
 * and `tag.high` are 0. */
struct denied_identity *identities_deny(struct identities *t, struct seen *s, int64_t time,
                                        int64_t wait);
void identities_keep_raw(struct identities *t, struct denied_identity *d, struct span value);

/* At the end, and as often as wanted: peaks of all, and requests of the denied. `peaks` has room
 * for one of each row. */
void identities_finish(struct identities *t, struct peaks *peaks);

int64_t identities_of_row(const struct identities *t, size_t row);

#endif
