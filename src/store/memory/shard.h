/* shard.h - a part of the table: cells in the order of their keys, under one lock.
 *
 * Every function wants the lock held. The memory of the cells is given: a shard does not know where
 * it comes from. */
#ifndef WEIR_STORE_MEMORY_SHARD_H
#define WEIR_STORE_MEMORY_SHARD_H

#include <stdalign.h>
#include <stdatomic.h>

#include "base/hash.h"
#include "base/lock.h"
#include "limit/state.h"
#include "store/memory/pool.h"

enum {
    SHARD_LEVELS = 16, /* how much is consumed, in steps; the last is "nothing remains" */
    SHARD_GRADES = 4,  /* the same, coarser; the last is the same */
    SHARD_NO_MARK = LIMIT_CLASSES * SHARD_GRADES, /* of an empty cell */
};

/* One key: a cache line. */
struct cell {
    struct key key; /* all zero: empty */
    union {
        struct {
            uint64_t expires : 48, algorithm : 4, level : 4, class : 6, is_locked : 1, is_hold : 1;
        };
        uint64_t stamp; /* all of it, as in a record */
    };
    struct state state;
};

_Static_assert(sizeof(struct cell) == 64, "a cell is one cache line");

/* What eviction searches instead of the cells: a byte for each, its class and its grade. They are
 * apart from the cells, as their memory is not touched before the shard has to evict. */
struct marks {
    uint16_t tally[SHARD_NO_MARK + 1]; /* how many cells have each */
    uint16_t hands[SHARD_NO_MARK];     /* where eviction goes on with each */
    uint8_t of[];
};

struct shard {
    alignas(64) struct lock lock; /* first line: what every check touches */
    _Atomic uint32_t homes;       /* cells that keys hash to */
    _Atomic(struct cell *) cells;
    uint32_t count;       /* keys */
    uint32_t purge_at;    /* keys; looking for expired ones is worth it from here on */
    uint8_t skip_bits;    /* of a key, the same in the whole shard */
    bool lives_apart;     /* has outgrown its slice of the table's memory */
    bool is_marked;       /* there are marks */
    uint32_t look;        /* cells before were looked at, for what has expired, */
    int64_t look_soonest; /* … and none of them, nor any that came since, expires before */
    int64_t soonest;      /* no cell expires before */
    uint64_t dropped_tag; /* the largest of a cell that is gone */

    alignas(64) int64_t evicted;
    int64_t expired;
    _Atomic int64_t release_at; /* no reservation is to be given back before; 0: none is */
    struct pool_list records;   /* memory for more reservations */
    struct marks *marks;
};

/* Where a shard lives: shard_cells() that are zeroed, and shard_marks_size() bytes. */
struct slice {
    struct cell *cells;
    struct marks *marks;
    uint32_t homes; /* cells that keys hash to */
};

_Static_assert(sizeof(struct shard) == 128, "a shard is two cache lines");

/* What a shard let go. */
struct shard_dropped {
    uint32_t keys;
    size_t beside;
};

/* How many cells a shard of so many homes has: more behind the last home, for keys that are
 * pushed along, and one that is always empty. */
static inline uint32_t shard_cells(uint32_t homes)
{
    const uint32_t behind = homes < 256 ? homes / 8 + 32 : homes / 64 + 60;

    return homes + (behind < 256 ? behind : 256) + 1;
}

static inline size_t shard_marks_size(uint32_t homes)
{
    const size_t line = sizeof(struct cell);

    return (sizeof(struct marks) + shard_cells(homes) + line - 1) / line * line;
}

static inline bool cell_is_empty(const struct cell *c)
{
    return (c->key.high | c->key.low) == 0;
}

/* A fifth and a half are where a key of few requests gets from one grade to the next. */
static inline uint32_t level_grade(uint32_t level)
{
    return level == SHARD_LEVELS - 1 ? 3 : level >= 7 ? 2 : level >= 3;
}

static inline uint8_t cell_mark(const struct cell *c)
{
    return (uint8_t)(c->class * SHARD_GRADES + level_grade(c->level));
}

/* Until when the key is locked out; 0: it is not. A cell that is locked expires just then. */
static inline int64_t cell_locked_until(const struct cell *c)
{
    return c->is_locked ? (int64_t)c->expires : 0;
}

/* The ticket of the write buffer that the last record of a key went to; 0: none. */
static inline uint64_t cell_tag(const struct cell *c)
{
    return state_tag(&c->state, c->algorithm);
}

/* Is something held of it? Then it is not given up. */
static inline bool cell_is_held(const struct cell *c, int64_t now)
{
    if (c->algorithm == ALGORITHM_RESERVATION)
        return c->state.kept.is_open && c->state.kept.expires > now;
    return holds_last(state_holds(&c->state, c->algorithm)) > now;
}

void shard_init(struct shard *s, const struct slice *at, uint32_t skip_bits);
void shard_done(struct shard *s, const weir_allocator *allocator);

