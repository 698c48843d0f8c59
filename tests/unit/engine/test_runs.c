/* test_runs.c - checks that are asked as a run are answered as those that are asked one by one: also
 * where memory is short, and whatever the store was asked before. */
#include <stdlib.h>
#include <unistd.h>

#include "engine/handle.h"
#include "engine/run.h"
#include "support/limiter.h"

static char directory[] = "/tmp/weir-runs-XXXXXX", secret_file[64];

/* What time it is, and whether there is memory. */
struct world {
    int64_t now;
    bool is_poor;
};

static int64_t world_clock(void *ctx)
{
    return ((struct world *)ctx)->now;
}

static void *world_resize(void *ctx, void *block, size_t size)
{
    if (size == 0) {
        free(block);
        return NULL;
    }
    return ((struct world *)ctx)->is_poor ? NULL : realloc(block, size);
}

#define WITH_FALLBACK(text) "version: 1\nfallback: {deny_after_errors: 3}\npolicies:\n" text

static const char some_policies[] = WITH_FALLBACK(
    "  bucket: {limit: 5 per 40ms, by: user, algorithm: token_bucket}\n"
    "  leaky: {limit: 5 per 40ms, by: user, algorithm: leaky_bucket}\n"
    "  log: {limit: 5 per 40ms, by: user}\n"
    "  fixed: {limit: 5 per 40ms, by: user, algorithm: fixed_window, on_error: allow}\n"
    "  counter: {limit: 5 per 40ms, by: user, algorithm: sliding_counter, on_error: deny}\n"
    "  month: {limit: 5 per month, by: user}\n"
    "  locked: {limit: 2 per 40ms, by: user, block_for: 100ms}\n"
    "  none: {limit: 0 per 1s, by: user}\n"
    "  three:\n    by: user\n    on_error: deny\n    rules:\n"
    "      a: {limit: 5 per 40ms}\n      b: {limit: 6 per 60ms, algorithm: leaky_bucket}\n"
    "      c: {limit: 50 per month}\n"
    "  mixed:\n    by: user\n    rules:\n" /* of which one has a hash of its own */
    "      a: {limit: 6 per 60ms}\n      default: {limit: 5 per 40ms}\n"
    "      c: {limit: 50 per 90ms, algorithm: token_bucket}\n"
    "  open: {limit: 5000 per 1m, by: user, precision: 1ms, on_error: allow}\n"
    "  shut: {limit: 5000 per 1m, by: user, precision: 1ms, on_error: deny}\n"
    "  local: {limit: 5000 per 1m, by: user, precision: 1ms}\n"
    "  by-ip: {limit: 5 per 40ms, by: ip}\n"
    "  by-mail: {limit: 5 per 40ms, by: email}\n"
    "  by-two: {limit: 5 per 40ms, by: [user, team]}\n"
    "  shade: {limit: 5 per 40ms, by: user, mode: shadow}\n"
    "  held: {limit: 5 at once, by: user}\n");

static const char *const run_policies[] = { "mixed",   "bucket", "leaky", "log",    "fixed",
                                            "counter", "month",  "none",  "locked", "three",
                                            "open",    "shut",   "local" };
static const char *const other_policies[] = { "by-ip", "by-mail", "by-two", "shade", "held" };

static const char *const keys[] = {
    "k",
    "10.1.2.3",
    "sixteencharacter",
    "nine-more",
    "key-of-forty-four-bytes-is-the-longest-short",
    "M\xc3\xbcller & S\xc3\xb6hne",
};

static weir *open_world(struct world *world, const char *store)
{
    return open_with(&(weir_options){
        .policy_text = some_policies,
        .secret_file = secret_file,
        .store = store,
        .max_keys = 100000,
        .flags = WEIR_NO_THREAD | WEIR_IGNORE_ENVIRONMENT,
        .clock = world_clock,
        .clock_ctx = world,
        .allocator = { .resize = world_resize, .ctx = world },
    });
}

/* ---- asking -------------------------------------------------------------------------------- */

/* What the checks of a run have in common. */
struct like {
    enum pattern_kind kind;
    weir_request request;
    struct rule cell;
};

static weir_err prepare(weir *w, const struct like *like, const char *key, struct check *check,
                        weir_request *request)
{
    weir_diag diag;

    if (like->kind == PATTERN_CELL)
        return engine_prepare_cell(&w->engine, check, span_of(key), &like->cell, 1, &diag);
    *request = like->request;
    request->key = key;
    check->request = request;
    check->verb = VERB_CHECK;
    return engine_prepare(&w->engine, check, &diag);
}

