/* test_stores.c - the conformance traces through the library, in every store there is.
 *
 * All traces of a file go through one handle, first one trace after the other, then step by
 * step in turn, so that time jumps back and forth between keys as in no trace alone. A store
 * that survives is closed and opened again on the way.
 *
 * WEIR_TEST_STORE may be the URI of one on another machine that has no counters yet: then that is
 * the only one. */
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "conformance/trace.h"
#include "weir.h"

static const struct kind {
    const char *scheme;
    bool survives, wants_directory;
} kinds[] = { { "memory:", false, false }, { "file:", true, true } };
enum { KINDS = sizeof kinds / sizeof kinds[0] };

struct store {
    const struct kind *kind;
    char uri[256], *directory;
    const char *policy_text;
    weir *w;
};

static void open_again(struct store *s)
{
    const weir_options options = {
        .store = s->uri,
        .policy_text = s->policy_text,
        .flags = WEIR_TRUST_NOW | WEIR_IGNORE_ENVIRONMENT,
    };
    weir_diag diag;

    weir_close(s->w);
    if (weir_open(&s->w, &options, &diag))
        fail_msg("%s: %s", s->uri, diag.text);
}

static void open_store(struct store *s, const struct kind *kind, const char *policy_text)
{
    *s = (struct store){ .kind = kind, .policy_text = policy_text };
    snprintf(s->uri, sizeof s->uri, "%s%s", kind->scheme,
             kind->wants_directory ? "/tmp/weir-conformance-XXXXXX" : "");
    if (kind->wants_directory) {
        s->directory = mkdtemp(s->uri + strlen(kind->scheme));
        assert_non_null(s->directory);
    }
    open_again(s);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void close_store(struct store *s)
{
    weir_close(s->w);
    if (s->directory)
        nftw(s->directory, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* Ask for step i of a trace and compare. `round` makes its keys new ones. */
typedef void take_step(weir *w, const struct trace *t, size_t i, int round);

static void run_in_order(struct store *s, const struct trace *traces, size_t count, take_step *take)
{
    for (size_t t = 0; t < count; t++)
        for (size_t i = 0; i < traces[t].step_count; i++)
            take(s->w, &traces[t], i, 1);
}

static void run_interleaved(struct store *s, const struct trace *traces, size_t count,
                            take_step *take)
{
    bool stepped = true;

    for (size_t i = 0; stepped; i++) {
        stepped = false;
        for (size_t t = 0; t < count; t++)
            if (i < traces[t].step_count) {
                take(s->w, &traces[t], i, 2);
                stepped = true;
            }
        if (s->kind->survives && i % 8 == 7)
            open_again(s);
    }
}

static void run_both_ways(struct store *s, const struct trace *traces, size_t count,
                          take_step *take)
{
    assert_true(count > 0);
    run_in_order(s, traces, count, take);
    run_interleaved(s, traces, count, take);
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
    struct store s;
    size_t count;
    struct trace *traces = traces_read("limits.jsonl", &count);

    open_store(&s, *state, NULL);
    run_both_ways(&s, traces, count, take_limit_step);
    close_store(&s);
    traces_free(traces, count);
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
    struct store s;
    size_t count;
    struct trace *traces = traces_read("policies.jsonl", &count);
    char *text = policy_text_of(traces, count);

    open_store(&s, *state, text);
    run_both_ways(&s, traces, count, take_policy_step);
    close_store(&s);
    free(text);
    traces_free(traces, count);
}

static int run_kinds(const struct kind *some, size_t count)
{
    struct CMUnitTest tests[2 * KINDS];
    char names[2 * KINDS][64];

    for (size_t i = 0; i < count; i++) {
        const int scheme = (int)strcspn(some[i].scheme, ":") + 1;
        void *kind = (void *)&some[i];
        char *limits = names[2 * i], *policies = names[2 * i + 1];

        snprintf(limits, sizeof names[0], "every_limit_trace_matches in %.*s", scheme,
                 some[i].scheme);
        snprintf(policies, sizeof names[0], "every_policy_trace_matches in %.*s", scheme,
                 some[i].scheme);
        tests[2 * i] = (struct CMUnitTest){ limits, every_limit_trace_matches, NULL, NULL, kind };
        tests[2 * i + 1] = (struct CMUnitTest){ policies, every_policy_trace_matches, NULL, NULL,
                                                kind };
    }
    return _cmocka_run_group_tests("stores", tests, 2 * count, NULL, NULL);
}

int main(void)
{
    const struct kind remote = { getenv("WEIR_TEST_STORE"), true, false };

    return remote.scheme ? run_kinds(&remote, 1) : run_kinds(kinds, KINDS);
}
