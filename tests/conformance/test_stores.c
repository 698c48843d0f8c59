/* test_stores.c - the conformance traces through the library, in every store there is.
 *
 * All traces of a file go through one handle, first one trace after the other, then step by
 * step in turn, so that time jumps back and forth between keys as in no trace alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "conformance/trace.h"
#include "weir.h"

static const char *const stores[] = { "memory:" };
enum { STORE_COUNT = sizeof stores / sizeof stores[0] };

static weir *open_store(const char *store, const char *policy_text)
{
    const weir_options options = {
        .store = store,
        .policy_text = policy_text,
        .flags = WEIR_TRUST_NOW | WEIR_IGNORE_ENVIRONMENT,
    };
    weir_diag diag;
    weir *w;

    if (weir_open(&w, &options, &diag))
        fail_msg("%s: %s", store, diag.text);
    return w;
}

/* Ask for step i of a trace and compare. `round` makes its keys new ones. */
typedef void take_step(weir *w, const struct trace *t, size_t i, int round);

static void run_in_order(weir *w, const struct trace *traces, size_t count, take_step *take,
                         int round)
{
    for (size_t t = 0; t < count; t++)
        for (size_t i = 0; i < traces[t].step_count; i++)
            take(w, &traces[t], i, round);
}

static void run_interleaved(weir *w, const struct trace *traces, size_t count, take_step *take,
                            int round)
{
    bool stepped = true;

    for (size_t i = 0; stepped; i++) {
        stepped = false;
        for (size_t t = 0; t < count; t++)
            if (i < traces[t].step_count) {
                take(w, &traces[t], i, round);
                stepped = true;
            }
    }
}

static void run_both_ways(weir *w, const struct trace *traces, size_t count, take_step *take)
{
    assert_true(count > 0);
    run_in_order(w, traces, count, take, 1);
    run_interleaved(w, traces, count, take, 2);
}

static int64_t cost_of(int64_t cost)
{
    return cost ? cost : WEIR_COST_ZERO;
}

/* ---- limits that come with the request -------------------------------------------------- */

static void take_limit_step(weir *w, const struct trace *t, size_t i, int round)
{
    const struct limit_step s = trace_limit_step(t, i);
    const struct rule *r = &t->rules[0];
    char key[64];
    const weir_request request = {
        .key = key,
        .limit = r->limit,
        .window_ms = r->window,
        .burst = r->burst,
        .precision_ms = r->precision,
        .algorithm = r->algorithm,
        .cost = cost_of(s.cost),
        .now = s.now,
    };
    weir_answer a;
    weir_diag diag;

    snprintf(key, sizeof key, "round %d, line %d: %s", round, t->line, s.key);
    if (s.peek ? weir_peek(w, &request, &a, &diag) : weir_check(w, &request, &a, &diag))
        fail_msg("limits.jsonl:%d step %zu: %s", t->line, i, diag.text);
    if (a.allowed != s.expected.allowed || a.remaining != s.expected.remaining ||
        a.retry_after_ms != s.expected.retry_after || a.reset_after_ms != s.expected.reset_after ||
        a.delay_ms != s.expected.delay || a.limit != r->limit || a.source != WEIR_FROM_STORE)
        fail_msg("limits.jsonl:%d step %zu (%s): got %d %lld %lld %lld %lld", t->line, i,
                 weir_algorithm_name(r->algorithm), a.allowed, (long long)a.remaining,
                 (long long)a.retry_after_ms, (long long)a.reset_after_ms, (long long)a.delay_ms);
}

static void every_limit_trace_matches(void **state)
{
    weir *w = open_store(*state, NULL);
    size_t count;
    struct trace *traces = traces_read("limits.jsonl", &count);

    run_both_ways(w, traces, count, take_limit_step);
    traces_free(traces, count);
    weir_close(w);
}

/* ---- policies --------------------------------------------------------------------------- */