static void ask_one(weir *w, const struct like *like, const char *key, weir_answer *answer)
{
    struct check_room room;
    struct check check = { .room = &room, .answer = answer };
    struct pending pending = { 0 };
    const struct published_visit visit = published_enter(&w->policies);
    weir_request request;

    check.policies = visit.current;
    assert_int_equal(prepare(w, like, key, &check, &request), WEIR_OK);
    engine_ask(&w->engine, &pending, &check, handle_now(w));
    engine_commit(&w->engine, &pending);
    published_leave(&w->policies, visit);
}

static bool pattern_like(weir *w, const struct like *like, struct pattern *out)
{
    struct check_room room;
    weir_answer answer;
    struct check check = { .room = &room, .answer = &answer };
    const struct published_visit visit = published_enter(&w->policies);
    weir_request request;
    bool found;

    check.policies = visit.current;
    assert_int_equal(prepare(w, like, "k", &check, &request), WEIR_OK);
    found = pattern_of(&w->engine, &check, like->kind, out);
    published_leave(&w->policies, visit);
    return found;
}

/* As a server does: several runs before one commit. */
static void ask_runs(weir *w, const struct pattern *p, struct run *runs, const char *const *asked,
                     size_t n, weir_answer *answers)
{
    struct check_room room;
    weir_answer answer;
    struct check teller = { .room = &room, .answer = &answer };
    struct pending pending = { 0 };
    const struct published_visit visit = published_enter(&w->policies);
    size_t count = 0;

    teller.policies = visit.current;
    for (size_t i = 0; i < n; i++) {
        struct run *run = &runs[i / RUN_MOST];

        if (i % RUN_MOST == 0)
            run_begin(run, p);
        assert_true(run_takes(p, span_of(asked[i])));
        run_put(&w->engine, run, span_of(asked[i]));
        if (run_is_full(run) || i == n - 1)
            run_ask(&w->engine, &pending, run, visit.current, handle_now(w));
    }
    engine_commit(&w->engine, &pending);
    for (size_t r = 0; count < n; r++) {
        run_begin_telling(&w->engine, &runs[r], &teller);
        for (size_t i = 0; i < runs[r].count; i++) {
            run_tell(&runs[r], i, &teller);
            answers[count++] = answer;
            assert_int_equal(teller.is_plain, true);
        }
    }
    published_leave(&w->policies, visit);
}

static struct like any_like(struct dice *dice)
{
    static const weir_algorithm algorithms[] = { WEIR_TOKEN_BUCKET, WEIR_SLIDING_WINDOW,
                                                 WEIR_FIXED_WINDOW };
    struct like like = { .kind = PATTERN_POLICY };
    weir_diag diag;

    switch (dice_below(dice, 4)) {
    case 0:
        like.kind = PATTERN_CELL;
        assert_int_equal(cell_rule(1 + dice_below(dice, 5), 9, 1, &like.cell, &diag), WEIR_OK);
        break;
    case 1:
        like.kind = PATTERN_LIMIT;
        like.request = (weir_request){ .limit = 1 + dice_below(dice, 6), .window_ms = 40 };
        like.request.algorithm = algorithms[dice_below(dice, 3)];
        break;
    default:
        like.request.policy =
            run_policies[dice_below(dice, sizeof run_policies / sizeof *run_policies)];
        like.request.cost = dice_below(dice, 3);
    }
    return like;
}

