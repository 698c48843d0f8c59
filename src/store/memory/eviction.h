/* eviction.h - which key of a full shard goes when a new one comes.
 *
 * Expired keys go first. Then the key goes whose loss costs least: how much of its limit is
 * consumed, and for how long still. A class is the keys of one limit of a policy, or of all limits
 * that have no policy. A key that is held by a reservation never goes. Each class has a part of the
 * shard that no other class can take. */
#ifndef WEIR_STORE_MEMORY_EVICTION_H
#define WEIR_STORE_MEMORY_EVICTION_H

#include "store/memory/shard.h"

#define EVICTION_NONE UINT32_MAX

/* What a cell is evicted for. */
struct eviction {
    int64_t now;
    bool beside;              /* only one that has memory beside it will do */
    const struct key *spared; /* none of these */
    size_t spared_count;
};

/* The cell to give up. EVICTION_NONE: there is none that would do. */
uint32_t eviction_victim(struct shard *s, const struct eviction *e);

/* shard_insert() found no empty cell behind `at`: the cell to evict so that it finds one. The
 * same rules choose among those in the way. EVICTION_NONE: all of them are held. Else there is one,
 * as no question has as many keys as there are cells behind the last home. */
uint32_t eviction_obstacle(struct shard *s, uint32_t at, const struct eviction *e);

#endif
