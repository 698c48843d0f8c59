/* shard.c - cells in the order of their keys.
 *
 * Linear probing, ordered: a key's home is its rank among all possible keys times `homes`, and
 * cells stay sorted by key. So a search for a key that is absent ends at the first larger one,
 * moving to more homes is one pass from front to back, and there is no wrap-around: keys that
 * are pushed along run into the cells behind the last home.
 *
 * RULES (test_shard.c has a test by each name)
 *   S1  Keys are in order; between a key's home and its cell no cell is empty.
 *   S2  The last cell is empty, and so is every cell that no key is in, to the last byte.
 *   S3  `levels` counts the cells of each level; `count` counts all.
 *   S4  After a move, the SPARE_CELLS next keys can be inserted, wherever they belong: so many cells
 *       before the last are empty. */
#include "store/shard.h"

#include <string.h>

enum { SPARE_CELLS = 8 };
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

/* Both are only written with the lock held; they are atomic for shard_prefetch(). */
static uint32_t homes_of(const struct shard *s)
{
    return atomic_load_explicit(&s->homes, memory_order_relaxed);
}

static struct cell *cells_of(const struct shard *s)
{
    return atomic_load_explicit(&s->cells, memory_order_relaxed);
}

void shard_init(struct shard *s, struct cell *cells, uint32_t homes, uint32_t skip_bits)
{
    pthread_mutexattr_t adaptive;

    *s = (struct shard){ .skip_bits = (uint8_t)skip_bits,
                         .soonest = INT64_MAX,
                         .purge_at = homes / 4 * 3 };
    atomic_init(&s->cells, cells);
    atomic_init(&s->homes, homes);
    pthread_mutexattr_init(&adaptive);
    pthread_mutexattr_settype(&adaptive, PTHREAD_MUTEX_ADAPTIVE_NP); /* held for one decision */
    pthread_mutex_init(&s->lock, &adaptive);
    pthread_mutexattr_destroy(&adaptive);
}

void shard_done(struct shard *s, const weir_allocator *allocator)
{
    struct cell *c = cells_of(s);

    for (; s->count > 0; c++)
        if (!is_empty(c)) {
            state_done(&c->state, c->algorithm, allocator);
            s->count--;
        }
    pthread_mutex_destroy(&s->lock);
}

uint32_t shard_find(const struct shard *s, struct key key)
{
    const struct cell *cells = cells_of(s);
    uint32_t i = home_of(key, s->skip_bits, homes_of(s));

    while (!is_empty(&cells[i]) && key_less(cells[i].key, key))
        i++;
    return i;
}

bool shard_has(const struct shard *s, uint32_t at, struct key key)
{
    return key_equal(cells_of(s)[at].key, key);
}

void shard_prefetch(const struct shard *s, struct key key)
{
    const struct cell *home = cells_of(s) + home_of(key, s->skip_bits, homes_of(s));

    for (int i = 0; i < 4; i++) /* most keys are no further from home */
        __builtin_prefetch(home + i, 1);
}

bool shard_insert(struct shard *s, uint32_t at, struct key key, weir_algorithm algorithm)
{
    struct cell *cells = cells_of(s);
    uint32_t gap = at;

    while (!is_empty(&cells[gap]))
        gap++;
    if (gap + 1 >= shard_cells(homes_of(s)))
        return false;
    memmove(&cells[at + 1], &cells[at], sizeof *cells * (gap - at));
    cells[at] = (struct cell){ .key = key, .algorithm = algorithm & 15u };
    s->count++;
    s->levels[0]++;
    return true;
}

struct cell *shard_append(struct shard *s, uint32_t *next, struct key key, weir_algorithm algorithm)
{
    const uint32_t homes = homes_of(s), home = home_of(key, s->skip_bits, homes);
    const uint32_t place = home > *next ? home : *next;
    struct cell *cell = cells_of(s) + place;

    if (place + 1 >= shard_cells(homes))
        return NULL;
    *cell = (struct cell){ .key = key, .algorithm = algorithm & 15u };
    s->count++;
    s->levels[0]++;
    *next = place + 1;
    return cell;
}

size_t shard_erase(struct shard *s, uint32_t at, const weir_allocator *allocator)
{
    struct cell *cells = cells_of(s), *c = &cells[at];
    size_t beside = state_beside(&c->state, c->algorithm);
    uint32_t next = at + 1;

    if (cell_tag(c) > s->dropped_tag)
        s->dropped_tag = cell_tag(c);
    state_done(&c->state, c->algorithm, allocator);
    s->levels[c->level]--;
    s->count--;
    while (!is_empty(&cells[next]) && home_of(cells[next].key, s->skip_bits, homes_of(s)) < next)
        next++;
    memmove(c, c + 1, sizeof *c * (next - at - 1));
    cells[next - 1] = (struct cell){ 0 };
    return beside;
}

