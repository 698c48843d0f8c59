/* pool.h - memory for the records of one shard: blocks of one size, cut from larger ones.
 *
 * A record is made with each reservation and stays for minutes, so there are many, and most are of
 * one rule. Those come from here; larger ones come from the allocator. Blocks that are given back
 * are used again by this pool, and go back to the allocator with it. There is one size only: else
 * each would keep what it had at its peak. The lock of the shard must be held. */
#ifndef WEIR_STORE_MEMORY_POOL_H
#define WEIR_STORE_MEMORY_POOL_H

#include "base/alloc.h"

struct pool_chunk;

/* Zeroed, it is an empty one. */
struct pool {
    struct pool_chunk *newest;
};

/* As an allocator: both must stay in place as long as it is used. */
struct pool_source {
    struct pool *pool;
    const weir_allocator *beyond; /* for what the pool does not have */
};

weir_allocator pool_allocator(struct pool_source *source);
void pool_free(struct pool *p, void *block, const weir_allocator *beyond);

/* All blocks are gone with it but those of the allocator: give these back before. */
void pool_done(struct pool *p, const weir_allocator *beyond);

#endif
