/* upkeep.h - what the thread of tick() does for a Redis store: see how full the servers are, and
 * whether they may drop counts. */
#ifndef WEIR_STORE_REDIS_UPKEEP_H
#define WEIR_STORE_REDIS_UPKEEP_H

#include "store/redis/connect.h"
#include "store/redis/slots.h"

struct redis_upkeep {
    const struct redis_common *common;
    struct redis_node *node;         /* unless there is a cluster */
    const struct redis_slots *slots; /* of the cluster */
    void (*log)(void *ctx, const char *line);
    void *log_ctx;
    _Atomic int64_t keys, memory; /* at the last look; below 0: not known */

    /* Of tick() alone. */
    int64_t look_at;
    bool has_failed, is_unseen;  /* and that has been logged */
    char evicts_by[REDIS_FIELD]; /* the same */
};

void redis_upkeep_init(struct redis_upkeep *u, struct redis_node *node,
                       const struct redis_slots *slots, const struct store_options *options);

void redis_upkeep_look(struct redis_upkeep *u); /* blocks */
void redis_upkeep_tick(struct redis_upkeep *u); /* the same, if it is time */

#endif
