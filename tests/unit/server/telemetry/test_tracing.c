/* test_tracing.c - which checks become spans, and that those which wait are bounded. */
#include "support/unit.h"

#include <pthread.h>

#include "policy/rate.h"
#include "server/telemetry/tracing.h"

static const struct traceparent no_caller = { .is_set = false };
static const struct traceparent recorded = {
    .trace_id = { 1, 2, 3 }, .span_id = { 4, 5 }, .is_sampled = true, .is_set = true
};
static const struct traceparent not_recorded = { .trace_id = { 6 },
                                                 .span_id = { 7 },
                                                 .is_set = true };

/* A check that charged nothing was answered, and the turn was committed. */
static const struct traceparent *answer(struct tracing *t, bool is_allowed, bool is_peek,
                                        const struct traceparent *caller)
{
    weir_answer a = { .allowed = is_allowed, .policy = "login", .rule = "default" };
    const struct check check = { .verb = VERB_CHECK, .peek = is_peek, .answer = &a };
    const struct traceparent *logged = tracing_answer(t, NULL, &check, caller, 1000);

    tracing_decided(t, 3000);
    return logged;
}

static struct tracing *tracing_by(const struct tracing_rule *rule)
{
    struct tracing *t = tracing_new();

    assert_non_null(t);
    tracing_set(t, rule);
    return t;
}

static void a_recorded_trace_of_the_caller_goes_on(void **state)
{
    struct tracing *t = tracing_by(&(struct tracing_rule){ .follows_caller = true });
    struct trace_span spans[4];

    (void)state;
    answer(t, true, false, &no_caller);
    answer(t, true, false, &not_recorded);
    answer(t, true, true, &recorded); /* a peek is no decision */
    assert_int_equal(tracing_waiting(t), 0);
    answer(t, true, false, &recorded);
    answer(t, false, false, &recorded);
    assert_int_equal(tracing_waiting(t), 2);
    assert_int_equal(tracing_take(t, spans, 4), 2);
    assert_int_equal(tracing_waiting(t), 0);
    for (int i = 0; i < 2; i++) {
        assert_memory_equal(spans[i].trace_id, recorded.trace_id, TRACE_ID);
        assert_memory_equal(spans[i].parent_id, recorded.span_id, SPAN_ID);
        assert_true(spans[i].has_parent);
        assert_false(spans[i].has_tag);
        assert_string_equal(spans[i].policy, "login");
        assert_int_equal(spans[i].ended_ns - spans[i].began_ns, 2000);
    }
    assert_int_equal(spans[0].outcome, OUTCOME_ALLOWED);
    assert_int_equal(spans[1].outcome, OUTCOME_DENIED);
    assert_memory_not_equal(spans[0].span_id, spans[1].span_id, SPAN_ID);
    tracing_free(t);
}

static void a_caller_need_not_be_followed(void **state)
{
    struct tracing *t = tracing_by(&(struct tracing_rule){ .follows_caller = false });

    (void)state;
    answer(t, false, false, &recorded);
    assert_int_equal(tracing_waiting(t), 0);
    tracing_free(t);
}

static void shares_are_of_denied_and_of_all(void **state)
{
    const struct tracing_rule rule = { .denied = SHARE_ALL, .all = SHARE_ALL / 4 };
    struct tracing *t = tracing_by(&rule);
    struct trace_span spans[TRACING_MOST_SPANS];
    size_t n;

    (void)state;
    for (int i = 0; i < 100; i++)
        answer(t, false, false, &no_caller);
    n = tracing_take(t, spans, TRACING_MOST_SPANS);
    assert_int_equal(n, 100);
    assert_false(spans[0].has_parent);
    assert_memory_not_equal(spans[0].trace_id, spans[1].trace_id, TRACE_ID);
    for (int i = 0; i < 4000; i++)
        answer(t, true, false, &not_recorded);
    n = tracing_take(t, spans, TRACING_MOST_SPANS);
    assert_in_range(n, 800, 1200); /* seven standard deviations */
    assert_memory_equal(spans[0].trace_id, not_recorded.trace_id, TRACE_ID);
    tracing_set(t, &(struct tracing_rule){ .denied = 0 });
    answer(t, false, false, &no_caller);
    assert_int_equal(tracing_waiting(t), 0);
    tracing_free(t);
}

