/* test_shard.c - the cells of a shard against a sorted list, and the rules of shard.c. */
#include "unit/support.h"

#include "store/shard.h"

enum { FEW_HOMES = 16, MOST_KEYS = 3000 };

static weir_allocator memory;

static struct cell *new_cells(uint32_t homes)
{
    struct cell *cells = aligned_alloc(64, shard_cells(homes) * sizeof *cells);

    return memset(cells, 0, shard_cells(homes) * sizeof *cells);
}

static struct shard *new_shard(uint32_t homes)
{
    struct shard *s = aligned_alloc(64, sizeof *s);

    shard_init(s, new_cells(homes), homes, 4);
    return s;
}

static void free_shard(struct shard *s)
{
    shard_done(s, &memory);
    free(s->cells);
    free(s);
}

static bool move(struct shard *s, uint32_t homes)
{
    struct cell *old = s->cells, *cells = new_cells(homes);
    bool moved = shard_move(s, cells, homes);

    free(moved ? old : cells);
    return moved;
}

/* A key of shard 5 of 16; `crowd` makes many of them fall on few homes. */
static struct key random_key(struct dice *dice, bool crowd)
{
    uint64_t high = crowd ? (dice_roll(dice) % 8) << 40 | dice_roll(dice) % 1000 : dice_roll(dice);

    return (struct key){ (high >> 4) | (uint64_t)5 << 60, dice_roll(dice) | 1 };
}

static bool is_used(const struct cell *c)
{
    return c->key.high != 0 || c->key.low != 0;
}

static uint32_t home(const struct shard *s, struct key key)
{
    return (uint32_t)((key.high << 4 >> 32) * s->homes >> 32);
}

/* S1, S2 and S3, all of them, on every cell there is. */
static void assert_rules_hold(const struct shard *s)
{
    const struct cell none = { 0 };
    uint32_t count = 0, levels[SHARD_LEVELS] = { 0 };
    const struct cell *last = NULL;

    for (uint32_t i = 0; i < shard_cells(s->homes); i++) {
        const struct cell *c = &s->cells[i];

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
        levels[c->level]++;
        count++;
        assert_true((int64_t)c->expires >= s->soonest || c->expires == 0);
    }
    assert_int_equal(count, s->count);
    for (int l = 0; l < SHARD_LEVELS; l++)
        assert_int_equal(levels[l], s->levels[l]);
}

static bool put(struct shard *s, struct key key, int64_t expires, uint32_t level)
{
    uint32_t at = shard_find(s, key);

    if (shard_has(s, at, key))
        return true;
    if (!shard_insert(s, at, key, WEIR_FIXED_WINDOW))
        return false;
    shard_stamp(s, &s->cells[at], expires, level);
    if (expires < s->soonest)
        s->soonest = expires;
    return true;
}

static void work_randomly(bool crowd)
{
    struct dice dice = dice_new();
    struct shard *s = new_shard(FEW_HOMES);
    struct key keys[MOST_KEYS];
    size_t n = 0;

    for (int i = 0; i < 12000; i++) {
        if (n < MOST_KEYS && dice_below(&dice, 3) > 0) {
            struct key key = random_key(&dice, crowd);

            while ((s->count + 1) * 4 > s->homes * 3 ||
                   !put(s, key, 1000, (uint32_t)dice_below(&dice, SHARD_LEVELS)))
                move(s, s->homes + s->homes / 8 + 16);
            keys[n++] = key;
        } else if (n > 0) {
            size_t victim = (size_t)dice_below(&dice, (int64_t)n);
            uint32_t at = shard_find(s, keys[victim]);

            assert_true(shard_has(s, at, keys[victim]));
            shard_erase(s, at, &memory);
            assert_false(shard_has(s, shard_find(s, keys[victim]), keys[victim]));
            keys[victim] = keys[--n];
        }
        if (i % 200 == 0) {
            assert_rules_hold(s);
            for (size_t k = 0; k < n; k++)
                assert_true(shard_has(s, shard_find(s, keys[k]), keys[k]));
        }
    }
    assert_int_equal(s->count, n);
    free_shard(s);
}

static void S1_S2_S3_hold_under_random_work(void **state)
{
    (void)state;
    work_randomly(false);
}

static void S1_S2_S3_hold_when_keys_crowd_on_few_homes(void **state)
{
    (void)state;
    work_randomly(true);
}

static void a_purge_drops_what_has_expired_and_only_that(void **state)
{
    struct dice dice = dice_new();
    struct shard *s = new_shard(1300);
    struct shard_dropped dropped;

    (void)state;
    for (int i = 0; i < 1000; i++)
        assert_true(put(s, random_key(&dice, false), i, 3));
    dropped = shard_purge(s, 599, &memory);
    assert_int_equal(dropped.keys, 600);
    assert_int_equal(s->count, 400);
    assert_int_equal(s->expired, 600);
    assert_int_equal(s->soonest, 600);
    assert_rules_hold(s);
    free_shard(s);
}

