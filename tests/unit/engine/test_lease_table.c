/* test_lease_table.c - chunks of limits in memory: each rule, and many threads on one key. */
#include "support/unit.h"

#include <pthread.h>

#include "engine/lease_table.h"

static const struct rule day = { WEIR_FIXED_WINDOW, 100000, 86400000, .burst = 100000 };
static const struct rule other_plan = { WEIR_FIXED_WINDOW, 10, 86400000, .burst = 10 };
static const struct policy_lease usual = { .ttl = 1000 };

enum { ASKED = 5000 };

static struct lease_table *open_table(void)
{
    const weir_allocator allocator = heap();
    struct lease_table *t = lease_table_new(&allocator);

    assert_non_null(t);
    return t;
}

static struct lease_wish one_of(uint64_t key, int64_t cost)
{
    return (struct lease_wish){
        .key = { key, key }, .rule = &day, .terms = &usual, .instances = 1, .cost = cost
    };
}

static bool spends(struct lease_table *t, const struct lease_wish *wish, int64_t now)
{
    struct lease_found found;
    const bool is_spent = lease_table_spend(t, wish, now, &found);

    if (found.chunk > 0) /* the store does not say anything */
        lease_table_refused(t, wish->key, -1);
    return is_spent;
}

/* The key is asked for until a chunk is wanted; that much is. */
static int64_t heat(struct lease_table *t, const struct lease_wish *wish, int64_t now)
{
    const struct decision said = { .allowed = true, .remaining = 90000, .reset_after = 86400000 };
    struct lease_found found = { .chunk = 0 };

    for (int i = 0; i < 2 * LEASE_HOT && found.chunk == 0; i++) {
        assert_false(lease_table_spend(t, wish, now, &found));
        lease_table_learn(t, wish->key, &said, now);
    }
    return found.chunk;
}

static struct lease_grant grant_of(uint64_t id, int64_t amount, int64_t asked)
{
    return (struct lease_grant){
        .id = { id, id },
        .amount = amount,
        .ttl = usual.ttl,
        .asked = asked,
        .answered = asked + 2,
        .remaining = 50000,
        .reset_after = 86400000,
        .counts = "requests",
    };
}

static void grant(struct lease_table *t, uint64_t key, int64_t amount, int64_t asked)
{
    const struct lease_wish wish = one_of(key, 1);
    const struct lease_grant g = grant_of(key, amount, asked);

    assert_true(heat(t, &wish, asked) > 0);
    assert_true(lease_table_granted(t, &wish, &g));
}

static size_t take_ended(struct lease_table *t, int64_t now, struct lease_end *out)
{
    return lease_table_take_ended(t, now, false, out, 8);
}

/* ---- the rules ------------------------------------------------------------------------------ */

static void what_was_granted_is_spent_and_no_more(void **state)
{
    struct lease_table *t = open_table();
    const struct lease_wish one = one_of(1, 1), three = one_of(1, 3);
    struct lease_found found;

    (void)state;
    grant(t, 1, 10, ASKED);
    assert_true(lease_table_spend(t, &three, ASKED + 5, &found));
    assert_int_equal(found.decision.remaining, 7);
    assert_int_equal(found.decision.reset_after, 86400000 - 3);
    for (int i = 0; i < 5; i++)
        assert_true(spends(t, &one, ASKED + 5));
    assert_false(spends(t, &three, ASKED + 5)); /* 2 are left */
    assert_true(spends(t, &one, ASKED + 5));
    assert_true(spends(t, &one, ASKED + 5));
    assert_false(spends(t, &one, ASKED + 5));
    lease_table_unspend(t, one.key, (struct key){ 1, 1 }, 1);
    assert_true(spends(t, &one, ASKED + 5));
    assert_false(spends(t, &one, ASKED + 5));
    lease_table_free(t);
}

