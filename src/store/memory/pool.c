/* pool.c - memory for the records of reservations: blocks of a few sizes, cut from larger ones. */
#include "store/memory/pool.h"

#include <stdalign.h>
#include <stdint.h>
#include <string.h>

#include "base/pages.h"

enum {
    UNIT = 96, /* a reservation of one rule, and its head */
    LEAST_CHUNK = 64 << 10,
    MOST_CHUNK = 1 << 20, /* a caller may have to wait while the kernel makes so much */
};

/* Before each block, also before those of the allocator. */
struct head {
    uint64_t units; /* 0: it is the allocator's */
};

struct free_block {
    struct head head;
    struct free_block *next;
};

struct pool_chunk {
    struct pool_chunk *older;
    size_t size;        /* of all of it */
    _Atomic size_t cut; /* bytes that are blocks; beyond its end, once it is full */
    alignas(uint64_t) char bytes[];
};

static struct head *head_of(void *block)
{
    return (struct head *)block - 1;
}

static void *marked(struct head *h, uint64_t units)
{
    if (!h)
        return NULL;
    h->units = units;
    return h + 1;
}

static uint64_t units_for(size_t size)
{
    return (sizeof(struct head) + size + UNIT - 1) / UNIT;
}

static size_t room_of(uint64_t units)
{
    return units * UNIT - sizeof(struct head);
}

static struct pool_chunk *new_chunk(const struct pool_chunk *older)
{
    const size_t size = !older                     ? LEAST_CHUNK
                        : older->size < MOST_CHUNK ? 2 * older->size
                                                   : MOST_CHUNK;
    struct pool_chunk *c = pages_map_filled(size);

    if (c)
        c->size = size;
    return c;
}

/* Two threads may add one each at the same time: then what is left of the older one is lost. */
static struct head *add_chunk(struct pool *p, struct pool_chunk *older, size_t first)
{
    struct pool_chunk *c = atomic_exchange_explicit(&p->spare, NULL, memory_order_acquire);

    if (!c)
        c = new_chunk(older);
    if (!c)
        return NULL;
    atomic_init(&c->cut, first);
    c->older = older;
    while (!atomic_compare_exchange_weak_explicit(&p->newest, &c->older, c, memory_order_acq_rel,
                                                  memory_order_relaxed))
        ;
    return (struct head *)(void *)c->bytes;
}

static struct head *cut_block(struct pool *p, uint64_t units)
{
    struct pool_chunk *c = atomic_load_explicit(&p->newest, memory_order_acquire);
    const size_t size = units * UNIT;
    size_t at;

    if (!c)
        return add_chunk(p, NULL, size);
    at = atomic_fetch_add_explicit(&c->cut, size, memory_order_relaxed);
    if (at + size > c->size - sizeof *c)
        return add_chunk(p, c, size);
    return (struct head *)(void *)(c->bytes + at);
}

void *pool_take(const struct pool_source *s, size_t size)
{
    const uint64_t units = units_for(size);
    struct free_block *b;

    if (units > POOL_SIZES)
        return marked(alloc_resize(s->beyond, NULL, sizeof(struct head) + size), 0);
    b = s->list->first[units - 1];
    if (!b)
        return marked(cut_block(s->pool, units), units);
    s->list->first[units - 1] = b->next;
    return marked(&b->head, units);
}

void pool_free(struct pool_list *list, void *block, const weir_allocator *beyond)
{
    struct free_block *b;
    uint64_t units;

    if (!block)
        return;
    units = head_of(block)->units;
    if (units == 0) {
        alloc_free(beyond, head_of(block));
        return;
    }
    b = (struct free_block *)(void *)head_of(block);
    b->next = list->first[units - 1];
    list->first[units - 1] = b;
}

static void *resize(void *ctx, void *block, size_t size)
{
    const struct pool_source *s = ctx;
    uint64_t units;
    void *more;

    if (!block)
        return pool_take(s, size);
    if (size == 0) {
        pool_free(s->list, block, s->beyond);
        return NULL;
    }
    units = head_of(block)->units;
    if (units == 0)
        return marked(alloc_resize(s->beyond, head_of(block), sizeof(struct head) + size), 0);
    if (size <= room_of(units))
        return block;
    more = pool_take(s, size);
    if (more) {
        memcpy(more, block, room_of(units));
        pool_free(s->list, block, s->beyond);
    }
    return more;
}

weir_allocator pool_allocator(struct pool_source *source)
{
    return (weir_allocator){ .resize = resize, .ctx = source };
}

bool pool_begins_to_want(struct pool *p)
{
    const struct pool_chunk *c = atomic_load_explicit(&p->newest, memory_order_acquire);

    return c && atomic_load_explicit(&c->cut, memory_order_relaxed) > c->size / 2 &&
           !atomic_load_explicit(&p->wants_spare, memory_order_relaxed) &&
           !atomic_load_explicit(&p->spare, memory_order_relaxed) &&
           !atomic_exchange_explicit(&p->wants_spare, true, memory_order_relaxed);
}

void pool_make_spare(struct pool *p)
{
    struct pool_chunk *c;

    if (!atomic_load_explicit(&p->wants_spare, memory_order_relaxed))
        return;
    c = new_chunk(atomic_load_explicit(&p->newest, memory_order_acquire));
    c = atomic_exchange_explicit(&p->spare, c, memory_order_acq_rel);
    if (c)
        pages_unmap(c, c->size);
    atomic_store_explicit(&p->wants_spare, false, memory_order_relaxed);
}

void pool_done(struct pool *p)
{
    struct pool_chunk *c = atomic_load_explicit(&p->newest, memory_order_acquire);
    struct pool_chunk *spare = atomic_load_explicit(&p->spare, memory_order_acquire);

    if (spare)
        pages_unmap(spare, spare->size);
    while (c) {
        struct pool_chunk *older = c->older;

        pages_unmap(c, c->size);
        c = older;
    }
    *p = (struct pool){ 0 };
}
