/* growth.c - a table that grows and shrinks a shard at a time. */
#include "store/memory/growth.h"

#include "base/pages.h"
#include "limit/limit.h"

enum { FIRST_HOMES = 16, MOST_STRIDE = 256, PAGE = 4096 };

static void place(struct growth_place *at, const struct region *r)
{
    atomic_store_explicit(&at->cells, r->cells, memory_order_relaxed);
    atomic_store_explicit(&at->homes, r->homes, memory_order_relaxed);
    atomic_store_explicit(&at->size, shard_room(r->homes) * sizeof(struct cell),
                          memory_order_relaxed);
}

static void publish(struct growth *g)
{
    const uint32_t homes = g->now.homes;
    const int64_t stride = homes / 32 < MOST_STRIDE ? homes / 32 : MOST_STRIDE;

    const int64_t all = homes < g->most_homes ? (int64_t)g->count * homes : INT64_MAX / 8;

    atomic_store_explicit(&g->stride, stride > 0 ? stride : 1, memory_order_relaxed);
    atomic_store_explicit(&g->crowded, all * 3 / 4, memory_order_relaxed);
    atomic_store_explicit(&g->critical, all * 7 / 8, memory_order_relaxed);
    place(&g->places[0], &g->now);
    place(&g->places[1], &g->next);
}

bool growth_init(struct growth *g, struct shard *shards, uint32_t shard_bits, int64_t max_keys)
{
    *g = (struct growth){ .shards = shards, .count = (size_t)1 << shard_bits };
    g->most_homes = (uint32_t)(div_up(max_keys, (int64_t)g->count) * 4 / 3 + FIRST_HOMES);
    if (!region_map(&g->now, g->count, FIRST_HOMES))
        return false;
    pthread_mutex_init(&g->lock, NULL);
    for (size_t i = 0; i < g->count; i++)
        shard_init(&shards[i], region_slice(&g->now, i), FIRST_HOMES, shard_bits);
    publish(g);
    return true;
}

void growth_expect(struct growth *g, int64_t keys)
{
    int64_t homes = keys / (int64_t)g->count * 3 / 2 + FIRST_HOMES;
    struct region region;

    if (homes > g->most_homes)
        homes = g->most_homes;
    if (homes <= g->now.homes || !region_map(&region, g->count, (uint32_t)homes))
        return; /* it grows later, as keys come */
    region_unmap(&g->now);
    g->now = region;
    for (size_t i = 0; i < g->count; i++) {
        const uint32_t bits = g->shards[i].skip_bits;

        shard_init(&g->shards[i], region_slice(&g->now, i), (uint32_t)homes, bits);
    }
    publish(g);
}

static void unmap_apart(struct cell *cells, uint32_t homes)
{
    pages_unmap(cells, shard_room(homes) * sizeof *cells);
}

static struct cell *map_apart(uint32_t homes)
{
    return pages_map(shard_room(homes) * sizeof(struct cell));
}

void growth_done(struct growth *g)
{
    for (size_t i = 0; i < g->count; i++)
        if (g->shards[i].lives_apart)
            unmap_apart(g->shards[i].cells, g->shards[i].homes);
    region_unmap(&g->now);
    region_unmap(&g->next);
    pthread_mutex_destroy(&g->lock);
}

bool growth_move_apart(struct shard *s)
{
    struct cell *old = s->cells;
    const uint32_t old_homes = s->homes;
    const bool lived_apart = s->lives_apart;
    uint32_t homes = s->count + s->count / 2 + FIRST_HOMES;

    for (int tries = 0; tries < 8; tries++, homes += homes / 4) {
        struct cell *cells = map_apart(homes);

        if (!cells)
            return false;
        if (shard_move(s, cells, homes)) {
            s->lives_apart = true;
            if (lived_apart)
                unmap_apart(old, old_homes);
            return true;
        }
        unmap_apart(cells, homes);
    }
    return false;
}

/* Fault the pages of a slice in before a lock is taken: a huge page takes long to zero. */
static void touch(struct cell *slice, uint32_t homes)
{
    for (uint32_t i = 0; i < shard_cells(homes); i += PAGE / sizeof *slice)
        *(volatile unsigned char *)(slice + i) = 0;
}

/* Move the next shard. One that does not fit its new slice gets memory of its own, or keeps it. */
static void move_next(struct growth *g)
{
    struct shard *s = &g->shards[g->moved];
    bool stays = false;

    touch(region_slice(&g->next, g->moved), g->next.homes);
    lock_take(&s->lock);
    if (s->lives_apart) {
        struct cell *old = s->cells;
        const uint32_t homes = s->homes;

        if (s->count < g->next.homes / 8 * 7 &&
            shard_move(s, region_slice(&g->next, g->moved), g->next.homes)) {
            s->lives_apart = false;
            unmap_apart(old, homes);
        }
    } else if (!shard_move(s, region_slice(&g->next, g->moved), g->next.homes)) {
        stays = !growth_move_apart(s);
    }
    lock_drop(&s->lock);
    if (stays) /* no memory: try again with the next step */
        return;
    region_vacate(&g->now, g->moved);
    if (++g->moved < g->count)
        return;
    region_unmap(&g->now);
    g->now = g->next;
    g->next = (struct region){ 0 };
    g->moved = 0;
    publish(g);
}

/* Without memory: try again with the next step. */
static void begin_to_move(struct growth *g, int64_t homes)
{
    if (region_map(&g->next, g->count, (uint32_t)homes))
        place(&g->places[1], &g->next);
}

/* By three sixteenths of all memory, also of that beside the cells: so much may be unused. To move
 * cells takes time, so the steps are as large as that allows, and no larger than the cells. */
static void begin_to_grow(struct growth *g, int64_t beside)
{
    const int64_t homes = g->now.homes;
    const int64_t all = homes + beside / (int64_t)(g->count * sizeof(struct cell));
    int64_t more = all * 3 / 16 > FIRST_HOMES ? all * 3 / 16 : FIRST_HOMES;

    if (g->next.cells || homes >= g->most_homes)
        return;
    more = more < homes ? more : homes;
    more = homes + more < g->most_homes ? more : g->most_homes - homes;
    begin_to_move(g, homes + more);
}

static void begin_to_shrink(struct growth *g, int64_t keys)
{
    int64_t homes = keys / (int64_t)g->count * 3 / 2 + FIRST_HOMES;

    if (g->next.cells || keys >= (int64_t)g->count * g->now.homes / 4 || homes >= g->now.homes)
        return;
    begin_to_move(g, homes);
}

void growth_step(struct growth *g, int64_t beside)
{
    if (pthread_mutex_trylock(&g->lock) != 0)
        return;
    begin_to_grow(g, beside);
    if (g->next.cells)
        move_next(g);
    pthread_mutex_unlock(&g->lock);
}

void growth_run(struct growth *g, int64_t keys, int64_t beside, size_t steps)
{
    pthread_mutex_lock(&g->lock);
    if (keys >= atomic_load_explicit(&g->crowded, memory_order_relaxed)) {
        begin_to_grow(g, beside);
        steps = g->count;
    } else {
        begin_to_shrink(g, keys);
    }
    for (; g->next.cells && steps > 0; steps--)
        move_next(g);
    pthread_mutex_unlock(&g->lock);
}