static void nothing_is_spent_from_its_end_on(void **state)
{
    const int64_t ttl_end = ASKED + 1000 - 10 - 1, window_end = ASKED + 300 - 3 - 1;
    struct lease_table *t = open_table();
    const struct lease_wish first = one_of(1, 1), second = one_of(2, 1);
    struct lease_grant g = grant_of(2, 1000, ASKED);

    (void)state;
    grant(t, 1, 1000, ASKED);
    assert_true(spends(t, &first, ttl_end - 1));
    assert_false(spends(t, &first, ttl_end));
    assert_false(spends(t, &first, ttl_end + 3600000));

    assert_true(heat(t, &second, ASKED) > 0);
    g.reset_after = 300; /* its window ends before it does */
    assert_true(lease_table_granted(t, &second, &g));
    assert_true(spends(t, &second, window_end - 1));
    assert_false(spends(t, &second, window_end));
    lease_table_free(t);
}

/* An answer that took long may come when it is over, or nearly. */
static void a_chunk_that_came_too_late_is_not_taken(void **state)
{
    struct lease_table *t = open_table();
    const struct lease_wish wish = one_of(1, 1);
    struct lease_grant g = grant_of(1, 100, ASKED);

    (void)state;
    assert_true(heat(t, &wish, ASKED) > 0);
    g.answered = ASKED + 5000;
    assert_false(lease_table_granted(t, &wish, &g));
    assert_false(spends(t, &wish, g.answered));
    lease_table_free(t);
}

static void a_recalled_chunk_is_not_spent_from_and_goes_back(void **state)
{
    struct lease_table *t = open_table();
    const struct lease_wish first = one_of(1, 1), second = one_of(2, 1);
    struct lease_end ends[8];
    struct lease_found found;

    (void)state;
    grant(t, 1, 100, ASKED);
    grant(t, 2, 100, ASKED);
    assert_true(spends(t, &first, ASKED + 5));
    lease_table_recall(t, first.key, ASKED + 6);
    assert_false(lease_table_spend(t, &first, ASKED + 6, &found));
    assert_true(found.chunk > 0); /* with the request for another one */
    assert_int_equal(found.ended.spent, 1);
    assert_int_equal(found.ended.amount, 100);
    assert_true(spends(t, &second, ASKED + 6));
    assert_int_equal(take_ended(t, ASKED + 7, ends), 0);

    lease_table_recall_all(t, ASKED + 8);
    assert_int_equal(take_ended(t, ASKED + 8, ends), 1); /* or without */
    assert_int_equal(ends[0].spent, 1);
    assert_false(spends(t, &second, ASKED + 8));
    assert_true(lease_table_is_empty(t));
    lease_table_free(t);
}

static void what_was_asked_for_before_a_recall_is_not_taken(void **state)
{
    struct lease_table *t = open_table();
    const struct lease_wish wish = one_of(1, 1);
    const struct lease_grant before = grant_of(1, 100, ASKED), after = grant_of(2, 100, ASKED + 2);

    (void)state;
    assert_true(heat(t, &wish, ASKED) > 0);
    lease_table_recall(t, wish.key, ASKED + 1);
    assert_false(lease_table_granted(t, &wish, &before));
    assert_false(spends(t, &wish, ASKED + 3));
    assert_true(heat(t, &wish, ASKED + 2) > 0);
    assert_true(lease_table_granted(t, &wish, &after));
    assert_true(spends(t, &wish, ASKED + 4));
    lease_table_free(t);
}

static void a_chunk_is_for_the_numbers_that_it_was_granted_for(void **state)
{
    struct lease_table *t = open_table();
    const struct lease_wish usual_one = one_of(1, 1);
    struct lease_wish planned = usual_one;

    (void)state;
    planned.rule = &other_plan;
    grant(t, 1, 100, ASKED);
    assert_false(spends(t, &planned, ASKED + 5));
    assert_true(spends(t, &usual_one, ASKED + 5));
    lease_table_free(t);
}

static void one_request_of_a_key_is_under_way(void **state)
{
    struct lease_table *t = open_table();
    const struct lease_wish wish = one_of(1, 1);
    struct lease_found found;

    (void)state;
    assert_true(heat(t, &wish, ASKED) > 0);
    for (int i = 0; i < 100; i++) {
        assert_false(lease_table_spend(t, &wish, ASKED, &found));
        assert_int_equal(found.chunk, 0);
    }
    lease_table_free(t);
}

