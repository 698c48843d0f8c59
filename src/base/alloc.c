/* alloc.c - memory from the allocator that the caller brought. */
#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

static void *resize_by_malloc(void *ctx, void *block, size_t size)
{
    (void)ctx;
    if (size == 0) {
        free(block);
        return NULL;
    }
    return block ? realloc(block, size) : malloc(size);
}

weir_allocator alloc_or_default(weir_allocator brought)
{
    if (!brought.resize)
        brought.resize = resize_by_malloc;
    return brought;
}

void *alloc_zeroed(const weir_allocator *a, size_t size)
{
    void *block = alloc_resize(a, NULL, size);

    if (block)
        memset(block, 0, size);
    return block;
}