static void assert_runs_alike(const char *store, const char *other_store)
{
    enum { ROUNDS = 4000, RUNS = 3, MOST = RUNS * RUN_MOST };
    struct world world = { .now = NOW };
    weir *together = open_world(&world, store), *one_by_one = open_world(&world, other_store);
    struct run *runs = calloc(RUNS, sizeof *runs); /* used again, whatever they were of */
    struct dice dice = dice_new();
    size_t failed = 0, denied = 0;

    for (int round = 0; round < ROUNDS; round++) {
        const struct like like = any_like(&dice);
        const size_t n = 1 + (size_t)dice_below(&dice, dice_below(&dice, 3) ? 6 : MOST);
        char names[MOST][24];
        const char *asked[MOST];
        weir_answer answers[MOST], other;
        struct pattern p;

        assert_true(pattern_like(together, &like, &p));
        assert_true(p.may_run);
        world.is_poor = round / 100 % 3 == 1;
        for (size_t i = 0; i < n; i++) { /* those that have a state, and new ones */
            snprintf(names[i], sizeof names[i], "new-%d", (int)dice_below(&dice, 1000000));
            asked[i] = dice_below(&dice, 3) ? keys[dice_below(&dice, sizeof keys / sizeof *keys)]
                                            : names[i];
        }
        ask_runs(together, &p, runs, asked, n, answers);
        for (size_t i = 0; i < n; i++) {
            ask_one(one_by_one, &like, asked[i], &other);
            assert_same_answer(&answers[i], &other);
            failed += other.source == WEIR_FROM_FALLBACK;
            denied += !other.allowed;
        }
        world.is_poor = false;
        world.now += dice_below(&dice, 12);
        if (dice_below(&dice, 50) == 0) /* all keys expire, and need memory again */
            world.now += 100000;
        if (dice_below(&dice, 20) == 0) {
            weir_tick(together);
            weir_tick(one_by_one);
        }
    }
    assert_in_range(denied, ROUNDS / 2, SIZE_MAX);
    assert_in_range(failed, 1, SIZE_MAX);
    printf("# %zu denied, %zu not counted\n", denied, failed);
    free(runs);
    weir_close(together);
    weir_close(one_by_one);
}

/* ---- tests --------------------------------------------------------------------------------- */

static void a_run_is_answered_as_its_checks_are_one_by_one(void **state)
{
    (void)state;
    assert_runs_alike("memory:", "memory:");
}

static void the_same_with_counters_in_a_file(void **state)
{
    char a[64], b[64];

    (void)state;
    snprintf(a, sizeof a, "file:%s/a", directory);
    snprintf(b, sizeof b, "file:%s/b", directory);
    assert_runs_alike(a, b);
}

static void keys_that_are_not_short_texts_and_other_policies_are_in_no_run(void **state)
{
    struct world world = { .now = NOW };
    weir *w = open_world(&world, "memory:");
    struct like like = { .kind = PATTERN_POLICY, .request = { .policy = "bucket" } };
    struct pattern p;

    (void)state;
    assert_true(pattern_like(w, &like, &p));
    assert_true(run_takes(&p, span_of("k")));
    assert_false(run_takes(&p, span_of("")));
    assert_false(run_takes(&p, span_of("key-of-forty-five-bytes-is-no-more-than-long!")));
    assert_false(run_takes(&p, span_of("not \xff text")));
    like.kind = PATTERN_CELL;
    assert_int_equal(cell_rule(2, 9, 1, &like.cell, NULL), WEIR_OK);
    assert_true(pattern_like(w, &like, &p));
    assert_true(run_takes(&p, span_of("not \xff text")));
    like.kind = PATTERN_POLICY;
    for (size_t i = 0; i < sizeof other_policies / sizeof *other_policies; i++) {
        static const weir_attribute of[] = { { "user", "k", 0 }, { "team", "t", 0 } };
        struct check_room room;
        weir_answer answer;
        struct check check = { .room = &room, .answer = &answer, .verb = VERB_CHECK };
        const struct published_visit visit = published_enter(&w->policies);
        const weir_request r = { .policy = other_policies[i],
                                 .key = i == 0   ? "10.1.2.3"
                                        : i == 2 ? NULL
                                                 : "a@b",
                                 .attributes = of,
                                 .attribute_count = i == 2 ? 2 : 0 };
        weir_diag diag;

        check.policies = visit.current;
        check.request = &r;
        assert_false(!engine_prepare(&w->engine, &check, &diag) &&
                     pattern_of(&w->engine, &check, PATTERN_POLICY, &p) &&
                     run_takes(&p, span_of("k")));
        published_leave(&w->policies, visit);
    }
    weir_close(w);
}

static int make_directory(void **state)
{
    (void)state;
    if (!mkdtemp(directory))
        return -1;
    snprintf(secret_file, sizeof secret_file, "%s/secret", directory);
    return 0;
}

static int remove_directory(void **state)
{
    char command[96];

    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_is_answered_as_its_checks_are_one_by_one),
        cmocka_unit_test(the_same_with_counters_in_a_file),
        cmocka_unit_test(keys_that_are_not_short_texts_and_other_policies_are_in_no_run),
    };

    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