static void the_next_chunk_is_asked_for_before_the_first_is_used_up(void **state)
{
    struct lease_table *t = open_table();
    const struct lease_wish wish = one_of(1, 1);
    const struct lease_grant next = grant_of(2, 50, ASKED + 6);
    struct lease_found found;
    int spent = 0;

    (void)state;
    grant(t, 1, 20, ASKED);
    do {
        assert_true(lease_table_spend(t, &wish, ASKED + 5, &found));
        spent++;
    } while (found.chunk == 0);
    assert_int_equal(spent, 10);
    assert_true(lease_table_granted(t, &wish, &next));
    for (; spent < 20 + 25; spent++) { /* the old one first */
        assert_true(lease_table_spend(t, &wish, ASKED + 9, &found));
        assert_int_equal(found.id.low, spent < 20 ? 1 : 2);
    }
    assert_true(found.chunk > 0); /* half of the next is spent: the first goes to be settled */
    assert_int_equal(found.ended.id.low, 1);
    assert_int_equal(found.ended.spent, 20);
    lease_table_free(t);
}

static void what_is_left_goes_back_in_time(void **state)
{
    struct lease_table *t = open_table();
    const struct lease_wish wish = one_of(1, 1);
    struct lease_end ends[8];
    int64_t now = ASKED + 2;

    (void)state;
    grant(t, 1, 1000, ASKED);
    for (; now < ASKED + 700; now += 100) { /* it is in use */
        assert_true(spends(t, &wish, now));
        assert_int_equal(take_ended(t, now, ends), 0);
    }
    assert_true(spends(t, &wish, ASKED + 745)); /* three quarters of its time are over */
    assert_int_equal(take_ended(t, ASKED + 745, ends), 1);
    assert_int_equal(ends[0].spent, 8);

    grant(t, 2, 1000, ASKED);
    assert_int_equal(take_ended(t, ASKED + 251, ends), 0);
    assert_int_equal(take_ended(t, ASKED + 252, ends), 1); /* not asked for since it came */
    lease_table_free(t);
}

/* The process was stopped: the store has taken it for spent, and must not be told otherwise. */
static void what_is_too_late_to_go_back_is_stranded(void **state)
{
    struct lease_table *t = open_table();
    const struct lease_wish wish = one_of(1, 1);
    struct lease_stats stats;
    struct lease_end ends[8];

    (void)state;
    grant(t, 1, 1000, ASKED);
    assert_true(spends(t, &wish, ASKED + 5));
    assert_int_equal(take_ended(t, ASKED + 1000, ends), 0);
    assert_true(lease_table_is_empty(t));
    lease_table_get_stats(t, &stats);
    assert_int_equal(stats.granted, 1000);
    assert_int_equal(stats.spent, 1);
    assert_int_equal(stats.returned, 0);
    assert_int_equal(stats.stranded, 999);
    lease_table_free(t);
}

static void chunks_are_a_part_of_what_remains_and_none_near_the_limit(void **state)
{
    struct lease_table *t = open_table();
    struct lease_wish wish = one_of(1, 1000);
    struct decision said = { .allowed = true,
                             .remaining = LEASE_PARTS * LEASE_INSTANCES * LEASE_LEAST - 1,
                             .reset_after = 86400000 };
    struct lease_found found;

    (void)state;
    wish.instances = 1;
    wish.cost = 1;
    for (int i = 0; i < 1000; i++) {
        assert_false(lease_table_spend(t, &wish, ASKED, &found));
        assert_int_equal(found.chunk, 0);
        lease_table_learn(t, wish.key, &said, ASKED);
    }
    said.remaining = 640;
    wish.instances = 8;
    lease_table_learn(t, wish.key, &said, ASKED);
    assert_false(lease_table_spend(t, &wish, ASKED, &found));
    assert_int_equal(found.chunk, 20);
    lease_table_free(t);
}

