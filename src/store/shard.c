/* shard.c - cells in the order of their keys.
 *
 * Linear probing, ordered: a key's home is its rank among all possible keys times `homes`, and
 * cells stay sorted by key. So a search for a key that is absent ends at the first larger one,
 * the table grows by spreading its cells out in place (no second copy, in steps of an eighth),
 * and there is no wrap-around: keys that are pushed along run into the slack at the end.
 *
 * RULES (test_shard.c has a test by each name)
 *   S1  Keys are in order; between a key's home and its cell no cell is empty.
 *   S2  The last cell is empty, and so is every cell that no key is in, to the last byte.
 *   S3  `levels` counts the cells of each level; `count` counts all. */
#include "store/shard.h"

#include <string.h>
#include <sys/mman.h>

enum { FIRST_HOMES = 16, PAGE = 4096 };
#define MOST_EXPIRES (((int64_t)1 << 48) - 1)

static bool is_empty(const struct cell *c)
{
    return (c->key.high | c->key.low) == 0;
}

static bool key_less(struct key a, struct key b)
{
    return a.high != b.high ? a.high < b.high : a.low < b.low;
}

static bool key_equal(struct key a, struct key b)
{
    return a.high == b.high && a.low == b.low;
}

static uint32_t home_of(struct key key, uint32_t skip_bits, uint32_t homes)
{
    return (uint32_t)((key.high << skip_bits >> 32) * homes >> 32);
}

static uint32_t homes_of(const struct shard *s)
{
    return atomic_load_explicit(&s->homes, memory_order_relaxed);
}

static uint32_t end_of(const struct shard *s)
{
    return homes_of(s) + SHARD_SLACK;
}

void shard_init(struct shard *s, struct cell *cells, uint32_t skip_bits)
{
    *s = (struct shard){ .cells = cells, .skip_bits = skip_bits, .soonest = INT64_MAX };
    atomic_init(&s->homes, FIRST_HOMES);
    pthread_mutex_init(&s->lock, NULL);
}

void shard_done(struct shard *s, const weir_allocator *allocator)
{
    for (uint32_t i = 0; s->count > 0; i++)
        if (!is_empty(&s->cells[i])) {
            state_done(&s->cells[i].state, s->cells[i].algorithm, allocator);
            s->count--;
        }
    pthread_mutex_destroy(&s->lock);
}

uint32_t shard_find(const struct shard *s, struct key key)
{
    uint32_t i = home_of(key, s->skip_bits, homes_of(s));

    while (!is_empty(&s->cells[i]) && key_less(s->cells[i].key, key))
        i++;
    return i;
}

bool shard_has(const struct shard *s, uint32_t at, struct key key)
{
    return key_equal(s->cells[at].key, key);
}

void shard_prefetch(const struct shard *s, struct key key)
{
    const struct cell *home = s->cells + home_of(key, s->skip_bits, homes_of(s));

    __builtin_prefetch(home, 1);
    __builtin_prefetch(home + 1, 1);
}

bool shard_insert(struct shard *s, uint32_t at, struct key key, weir_algorithm algorithm)
{
    uint32_t gap = at;

    while (!is_empty(&s->cells[gap]))
        gap++;
    if (gap >= end_of(s))
        return false;
    memmove(&s->cells[at + 1], &s->cells[at], sizeof(struct cell) * (gap - at));
    s->cells[at] = (struct cell){ .key = key, .algorithm = algorithm & 15u };
    s->count++;
    s->levels[0]++;
    return true;
}

size_t shard_erase(struct shard *s, uint32_t at, const weir_allocator *allocator)
{
    struct cell *c = &s->cells[at];
    size_t beside = state_beside(&c->state, c->algorithm);
    uint32_t next = at + 1;

    state_done(&c->state, c->algorithm, allocator);
    s->levels[c->level]--;
    s->count--;
    while (!is_empty(&s->cells[next]) &&
           home_of(s->cells[next].key, s->skip_bits, homes_of(s)) < next)
        next++;
    memmove(c, c + 1, sizeof *c * (next - at - 1));
    s->cells[next - 1] = (struct cell){ 0 };
    return beside;
}

void shard_stamp(struct shard *s, struct cell *cell, int64_t expires, uint32_t level)
{
    cell->expires = (uint64_t)(expires < MOST_EXPIRES ? expires : MOST_EXPIRES) & MOST_EXPIRES;
    if (cell->level != level) {
        s->levels[cell->level]--;
        s->levels[level]++;
        cell->level = level & 15u;
    }
}

/* Move all live cells to the front, in order. */
static struct shard_dropped pack(struct shard *s, int64_t horizon, const weir_allocator *allocator)
{
    struct shard_dropped dropped = { 0 };
    uint32_t kept = 0, all = s->count;

