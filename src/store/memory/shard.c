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
 *   S3  `count` counts all cells. Once there are marks: the tally counts them; that of a cell
 *       has its class, and its grade or a lower one.
 *   S4  After a move, the SPARE_CELLS next keys can be inserted, wherever they belong: so many
 *       cells before the last are empty.
 *   S5  No cell expires before `soonest`. None before `look`, and none that was inserted or
 *       stamped since the look began, expires before `look_soonest`.
 *
 * WHY A MARK MAY BE TOO LOW: most checks raise a level, and to raise the mark as well would
 * touch one more cache line. Eviction compares the mark with its cell before it evicts. A level
 * that falls is marked at once. */
#include "store/memory/shard.h"

#include <string.h>

enum { SPARE_CELLS = 8 };

/* Keys from which on it is worth looking for expired ones: a little before a table grows. */
static uint32_t many(uint32_t homes)
{
    return homes / 16 * 13;
}

void shard_init(struct shard *s, const struct slice *at, uint32_t skip_bits)
{
    *s = (struct shard){ .skip_bits = (uint8_t)skip_bits,
                         .soonest = INT64_MAX,
                         .look_soonest = INT64_MAX,
                         .purge_at = many(at->homes),
                         .marks = at->marks };
    atomic_init(&s->cells, at->cells);
    atomic_init(&s->homes, at->homes);
}

/* Memory beside a cell. */
static void free_beside(struct shard *s, struct cell *c, const weir_allocator *allocator)
{
    if (c->algorithm == ALGORITHM_RESERVATION)
        pool_free(&s->records, c->state.kept.block, allocator);
    else
        state_done(&c->state, c->algorithm, allocator);
}

void shard_done(struct shard *s, const weir_allocator *allocator)
{
    struct cell *c = cells_of(s);

    for (; s->count > 0; c++)
        if (!cell_is_empty(c)) {
            free_beside(s, c, allocator);
            s->count--;
        }
}

/* ---- marks ------------------------------------------------------------------------------ */

static void set_mark(struct marks *marks, uint32_t at, uint8_t mark)
{
    marks->tally[marks->of[at]]--;
    marks->tally[mark]++;
    marks->of[at] = mark;
}

void shard_mark(struct shard *s, uint32_t at)
{
    set_mark(s->marks, at, cell_mark(&cells_of(s)[at]));
}

void shard_mark_all(struct shard *s)
{
    const struct cell *cells = cells_of(s);
    struct marks *marks = s->marks;
    const uint32_t end = shard_cells(homes_of(s));

    memset(marks, 0, sizeof *marks);
    for (uint32_t i = 0; i < end; i++) {
        marks->of[i] = cell_is_empty(&cells[i]) ? SHARD_NO_MARK : cell_mark(&cells[i]);
        marks->tally[marks->of[i]]++;
    }
    s->is_marked = true;
}

/* Cells from `at` on go one further, to `gap`, which was empty. */
static void push_marks(const struct shard *s, uint32_t at, uint32_t gap)
{
    struct marks *marks = s->marks;

    memmove(&marks->of[at + 1], &marks->of[at], gap - at);
    marks->of[at] = SHARD_NO_MARK;
}

/* Cells behind `at` go back by one, as far as `last`. */
static void pull_marks(const struct shard *s, uint32_t at, uint32_t last)
{
    struct marks *marks = s->marks;

    set_mark(marks, at, SHARD_NO_MARK);
    memmove(&marks->of[at], &marks->of[at + 1], last - at);
    marks->of[last] = SHARD_NO_MARK;
}

/* ---- cells ------------------------------------------------------------------------------ */

bool shard_insert(struct shard *s, uint32_t at, struct key key, weir_algorithm algorithm)
{
    struct cell *cells = cells_of(s);
    uint32_t gap = at;

    while (!cell_is_empty(&cells[gap]))
        gap++;
    if (gap + 1 >= shard_cells(homes_of(s)))
        return false;
    if (gap > at)
        memmove(&cells[at + 1], &cells[at], sizeof *cells * (gap - at));
    cells[at] = (struct cell){ .key = key, .algorithm = algorithm & 15u };
    s->count++;
    if (s->is_marked) {
        push_marks(s, at, gap);
        shard_mark(s, at);
    }
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
    if (s->is_marked)
        shard_mark(s, place);
    *next = place + 1;
    return cell;
}

size_t shard_erase(struct shard *s, uint32_t at, const weir_allocator *allocator)
{
    struct cell *cells = cells_of(s), *c = &cells[at];
    size_t beside = state_heap_bytes(&c->state, c->algorithm);
    uint32_t next = at + 1;

    if (cell_tag(c) > s->dropped_tag)
        s->dropped_tag = cell_tag(c);
    free_beside(s, c, allocator);
    s->count--;
    while (!cell_is_empty(&cells[next]) &&
           home_of(cells[next].key, s->skip_bits, homes_of(s)) < next)
        next++;
    memmove(c, c + 1, sizeof *c * (next - at - 1));
    cells[next - 1] = (struct cell){ 0 };
    if (s->is_marked)
        pull_marks(s, at, next - 1);
    if (at < s->look && s->look < next) /* the cell that it was about to look at */
        s->look--;
    return beside;
}

struct shard_dropped shard_purge(struct shard *s, int64_t horizon, const weir_allocator *allocator)
{
    const uint32_t homes = homes_of(s), end = shard_cells(homes);
    struct cell *cells = cells_of(s);
    struct shard_dropped dropped = { 0 };
    int64_t soonest = INT64_MAX;

    for (uint32_t i = 0; i < end; i++) {
        while (!cell_is_empty(&cells[i]) && (int64_t)cells[i].expires <= horizon) {
            dropped.beside += shard_erase(s, i, allocator);
            dropped.keys++;
        }
        if (!cell_is_empty(&cells[i]) && (int64_t)cells[i].expires < soonest)
            soonest = cells[i].expires;
    }
    s->soonest = soonest;
    s->look = 0;
    s->look_soonest = INT64_MAX;
    s->expired += dropped.keys;
    s->purge_at = s->count + homes / 8 > many(homes) ? s->count + homes / 8 : many(homes);
    return dropped;
}

bool shard_move(struct shard *s, const struct slice *to)
{
    const uint32_t homes = to->homes, end = shard_cells(homes) - 1 - SPARE_CELLS;
    struct cell *cells = to->cells;
    const struct cell *c = cells_of(s);
    uint32_t place = 0;

    for (uint32_t left = s->count; left > 0; c++) {
        uint32_t home;

        if (cell_is_empty(c))
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
    s->marks = to->marks;
    s->purge_at = many(homes);
    s->is_marked = false;
    s->look = 0;
    s->look_soonest = INT64_MAX;
    return true;
}