/* One after the other, each as if it were alone: all of them take two chunks. */
static void instances_that_do_not_know_how_many_they_are_hold_half_of_what_remains(void **state)
{
    enum { MANY = 500 };
    struct decision said = { .allowed = true, .remaining = MANY, .reset_after = 86400000 };
    const struct lease_wish wish = one_of(1, 1);

    (void)state;
    for (int i = 0; i < LEASE_INSTANCES; i++) {
        struct lease_table *t = open_table();
        struct lease_found found;

        for (uint64_t chunks = 0; chunks < 2;) {
            if (!lease_table_spend(t, &wish, ASKED + 1, &found))
                lease_table_learn(t, wish.key, &said, ASKED + 1);
            if (found.chunk > 0) {
                struct lease_grant g = grant_of(++chunks, found.chunk, ASKED + 1);

                said.remaining -= found.chunk;
                g.remaining = said.remaining;
                assert_true(lease_table_granted(t, &wish, &g));
            }
        }
        lease_table_free(t);
    }
    assert_true(said.remaining >= MANY / 2);
}

static void a_key_that_is_asked_for_seldom_has_no_chunk(void **state)
{
    const struct decision said = { .allowed = true, .remaining = 90000, .reset_after = 86400000 };
    struct lease_table *t = open_table();
    const struct lease_wish wish = one_of(1, 1);
    struct lease_found found;

    (void)state;
    for (int i = 0; i < 1000; i++) {
        assert_false(lease_table_spend(t, &wish, ASKED + 200 * i, &found));
        assert_int_equal(found.chunk, 0);
        lease_table_learn(t, wish.key, &said, ASKED + 200 * i);
    }
    lease_table_free(t);
}

static void without_room_no_chunk_is_taken(void **state)
{
    struct lease_table *t = open_table();
    struct lease_wish wish = one_of(0, 1);

    (void)state;
    for (uint64_t i = 1; i <= LEASE_WAYS; i++) /* all in one set */
        grant(t, i * LEASE_SETS, 100, ASKED);
    wish.key = (struct key){ LEASE_SETS * 99, LEASE_SETS * 99 };
    assert_int_equal(heat(t, &wish, ASKED), 0);
    for (uint64_t i = 1; i <= LEASE_WAYS; i++) {
        const struct lease_wish kept = one_of(i * LEASE_SETS, 1);

        assert_true(spends(t, &kept, ASKED + 5));
    }
    lease_table_free(t);
}

/* ---- threads -------------------------------------------------------------------------------- */

enum { THREADS = 4, CHUNKS_GRANTED = 2000 };

struct crowd {
    struct lease_table *t;
    _Atomic int64_t granted, spent, returned, ids;
};

static void *crowd_work(void *ctx)
{
    struct crowd *c = ctx;
    const struct lease_wish wish = one_of(1, 1);
    const struct decision said = { .allowed = true, .remaining = 90000, .reset_after = 86400000 };
    struct lease_end ends[8];
    struct lease_found found;

    while (atomic_load(&c->ids) < CHUNKS_GRANTED) {
        if (lease_table_spend(c->t, &wish, ASKED, &found))
            atomic_fetch_add(&c->spent, 1);
        else
            lease_table_learn(c->t, wish.key, &said, ASKED);
        if (found.ended.amount > 0)
            atomic_fetch_add(&c->returned, found.ended.amount - found.ended.spent);
        if (found.chunk > 0) {
            const uint64_t id = (uint64_t)atomic_fetch_add(&c->ids, 1) + 1;
            const struct lease_grant g = grant_of(id, 1 + (int64_t)(id % 40), ASKED);

            atomic_fetch_add(&c->granted, g.amount);
            if (!lease_table_granted(c->t, &wish, &g))
                atomic_fetch_add(&c->returned, g.amount);
            if (id % 16 == 0) {
                const size_t n = lease_table_take_ended(c->t, ASKED, true, ends, 8);

                for (size_t i = 0; i < n; i++)
                    atomic_fetch_add(&c->returned, ends[i].amount - ends[i].spent);
            }
        }
    }
    return NULL;
}

