/* split.h - a question to a Redis cluster, split into parts.
 *
 * A part has the charges of one slot: it is a question to one node. Most have one part. */
#ifndef WEIR_STORE_REDIS_SPLIT_H
#define WEIR_STORE_REDIS_SPLIT_H

#include "store/redis/claims.h"
#include "store/redis/reserve_codec.h"
#include "store/redis/slots.h"

enum { PARTS_MOST = RESERVATION_MOST_CHARGES + 1 }; /* of a question: with a pointer */

/* What became of a part. */
enum outcome {
    DECIDED,
    SENT_ON, /* to `there`, or wherever its slot is */
    PUT_OFF, /* the same, in a while */
    FAILED,  /* nothing was done, or it is not known */
};

struct part {
    struct question question; /* the first member */
    struct split *split;      /* NULL: it is a probe */
    uint16_t slot;
    bool is_asking, is_alone; /* it shares no call with others */
    enum outcome outcome;
    unsigned hops;
    struct redis_node *there; /* NULL: the owner of its slot */
    struct part *next;        /* of those that were put off */
};

struct split {
    struct claimant claimant; /* the first member; it has claims if it may be undone, or waits */
    struct cluster_lane *lane;
    struct question *whole; /* NULL: it is done, and what it charged is being undone */
    int64_t deadline;
    size_t open; /* parts under way */
    bool is_undoing;
    size_t part_count;
    struct charge *charges; /* of several parts, one after the other; NULL: one has them all */
    uint8_t places[RESERVATION_MOST_CHARGES]; /* of these, among those of the whole */
    bool has_rest;                 /* about a reservation: all records that it has are asked */
    struct held_part *held;        /* about a reservation: one for each part */
    struct split *next, *previous; /* of those that wait, or are kept for the next question */
    struct part parts[];
};

/* ---- making them ----------------------------------------------------------------------------- */

struct split_pool {
    weir_allocator allocator;
    struct split *spare; /* of one part */
};

/* The slot of each charge. Returns how many differ: so many parts there are. */
size_t split_find_slots(const struct question *q, uint16_t slots[RESERVATION_MOST_CHARGES]);

/* Each part is a question with this done(). With `has_claims` there is room for a claim on each
 * key. NULL: out of memory. */
struct split *split_new(struct split_pool *pool, struct question *q, const uint16_t *slots,
                        size_t part_count, bool has_claims, void (*done)(struct question *part));

/* What it is made of, for split_reserve.c too. Dividing returns how many parts there are. */
struct split *split_allocate(struct split_pool *pool, size_t part_count, size_t charge_count,
                             size_t claim_count, size_t held_count);
void split_put_part(struct part *p, struct split *s, uint16_t slot, struct charge *charges,
                    size_t count, void (*done)(struct question *part));
size_t split_divide(struct split *s, const uint16_t *slots, void (*done)(struct question *part));

void split_free(struct split_pool *pool, struct split *s);
void split_pool_done(struct split_pool *pool);

/* ---- about one ------------------------------------------------------------------------------- */

bool split_takes_all_or_none(const struct split *s); /* what it has charged may have to be undone */

/* All parts are decided: put their decisions into the whole question. */
void split_gather(const struct split *s, struct question *whole);

/* ---- a node's batch of parts ----------------------------------------------------------------- */

static inline struct part *part_of(struct question *q)
{
    return (struct part *)q;
}

/* Put the batch's questions in order, those that can share a call side by side. */
void split_order(const struct batch *b, uint16_t numbers[BATCH_MOST]);
size_t split_group_end(const struct batch *b, const uint16_t *numbers, size_t from);

/* A probe is a part, too: of so many bytes, in a slot that the node has. False: it has none. */
size_t split_probe_size(void);
bool split_aim(struct redis_slots *slots, const struct redis_node *node, struct question *probe);

#endif
