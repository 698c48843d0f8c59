/* pool.c - memory for the records of one shard: blocks of one size, cut from larger ones. */
#include "store/memory/pool.h"

#include <stdint.h>
#include <string.h>

enum { BLOCK = 192, CHUNK = 4096 - 64 };

/* Before each block, also before those of the allocator. */
struct head {
    uint64_t is_pooled;
};

enum { ROOM = BLOCK - sizeof(struct head) };

struct free_block {
    struct head head;
    struct free_block *next;
};

/* The list of free blocks is the newest chunk's: a new one is made when it is empty. */
struct pool_chunk {
    struct pool_chunk *older;
    struct free_block *free;
    uint64_t cut; /* bytes of it that were blocks */
    char bytes[];
};

static struct head *head_of(void *block)
{
    return (struct head *)block - 1;
}

static void *marked(struct head *h, bool is_pooled)
{
    if (!h)
        return NULL;
    h->is_pooled = is_pooled;
    return h + 1;
}

static struct head *cut_block(struct pool *p, const weir_allocator *beyond)
{
    struct pool_chunk *c = p->newest;

    if (!c || sizeof *c + c->cut + BLOCK > CHUNK) {
        c = alloc_resize(beyond, NULL, CHUNK);
        if (!c)
            return NULL;
        *c = (struct pool_chunk){ .older = p->newest };
        p->newest = c;
    }
    c->cut += BLOCK;
    return (struct head *)(void *)(c->bytes + c->cut - BLOCK);
}

static void *take(struct pool *p, size_t size, const weir_allocator *beyond)
{
    struct free_block *b = p->newest ? p->newest->free : NULL;

    if (size > ROOM)
        return marked(alloc_resize(beyond, NULL, sizeof(struct head) + size), false);
    if (!b)
        return marked(cut_block(p, beyond), true);
    p->newest->free = b->next;
    return marked(&b->head, true);
}

void pool_free(struct pool *p, void *block, const weir_allocator *beyond)
{
    struct free_block *b;

    if (!block)
        return;
    if (!head_of(block)->is_pooled) {
        alloc_free(beyond, head_of(block));
        return;
    }
    b = (struct free_block *)(void *)head_of(block);
    b->next = p->newest->free;
    p->newest->free = b;
}

static void *resize(void *ctx, void *block, size_t size)
{
    const struct pool_source *s = ctx;
    void *more;

    if (!block)
        return take(s->pool, size, s->beyond);
    if (size == 0) {
        pool_free(s->pool, block, s->beyond);
        return NULL;
    }
    if (!head_of(block)->is_pooled)
        return marked(alloc_resize(s->beyond, head_of(block), sizeof(struct head) + size), false);
    if (size <= ROOM)
        return block;
    more = take(s->pool, size, s->beyond);
    if (more) {
        memcpy(more, block, ROOM);
        pool_free(s->pool, block, s->beyond);
    }
    return more;
}

weir_allocator pool_allocator(struct pool_source *source)
{
    return (weir_allocator){ .resize = resize, .ctx = source };
}

void pool_done(struct pool *p, const weir_allocator *beyond)
{
    while (p->newest) {
        struct pool_chunk *older = p->newest->older;

        alloc_free(beyond, p->newest);
        p->newest = older;
    }
}