static void a_purge_frees_memory_beside_dropped_states(void **state)
{
    const struct rule r = { WEIR_SLIDING_WINDOW, 9, 100, 9, 1 };
    struct shard *s = new_shard(FEW_HOMES);
    struct key key = { 5 | (uint64_t)5 << 60, 7 };
    struct state *log;

    (void)state;
    assert_true(shard_insert(s, shard_find(s, key), key, WEIR_SLIDING_WINDOW));
    log = &s->cells[shard_find(s, key)].state;
    for (int64_t now = 1; now < 8; now++) {
        struct step step;

        state_take(log, &r, &(struct ask){ now, 1, false }, &step);
        assert_true(state_reserve(log, &r, &step, &memory));
        state_apply(log, &r, &step);
    }
    assert_int_equal(state_beside(log, WEIR_SLIDING_WINDOW), 128);
    assert_int_equal(shard_purge(s, 1, &memory).beside, 128);
    assert_int_equal(s->count, 0);
    free_shard(s);
}

static void a_move_to_where_the_cells_do_not_fit_changes_nothing(void **state)
{
    struct dice dice = dice_new();
    struct shard *s = new_shard(1000);
    struct cell *before = s->cells;

    (void)state;
    for (int i = 0; i < 600; i++)
        assert_true(put(s, random_key(&dice, false), 1000, 3));
    assert_false(move(s, 400));
    assert_ptr_equal(s->cells, before);
    assert_rules_hold(s);
    assert_true(move(s, 610));
    assert_rules_hold(s);
    assert_int_equal(s->count, 600);
    free_shard(s);
}

static void a_key_that_finds_no_empty_cell_is_refused(void **state)
{
    struct shard *s = new_shard(FEW_HOMES);
    uint64_t n = 1;

    (void)state;
    while (put(s, (struct key){ UINT64_MAX >> 4 | (uint64_t)5 << 60, n }, 1000, 0))
        n++;
    assert_int_equal(s->count,
                     shard_cells(FEW_HOMES) - FEW_HOMES); /* home and slack, less the sentinel */
    assert_rules_hold(s);
    free_shard(s);
}

static void S4_after_a_move_the_next_keys_can_be_inserted(void **state)
{
    (void)state;
    for (uint64_t n = 1; n < 200; n++) {
        struct shard *s = new_shard(2000);
        uint32_t homes = FEW_HOMES;

        for (uint64_t i = 0; i < n; i++)
            assert_true(
                put(s, (struct key){ UINT64_MAX >> 4 | (uint64_t)5 << 60, 100 + i }, 1000, 0));
        while (!move(s, homes))
            homes++;
        for (uint64_t i = 0; i < 8; i++)
            assert_true(
                put(s, (struct key){ UINT64_MAX >> 4 | (uint64_t)5 << 60, 1 + i }, 1000, 0));
        assert_rules_hold(s);
        free_shard(s);
    }
}

/* Wherever the new key belongs in a shard that is full to the end, one is in its way, and without it
 * the key fits. */
static void giving_up_an_obstacle_makes_a_gap(void **state)
{
    struct dice dice = dice_new();

    (void)state;
    for (int round = 0; round < 300; round++) {
        struct shard *s = new_shard(FEW_HOMES);
        struct key key = random_key(&dice, false), spared[16];
        uint32_t at, obstacle;
        size_t n = 0;

        while (put(s, key, 1000, (uint32_t)dice_below(&dice, SHARD_LEVELS))) {
            if (n < 16)
                spared[n++] = key;
            key = random_key(&dice, false);
        }
        at = shard_find(s, key);
        obstacle = shard_obstacle(s, at, spared, n);
        assert_int_not_equal(obstacle, SHARD_NO_VICTIM);
        for (size_t i = 0; i < n; i++)
            assert_false(shard_has(s, obstacle, spared[i]));
        shard_erase(s, obstacle, &memory);
        assert_true(put(s, key, 1000, 0));
        assert_rules_hold(s);
        free_shard(s);
    }
}

static void the_victim_has_expired_or_is_least_consumed(void **state)
{
    struct dice dice = dice_new();
    struct shard *s = new_shard(500);
    struct key old = random_key(&dice, false), low = random_key(&dice, false);
    uint32_t victim;

    (void)state;
    for (int i = 0; i < 300; i++)
        put(s, random_key(&dice, false), 1000, SHARD_LEVELS - 1);
    put(s, old, 100, SHARD_LEVELS - 1);
    put(s, low, 1000, 2);

    victim = shard_victim(s, 7, 100, false, NULL, 0);
    assert_true(shard_has(s, victim, old));
    shard_erase(s, victim, &memory);
    victim = shard_victim(s, 7, 100, false, NULL, 0);
    assert_true(shard_has(s, victim, low));
    victim = shard_victim(s, 7, 100, false, &low, 1); /* spared */
    assert_int_equal(s->cells[victim].level, SHARD_LEVELS - 1);
    assert_int_equal(shard_victim(s, 7, 100, true, NULL, 0), SHARD_NO_VICTIM); /* nothing beside */
    free_shard(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(S1_S2_S3_hold_under_random_work),
        cmocka_unit_test(S1_S2_S3_hold_when_keys_crowd_on_few_homes),
        cmocka_unit_test(a_purge_drops_what_has_expired_and_only_that),
        cmocka_unit_test(a_purge_frees_memory_beside_dropped_states),
        cmocka_unit_test(a_move_to_where_the_cells_do_not_fit_changes_nothing),
        cmocka_unit_test(a_key_that_finds_no_empty_cell_is_refused),
        cmocka_unit_test(S4_after_a_move_the_next_keys_can_be_inserted),
        cmocka_unit_test(giving_up_an_obstacle_makes_a_gap),
        cmocka_unit_test(the_victim_has_expired_or_is_least_consumed),
    };

    memory = heap();
    return cmocka_run_group_tests_name("shard", tests, NULL, NULL);
}
