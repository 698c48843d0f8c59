/* arena.c - memory for things that are built once, never changed, and freed together. */
#include "base/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <string.h>

enum { BLOCK_SIZE = 8192 };

struct arena_block {
    struct arena_block *older;
    size_t used, size;
    alignas(max_align_t) unsigned char bytes[];
};

void arena_init(struct arena *a, const weir_allocator *allocator)
{
    *a = (struct arena){ .allocator = *allocator };
}

void arena_done(struct arena *a)
{
    while (a->newest) {
        struct arena_block *older = a->newest->older;

        alloc_free(&a->allocator, a->newest);
        a->newest = older;
    }
}

void *arena_take(struct arena *a, size_t size)
{
    const size_t step = alignof(max_align_t);
    struct arena_block *b = a->newest;
    void *taken;

    if (size > SIZE_MAX / 2)
        return NULL;
    size = (size + step - 1) / step * step;
    if (!b || b->size - b->used < size) {
        size_t room = size > BLOCK_SIZE ? size : BLOCK_SIZE;

        b = alloc_resize(&a->allocator, NULL, sizeof *b + room);
        if (!b)
            return NULL;
        *b = (struct arena_block){ .older = a->newest, .size = room };
        a->newest = b;
    }
    taken = b->bytes + b->used;
    b->used += size;
    return memset(taken, 0, size);
}

char *arena_text(struct arena *a, struct span text)
{
    char *copy = arena_take(a, text.len + 1);

    if (copy && text.len > 0)
        memcpy(copy, text.at, text.len);
    return copy;
}