static void threads_spend_each_unit_once(void **state)
{
    struct crowd c = { .t = open_table() };
    pthread_t threads[THREADS];
    struct lease_end ends[8];
    size_t n;

    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, crowd_work, &c), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    while ((n = lease_table_take_ended(c.t, ASKED, true, ends, 8)) > 0)
        for (size_t i = 0; i < n; i++)
            c.returned += ends[i].amount - ends[i].spent;
    assert_true(c.spent > 0);
    assert_int_equal(c.granted, c.spent + c.returned);
    lease_table_free(c.t);
}

/* ---- what ages ---------------------------------------------------------------------------------- */

static const struct rule bucket = {
    .algorithm = WEIR_TOKEN_BUCKET, .limit = 100000, .window = 86400000, .burst = 100000
};

static struct lease_wish one_of_bucket(void)
{
    struct lease_wish wish = one_of(1, 1);

    wish.rule = &bucket;
    wish.is_alone = true;
    return wish;
}

/* L2: it stands still in the store, so it lasts as long as it was asked for. */
static void a_chunk_that_ages_lasts_for_its_ttl_whenever_its_key_is_untouched(void **state)
{
    struct lease_table *t = open_table();
    const struct lease_wish wish = one_of_bucket();
    struct lease_grant g = grant_of(1, 50, ASKED);

    (void)state;
    g.reset_after = 3; /* an almost empty bucket */
    assert_true(heat(t, &wish, ASKED) > 0);
    assert_true(lease_table_granted(t, &wish, &g));
    assert_true(spends(t, &wish, ASKED + usual.ttl - usual.ttl / 100 - 2));
    assert_false(spends(t, &wish, ASKED + usual.ttl - usual.ttl / 100 - 1));
    lease_table_free(t);
}

/* L6: it ages from then on. */
static void a_chunk_that_ages_goes_back_as_soon_as_it_is_used_up(void **state)
{
    struct lease_table *t = open_table();
    const struct lease_wish wish = one_of_bucket();
    const struct lease_grant g = grant_of(7, 4, ASKED);
    struct lease_found found;

    (void)state;
    assert_true(heat(t, &wish, ASKED) > 0);
    assert_true(lease_table_granted(t, &wish, &g));
    for (int i = 1; i <= 4; i++) {
        assert_true(lease_table_spend(t, &wish, ASKED + 2, &found));
        if (found.chunk > 0)
            lease_table_refused(t, wish.key, -1);
        assert_int_equal(found.ended.amount, i == 4 ? 4 : 0);
    }
    assert_int_equal(found.ended.spent, 4);
    assert_true(lease_table_is_empty(t));
    lease_table_free(t);
}

static void a_chunk_of_a_sliding_window_is_held_for_a_small_part_of_it(void **state)
{
    const struct rule log = { .algorithm = WEIR_SLIDING_WINDOW, .limit = 100, .window = 12000 };
    const struct rule slow = { .algorithm = WEIR_SLIDING_COUNTER, .limit = 100, .window = 3600000 };

    (void)state;
    assert_int_equal(lease_hold(&log, &usual), 300);
    assert_int_equal(lease_hold(&slow, &usual), usual.ttl);
    assert_int_equal(lease_hold(&bucket, &usual), usual.ttl);
}

