/* leases.h - leased quotas: chunks of limits, taken from a shared store and given back to it.
 *
 * A lease is a reservation: its chunk is charged with its record, in one step of the store, and
 * settled by what was spent. If an answer is lost, the store takes the chunk for spent.
 * lease_table.h has the rules of what is spent here. */
#ifndef WEIR_ENGINE_LEASES_H
#define WEIR_ENGINE_LEASES_H

#include "engine/engine.h"
#include "engine/fallback.h"
#include "engine/lease_table.h"

enum {
    LEASES_LOOK_MS = 100, /* between two looks for chunks that are over */
    LEASES_TOGETHER = 64, /* that are given back at once */
};

/* One thread's way to the store, as far as leases are concerned. */
struct lease_lane {
    struct engine *engine;
    struct lane *lane; /* NULL: there are no leases */
    struct reactor *reactor;
    struct watch *timer;
    bool is_set;              /* the timer is */
    bool is_ending;           /* no more chunks are taken */
    size_t under_way;         /* questions about leases */
    struct fallback_run run;  /* what was spent, and is to be learnt with the next commit */
    void (*ended)(void *ctx); /* after lease_lane_end(): nothing is under way any more */
    void *ctx;
};

struct leases {
    struct lease_table *table;
    _Atomic int64_t requests; /* for chunks; settlements go along */
    _Atomic int64_t ended;    /* settlements */
};

/* NULL: out of memory. */
struct leases *leases_new(const weir_allocator *allocator);
void leases_free(struct leases *l, const weir_allocator *allocator); /* NULL is fine */

/* For the lane of a loop. Out of memory, no chunks are taken there. */
void lease_lane_begin(struct lease_lane *l, struct engine *e, struct lane *lane,
                      struct reactor *reactor);

/* Give back all chunks of the process, and take no more here. True: nothing is under way;
 * otherwise ended() is called when nothing is, as soon as the store has answered, or its deadline
 * is over. */
bool lease_lane_end(struct lease_lane *l, void (*ended)(void *ctx), void *ctx);
void lease_lane_done(struct lease_lane *l); /* before the lane is detached */

/* Is the check answered from chunks? Then its charges have their decisions. */
bool leases_spend(struct engine *e, struct pending *pending, struct check *check);

/* The limiter that decides while the store cannot learns what was spent since the last commit. */
void leases_end_run(struct engine *e, struct pending *pending);

/* What the store has decided on the charges of a check that wanted chunks. */
void leases_learn(const struct check *check, const struct question *q);

/* A refund or a reset: nothing more is spent of the chunks of its keys. */
void leases_recall(struct engine *e, const struct check *check);

void leases_hear(struct leases *l, const struct store_event *event, int64_t now);
void leases_get_stats(struct leases *l, weir_stats *stats);

#endif