    s->soonest = INT64_MAX;
    for (uint32_t i = 0; kept + dropped.keys < all; i++) {
        struct cell *c = &s->cells[i];

        if (is_empty(c))
            continue;
        if ((int64_t)c->expires <= horizon) {
            dropped.keys++;
            dropped.beside += state_beside(&c->state, c->algorithm);
            state_done(&c->state, c->algorithm, allocator);
            s->levels[c->level]--;
            continue;
        }
        if ((int64_t)c->expires < s->soonest)
            s->soonest = c->expires;
        if (kept != i)
            s->cells[kept] = *c;
        kept++;
    }
    s->count = kept;
    s->expired += dropped.keys;
    return dropped;
}

/* One past where the last of the packed cells comes to lie over `homes`. */
static uint32_t extent(const struct shard *s, uint32_t homes)
{
    uint32_t end = 0;

    for (uint32_t i = 0; i < s->count; i++) {
        uint32_t home = home_of(s->cells[i].key, s->skip_bits, homes);

        end = (home > end ? home : end) + 1;
    }
    return end;
}

/* Spread the packed cells out: first all to the far end, then each to its place. A cell's
 * place is never behind where it waits, so nothing is overwritten before it is moved. */
static void spread(struct shard *s, uint32_t homes, uint32_t end, uint32_t old_end)
{
    uint32_t waiting = end - s->count, place = 0;

    memmove(s->cells + waiting, s->cells, sizeof(struct cell) * s->count);
    for (; waiting < end; waiting++) {
        uint32_t home = home_of(s->cells[waiting].key, s->skip_bits, homes);

        if (home > place) {
            memset(s->cells + place, 0, sizeof(struct cell) * (home - place));
            place = home;
        }
        if (place != waiting)
            s->cells[place] = s->cells[waiting];
        place++;
    }
    if (old_end > place)
        memset(s->cells + place, 0, sizeof(struct cell) * (old_end - place));
}

/* Give whole pages behind the last cell back. */
static void trim(struct shard *s, uint32_t old_end)
{
    uintptr_t from = ((uintptr_t)(s->cells + end_of(s) + 1) + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
    uintptr_t to = (uintptr_t)(s->cells + old_end) & ~(uintptr_t)(PAGE - 1);

    if (from < to)
        madvise((void *)from, to - from, MADV_DONTNEED);
}

struct shard_dropped shard_rebuild(struct shard *s, uint32_t homes, uint32_t most, int64_t horizon,
                                   const weir_allocator *allocator)
{
    const uint32_t old_end = end_of(s);
    struct shard_dropped dropped = pack(s, horizon, allocator);
    uint32_t end;

    if (homes < FIRST_HOMES)
        homes = FIRST_HOMES;
    while (end = extent(s, homes), end > homes + SHARD_SLACK && homes < most)
        homes = homes + homes / 8 < most ? homes + homes / 8 : most;
    while (end > homes + SHARD_SLACK) { /* never seen: the last homes of a full shard overflow */
        struct cell *last = &s->cells[--s->count];

        dropped.keys++;
        dropped.beside += state_beside(&last->state, last->algorithm);
        state_done(&last->state, last->algorithm, allocator);
        s->levels[last->level]--;
        s->evicted++;
        end = extent(s, homes);
    }
    atomic_store_explicit(&s->homes, homes, memory_order_relaxed);
    spread(s, homes, end, old_end > end ? old_end : end);
    trim(s, old_end);
    s->hand = 0;
    return dropped;
}

static bool is_spared(const struct cell *c, const struct key *spared, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (key_equal(c->key, spared[i]))
            return true;
    return false;
}

static uint32_t step_hand(struct shard *s)
{
    s->hand = s->hand + 1 < end_of(s) ? s->hand + 1 : 0;
    return s->hand;
}

/* The next cell from the hand on that has expired; else `soonest` is made exact. */
static uint32_t find_expired(struct shard *s, int64_t now, const struct key *spared, size_t n)
{
    int64_t soonest = INT64_MAX;

    for (uint32_t looked = end_of(s); looked > 0; looked--) {
        const struct cell *c = &s->cells[step_hand(s)];

        if (is_empty(c))
            continue;
        if ((int64_t)c->expires <= now && !is_spared(c, spared, n))
            return s->hand;
        if ((int64_t)c->expires < soonest)
            soonest = c->expires;
    }
    s->soonest = soonest;
    return SHARD_NO_VICTIM;
}

uint32_t shard_victim(struct shard *s, int64_t now, bool beside, const struct key *spared, size_t n)
{
    if (!beside && now >= s->soonest) {
        uint32_t expired = find_expired(s, now, spared, n);

        if (expired != SHARD_NO_VICTIM)
            return expired;
    }
    for (uint32_t level = 0; level < SHARD_LEVELS; level++) {
        if (s->levels[level] == 0)
            continue;
        for (uint32_t looked = end_of(s); looked > 0; looked--) {
            const struct cell *c = &s->cells[step_hand(s)];

            if (!is_empty(c) && c->level == level && !is_spared(c, spared, n) &&
                (!beside || state_beside(&c->state, c->algorithm) > 0))
                return s->hand;
        }
    }
    return SHARD_NO_VICTIM;
}
