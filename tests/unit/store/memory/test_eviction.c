/* test_eviction.c - which key of a full shard goes: the rules of eviction.c. */
#include "store/memory/eviction.h"
#include "support/shards.h"

enum { NOW = 1000, LATER = 100000, FULL = 1000, HOMES = 1333, EXHAUSTED = SHARD_LEVELS - 1 };

static const struct eviction any = { .now = NOW };

static struct key fill(struct shard *s, struct dice *dice, uint32_t n, uint32_t class,
                       uint32_t level)
{
    struct key key = { 0 };

    for (uint32_t i = 0; i < n; i++) {
        key = random_key(dice, false);
        assert_true(put_of(s, key, LATER, level, class));
    }
    return key;
}

static struct cell drop_one(struct shard *s, const struct eviction *e)
{
    const uint32_t victim = eviction_victim(s, e);
    struct cell dropped;

    assert_int_not_equal(victim, EVICTION_NONE);
    dropped = s->cells[victim];
    assert_false(cell_is_empty(&dropped));
    shard_erase(s, victim, shard_memory());
    return dropped;
}

static uint32_t keys_in(const struct shard *s, uint32_t class, uint32_t level)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < shard_cells(s->homes); i++)
        n += is_used(&s->cells[i]) && s->cells[i].class == class && s->cells[i].level == level;
    return n;
}

/* New keys of a class at a level, each in another's place. */
static void flood(struct shard *s, struct dice *dice, int n, uint32_t class, uint32_t level)
{
    for (int i = 0; i < n; i++) {
        drop_one(s, &any);
        fill(s, dice, 1, class, level);
        if (i % 1000 == 0)
            assert_rules_hold(s);
    }
}

static void V1_a_class_keeps_half_of_an_equal_part(void **state)
{
    struct dice dice = dice_new();
    struct shard *s = new_shard(HOMES);

    (void)state;
    fill(s, &dice, 250, 1, 0); /* half of an equal part of 1000 keys in two classes */
    fill(s, &dice, FULL - 250, 2, EXHAUSTED);
    flood(s, &dice, scaled(20000), 2, EXHAUSTED);
    assert_int_equal(keys_in(s, 1, 0), 250);
    free_shard(s);
}

static void V1_a_class_that_is_pushed_aside_gets_its_part_back(void **state)
{
    struct dice dice = dice_new();
    struct shard *s = new_shard(HOMES);

    (void)state;
    fill(s, &dice, FULL, 2, EXHAUSTED);
    flood(s, &dice, 5000, 1, 0);
    assert_in_range(keys_in(s, 1, 0), 250, 251);
    assert_in_range(keys_in(s, 2, EXHAUSTED), 749, 750);
    free_shard(s);
}

static void V2_the_least_consumed_class_is_evicted(void **state)
{
    struct dice dice = dice_new();
    struct shard *s = new_shard(HOMES);

    (void)state;
    fill(s, &dice, 500, 1, EXHAUSTED);
    fill(s, &dice, FULL - 500, 2, 1);
    flood(s, &dice, scaled(20000), 2, 1);
    flood(s, &dice, scaled(20000), 2, EXHAUSTED - 1);
    assert_int_equal(keys_in(s, 1, EXHAUSTED), 500);
    free_shard(s);
}

static void V2_with_equal_consumption_the_largest_class_is_evicted(void **state)
{
    struct dice dice = dice_new();
    struct shard *s = new_shard(HOMES);

    (void)state;
    fill(s, &dice, 300, 1, EXHAUSTED);
    fill(s, &dice, 700, 2, EXHAUSTED);
    flood(s, &dice, 400, 2, EXHAUSTED);
    assert_int_equal(keys_in(s, 1, EXHAUSTED), 300);
    flood(s, &dice, 5000, 1, EXHAUSTED);
    assert_in_range(keys_in(s, 1, EXHAUSTED), 499, 501);
    free_shard(s);
}

/* A level that rises is not marked at once; the search sees it all the same. */
static void V2_a_key_that_was_consumed_since_is_not_taken_for_a_fresh_one(void **state)
{
    struct dice dice = dice_new();
    struct shard *s = new_shard(HOMES);
    struct key fresh;

    (void)state;
    fill(s, &dice, FULL - 1, 1, 0);
    shard_mark_all(s);
    for (uint32_t i = 0; i < shard_cells(s->homes); i++)
        if (is_used(&s->cells[i]))
            shard_stamp(s, &s->cells[i], LATER, EXHAUSTED, 1);
    fresh = fill(s, &dice, 1, 1, EXHAUSTED - 1);
    for (int i = 0; i < 100; i++) {
        const struct cell dropped = drop_one(s, &any);

        assert_int_equal(dropped.key.low, fresh.low);
        fresh = fill(s, &dice, 1, 1, EXHAUSTED - 1);
    }
    assert_rules_hold(s);
    free_shard(s);
}

