/* pool.h - memory for the records of reservations: blocks of a few sizes, cut from larger ones.
 *
 * A record is made with each reservation and stays for minutes, so there are many. Those of a few rules
 * come from here; larger ones come from the allocator. New blocks of all shards are cut one behind the
 * other, as memory is fastest, from chunks that come from the kernel. Those that are given back are
 * used again by their shard for the same size, and go back with the table. There are few sizes: each
 * keeps what it had at its peak. */
#ifndef WEIR_STORE_MEMORY_POOL_H
#define WEIR_STORE_MEMORY_POOL_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/alloc.h"

/* The table's, for all threads. Zeroed, it is an empty one. */
struct pool {
    _Atomic(struct pool_chunk *) newest, spare;
    atomic_bool wants_spare;
};

enum { POOL_SIZES = 4 }; /* of one unit, of two, … */

/* Blocks that a shard has to use again; its lock must be held. Zeroed, there are none. */
struct pool_list {
    struct free_block *first[POOL_SIZES];
};

/* As an allocator: all must stay in place as long as it is used. */
struct pool_source {
    struct pool *pool;
    struct pool_list *list;
    const weir_allocator *beyond; /* for what the pool does not have */
};

weir_allocator pool_allocator(struct pool_source *source);
void *pool_take(const struct pool_source *source, size_t size); /* NULL: out of memory */
void pool_free(struct pool_list *list, void *block, const weir_allocator *beyond);

/* The last chunk is half used, and a spare one would let no caller wait for the kernel. True once for
 * each; then some thread is to make it. */
bool pool_begins_to_want(struct pool *p);
void pool_make_spare(struct pool *p); /* if it is wanted */

/* All blocks are gone with it but those of the allocator: give these back before. */
void pool_done(struct pool *p);

#endif
