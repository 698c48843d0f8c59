/* test_shard.c - the cells of a shard against a sorted list, and the rules of shard.c. */
#include "support/unit.h"

#include "store/memory/eviction.h"
#include "support/shards.h"

enum { MOST_KEYS = 3000 };

static bool move(struct shard *s, uint32_t homes)
{
    const struct slice old = { .cells = s->cells, .marks = s->marks }, to = new_slice(homes);
    const bool moved = shard_move(s, &to);

    free_slice(moved ? old.cells : to.cells, moved ? old.marks : to.marks);
    return moved;
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
            if (dice_below(&dice, 50) == 0 && !s->is_marked)
                shard_mark_all(s);
        } else if (n > 0 && dice_below(&dice, 2)) {
            uint32_t at = shard_find(s, keys[dice_below(&dice, (int64_t)n)]);

            shard_stamp(s, &s->cells[at], 900 + dice_below(&dice, 200),
                        (uint32_t)dice_below(&dice, SHARD_LEVELS),
                        (uint32_t)dice_below(&dice, LIMIT_CLASSES));
        } else if (n > 0) {
            size_t victim = (size_t)dice_below(&dice, (int64_t)n);
            uint32_t at = shard_find(s, keys[victim]);

            assert_true(shard_has(s, at, keys[victim]));
            shard_erase(s, at, shard_memory());
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
    dropped = shard_purge(s, 599, shard_memory());
    assert_int_equal(dropped.keys, 600);
    assert_int_equal(s->count, 400);
    assert_int_equal(s->expired, 600);
    assert_int_equal(s->soonest, 600);
    assert_rules_hold(s);
    free_shard(s);
}

static void a_purge_frees_memory_beside_dropped_states(void **state)
{
    const struct rule r = { WEIR_SLIDING_WINDOW, 9, 100, 9, .precision = 1 };
    struct shard *s = new_shard(FEW_HOMES);
    struct key key = { 5 | (uint64_t)5 << 60, 7 };
    struct state *log;

    (void)state;
    assert_true(shard_insert(s, shard_find(s, key), key, WEIR_SLIDING_WINDOW));
    log = &s->cells[shard_find(s, key)].state;
    for (int64_t now = 1; now < 8; now++) {
        struct step step;

        state_take(log, &r, &(struct ask){ .now = now, .cost = 1, .peek = false }, &step);
        assert_true(state_reserve(log, &r, &step, shard_memory()));
        state_apply(log, &r, &step);
    }
    assert_int_equal(state_heap_bytes(log, WEIR_SLIDING_WINDOW), 128);
    assert_int_equal(shard_purge(s, 1, shard_memory()).beside, 128);
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

static void a_key_without_an_empty_cell_is_denied(void **state)
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
    for (uint64_t n = 1; n < 90; n++) {
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

static void S5_a_look_that_goes_on_while_cells_move_misses_none(void **state)
{
    struct dice dice = dice_new();
    struct shard *s = new_shard(400);

    (void)state;
    for (int i = 0; i < scaled(100000); i++) {
        const struct eviction e = { .now = i };

        put(s, random_key(&dice, false), i + 1 + dice_below(&dice, 300), 3);
        if (s->count > 280) {
            shard_erase(s, eviction_victim(s, &e), shard_memory());
            shard_erase(s, shard_find(s, any_key(s, &dice)), shard_memory());
        }
        if (i % 100 == 0)
            assert_rules_hold(s);
    }
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
        cmocka_unit_test(a_key_without_an_empty_cell_is_denied),
        cmocka_unit_test(S4_after_a_move_the_next_keys_can_be_inserted),
        cmocka_unit_test(S5_a_look_that_goes_on_while_cells_move_misses_none),
    };

    return cmocka_run_group_tests_name("shard", tests, NULL, NULL);
}
