/* pool.c - memory for the records of reservations: blocks of one size, cut from larger ones. */
#include "store/memory/pool.h"

#include <stdalign.h>
#include <stdint.h>
#include <string.h>

enum { BLOCK = 192, CHUNK = 64 << 10 };

/* Before each block, also before those of the allocator. */
struct head {
    uint64_t is_pooled;
};

enum { ROOM = BLOCK - sizeof(struct head) };

struct free_block {
    struct head head;
    struct free_block *next;
};

struct pool_chunk {
    struct pool_chunk *older;
    _Atomic size_t cut; /* bytes that are blocks; beyond its end, once it is full */
    alignas(uint64_t) char bytes[];
};

enum { CHUNK_BYTES = CHUNK - sizeof(struct pool_chunk) };

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

/* Two threads may add one each at the same time: then what is left of the older one is lost. */
static struct head *add_chunk(struct pool *p, const weir_allocator *beyond)
{
    struct pool_chunk *c = alloc_resize(beyond, NULL, CHUNK);

    if (!c)
        return NULL;
    atomic_init(&c->cut, BLOCK);
    c->older = atomic_load_explicit(&p->newest, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&p->newest, &c->older, c, memory_order_acq_rel,
                                                  memory_order_relaxed))
        ;
    return (struct head *)(void *)c->bytes;
}

static struct head *cut_block(struct pool *p, const weir_allocator *beyond)
{
    struct pool_chunk *c = atomic_load_explicit(&p->newest, memory_order_acquire);
    const size_t at = c ? atomic_fetch_add_explicit(&c->cut, BLOCK, memory_order_relaxed) : CHUNK;

    if (at + BLOCK > CHUNK_BYTES)
        return add_chunk(p, beyond);
    return (struct head *)(void *)(c->bytes + at);
}

void *pool_take(const struct pool_source *s, size_t size)
{
    struct free_block *b = s->list->first;

    if (size > ROOM)
        return marked(alloc_resize(s->beyond, NULL, sizeof(struct head) + size), false);
    if (!b)
        return marked(cut_block(s->pool, s->beyond), true);
    s->list->first = b->next;
    return marked(&b->head, true);
}

void pool_free(struct pool_list *list, void *block, const weir_allocator *beyond)
{
    struct free_block *b;

    if (!block)
        return;
    if (!head_of(block)->is_pooled) {
        alloc_free(beyond, head_of(block));
        return;
    }
    b = (struct free_block *)(void *)head_of(block);
    b->next = list->first;
    list->first = b;
}

static void *resize(void *ctx, void *block, size_t size)
{
    const struct pool_source *s = ctx;
    void *more;

    if (!block)
        return pool_take(s, size);
    if (size == 0) {
        pool_free(s->list, block, s->beyond);
        return NULL;
    }
    if (!head_of(block)->is_pooled)
        return marked(alloc_resize(s->beyond, head_of(block), sizeof(struct head) + size), false);
    if (size <= ROOM)
        return block;
    more = pool_take(s, size);
    if (more) {
        memcpy(more, block, ROOM);
        pool_free(s->list, block, s->beyond);
    }
    return more;
}

weir_allocator pool_allocator(struct pool_source *source)
{
    return (weir_allocator){ .resize = resize, .ctx = source };
}

void pool_done(struct pool *p, const weir_allocator *beyond)
{
    struct pool_chunk *c = atomic_load_explicit(&p->newest, memory_order_acquire);

    while (c) {
        struct pool_chunk *older = c->older;

        alloc_free(beyond, c);
        c = older;
    }
    atomic_init(&p->newest, NULL);
}
