/* arena.h - memory for things that are built once, never changed, and freed together. */
#ifndef WEIR_BASE_ARENA_H
#define WEIR_BASE_ARENA_H

#include <stddef.h>

#include "base/alloc.h"
#include "base/span.h"

struct arena {
    weir_allocator allocator;
    struct arena_block *newest;
};

void arena_init(struct arena *a, const weir_allocator *allocator);
void arena_done(struct arena *a);

void *arena_take(struct arena *a, size_t size);      /* zeroed, aligned; NULL: out of memory */
char *arena_text(struct arena *a, struct span text); /* a copy with a NUL behind it */

#endif
