/* claims.h - which questions of one thread wait for which, where they share keys.
 *
 * A question whose charges may yet be undone claims its keys until that is known. A later question
 * with one of these keys waits for it. So each is decided as if they had been asked one by one. A
 * key of which plenty was left is not waited for: no charge that is undone could deny another
 * there, and thousands of questions may share it.
 *
 * All of it belongs to one thread. Nothing in here blocks or asks. */
#ifndef WEIR_STORE_REDIS_CLAIMS_H
#define WEIR_STORE_REDIS_CLAIMS_H

#include "store/store.h"

enum {
    CLAIMS_BUCKETS = 256,
    CLAIMS_NOTES = 512,   /* keys for which it is known what was left */
    CLAIMS_PLENTY = 1024, /* beyond all that is claimed: other threads charge too */
};

struct claimant;
struct claimed_key;

/* One claim on one key. */
struct claim {
    struct claimed_key *of; /* NULL: it has been released */
    struct claimant *by;
    int64_t cost;
    bool waits;                    /* for those before it */
    struct claim *previous, *next; /* of the same key, in the order they came */
};

struct claimant {
    size_t waits_for; /* keys */
    struct claim *claims;
    size_t count;
    struct claimant *next; /* of those that wait no more */
};

struct claims {
    weir_allocator allocator;
    size_t open;
    struct claimed_key *buckets[CLAIMS_BUCKETS];
    struct {
        struct key key;
        int64_t left;
    } notes[CLAIMS_NOTES];
};

/* Is one of its keys claimed, so that it would have to wait? */
bool claims_concern(struct claims *c, const struct question *q);

/* Claim its keys: by->claims has room for them. It waits while by->waits_for is not 0. False: out
 * of memory, nothing is claimed. */
WEIR_MUSTCHECK bool claims_take(struct claims *c, struct claimant *by, const struct question *q);

/* Those that wait for nothing any more are put before `ready`, which is returned. */
struct claimant *claims_release(struct claims *c, struct claimant *by, struct claimant *ready);

/* What was left of its keys when it was decided. */
void claims_note(struct claims *c, const struct charge *charges, size_t n);

#endif
