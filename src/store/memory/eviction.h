/* eviction.h - which key of a full shard goes when a new one comes.
 *
 * What has expired goes first. Then what is lost with a key decides: how much of its limit is
 * consumed, and for how long still. And each class of keys, which is one limit of a policy or all
 * limits that have none, has a part of the shard that no other takes from it. */
#ifndef WEIR_STORE_MEMORY_EVICTION_H
#define WEIR_STORE_MEMORY_EVICTION_H

#include "store/memory/shard.h"

#define EVICTION_NONE UINT32_MAX

/* For whom a cell is given up. */
struct eviction {
    int64_t now;
    bool beside;              /* only one that has memory beside it will do */
    const struct key *spared; /* none of these */
    size_t spared_count;
};

/* The cell to give up. EVICTION_NONE: there is none that would do. */
uint32_t eviction_victim(struct shard *s, const struct eviction *e);

/* A cell to give up so that shard_insert(), which found no empty cell behind `at`, finds one: of
 * those that stand in the way, the one that the same rules choose. There always is one, as no question has as many keys as
 * there are cells behind the last home. */
uint32_t eviction_obstacle(struct shard *s, uint32_t at, const struct eviction *e);

#endif
