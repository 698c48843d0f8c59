/* table_internal.h - what table.c, table_room.c and table_bulk.c share. */
#ifndef WEIR_STORE_MEMORY_TABLE_INTERNAL_H
#define WEIR_STORE_MEMORY_TABLE_INTERNAL_H

#include "store/memory/growth.h"
#include "store/memory/table.h"

enum {
    CLOCK_SLIP = 1000, /* ms; expired cells stay so long, for clocks that are set back a bit */
    MOST_CHARGES = 2 * WEIR_MAX_RULES,
};

struct table {
    weir_allocator allocator;
    struct shard *shards;
    void *shards_block; /* what they were allocated as */
    uint32_t shard_bits;
    int64_t max_keys, max_beside;
    bool drop_by_time;
    int64_t clock_slip;
    struct table_log *log; /* NULL: changes are not logged */
    void (*wake)(void *ctx);
    void *wake_ctx;
    size_t swept; /* the shard that the next sweep begins with */
    struct growth growth;
    char apart[64]; /* fields above are mostly read, those below are written: no false sharing */
    _Atomic int64_t keys, beside;
};

static inline size_t shard_index(const struct table *t, struct key key)
{
    return t->shard_bits ? key.high >> (64 - t->shard_bits) : 0;
}

void table_record(const struct cell *cell, struct record *out);

/* The housekeeper grows the table, if there is one and it keeps up. No shard may be locked. */
void table_grow_if_due(struct table *t);

/* ---- table_room.c; the shard is locked --------------------------------------------------- */

/* The cell of this key, made if there is none. NULL: no room could be made. */
struct cell *table_ensure(struct table *t, struct shard *s, const struct charge *c,
                          const struct question *q);
void table_erase(struct table *t, struct shard *s, uint32_t at);

/* Everything in charging that can fail: a cell, and memory for its state. */
WEIR_MUSTCHECK weir_err table_prepare(struct table *t, struct shard *s, const struct charge *c,
                                      const struct question *q, struct cell **out);

/* Drop what has expired, if there can be any. */
void table_purge(struct table *t, struct shard *s, int64_t now);

#endif
