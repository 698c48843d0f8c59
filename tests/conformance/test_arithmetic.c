/* test_arithmetic.c - the conformance traces against the bare arithmetic of limit/. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "conformance/trace.h"
#include "limit/state.h"

enum { MOST_KEYS = 64 };

/* A table of the simplest kind. */
struct keyed {
    const char *key;
    struct state state;
};

static struct state *find(struct keyed *table, const char *key)
{
    size_t i = 0;

    while (table[i].key && strcmp(table[i].key, key) != 0)
        i++;
    assert_true(i < MOST_KEYS - 1);
    table[i].key = key;
    return &table[i].state;
}

static void every_answer_of_every_trace_matches(void **state)
{
    const weir_allocator heap = alloc_or_default((weir_allocator){ 0 });
    size_t count;
    struct trace *traces = traces_read("limits.jsonl", &count);

    (void)state;
    for (size_t t = 0; t < count; t++) {
        struct rule r = traces[t].rules[0];
        struct keyed table[MOST_KEYS] = { 0 };

        assert_int_equal(rule_check(&r, NULL), WEIR_OK);
        for (size_t i = 0; i < traces[t].step_count; i++) {
            struct limit_step s = trace_limit_step(&traces[t], i);
            struct ask ask = { .now = s.now, .cost = s.cost, .peek = s.peek };
            struct state *at = find(table, s.key);
            struct step step;

            state_take(at, &r, &ask, &step);
            if (step.decision.allowed != s.expected.allowed ||
                step.decision.remaining != s.expected.remaining ||
                step.decision.retry_after != s.expected.retry_after ||
                step.decision.reset_after != s.expected.reset_after ||
                step.decision.delay != s.expected.delay)
                fail_msg("limits.jsonl:%d step %zu (%s): got %d %lld %lld %lld %lld",
                         traces[t].line, i, weir_algorithm_name(r.algorithm), step.decision.allowed,
                         (long long)step.decision.remaining, (long long)step.decision.retry_after,
                         (long long)step.decision.reset_after, (long long)step.decision.delay);
            if (step.decision.allowed && !s.peek && s.cost > 0) {
                assert_true(state_reserve(at, &r, &step, &heap));
                state_apply(at, &r, &step);
            }
        }
        for (size_t i = 0; table[i].key; i++)
            state_done(&table[i].state, r.algorithm, &heap);
    }
    traces_free(traces, count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_answer_of_every_trace_matches),
    };

    return cmocka_run_group_tests_name("arithmetic", tests, NULL, NULL);
}