static inline uint32_t home_of(struct key key, uint32_t skip_bits, uint32_t homes)
{
    return (uint32_t)((key.high << skip_bits >> 32) * homes >> 32);
}

/* Both are only written with the lock held. */
static inline uint32_t homes_of(const struct shard *s)
{
    return atomic_load_explicit(&s->homes, memory_order_relaxed);
}

static inline struct cell *cells_of(const struct shard *s)
{
    return atomic_load_explicit(&s->cells, memory_order_relaxed);
}

/* The first cell that is not before those whose keys have this upper half. Most cells on the way are
 * told by half of their keys. */
static inline struct cell *shard_first(const struct shard *s, struct key key)
{
    struct cell *c = cells_of(s) + home_of(key, s->skip_bits, homes_of(s));

    while (c->key.high < key.high && !cell_is_empty(c))
        c++;
    return c;
}

/* The cell of a key, from the first of its upper half on, which is not 0: so an empty cell is the end.
 * NULL: there is none. */
static inline struct cell *shard_beside(struct cell *first, struct key key)
{
    for (; first->key.high == key.high; first++)
        if (first->key.low == key.low)
            return first;
    return NULL;
}

/* Where the key is or would be inserted. */
static inline uint32_t shard_find(const struct shard *s, struct key key)
{
    const struct cell *cells = cells_of(s), *c = shard_first(s, key);

    while (c->key.high == key.high && c->key.low < key.low && !cell_is_empty(c))
        c++;
    return (uint32_t)(c - cells);
}

static inline bool shard_has(const struct shard *s, uint32_t at, struct key key)
{
    const struct cell *cell = &cells_of(s)[at];

    return cell->key.high == key.high && cell->key.low == key.low;
}

/* NULL: there is none. */
static inline struct cell *shard_cell(const struct shard *s, struct key key)
{
    const uint32_t at = shard_find(s, key);

    return shard_has(s, at, key) ? &cells_of(s)[at] : NULL;
}

/* A home, and what is behind it. Where all keys are alone, nearly all are no further away than four; keys
 * side by side push all others twice as far. */
enum { CELLS_NEAR_HOME = 8 };
static inline void cell_prefetch(const void *home)
{
#pragma GCC unroll 8
    for (size_t i = 0; i < CELLS_NEAR_HOME; i++)
        __builtin_prefetch((const char *)home + i * sizeof(struct cell), 1);
}

/* Insert an untouched cell at `at`, as shard_find() gave it. False: no empty cell behind it. */
bool shard_insert(struct shard *s, uint32_t at, struct key key, weir_algorithm algorithm);

/* Insert an untouched cell behind all others. *next: the first cell behind them, at first 0. NULL:
 * there is no room. */
struct cell *shard_append(struct shard *s, uint32_t *next, struct key key,
                          weir_algorithm algorithm);

/* Take a cell out. The memory beside its state is freed; its size is returned. */
size_t shard_erase(struct shard *s, uint32_t at, const weir_allocator *allocator);

/* Make marks, and keep them from now on. Then: correct the mark of one cell. */
void shard_mark_all(struct shard *s);
void shard_mark(struct shard *s, uint32_t at);

#define STAMP_MOST_EXPIRES (((int64_t)1 << 48) - 1)
#define STAMP_STAYS (UINT64_C(15) << 48 | UINT64_C(3) << 62) /* algorithm, is_locked, is_hold */

/* Note what a decision made of a cell. */
static inline void shard_stamp(struct shard *s, struct cell *cell, int64_t expires, uint32_t level,
                               uint32_t class)
{
    const bool is_new = cell->expires == 0;
    const bool marks = s->is_marked && (is_new || cell->class != class ||
                                        level_grade(level) < level_grade(cell->level));
    const int64_t until = expires < STAMP_MOST_EXPIRES ? expires : STAMP_MOST_EXPIRES;

    if (is_new || expires < (int64_t)cell->expires) {
        s->soonest = expires < s->soonest ? expires : s->soonest;
        s->look_soonest = expires < s->look_soonest ? expires : s->look_soonest;
    }
    cell->stamp = (cell->stamp & STAMP_STAYS) | ((uint64_t)until & STAMP_MOST_EXPIRES) |
                  (uint64_t)(level & 15) << 52 | (uint64_t)(class & 63) << 56;
    if (marks)
        shard_mark(s, (uint32_t)(cell - cells_of(s)));
}

/* The same of one that expires when it did before. */
static inline void shard_relevel(struct shard *s, struct cell *cell, uint32_t level)
{
    const bool marks = s->is_marked && level_grade(level) < level_grade(cell->level);

    cell->level = level & 15;
    if (marks)
        shard_mark(s, (uint32_t)(cell - cells_of(s)));
}

/* Drop what expired at `horizon` or before. */
struct shard_dropped shard_purge(struct shard *s, int64_t horizon, const weir_allocator *allocator);

/* Move elsewhere. False: they do not fit there, and nothing has changed. The old cells are left as
 * they are, for their owner to free. */
bool shard_move(struct shard *s, const struct slice *to);

#endif