static void of_keys_that_are_alike_one_that_ends_soon_goes(void **state)
{
    struct dice dice = dice_new();
    struct shard *s = new_shard(HOMES);
    int soon = 0;

    (void)state;
    for (int i = 0; i < FULL; i++)
        assert_true(put_of(s, random_key(&dice, false), i % 2 ? LATER : 2 * LATER, EXHAUSTED, 1));
    for (int i = 0; i < 300; i++)
        soon += drop_one(s, &any).expires == LATER;
    assert_in_range(soon, 250, 300); /* the best of some, not of all */
    free_shard(s);
}

static void expired_keys_are_evicted_first(void **state)
{
    struct dice dice = dice_new();
    struct shard *s = new_shard(HOMES);
    const struct eviction later = { .now = NOW + 1 };

    (void)state;
    fill(s, &dice, FULL / 2, 1, 0);
    for (int i = 0; i < FULL / 2; i++)
        assert_true(put_of(s, random_key(&dice, false), NOW + 1, EXHAUSTED, 2));
    assert_true(drop_one(s, &any).expires == LATER);
    for (int i = 0; i < FULL / 4; i++)
        assert_true(drop_one(s, &later).expires == NOW + 1);
    free_shard(s);
}

static void a_spared_key_stays_even_if_it_is_the_only_one(void **state)
{
    struct dice dice = dice_new();
    struct shard *s = new_shard(HOMES);
    const struct key low = fill(s, &dice, 1, 1, 0), high = fill(s, &dice, 1, 2, EXHAUSTED);
    const struct key both[] = { low, high };
    const struct eviction spares_low = { NOW, false, both, 1 },
                          spares_both = { NOW, false, both, 2 },
                          wants_beside = { NOW, true, NULL, 0 };

    (void)state;
    assert_int_equal(eviction_victim(s, &spares_both), EVICTION_NONE);
    assert_int_equal(eviction_victim(s, &wants_beside), EVICTION_NONE);
    assert_true(shard_has(s, eviction_victim(s, &spares_low), high));
    assert_true(shard_has(s, eviction_victim(s, &any), low));
    free_shard(s);
}

/* As many searches as there are keys, and each has to pass all the others. */
static void V3_a_search_ends_whatever_is_left(void **state)
{
    struct dice dice = dice_new();
    struct shard *s = new_shard(HOMES);

    (void)state;
    for (int i = 0; i < FULL; i++)
        assert_true(put_of(s, random_key(&dice, false), LATER - i,
                           (uint32_t)dice_below(&dice, SHARD_LEVELS),
                           (uint32_t)dice_below(&dice, LIMIT_CLASSES)));
    for (int i = 0; i < FULL; i++)
        drop_one(s, &any);
    assert_int_equal(eviction_victim(s, &any), EVICTION_NONE);
    assert_int_equal(s->count, 0);
    assert_rules_hold(s);
    free_shard(s);
}

/* Two classes in turns, which is where a hand that both share would heap keys up. */
static void V4_a_shard_stays_evenly_filled(void **state)
{
    struct dice dice = dice_new();
    struct shard *s = new_shard(HOMES);
    uint64_t away = 0;

    (void)state;
    fill(s, &dice, FULL, 1, 3);
    for (int i = 0; i < scaled(400000); i++) {
        drop_one(s, &any);
        fill(s, &dice, 1, i % 2 ? 1 : 2, i % 2 ? 3 : 0);
    }
    for (uint32_t i = 0; i < shard_cells(s->homes); i++)
        if (is_used(&s->cells[i]))
            away += i - home(s, s->cells[i].key);
    assert_true(away < FULL * 4); /* cells from home, where three of four are taken */
    free_shard(s);
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
        struct eviction e = { .now = NOW, .spared = spared };
        uint32_t obstacle;

        while (put(s, key, LATER, (uint32_t)dice_below(&dice, SHARD_LEVELS))) {
            if (e.spared_count < 16)
                spared[e.spared_count++] = key;
            key = random_key(&dice, false);
        }
        obstacle = eviction_obstacle(s, shard_find(s, key), &e);
        assert_int_not_equal(obstacle, EVICTION_NONE);
        for (size_t i = 0; i < e.spared_count; i++)
            assert_false(shard_has(s, obstacle, spared[i]));
        shard_erase(s, obstacle, shard_memory());
        assert_true(put(s, key, LATER, 0));
        assert_rules_hold(s);
        free_shard(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(V1_a_class_keeps_half_of_an_equal_part),
        cmocka_unit_test(V1_a_class_that_is_pushed_aside_gets_its_part_back),
        cmocka_unit_test(V2_the_least_consumed_class_is_evicted),
        cmocka_unit_test(V2_with_equal_consumption_the_largest_class_is_evicted),
        cmocka_unit_test(V2_a_key_that_was_consumed_since_is_not_taken_for_a_fresh_one),
        cmocka_unit_test(of_keys_that_are_alike_one_that_ends_soon_goes),
        cmocka_unit_test(expired_keys_are_evicted_first),
        cmocka_unit_test(a_spared_key_stays_even_if_it_is_the_only_one),
        cmocka_unit_test(V3_a_search_ends_whatever_is_left),
        cmocka_unit_test(V4_a_shard_stays_evenly_filled),
        cmocka_unit_test(giving_up_an_obstacle_makes_a_gap),
    };

    return cmocka_run_group_tests_name("eviction", tests, NULL, NULL);
}
