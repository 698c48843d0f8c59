/* shards.h - single shards for tests, and what must hold of every cell. */
#ifndef WEIR_TESTS_SHARDS_H
#define WEIR_TESTS_SHARDS_H

#include "support/unit.h"

#include "store/memory/shard.h"

enum { FEW_HOMES = 16 };

static inline const weir_allocator *shard_memory(void)
{
    static weir_allocator memory;

    memory = heap();
    return &memory;
}

static inline struct slice new_slice(uint32_t homes)
{
    const size_t size = shard_cells(homes) * sizeof(struct cell);

    return (struct slice){
        .cells = memset(aligned_alloc(64, size), 0, size),
        .marks = aligned_alloc(64, shard_marks_size(homes)),
        .homes = homes,
    };
}

static inline void free_slice(struct cell *cells, struct marks *marks)
{
    free(cells);
    free(marks);
}

static inline struct shard *new_shard(uint32_t homes)
{
    struct shard *s = aligned_alloc(64, sizeof *s);
    const struct slice at = new_slice(homes);

    shard_init(s, &at, 4);
    return s;
}

static inline void free_shard(struct shard *s)
{
    shard_done(s, shard_memory());
    free_slice(s->cells, s->marks);
    free(s);
}

/* A key of shard 5 of 16; `crowd` makes many of them fall on few homes. */
static inline struct key random_key(struct dice *dice, bool crowd)
{
    uint64_t high = crowd ? (dice_roll(dice) % 8) << 40 | dice_roll(dice) % 1000 : dice_roll(dice);

    return (struct key){ (high >> 4) | (uint64_t)5 << 60, dice_roll(dice) | 1 };
}

static inline bool is_used(const struct cell *c)
{
    return c->key.high != 0 || c->key.low != 0;
}

static inline uint32_t home(const struct shard *s, struct key key)
{
    return (uint32_t)((key.high << 4 >> 32) * s->homes >> 32);
}

/* S1, S2, S3 and S5, all of them, on every cell there is. */
static inline void assert_rules_hold(const struct shard *s)
{
    const struct cell none = { 0 };
    const struct marks *marks = s->marks;
    uint32_t count = 0, tally[SHARD_NO_MARK + 1] = { 0 };
    const struct cell *last = NULL;

    for (uint32_t i = 0; i < shard_cells(s->homes); i++) {
        const struct cell *c = &s->cells[i];

        if (s->is_marked) {
            tally[marks->of[i]]++;
            if (is_used(c))
                assert_true(marks->of[i] / SHARD_GRADES == c->class &&
                            marks->of[i] <= cell_mark(c));
            else
                assert_int_equal(marks->of[i], SHARD_NO_MARK);
        }
        if (!is_used(c)) {
            assert_memory_equal(c, &none, sizeof none);
            continue;
        }
        assert_true(i + 1 < shard_cells(s->homes));
        assert_true(home(s, c->key) <= i);
        for (uint32_t j = home(s, c->key); j < i; j++)
            assert_true(is_used(&s->cells[j]));
        if (last)
            assert_true(last->key.high < c->key.high ||
                        (last->key.high == c->key.high && last->key.low < c->key.low));
        last = c;
        count++;
        assert_true((int64_t)c->expires >= s->soonest || c->expires == 0);
        assert_true(i >= s->look || (int64_t)c->expires >= s->look_soonest || c->expires == 0);
    }
    assert_int_equal(count, s->count);
    for (int m = 0; m <= SHARD_NO_MARK && s->is_marked; m++)
        assert_int_equal(tally[m], marks->tally[m]);
}

static inline bool put_of(struct shard *s, struct key key, int64_t expires, uint32_t level,
                          uint32_t class)
{
    uint32_t at = shard_find(s, key);

    if (shard_has(s, at, key))
        return true;
    if (!shard_insert(s, at, key, WEIR_FIXED_WINDOW))
        return false;
    shard_stamp(s, &s->cells[at], expires, level, class);
    return true;
}

static inline bool put(struct shard *s, struct key key, int64_t expires, uint32_t level)
{
    return put_of(s, key, expires, level, 1);
}

static inline struct key any_key(const struct shard *s, struct dice *dice)
{
    for (;;) {
        const struct cell *c = &s->cells[dice_below(dice, shard_cells(s->homes))];

        if (is_used(c))
            return c->key;
    }
}

#endif
