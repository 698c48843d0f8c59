/* alloc.h - memory from the allocator that the caller brought. */
#ifndef WEIR_BASE_ALLOC_H
#define WEIR_BASE_ALLOC_H

#include <stddef.h>

#include "weir.h"

/* malloc, if the caller brought none. */
weir_allocator alloc_or_default(weir_allocator brought);

static inline void *alloc_resize(const weir_allocator *a, void *block, size_t size)
{
    return a->resize(a->ctx, block, size);
}

void *alloc_zeroed(const weir_allocator *a, size_t size); /* NULL: out of memory */

static inline void alloc_free(const weir_allocator *a, void *block)
{
    if (block)
        a->resize(a->ctx, block, 0);
}

#endif
