/* slots.h - which node of a Redis cluster has which slot.
 *
 * All threads read it, and correct it by the redirections that nodes send. One thread looks it up
 * again when something has changed. Nodes are never freed before the store is closed. */
#ifndef WEIR_STORE_REDIS_SLOTS_H
#define WEIR_STORE_REDIS_SLOTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "store/redis/connect.h"
#include "store/redis/node.h"

enum { SLOTS = 16384, NODES_MOST = 256 };

struct redis_slots {
    struct redis_common *common;
    void (*log)(void *ctx, const char *line); /* may be NULL */
    void *log_ctx;

    pthread_mutex_t lock; /* while one is added */
    struct redis_node *nodes[NODES_MOST];
    _Atomic size_t node_count;
    _Atomic uint16_t owners[SLOTS]; /* a node's number, from 1; 0: not known */
    _Atomic unsigned version;
    _Atomic bool is_stale;

    /* Of redis_slots_tick() alone. */
    int64_t looked_up_at;
    bool is_lost; /* it cannot be looked up, and that has been logged */
};

void redis_slots_init(struct redis_slots *s, struct redis_common *common,
                      void (*log)(void *ctx, const char *line), void *log_ctx);
void redis_slots_done(struct redis_slots *s);

uint16_t redis_slot_of(uint16_t tag);
struct redis_node *redis_slots_owner(struct redis_slots *s, uint16_t slot); /* NULL: not known */
bool redis_slots_has(const struct redis_slots *s, const struct redis_node *node); /* any */

/* The node of this address; NULL: out of memory, or too many. */
struct redis_node *redis_slots_node(struct redis_slots *s, const struct redis_address *address);

void redis_slots_moved(struct redis_slots *s, uint16_t slot, const struct redis_node *to);
void redis_slots_doubt(struct redis_slots *s); /* look it up anew, soon */

/* An element of CLUSTER SLOTS: its slots, and its master as it is seen from the node that answered.
 * False: it is none. */
struct redis_slot_range {
    int64_t first, last;
    struct redis_address master;
};
bool redis_slots_read_range(const struct redis_reply *range, const struct redis_address *from,
                            struct redis_slot_range *out);

/* Look it up; blocks. Errors as of redis_connect(). */
WEIR_MUSTCHECK weir_err redis_slots_look_up(struct redis_slots *s, weir_diag *diag);
void redis_slots_tick(struct redis_slots *s); /* if it is doubted, or old; blocks */

#endif