/* A policy for each trace and round; `global` counts all together, the others by their name. */
static char *policy_text_of(const struct trace *traces, size_t count)
{
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);

    assert_non_null(f);
    fprintf(f, "version: 1\npolicies:\n");
    for (int round = 1; round <= 2; round++)
        for (size_t t = 0; t < count; t++) {
            fprintf(f, "  round-%d-line-%d:\n    rules:\n", round, traces[t].line);
            for (size_t i = 0; i < traces[t].rule_count; i++) {
                const struct rule *r = &traces[t].rules[i];
                const char *name = traces[t].names[i];

                fprintf(f, "      %s: {algorithm: %s, limit: %lld per %lldms%s%s}\n", name,
                        weir_algorithm_name(r->algorithm), (long long)r->limit,
                        (long long)r->window, strcmp(name, "global") ? ", by: " : "",
                        strcmp(name, "global") ? name : "");
            }
        }
    fclose(f);
    return text;
}

static bool rule_matches(const weir_rule_answer *a, const struct decision *expected)
{
    return a->allowed == expected->allowed && a->remaining == expected->remaining &&
           a->retry_after_ms == expected->retry_after && a->reset_after_ms == expected->reset_after;
}

static void take_policy_step(weir *w, const struct trace *t, size_t i, int round)
{
    const struct policy_step s = trace_policy_step(t, i);
    const weir_attribute attributes[] = { { "email", s.email, 0 }, { "ip", s.ip, 0 } };
    char policy[64];
    const weir_request request = {
        .policy = policy,
        .attributes = attributes,
        .attribute_count = 2,
        .cost = cost_of(s.cost),
        .now = s.now,
    };
    weir_answer a;
    weir_diag diag;

    snprintf(policy, sizeof policy, "round-%d-line-%d", round, t->line);
    if (weir_check(w, &request, &a, &diag))
        fail_msg("policies.jsonl:%d step %zu: %s", t->line, i, diag.text);
    if (a.allowed != s.allowed || strcmp(a.rule, s.rule) != 0 ||
        a.retry_after_ms != s.retry_after || a.rule_count != t->rule_count)
        fail_msg("policies.jsonl:%d step %zu: got %d %s %lld", t->line, i, a.allowed, a.rule,
                 (long long)a.retry_after_ms);
    for (size_t r = 0; r < t->rule_count; r++)
        if (strcmp(a.rules[r].rule, t->names[r]) != 0 || !rule_matches(&a.rules[r], &s.expected[r]))
            fail_msg("policies.jsonl:%d step %zu: rule %s got %d %lld %lld %lld", t->line, i,
                     a.rules[r].rule, a.rules[r].allowed, (long long)a.rules[r].remaining,
                     (long long)a.rules[r].retry_after_ms, (long long)a.rules[r].reset_after_ms);
}

static void every_policy_trace_matches(void **state)
{
    size_t count;
    struct trace *traces = traces_read("policies.jsonl", &count);
    char *text = policy_text_of(traces, count);
    weir *w = open_store(*state, text);

    free(text);
    run_both_ways(w, traces, count, take_policy_step);
    traces_free(traces, count);
    weir_close(w);
}

int main(void)
{
    struct CMUnitTest tests[2 * STORE_COUNT];
    char names[2 * STORE_COUNT][64];

    for (size_t i = 0; i < STORE_COUNT; i++) {
        void *store = (void *)stores[i];

        snprintf(names[2 * i], sizeof names[0], "every_limit_trace_matches in %s", stores[i]);
        snprintf(names[2 * i + 1], sizeof names[0], "every_policy_trace_matches in %s", stores[i]);
        tests[2 * i] = (struct CMUnitTest){ names[2 * i], every_limit_trace_matches, NULL, NULL,
                                            store };
        tests[2 * i + 1] = (struct CMUnitTest){ names[2 * i + 1], every_policy_trace_matches, NULL,
                                                NULL, store };
    }
    return cmocka_run_group_tests_name("stores", tests, NULL, NULL);
}
