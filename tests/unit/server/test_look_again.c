/* test_look_again.c - when a loop looks again before it sleeps, and when it waits to gather. */
#include "support/unit.h"

#include "server/look_again.h"

enum { MANY = 200 };

static const struct turn_work lone = { 1, 1, 1 }, several = { 5, 1, 1 };

struct looker {
    struct look_again l;
    uint64_t now;
};

static void begin(struct looker *s)
{
    *s = (struct looker){ .now = 1000 * 1000 * 1000 };
    look_again_init(&s->l);
    s->l.has_other_core = true;
}

static bool is_looking(const struct looker *s)
{
    return s->l.is_looking;
}

/* A turn that ends `pause` after the last one. */
static void work_after(struct looker *s, uint64_t pause, const struct turn_work *work)
{
    s->now += pause;
    look_again_at(&s->l, s->now, true, work);
}

static void work_many(struct looker *s, size_t n, const struct turn_work *work)
{
    for (size_t i = 0; i < n; i++)
        work_after(s, 1000, work);
}

static void a_loop_with_work_now_and_then_sleeps_at_once(void **state)
{
    struct looker s;

    (void)state;
    begin(&s);
    for (size_t i = 0; i < MANY; i++) {
        work_after(&s, 1000 * 1000, &lone);
        assert_false(is_looking(&s));
        work_many(&s, 4, &lone); /* a few together are not enough */
        assert_false(is_looking(&s));
    }
}

static void short_pauses_make_it_look_until_there_is_a_long_one(void **state)
{
    struct looker s;

    (void)state;
    begin(&s);
    work_many(&s, MANY, &several);
    assert_true(is_looking(&s));
    look_again_at(&s.l, s.now + 199 * 1000, false, &(struct turn_work){ 0 });
    assert_true(is_looking(&s));
    look_again_at(&s.l, s.now + 200 * 1000, false, &(struct turn_work){ 0 });
    assert_false(is_looking(&s));
}

/* Connections that ask in turn, so long after each other, with several turns each. */
static void ask_in_turn_after(struct looker *s, uint64_t pause, uint64_t connections)
{
    for (size_t i = 0; i < 10 * MANY; i++)
        work_after(s, pause,
                   &(struct turn_work){ 1, 1, look_again_serves(&s->l, 1 + i % connections) });
}

static void ask_in_turn(struct looker *s, uint64_t connections)
{
    ask_in_turn_after(s, 100 * 1000, connections);
}

static void it_looks_for_few_connections_and_sleeps_for_many(void **state)
{
    struct looker s;

    (void)state;
    begin(&s);
    ask_in_turn(&s, 8);
    assert_false(is_looking(&s));
    ask_in_turn(&s, LOOK_AGAIN_SERVED);
    assert_true(is_looking(&s));
    ask_in_turn(&s, 8);
    assert_false(is_looking(&s));
}

static void it_looks_for_many_connections_that_keep_it_busy(void **state)
{
    const struct turn_work six_of_many = { 6, 6, 0 };
    struct looker s;

    (void)state;
    begin(&s);
    ask_in_turn_after(&s, 19 * 1000, 100);
    assert_true(is_looking(&s));
    ask_in_turn_after(&s, 20 * 1000, 100);
    assert_false(is_looking(&s));
    for (size_t i = 0; i < MANY; i++)
        work_after(&s, 119 * 1000, &six_of_many);
    assert_true(is_looking(&s));
    for (size_t i = 0; i < MANY; i++)
        work_after(&s, 120 * 1000, &six_of_many);
    assert_false(is_looking(&s));
}

static void with_one_core_it_never_looks(void **state)
{
    struct looker s;

    (void)state;
    begin(&s);
    s.l.has_other_core = false;
    for (size_t i = 0; i < MANY; i++)
        look_again_after(&s.l, true, &several);
    assert_false(is_looking(&s));
}

static void clients_that_send_several_at_once_are_not_kept_waiting(void **state)
{
    struct looker s;

    (void)state;
    begin(&s);
    for (size_t i = 0; i < MANY; i++) {
        work_many(&s, 1, &several);
        assert_int_equal(s.l.gathered, 0);
    }
}

/* Until requests are gathered. */
static void begin_to_gather(struct looker *s)
{
    work_many(s, MANY, &lone);
    while (s->l.gathered == 0)
        work_many(s, 1, &lone);
}

/* A turn that gathers, from a client that sends two requests in the shortest time, with so many under
 * way at most. */
static void gather_after(struct looker *s, uint64_t pause, size_t under_way)
{
    const size_t sent = 2 * s->l.gather_times;

    work_after(s, pause, &(struct turn_work){ sent < under_way ? sent : under_way, 1, 1 });
}

