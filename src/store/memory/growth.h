/* growth.h - a table that grows and shrinks a shard at a time.
 *
 * All shards have slices of one region of memory. When the table gets crowded a region is mapped that
 * is a little larger, and the shards move there one by one, in order: each when so many keys have come
 * that there is use for the room it gets. The old memory is returned to the system behind them. So a
 * step moves one shard, there is never a second copy of the table, and the share of the memory that is
 * not used is always the same. */
#ifndef WEIR_STORE_MEMORY_GROWTH_H
#define WEIR_STORE_MEMORY_GROWTH_H

#include <pthread.h>

#include "store/memory/region.h"

/* Where the slices of a region begin, and how large they are: for growth_home(), which takes no lock
 * and may find a mixture of two. */
struct growth_place {
    _Atomic(struct cell *) cells;
    _Atomic uint32_t homes;
    _Atomic size_t size; /* of a slice, in bytes */
};

struct growth {
    struct shard *shards;
    size_t count;         /* of shards */
    uint32_t most_homes;  /* that max_keys needs */
    pthread_mutex_t lock; /* of what follows; taken before any shard's */
    struct region now, next;
    _Atomic size_t moved;          /* shards that live in `next` */
    struct growth_place places[2]; /* of both */
    _Atomic int64_t crowded;       /* keys; from here on a step is due */
    _Atomic int64_t critical;      /* … and must not be left to the housekeeper */
    _Atomic int64_t stride;        /* … each time so many keys have come */
};

/* Initialises the shards as well. False: no memory. */
bool growth_init(struct growth *g, struct shard *shards, uint32_t shard_bits, int64_t max_keys);
void growth_done(struct growth *g); /* the shards are done already */

/* Make room for so many keys at once, while there are none. */
void growth_expect(struct growth *g, int64_t keys);

/* Is a step due, now that there are `keys`? */
static inline bool growth_due(const struct growth *g, int64_t keys)
{
    return keys >= atomic_load_explicit(&g->crowded, memory_order_relaxed) &&
           keys % atomic_load_explicit(&g->stride, memory_order_relaxed) == 0;
}

static inline bool growth_urgent(const struct growth *g, int64_t keys)
{
    return keys >= atomic_load_explicit(&g->critical, memory_order_relaxed);
}

/* The home of a key of this shard, to be fetched. The shard says where it is, too, but is a line of
 * its own, which is far away by itself: this way both are on their way at once. Only a hint: a shard
 * that lives apart is elsewhere, and one that moves right now may be anywhere. */
static inline const void *growth_home(const struct growth *g, size_t shard, uint32_t skip_bits,
                                      struct key key)
{
    const struct growth_place *at =
        &g->places[shard < atomic_load_explicit(&g->moved, memory_order_relaxed)];
    const uint32_t homes = atomic_load_explicit(&at->homes, memory_order_relaxed);
    const size_t size = atomic_load_explicit(&at->size, memory_order_relaxed);
    const uintptr_t start = (uintptr_t)atomic_load_explicit(&at->cells, memory_order_relaxed);

    return (const void *)(start + shard * size + /* a number: it may be no cell */
                          home_of(key, skip_bits, homes) * sizeof(struct cell));
}

/* Begin to grow, or go on, by one shard. No shard may be locked; returns at once if another
 * thread is at it. So many bytes are beside the cells. */
void growth_step(struct growth *g, int64_t beside);

/* Grow as far as it is due, and a little beyond; else shrink to `keys`, if that is worth it, by so
 * many shards. */
void growth_run(struct growth *g, int64_t keys, int64_t beside, size_t steps);

/* This shard, which is locked, is too full for its slice: give it memory of its own. */
bool growth_move_apart(struct shard *s);

#endif