static void the_log_gets_the_ids_of_callers_if_it_is_to(void **state)
{
    struct tracing *t = tracing_by(&(struct tracing_rule){ .is_logged = true });

    (void)state;
    assert_ptr_equal(answer(t, false, false, &not_recorded), &not_recorded);
    assert_null(answer(t, false, false, &no_caller));
    assert_null(answer(t, false, true, &not_recorded));
    tracing_set(t, &(struct tracing_rule){ .is_logged = false });
    assert_null(answer(t, false, false, &not_recorded));
    assert_int_equal(tracing_waiting(t), 0);
    tracing_free(t);
}

static void spans_that_wait_are_bounded(void **state)
{
    struct tracing *t = tracing_by(&(struct tracing_rule){ .all = SHARE_ALL });
    struct trace_span spans[TRACING_MOST_SPANS];

    (void)state;
    for (int i = 0; i < TRACING_MOST_SPANS + 10; i++)
        answer(t, true, false, &no_caller);
    assert_int_equal(tracing_waiting(t), TRACING_MOST_SPANS);
    assert_int_equal(tracing_dropped(t), 10);
    assert_int_equal(tracing_take(t, spans, 100), 100);
    for (int i = 0; i < 200; i++)
        answer(t, false, false, &no_caller);
    assert_int_equal(tracing_dropped(t), 110);
    assert_int_equal(tracing_take(t, spans, TRACING_MOST_SPANS), TRACING_MOST_SPANS);
    assert_int_equal(spans[TRACING_MOST_SPANS - 101].outcome, OUTCOME_ALLOWED);
    assert_int_equal(spans[TRACING_MOST_SPANS - 100].outcome, OUTCOME_DENIED);
    tracing_free(t);
}

static void a_span_is_handed_over_when_its_turn_is_committed(void **state)
{
    struct tracing *t = tracing_by(&(struct tracing_rule){ .all = SHARE_ALL });
    weir_answer a = { .allowed = true, .rule = "default" };
    const struct check check = { .verb = VERB_CHECK, .answer = &a };

    (void)state;
    tracing_answer(t, NULL, &check, &no_caller, 1);
    assert_int_equal(tracing_waiting(t), 0);
    tracing_decided(t, 2);
    assert_int_equal(tracing_waiting(t), 1);
    tracing_free(t);
}

enum { MANY = 200000 };

static void *take_all(void *ctx)
{
    struct trace_span spans[64];
    size_t taken = 0;

    while (taken + tracing_dropped(ctx) < (size_t)MANY) {
        const size_t n = tracing_take(ctx, spans, 64);

        for (size_t i = 0; i < n; i++)
            if (spans[i].ended_ns - spans[i].began_ns != 2000 || !spans[i].policy)
                return "a span is torn";
        taken += n;
    }
    return NULL;
}

static void a_loop_and_a_taker_do_not_wait_for_each_other(void **state)
{
    struct tracing *t = tracing_by(&(struct tracing_rule){ .all = SHARE_ALL });
    pthread_t taker;
    void *problem;

    (void)state;
    assert_int_equal(pthread_create(&taker, NULL, take_all, t), 0);
    for (int i = 0; i < MANY; i++)
        answer(t, true, false, &no_caller);
    pthread_join(taker, &problem);
    assert_null(problem);
    tracing_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_recorded_trace_of_the_caller_goes_on),
        cmocka_unit_test(a_caller_need_not_be_followed),
        cmocka_unit_test(shares_are_of_denied_and_of_all),
        cmocka_unit_test(the_log_gets_the_ids_of_callers_if_it_is_to),
        cmocka_unit_test(spans_that_wait_are_bounded),
        cmocka_unit_test(a_span_is_handed_over_when_its_turn_is_committed),
        cmocka_unit_test(a_loop_and_a_taker_do_not_wait_for_each_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