/* Held for 300 ms, it goes back after 225, and is still taken back if a busy machine is late. */
static void a_chunk_of_a_sliding_window_that_comes_back_late_is_not_lost(void **state)
{
    const struct rule log = { .algorithm = WEIR_SLIDING_WINDOW, .limit = 100, .window = 12000 };
    const struct {
        int64_t at;
        size_t ended;
        int64_t returned, stranded;
    } cases[] = { { 224, 0, 0, 0 }, { 225, 1, 7, 0 }, { 999, 1, 7, 0 }, { 1000, 0, 0, 7 } };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lease_table *t = open_table();
        struct lease_wish wish = one_of(1, 1);
        const struct lease_grant g = grant_of(1, 10, ASKED);
        struct lease_end ends[8];
        struct lease_stats stats;

        wish.rule = &log;
        assert_true(heat(t, &wish, ASKED) > 0);
        assert_true(lease_table_granted(t, &wish, &g));
        assert_true(spends(t, &wish, ASKED + 2));
        assert_true(spends(t, &wish, ASKED + 299));
        assert_false(spends(t, &wish, ASKED + 300));
        assert_true(spends(t, &wish, ASKED + 200)); /* it is not idle */
        assert_int_equal(take_ended(t, ASKED + cases[i].at, ends), cases[i].ended);
        lease_table_get_stats(t, &stats);
        assert_int_equal(stats.returned, cases[i].returned);
        assert_int_equal(stats.stranded, cases[i].stranded);
        lease_table_free(t);
    }
}

/* 10 a second: the first has its turn 500 ms after the answer, as the store said. What is let in after
 * its turn waits only for what was let in here before it. */
static void units_of_a_leaky_bucket_wait_for_their_turn(void **state)
{
    const struct rule leaky = {
        .algorithm = WEIR_LEAKY_BUCKET, .limit = 10, .window = 1000, .burst = 1000
    };
    struct lease_table *t = open_table();
    struct lease_wish wish = one_of(1, 1);
    struct lease_grant g = grant_of(1, 20, ASKED);
    struct lease_found found;

    (void)state;
    wish.rule = &leaky;
    g.delay = 500;
    assert_true(heat(t, &wish, ASKED) > 0);
    assert_true(lease_table_granted(t, &wish, &g));
    for (int i = 0; i < 3; i++) {
        assert_true(lease_table_spend(t, &wish, g.answered + 50, &found));
        if (found.chunk > 0)
            lease_table_refused(t, wish.key, -1);
        assert_int_equal(found.decision.delay, 450 + 100 * i);
    }
    for (int i = 0; i < 3; i++) {
        assert_true(lease_table_spend(t, &wish, g.answered + 960, &found));
        if (found.chunk > 0)
            lease_table_refused(t, wish.key, -1);
        assert_int_equal(found.decision.delay, i == 0 ? 0 : i == 1 ? 100 : 200);
    }
    lease_table_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_granted_is_spent_and_no_more),
        cmocka_unit_test(nothing_is_spent_from_its_end_on),
        cmocka_unit_test(a_chunk_that_came_too_late_is_not_taken),
        cmocka_unit_test(a_recalled_chunk_is_not_spent_from_and_goes_back),
        cmocka_unit_test(what_was_asked_for_before_a_recall_is_not_taken),
        cmocka_unit_test(a_chunk_is_for_the_numbers_that_it_was_granted_for),
        cmocka_unit_test(one_request_of_a_key_is_under_way),
        cmocka_unit_test(the_next_chunk_is_asked_for_before_the_first_is_used_up),
        cmocka_unit_test(what_is_left_goes_back_in_time),
        cmocka_unit_test(what_is_too_late_to_go_back_is_stranded),
        cmocka_unit_test(chunks_are_a_part_of_what_remains_and_none_near_the_limit),
        cmocka_unit_test(instances_that_do_not_know_how_many_they_are_hold_half_of_what_remains),
        cmocka_unit_test(a_key_that_is_asked_for_seldom_has_no_chunk),
        cmocka_unit_test(without_room_no_chunk_is_taken),
        cmocka_unit_test(threads_spend_each_unit_once),
        cmocka_unit_test(a_chunk_that_ages_lasts_for_its_ttl_whenever_its_key_is_untouched),
        cmocka_unit_test(a_chunk_that_ages_goes_back_as_soon_as_it_is_used_up),
        cmocka_unit_test(a_chunk_of_a_sliding_window_is_held_for_a_small_part_of_it),
        cmocka_unit_test(a_chunk_of_a_sliding_window_that_comes_back_late_is_not_lost),
        cmocka_unit_test(units_of_a_leaky_bucket_wait_for_their_turn),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
