/* table_internal.h - the table as its own files know it: deciding, and coming and going whole. */
#ifndef WEIR_STORE_MEMORY_TABLE_INTERNAL_H
#define WEIR_STORE_MEMORY_TABLE_INTERNAL_H

#include "store/memory/growth.h"
#include "store/memory/table.h"

enum { CLOCK_SLIP = 1000 }; /* ms; expired cells stay so long, for clocks that are set back a bit */

struct table {
    weir_allocator allocator;
    struct shard *shards;
    void *shards_block; /* what they were allocated as */
    uint32_t shard_bits;
    int64_t max_keys, max_beside;
    bool drop_by_time;
    struct journal *journal;             /* NULL: nothing is kept */
    struct write_buffers *write_buffers; /* the journal's */
    void (*wake)(void *ctx);
    void *wake_ctx;
    size_t swept; /* the shard that the next sweep begins with */
    struct growth growth;
    char apart[64]; /* what follows is written, what is above is mostly read */
    _Atomic int64_t keys, beside;
};

static inline size_t shard_index(const struct table *t, struct key key)
{
    return t->shard_bits ? key.high >> (64 - t->shard_bits) : 0;
}

void table_record(const struct cell *cell, struct record *out);

/* The cell of this key, made if there is none. NULL: no room could be made. */
struct cell *table_ensure(struct table *t, struct shard *s, const struct charge *c,
                          const struct question *q);
void table_erase(struct table *t, struct shard *s, uint32_t at);

/* The housekeeper grows the table, if there is one and it keeps up. No shard may be locked. */
void table_grow_if_due(struct table *t);

#endif
