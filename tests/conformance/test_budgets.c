/* test_budgets.c - the traces of budgets through the library, in every store that reserves.
 *
 * Each trace has a policy of its own. A store that survives is closed and opened again every few
 * steps, so that each kind of state is read back from its files in the middle of a trace. */
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
    const char *unit; /* what all of its rules count */
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

static const char *counts_of(const json_t *rule)
{
    const char *counts = text(rule, "counts");

    return *counts ? counts : "requests";
}

/* All rules of a trace count the same: then that is its cost, whatever it is called. */
static bool is_known(struct run *run, const json_t *rule)
{
    if (!run->unit)
        run->unit = counts_of(rule);
    return strcmp(text(rule, "algorithm"), "calendar") != 0 &&
           strcmp(counts_of(rule), run->unit) == 0;
}

static bool write_policy(struct run *run, const json_t *rules)
{
    char *at = run->policy, *const end = at + sizeof run->policy;
    const json_t *rule;
    size_t i;

    run->unit = NULL;
    at += snprintf(at, (size_t)(end - at), "version: 1\npolicies:\n  budget:\n    rules:\n");
    json_array_foreach(rules, i, rule)
    {
        const char *algorithm = text(rule, "algorithm");

        if (!is_known(run, rule))
            return false;
        at += snprintf(at, (size_t)(end - at), "      %s:\n", text(rule, "name"));
        if (strcmp(algorithm, "concurrency") == 0)
            at += snprintf(at, (size_t)(end - at), "        limit: %" PRId64 " at once\n",
                           number(rule, "limit"));
        else
            at += snprintf(at, (size_t)(end - at),
                           "        limit: %" PRId64 " per %" PRId64 "ms\n        algorithm: %s\n",
                           number(rule, "limit"), number(rule, "window_ms"), algorithm);
        if (number(rule, "burst") > 0)
            at += snprintf(at, (size_t)(end - at), "        burst: %" PRId64 "\n",
                           number(rule, "burst"));
        if (number(rule, "precision_ms") > 0)
            at += snprintf(at, (size_t)(end - at), "        precision: %" PRId64 "ms\n",
                           number(rule, "precision_ms"));
        if (number(rule, "block_for_ms") > 0)
            at += snprintf(at, (size_t)(end - at), "        block_for: %" PRId64 "ms\n",
                           number(rule, "block_for_ms"));
        if (*text(rule, "start"))
            at += snprintf(at, (size_t)(end - at), "        start: %s\n", text(rule, "start"));
        if (*text(rule, "by"))
            at += snprintf(at, (size_t)(end - at), "        by: %s\n", text(rule, "by"));
    }
    return true;
}

/* ---- stores -------------------------------------------------------------------------------- */

static void open_store(struct run *run)
{
    char uri[80];
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
    const json_t *want = json_object_get(step, "want"), *costs = json_object_get(step, "costs");
    const struct verb *verb = verb_named(text(step, "op"));
    const char *id = text(step, "id");
    weir_attribute user = { "user", text(step, "key"), 0 };
    weir_request r = { .now = number(step, "now"), .ttl_ms = number(step, "ttl_ms") };
    weir_err expected = WEIR_OK, err;
    weir_answer a;
    weir_diag diag = { "" };

    assert_non_null(verb);
    if (verb->is_of_known) {
        r.reservation = id;
    } else {
        r.policy = "budget";
        r.attributes = &user;
        r.attribute_count = 1;
        r.id = *id ? id : NULL;
    }
    if (json_object_get(costs, run->unit))
        r.cost = number(costs, run->unit) ? number(costs, run->unit) : WEIR_COST_ZERO;
    else if (!verb->is_of_known && strcmp(run->unit, "requests") != 0)
        r.cost = WEIR_COST_ZERO; /* only requests that are not named are 1 */
    if (json_object_get(want, "error"))
        expected = err_of(text(want, "error"));
    err = verb->ask(run->w, &r, &a, &diag);
    if (err != expected)
        fail_msg("%s, line %d, step %zu: %s instead of %s: %s", run->kind, run->line, run->step,
                 weir_err_name(err), weir_err_name(expected), diag.text);
    if (!err)
        compare(run, want, &a);
}

static bool is_step_known(const json_t *step)
{
    return verb_named(text(step, "op")) != NULL;
}

static bool run_trace(struct run *run, const json_t *trace)
{
    const json_t *steps = json_object_get(trace, "steps"), *step;
    const bool survives = strcmp(run->kind, "file:") == 0;

    if (!write_policy(run, json_object_get(trace, "rules")))
        return false;
    run->directory[0] = '\0';
    if (survives) {
        strcpy(run->directory, "/tmp/weir-budgets-XXXXXX");
        assert_non_null(mkdtemp(run->directory));
    }
    open_store(run);
    json_array_foreach(steps, run->step, step)
    {
        if (!is_step_known(step)) /* what came before it holds */
            break;
        if (survives && run->step % REOPENED_EVERY == REOPENED_EVERY - 1)
            open_again(run);
        take_step(run, step);
    }
    weir_close(run->w);
    if (survives)
        nftw(run->directory, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return true;
}

static void run_all(const char *kind)
{
    struct run run = { .kind = kind };
    FILE *f = fopen("tests/conformance/budgets.jsonl", "r");
    char *line = NULL;
    size_t room = 0, taken = 0;

    assert_non_null(f);
    for (run.line = 1; getline(&line, &room, f) > 0; run.line++) {
        json_t *trace = json_loads(line, 0, NULL);

        assert_non_null(trace);
        taken += run_trace(&run, trace);
        json_decref(trace);
    }
    print_message("%s %zu of %d traces\n", kind, taken, run.line - 1);
    assert_true(taken > 0);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(traces_hold_in_memory),
        cmocka_unit_test(traces_hold_in_files_that_are_opened_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