void shard_stamp(struct shard *s, struct cell *cell, int64_t expires, uint32_t level)
{
    if (expires < (int64_t)cell->expires || cell->expires == 0)
        s->soonest = expires < s->soonest ? expires : s->soonest;
    cell->expires = (uint64_t)(expires < MOST_EXPIRES ? expires : MOST_EXPIRES) & MOST_EXPIRES;
    if (cell->level != level) {
        s->levels[cell->level]--;
        s->levels[level]++;
        cell->level = level & 15u;
    }
}

struct shard_dropped shard_purge(struct shard *s, int64_t horizon, const weir_allocator *allocator)
{
    const uint32_t homes = homes_of(s), end = shard_cells(homes);
    struct cell *cells = cells_of(s);
    struct shard_dropped dropped = { 0 };
    int64_t soonest = INT64_MAX;

    for (uint32_t i = 0; i < end; i++) {
        while (!is_empty(&cells[i]) && (int64_t)cells[i].expires <= horizon) {
            dropped.beside += shard_erase(s, i, allocator);
            dropped.keys++;
        }
        if (!is_empty(&cells[i]) && (int64_t)cells[i].expires < soonest)
            soonest = cells[i].expires;
    }
    s->soonest = soonest;
    s->expired += dropped.keys;
    s->purge_at = s->count + homes / 8 > homes / 4 * 3 ? s->count + homes / 8 : homes / 4 * 3;
    return dropped;
}

bool shard_move(struct shard *s, struct cell *cells, uint32_t homes)
{
    const uint32_t end = shard_cells(homes) - 1 - SPARE_CELLS;
    const struct cell *c = cells_of(s);
    uint32_t place = 0;

    for (uint32_t left = s->count; left > 0; c++) {
        uint32_t home;

        if (is_empty(c))
            continue;
        home = home_of(c->key, s->skip_bits, homes);
        place = home > place ? home : place;
        if (place >= end) {
            memset(cells, 0, sizeof *cells * end);
            return false;
        }
        cells[place++] = *c;
        left--;
    }
    atomic_store_explicit(&s->cells, cells, memory_order_relaxed);
    atomic_store_explicit(&s->homes, homes, memory_order_relaxed);
    s->purge_at = homes / 4 * 3;
    return true;
}

static bool is_spared(const struct cell *c, const struct key *spared, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (key_equal(c->key, spared[i]))
            return true;
    return false;
}

/* Go on to the next cell, from the last to the first. */
static const struct cell *next_cell(const struct shard *s, uint32_t *at)
{
    *at = *at + 1 < shard_cells(homes_of(s)) ? *at + 1 : 0;
    return &cells_of(s)[*at];
}

/* The next cell that has expired; else `soonest` is made exact. */
static uint32_t find_expired(struct shard *s, uint32_t at, int64_t now, const struct key *spared,
                             size_t n)
{
    int64_t soonest = INT64_MAX;

    for (uint32_t left = shard_cells(homes_of(s)); left > 0; left--) {
        const struct cell *c = next_cell(s, &at);

        if (is_empty(c))
            continue;
        if ((int64_t)c->expires <= now && !is_spared(c, spared, n))
            return at;
        if ((int64_t)c->expires < soonest)
            soonest = c->expires;
    }
    s->soonest = soonest;
    return SHARD_NO_VICTIM;
}

uint32_t shard_victim(struct shard *s, uint32_t at, int64_t now, bool beside,
                      const struct key *spared, size_t n)
{
    if (!beside && now >= s->soonest) {
        uint32_t expired = find_expired(s, at, now, spared, n);

        if (expired != SHARD_NO_VICTIM)
            return expired;
    }
    for (uint32_t level = 0; level < SHARD_LEVELS; level++) {
        if (s->levels[level] == 0)
            continue;
        for (uint32_t left = shard_cells(homes_of(s)); left > 0; left--) {
            const struct cell *c = next_cell(s, &at);

            if (!is_empty(c) && c->level == level && !is_spared(c, spared, n) &&
                (!beside || state_beside(&c->state, c->algorithm) > 0))
                return at;
        }
    }
    return SHARD_NO_VICTIM;
}

/* Behind the last home every cell is away from home, so that erasing one there frees the last of
 * them; between `at` and there, it frees one that the new key can push the others to. */
uint32_t shard_obstacle(const struct shard *s, uint32_t at, const struct key *spared, size_t n)
{
    const struct cell *cells = cells_of(s);
    uint32_t found = SHARD_NO_VICTIM;

    for (uint32_t i = at < homes_of(s) ? at : homes_of(s); !is_empty(&cells[i]); i++)
        if (!is_spared(&cells[i], spared, n) &&
            (found == SHARD_NO_VICTIM || cells[i].level < cells[found].level))
            found = i;
    return found;
}
