/* growth.c - a table that grows and shrinks a shard at a time. */
#include "store/memory/growth.h"

#include "base/pages.h"
#include "limit/limit.h"

/* Of a hundred homes, on average: how many are taken. Fewer than CROWDED would be memory that is not
 * used; with more than DENSE, keys would be far from home before their shard has moved. FULL is with
 * max_keys: there is no second region then, and so there is room for more homes. */
enum { FULL = 83, CROWDED = 85, DENSE = 91, ALL = 100 };

enum {
    FIRST_HOMES = 16,
    GROWN = 12, /* a part of the cells so large is what a region has more than the one before … */
    BESIDE = 3, /* … and so large a part of what is beside them */
    SLACK = 32, /* … of the homes: how late the housekeeper may be */
    AHEAD = 256, /* … and how far it goes beyond what is due, to be woken less often */
    MOST_STRIDE = 256,
    PAGE = 4096,
};

static void place(struct growth_place *at, const struct region *r)
{
    atomic_store_explicit(&at->cells, r->cells, memory_order_relaxed);
    atomic_store_explicit(&at->homes, r->homes, memory_order_relaxed);
    atomic_store_explicit(&at->size, region_stride(r), memory_order_relaxed);
}

static int64_t all_homes(const struct growth *g, uint32_t homes)
{
    return (int64_t)g->count * homes;
}

/* Homes for so many keys of a shard, if so many of a hundred are to be taken. */
static int64_t homes_for(int64_t keys, int64_t taken)
{
    return keys * ALL / taken + FIRST_HOMES;
}

static bool is_growing(const struct growth *g)
{
    return g->next.homes > g->now.homes;
}

/* With how many keys the next step is due. While it grows, the steps are spread between where it
 * began and where the new homes are crowded, or the old ones dense. */
static int64_t due_at(const struct growth *g)
{
    const int64_t now = all_homes(g, g->now.homes), next = all_homes(g, g->next.homes);
    const int64_t first = now * CROWDED / ALL;
    int64_t last = next * CROWDED / ALL;

    if (!g->next.cells)
        return g->now.homes < g->most_homes ? first : INT64_MAX / 8;
    if (!is_growing(g))
        return last;
    if (last > now * DENSE / ALL)
        last = now * DENSE / ALL;
    return first + (last - first) * (int64_t)g->moved / (int64_t)g->count;
}

/* When steps are due. */
static void plan(struct growth *g)
{
    const int64_t stride = g->now.homes / 32 < MOST_STRIDE ? g->now.homes / 32 : MOST_STRIDE;
    const int64_t due = due_at(g);

    atomic_store_explicit(&g->stride, stride > 0 ? stride : 1, memory_order_relaxed);
    atomic_store_explicit(&g->crowded, due, memory_order_relaxed);
    atomic_store_explicit(&g->critical, due + all_homes(g, g->now.homes) / SLACK,
                          memory_order_relaxed);
}

static void publish(struct growth *g)
{
    place(&g->places[0], &g->now);
    place(&g->places[1], &g->next);
    plan(g);
}

/* All shards are empty, and get their first slices. */
static void settle(struct growth *g, uint32_t shard_bits)
{
    for (size_t i = 0; i < g->count; i++) {
        const struct slice at = region_slice(&g->now, i);

        shard_init(&g->shards[i], &at, shard_bits);
    }
    publish(g);
}

bool growth_init(struct growth *g, struct shard *shards, uint32_t shard_bits, int64_t max_keys)
{
    *g = (struct growth){ .shards = shards, .count = (size_t)1 << shard_bits };
    g->most_homes = (uint32_t)homes_for(div_up(max_keys, (int64_t)g->count), FULL);
    if (!region_map(&g->now, g->count, FIRST_HOMES))
        return false;
    pthread_mutex_init(&g->lock, NULL);
    settle(g, shard_bits);
    return true;
}

void growth_expect(struct growth *g, int64_t keys)
{
    int64_t homes = homes_for(div_up(keys, (int64_t)g->count), CROWDED);
    struct region region;

    if (homes > g->most_homes)
        homes = g->most_homes;
    if (homes <= g->now.homes || !region_map(&region, g->count, (uint32_t)homes))
        return; /* it grows later, as keys come */
    region_unmap(&g->now);
    g->now = region;
    settle(g, g->shards[0].skip_bits);
}

static size_t size_apart(uint32_t homes)
{
    return shard_cells(homes) * sizeof(struct cell) + shard_marks_size(homes);
}

