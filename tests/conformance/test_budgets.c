/* test_budgets.c - the traces of budgets through the library, in every store that reserves.
 *
 * Each trace has a policy of its own, and its ids. A store that survives is closed and opened again
 * every few steps, so that each kind of state is read back from its files in the middle of a trace.
 *
 * WEIR_TEST_STORE may be the URI of one on another machine that has no counters yet: then that is
 * the one. WEIR_TEST_TRACES may be another file of traces. */
#include <ftw.h>
#include <inttypes.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "weir.h"

enum { REOPENED_EVERY = 5, POLICY_TEXT = 8192 };

struct run {
    const char *kind;
    int line; /* of the file */
    size_t step;
    char directory[64], policy[POLICY_TEXT];
    weir *w;
};

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static const char *text(const json_t *object, const char *name)
{
    const char *found = json_string_value(json_object_get(object, name));

    return found ? found : "";
}

static int64_t number(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

/* ---- policies ------------------------------------------------------------------------------ */

static char *write_limit(char *at, const char *end, const json_t *rule)
{
    const char *algorithm = text(rule, "algorithm");

    at += snprintf(at, (size_t)(end - at), "        limit: %" PRId64, number(rule, "limit"));
    if (strcmp(algorithm, "concurrency") == 0)
        return at + snprintf(at, (size_t)(end - at), " at once\n");
    if (strcmp(algorithm, "calendar") == 0)
        return at + snprintf(at, (size_t)(end - at), " per %s\n", text(rule, "period"));
    return at + snprintf(at, (size_t)(end - at), " per %" PRId64 "ms\n        algorithm: %s\n",
                         number(rule, "window_ms"), algorithm);
}

static char *write_number(char *at, const char *end, const json_t *rule, const char *name,
                          const char *as, const char *unit)
{
    if (number(rule, name) <= 0)
        return at;
    return at + snprintf(at, (size_t)(end - at), "        %s: %" PRId64 "%s\n", as,
                         number(rule, name), unit);
}

static void write_policy(struct run *run, const json_t *rules)
{
    static const char *const words[] = { "counts", "start", "zone", "by" };
    char *at = run->policy, *const end = at + sizeof run->policy;
    const json_t *rule;
    size_t i;

    at += snprintf(at, (size_t)(end - at), "version: 1\npolicies:\n  budget%d:\n    rules:\n",
                   run->line);
    json_array_foreach(rules, i, rule)
    {
        at += snprintf(at, (size_t)(end - at), "      %s:\n", text(rule, "name"));
        at = write_limit(at, end, rule);
        at = write_number(at, end, rule, "burst", "burst", "");
        at = write_number(at, end, rule, "precision_ms", "precision", "ms");
        at = write_number(at, end, rule, "block_for_ms", "block_for", "ms");
        at = write_number(at, end, rule, "month_day", "month_day", "");
        for (size_t k = 0; k < sizeof words / sizeof *words; k++)
            if (*text(rule, words[k]))
                at += snprintf(at, (size_t)(end - at), "        %s: %s\n", words[k],
                               text(rule, words[k]));
    }
}

/* ---- stores -------------------------------------------------------------------------------- */

static void open_store(struct run *run)
{
    char uri[512];
    const weir_options options = {
        .store = uri,
        .policy_text = run->policy,
        .flags = WEIR_TRUST_NOW | WEIR_IGNORE_ENVIRONMENT,
    };
    weir_diag diag;

    snprintf(uri, sizeof uri, "%s%s", run->kind, run->directory);
    if (weir_open(&run->w, &options, &diag))
        fail_msg("%s, line %d: %s", run->kind, run->line, diag.text);
}

static void open_again(struct run *run)
{
    weir_close(run->w);
    open_store(run);
}

/* ---- steps --------------------------------------------------------------------------------- */

typedef weir_err ask(weir *w, const weir_request *r, weir_answer *a, weir_diag *diag);

static const struct verb {
    const char *name;
    ask *ask;
    bool is_of_known; /* a reservation */
} verbs[] = {
    { "check", weir_check, false },   { "peek", weir_peek, false },
    { "charge", weir_charge, false }, { "reserve", weir_reserve, false },
    { "commit", weir_commit, true },  { "release", weir_release, true },
    { "grow", weir_grow, true },      { "extend", weir_extend, true },
    { "reset", weir_reset, false },
};

static const struct verb *verb_named(const char *name)
{
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (strcmp(verbs[i].name, name) == 0)
            return &verbs[i];
    return NULL;
}

static const struct {
    const char *code;
    weir_err err;
} codes[] = {
    { "no_such_reservation", WEIR_ENORESERVATION },
    { "id_reused", WEIR_EREUSED },
    { "already_settled", WEIR_ESETTLED },
    { "reservation_expired", WEIR_EEXPIRED },
};

static weir_err err_of(const char *code)
{
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (strcmp(codes[i].code, code) == 0)
            return codes[i].err;
    fail_msg("no error is called %s", code);
    return WEIR_OK;
}

static void same(const struct run *run, const char *what, int64_t is, int64_t expected)
{
    if (is != expected)
        fail_msg("%s, line %d, step %zu: %s is %" PRId64 ", not %" PRId64, run->kind, run->line,
                 run->step, what, is, expected);
}

static void compare_rules(const struct run *run, const json_t *rules, const weir_answer *a)
{
    const json_t *row;
    size_t i;

    same(run, "the number of rules", (int64_t)a->rule_count, (int64_t)json_array_size(rules));
    json_array_foreach(rules, i, row)
    {
        const weir_rule_answer *r = &a->rules[i];
        const bool decides = json_array_size(row) == 4;
        const size_t last = decides ? 3 : 1;

        if (decides) {
            same(run, "allowed", r->allowed, json_is_true(json_array_get(row, 0)));
            same(run, "retry_after_ms", r->retry_after_ms,
                 json_integer_value(json_array_get(row, 2)));
        }
        same(run, "remaining", r->remaining, json_integer_value(json_array_get(row, decides)));
        same(run, "reset_after_ms", r->reset_after_ms,
             json_integer_value(json_array_get(row, last)));
    }
}

static void compare(const struct run *run, const json_t *want, const weir_answer *a)
{
    const json_t *member;
    const char *name;

    json_object_foreach((json_t *)want, name, member)
    {
        if (strcmp(name, "rules") == 0)
            compare_rules(run, member, a);
        else if (strcmp(name, "allowed") == 0)
            same(run, name, a->allowed, json_is_true(member));
        else if (strcmp(name, "repeated") == 0)
            same(run, name, a->repeated, json_is_true(member));
        else if (strcmp(name, "expired") == 0)
            same(run, name, a->expired, json_is_true(member));
        else if (strcmp(name, "over") == 0)
            same(run, name, a->over, json_integer_value(member));
        else if (strcmp(name, "retry_after_ms") == 0)
            same(run, name, a->retry_after_ms, json_integer_value(member));
        else if (strcmp(name, "expires_in_ms") == 0)
            same(run, name, a->expires_in_ms, json_integer_value(member));
        else if (strcmp(name, "rule") == 0)
            assert_string_equal(a->rule, json_string_value(member));
        else
            fail_msg("nothing compares %s", name);
    }
}

static void take_step(struct run *run, const json_t *step)
{
    const json_t *want = json_object_get(step, "want"), *amount;
    json_t *costs = json_object_get(step, "costs");
    const struct verb *verb = verb_named(text(step, "op"));
    char id[64] = "", policy[32];
    weir_attribute user = { "user", text(step, "key"), 0 };
    weir_request r = { .now = number(step, "now"), .ttl_ms = number(step, "ttl_ms") };
    weir_cost named[WEIR_MAX_COSTS];
    weir_err expected = WEIR_OK, err;
    const char *name;
    weir_answer a;
    weir_diag diag = { "" };

    if (!verb)
        fail_msg("nothing asks for %s", text(step, "op"));
    r.costs = named;
    snprintf(policy, sizeof policy, "budget%d", run->line);
    if (*text(step, "id"))
        snprintf(id, sizeof id, "%d.%s", run->line, text(step, "id"));
    if (verb->is_of_known) {
        r.reservation = id;
    } else {
        r.policy = policy;
        r.attributes = &user;
        r.attribute_count = 1;
        r.id = *id ? id : NULL;
    }
    json_object_foreach(costs, name, amount)
    {
        assert_true(r.cost_count < WEIR_MAX_COSTS);
        named[r.cost_count++] = (weir_cost){ name, json_integer_value(amount) };
    }
    if (json_object_get(want, "error"))
        expected = err_of(text(want, "error"));
    err = verb->ask(run->w, &r, &a, &diag);
    if (err != expected)
        fail_msg("%s, line %d, step %zu: %s instead of %s: %s", run->kind, run->line, run->step,
                 weir_err_name(err), weir_err_name(expected), diag.text);
    if (!err)
        compare(run, want, &a);
}

static void run_trace(struct run *run, const json_t *trace)
{
    const json_t *steps = json_object_get(trace, "steps"), *step;
    const bool survives = strcmp(run->kind, "file:") == 0;

    write_policy(run, json_object_get(trace, "rules"));
    run->directory[0] = '\0';
    if (survives) {
        strcpy(run->directory, "/tmp/weir-budgets-XXXXXX");
        assert_non_null(mkdtemp(run->directory));
    }
    open_store(run);
    json_array_foreach(steps, run->step, step)
    {
        if (survives && run->step % REOPENED_EVERY == REOPENED_EVERY - 1)
            open_again(run);
        take_step(run, step);
    }
    weir_close(run->w);
    if (survives)
        nftw(run->directory, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void run_all(const char *kind)
{
    struct run run = { .kind = kind };
    const char *other = getenv("WEIR_TEST_TRACES");
    FILE *f = fopen(other ? other : "tests/conformance/budgets.jsonl", "r");
    char *line = NULL;
    size_t room = 0;

    assert_non_null(f);
    for (run.line = 1; getline(&line, &room, f) > 0; run.line++) {
        json_t *trace = json_loads(line, 0, NULL);

        assert_non_null(trace);
        run_trace(&run, trace);
        json_decref(trace);
    }
    assert_true(run.line > (other ? 1 : 100));
    free(line);
    fclose(f);
}

static void traces_hold_in_memory(void **ctx)
{
    (void)ctx;
    run_all("memory:");
}

static void traces_hold_in_files_that_are_opened_again(void **ctx)
{
    (void)ctx;
    run_all("file:");
}

static void traces_hold_in_the_store_that_is_named(void **ctx)
{
    (void)ctx;
    run_all(getenv("WEIR_TEST_STORE"));
}

int main(void)
{
    const struct CMUnitTest remote[] = {
        cmocka_unit_test(traces_hold_in_the_store_that_is_named),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(traces_hold_in_memory),
        cmocka_unit_test(traces_hold_in_files_that_are_opened_again),
    };

    if (getenv("WEIR_TEST_STORE"))
        return cmocka_run_group_tests(remote, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