static void requests_that_come_one_by_one_are_gathered_while_that_finds_several(void **state)
{
    struct looker s;

    (void)state;
    begin(&s);
    begin_to_gather(&s);
    for (size_t i = 0; i < MANY; i++) {
        gather_after(&s, 1000, MANY);
        assert_true(s.l.gathered > 0);
        if (i % 8 == 0) { /* one in vain, as at the end of what a client sends at a time */
            work_many(&s, 1, &lone);
            assert_true(s.l.gathered > 0);
        }
    }
}

/* How long it gathers, once it has tried for how long. 0: not at all. */
static unsigned times_gathered(size_t under_way)
{
    struct looker s;
    unsigned times;

    begin(&s);
    begin_to_gather(&s);
    for (size_t i = 0; i < MANY && s.l.gathered > 0; i++)
        gather_after(&s, 1000, under_way);
    times = s.l.gathered > 0 ? s.l.gather_times : 0;
    return times;
}

static void it_gathers_for_longer_while_the_client_has_more_under_way(void **state)
{
    (void)state;
    assert_int_equal(times_gathered(4), 0); /* it waits */
    assert_int_equal(times_gathered(8), 1);
    assert_int_equal(times_gathered(16), 2);
    assert_int_equal(times_gathered(32), 8);
    assert_int_equal(times_gathered(MANY), 8);
}

static unsigned times_gathered_at_once(size_t under_way)
{
    const struct turn_work all = { under_way, 1, 1 };
    struct looker s;
    unsigned times;

    begin(&s);
    begin_to_gather(&s);
    for (size_t i = 0; i < MANY && s.l.gathered > 0; i++)
        work_after(&s, 1000, &all);
    times = s.l.gathered > 0 ? s.l.gather_times : 0;
    return times;
}

static void it_gathers_for_the_shortest_time_if_the_first_finds_all_of_many(void **state)
{
    (void)state;
    assert_int_equal(times_gathered_at_once(9), 0);
    assert_int_equal(times_gathered_at_once(10), 1);
    assert_int_equal(times_gathered_at_once(16), 1);
}

static void a_client_is_silent_while_it_is_busy_with_gathered_answers(void **state)
{
    struct looker s;

    (void)state;
    begin(&s);
    begin_to_gather(&s);
    for (size_t i = 0; i < MANY; i++) {
        gather_after(&s, 1000 * 1000, MANY);
        assert_true(is_looking(&s));
    }
}

static void after_a_long_pause_it_begins_anew(void **state)
{
    struct looker s;

    (void)state;
    begin(&s);
    begin_to_gather(&s);
    for (size_t i = 0; i < MANY; i++)
        gather_after(&s, 1000, MANY);
    gather_after(&s, 99 * 1000 * 1000, MANY);
    assert_true(s.l.gathered > 0);
    gather_after(&s, 100 * 1000 * 1000, MANY);
    assert_int_equal(s.l.gathered, 0);
}

/* How many turns pass from the end of an attempt in vain to the next one? */
static size_t turns_between_attempts(struct looker *s)
{
    size_t n = 0;

    while (s->l.gathered > 0)
        work_many(s, 1, &lone);
    for (; s->l.gathered == 0; n++)
        work_many(s, 1, &lone);
    return n;
}

static void after_an_attempt_in_vain_the_next_is_four_times_as_far(void **state)
{
    struct looker s;
    size_t before, n;

    (void)state;
    begin(&s);
    work_many(&s, MANY, &several); /* it looks */
    before = turns_between_attempts(&s);
    for (size_t i = 0; i < 4; i++) {
        n = turns_between_attempts(&s);
        assert_int_equal(n, 4 * before);
        before = n;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loop_with_work_now_and_then_sleeps_at_once),
        cmocka_unit_test(short_pauses_make_it_look_until_there_is_a_long_one),
        cmocka_unit_test(it_looks_for_few_connections_and_sleeps_for_many),
        cmocka_unit_test(it_looks_for_many_connections_that_keep_it_busy),
        cmocka_unit_test(with_one_core_it_never_looks),
        cmocka_unit_test(clients_that_send_several_at_once_are_not_kept_waiting),
        cmocka_unit_test(requests_that_come_one_by_one_are_gathered_while_that_finds_several),
        cmocka_unit_test(it_gathers_for_longer_while_the_client_has_more_under_way),
        cmocka_unit_test(it_gathers_for_the_shortest_time_if_the_first_finds_all_of_many),
        cmocka_unit_test(a_client_is_silent_while_it_is_busy_with_gathered_answers),
        cmocka_unit_test(after_a_long_pause_it_begins_anew),
        cmocka_unit_test(after_an_attempt_in_vain_the_next_is_four_times_as_far),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