static void unmap_apart(struct cell *cells, uint32_t homes)
{
    pages_unmap(cells, size_apart(homes));
}

/* Without cells: there is no memory. */
static struct slice map_apart(uint32_t homes)
{
    struct cell *cells = pages_map(size_apart(homes));

    return (struct slice){ .cells = cells,
                           .marks = cells ? (struct marks *)(void *)(cells + shard_cells(homes))
                                          : NULL,
                           .homes = homes };
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
        const struct slice to = map_apart(homes);

        if (!to.cells)
            return false;
        if (shard_move(s, &to)) {
            s->lives_apart = true;
            if (lived_apart)
                unmap_apart(old, old_homes);
            return true;
        }
        unmap_apart(to.cells, homes);
    }
    return false;
}

/* Fault the pages of a slice in before a lock is taken: a huge page takes long to zero. */
static void touch(const struct slice *slice)
{
    for (uint32_t i = 0; i < shard_cells(slice->homes); i += PAGE / sizeof *slice->cells)
        *(volatile unsigned char *)(slice->cells + i) = 0;
}

/* Move the next shard. One that does not fit its new slice gets memory of its own, or keeps it. */
static void move_next(struct growth *g)
{
    const struct slice to = region_slice(&g->next, g->moved);
    struct shard *s = &g->shards[g->moved];
    bool stays = false;

    touch(&to);
    lock_take(&s->lock);
    if (s->lives_apart) {
        struct cell *old = s->cells;
        const uint32_t homes = s->homes;

        if ((int64_t)s->count * ALL < (int64_t)to.homes * DENSE && shard_move(s, &to)) {
            s->lives_apart = false;
            unmap_apart(old, homes);
        }
    } else if (!shard_move(s, &to)) {
        stays = !growth_move_apart(s);
    }
    lock_drop(&s->lock);
    if (stays) /* no memory: try again with the next step */
        return;
    region_vacate(&g->now, g->moved);
    if (++g->moved < g->count) {
        plan(g);
        return;
    }
    region_unmap(&g->now);
    g->now = g->next;
    g->next = (struct region){ 0 };
    g->moved = 0;
    publish(g);
}

/* Without memory: try again with the next step. */
static void begin_to_move(struct growth *g, int64_t homes)
{
    if (!region_map(&g->next, g->count, (uint32_t)homes))
        return;
    place(&g->places[1], &g->next);
    plan(g);
}

/* By a part of all memory, also of that beside the cells: so much may be unused. Of that beside them it
 * is a larger part: reservations come and go at all times, and each brings a cell that would be moved
 * with every step. No step is larger than the cells. */
static void begin_to_grow(struct growth *g, int64_t beside)
{
    const int64_t homes = g->now.homes;
    const int64_t others = beside / (int64_t)(g->count * sizeof(struct cell));
    int64_t more = homes / GROWN + others / BESIDE + FIRST_HOMES;

    if (g->next.cells || homes >= g->most_homes)
        return;
    more = more < homes ? more : homes;
    more = homes + more < g->most_homes ? more : g->most_homes - homes;
    begin_to_move(g, homes + more);
}

/* Is so little of it used that it is worth shrinking? */
static bool is_wide(const struct growth *g, int64_t keys)
{
    return keys < all_homes(g, g->now.homes) / 4;
}

static void begin_to_shrink(struct growth *g, int64_t keys)
{
    const int64_t homes = homes_for(keys / (int64_t)g->count, CROWDED * 3 / 4);

    if (!g->next.cells && is_wide(g, keys) && homes < g->now.homes)
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

static void grow(struct growth *g, int64_t keys, int64_t beside)
{
    const int64_t ahead = all_homes(g, g->now.homes) / AHEAD;

    for (size_t steps = g->count; steps > 0 && keys + ahead >= due_at(g); steps--) {
        begin_to_grow(g, beside);
        if (!g->next.cells)
            return;
        move_next(g);
    }
}

/* Growth that was begun is ended before the table can shrink. */
static void shrink(struct growth *g, int64_t keys, size_t steps)
{
    begin_to_shrink(g, keys);
    for (; g->next.cells && (!is_growing(g) || is_wide(g, keys)) && steps > 0; steps--)
        move_next(g);
}

void growth_run(struct growth *g, int64_t keys, int64_t beside, size_t steps)
{
    pthread_mutex_lock(&g->lock);
    if (keys >= due_at(g))
        grow(g, keys, beside);
    else
        shrink(g, keys, steps);
    pthread_mutex_unlock(&g->lock);
}
