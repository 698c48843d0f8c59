/* test_lone_pairs.c - reservations and commits that are asked by themselves are answered as those that
 * go the way of all requests: the same numbers, names, errors and their texts. */
#include <stdlib.h>
#include <unistd.h>

#include "engine/answer.h"
#include "engine/handle.h"
#include "support/limiter.h"

static char directory[] = "/tmp/weir-pairs-XXXXXX", path[64], secret_file[64];

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

/* With the same secret, or a rollout would reach others. */
static weir *open_world(struct world *world, const char *text, const char *file, unsigned flags)
{
    return open_with(&(weir_options){
        .policy_text = text,
        .policy_file = file,
        .secret_file = secret_file,
        .max_keys = 10000,
        .flags = WEIR_NO_THREAD | WEIR_IGNORE_ENVIRONMENT | flags,
        .clock = world_clock,
        .clock_ctx = world,
        .allocator = { .resize = world_resize, .ctx = world },
    });
}

/* ---- both ways ----------------------------------------------------------------------------- */

enum how { RESERVE, COMMIT, RELEASE, HOWS };

static weir_err ask_alone(weir *w, enum how how, const weir_request *r, weir_answer *a,
                          weir_diag *diag)
{
    static ask_fn *const all[HOWS] = { weir_reserve, weir_commit, weir_release };

    return all[how](w, r, a, diag);
}

/* As checks are answered: what is said of the reservation stays. */
static void tell_row_by_row(struct check *check)
{
    weir_answer *a = check->answer, rows;

    check->answer = &rows;
    answer_from_charges(check);
    memcpy(rows.reservation, a->reservation, sizeof rows.reservation);
    rows.expires_in_ms = a->expires_in_ms;
    rows.repeated = a->repeated;
    rows.expired = a->expired;
    *a = rows;
}

/* Nothing is prepared before, or kept. */
static weir_err ask_the_long_way(weir *w, enum how how, const weir_request *r, weir_answer *a,
                                 weir_diag *diag)
{
    struct published_visit visit = published_enter(&w->policies);
    struct check_room room;
    struct check check = { .request = r,
                           .verb = how == RESERVE ? VERB_RESERVE : VERB_SETTLE,
                           .is_release = how == RELEASE,
                           .answer = a,
                           .room = &room,
                           .policies = visit.current };
    struct pending pending = { 0 };
    weir_err err = engine_prepare(&w->engine, &check, diag);

    if (!err) {
        engine_ask(&w->engine, &pending, &check, handle_now(w));
        engine_commit(&w->engine, &pending);
        err = a->err;
        if (how == RESERVE && !err && !check.is_answered)
            tell_row_by_row(&check);
        if (err)
            snprintf(diag->text, sizeof diag->text, "%s",
                     answer_why(&check) ? answer_why(&check) : weir_err_text(err));
    }
    published_leave(&w->policies, visit);
    return err;
}

static void assert_same_text(const char *a, const char *b)
{
    assert_int_equal(!a, !b);
    if (a)
        assert_string_equal(a, b);
}

static void assert_same_row(const weir_rule_answer *a, const weir_rule_answer *b)
{
    assert_same_text(a->policy, b->policy);
    assert_int_equal(a->limit, b->limit);
    assert_int_equal(a->window_ms, b->window_ms);
    assert_int_equal(a->retry_after_ms, b->retry_after_ms);
    assert_int_equal(a->delay_ms, b->delay_ms);
    assert_int_equal(a->used, b->used);
    assert_int_equal(a->over, b->over);
    assert_int_equal(a->shadow, b->shadow);
    assert_int_equal(a->shadow_denied, b->shadow_denied);
}

struct both {
    weir *alone, *long_way;
    weir_answer answer; /* the last of `alone` */
    weir_err err;
};

/* Ids that are made differ: how long they are does not. */
static void assert_alike(struct both *b, enum how how, const weir_request *r)
{
    weir_answer *a = &b->answer, other;
    weir_diag diag = { "" }, other_diag = { "" };

    b->err = ask_alone(b->alone, how, r, a, &diag);
    assert_int_equal(ask_the_long_way(b->long_way, how, r, &other, &other_diag), b->err);
    assert_string_equal(diag.text, other_diag.text);
    assert_int_equal(a->err, other.err);
    if (b->err) {
        assert_false(a->allowed || other.allowed);
        assert_int_equal(a->rule_count | other.rule_count, 0);
        return;
    }
    assert_same_answer(a, &other);
    assert_same_text(a->policy, other.policy);
    assert_int_equal(a->used, other.used);
    assert_int_equal(a->over, other.over);
    assert_int_equal(a->override_id, other.override_id);
    if (r->id || how != RESERVE)
        assert_string_equal(a->reservation, other.reservation);
    assert_int_equal(strlen(a->reservation), strlen(other.reservation));
    assert_int_equal(a->expires_in_ms, other.expires_in_ms);
    assert_int_equal(a->repeated, other.repeated);
    assert_int_equal(a->expired, other.expired);
    for (size_t i = 0; i < a->rule_count; i++)
        assert_same_row(&a->rules[i], &other.rules[i]);
}

static void close_both(const struct both *b)
{
    weir_close(b->alone);
    weir_close(b->long_way);
}

/* ---- any requests -------------------------------------------------------------------------- */

#define THREE                                                                                      \
    "    by: user\n"                                                                               \
    "    rules:\n"                                                                                 \
    "      requests: {limit: 5 per 40ms, algorithm: fixed_window}\n"                               \
    "      tokens: {limit: 100 per 60ms, algorithm: token_bucket, counts: tokens}\n"               \
    "      spend: {limit: 1000 per month, counts: money}\n"

static const char some_policies[] = POLICIES(
    "  one: {limit: 5 per 40ms, by: user, algorithm: token_bucket}\n"
    "  leaky: {limit: 5 per 40ms, by: user, algorithm: leaky_bucket}\n"
    "  log: {limit: 5 per 40ms, by: user}\n"
    "  counter: {limit: 5 per 40ms, by: user, algorithm: sliding_counter}\n"
    "  slots: {limit: 2 at once, by: user}\n"
    "  none: {limit: 0, by: user}\n"
    "  locked: {limit: 2 per 40ms, by: user, block_for: 100ms}\n"
    "  three:\n" THREE
    "  usual:\n    reserve: {ttl: 20ms, max_ttl: 50ms, on_expiry: release}\n    retry_after: soonest\n" THREE
    "  twice:\n    by: user\n    rules:\n"
    "      minute: {limit: 50 per 30ms, counts: tokens}\n"
    "      day: {limit: 500 per day, counts: tokens}\n"
    "      four: {limit: 3 at once}\n"
    "  five:\n    by: user\n    rules:\n"
    "      a: {limit: 5 per 40ms}\n      b: {limit: 6 per 40ms}\n      c: {limit: 7 per 40ms}\n"
    "      d: {limit: 8 per 40ms}\n      e: {limit: 9 per 40ms}\n"
    "  shade:\n    by: user\n    rules:\n"
    "      live: {limit: 5 per 40ms}\n      dark: {limit: 2 per 40ms, mode: shadow}\n"
    "      out: {limit: 2 per 40ms, mode: off, counts: money}\n"
    "  dim:\n    by: user\n    rules:\n"
    "      live: {limit: 5 per 40ms}\n      out: {limit: 2 per 40ms, mode: off, counts: money}\n"
    "  part: {limit: 5 per 40ms, by: user, rollout: 50%}\n"
    "  tried: {limit: 5 per 40ms, by: user, shadow_limit: 2 per 40ms}\n"
    "  planned: {limit: 5 per 40ms, by: user, plans: {paid: 9 per 40ms}}\n"
    "  spared: {limit: 5 per 40ms, by: user, exempt: [{user: k}]}\n"
    "  still: {limit: 5 per 40ms, by: user, mode: off}\n"
    "  by-ip: {limit: 5 per 40ms, by: ip}\n"
    "  by-two: {limit: 5 per 40ms, by: [user, team]}\n"
    "  of-all: {limit: 500 per 40ms}\n"
    "  tokens: {limit: 50 per 40ms, by: user, counts: tokens}\n");

static const char *const names[] = { "one",     "leaky",   "log",   "counter", "slots",
                                     "none",    "three",   "usual", "locked",  "twice",
                                     "five",    "shade",   "dim",   "part",    "tried",
                                     "planned", "spared",  "still", "by-ip",   "by-two",
                                     "of-all",  "no-such", "three", "three",   "tokens" };

static const char *const keys[] = {
    "k",
    "10.1.2.3",
    "sixteencharacter",
    "key-of-forty-four-bytes-is-the-longest-short",
    "key-of-forty-five-bytes-is-no-more-than-long!",
    "M\xc3\xbcller & S\xc3\xb6hne",
    "not \xff text",
    "",
};

static const char *const ids[] = {
    "a", "b",      "a-name-of-16-byte", "with space", "", "local.1", "c", "d", "e", "f", "g",
    "h", "odd\x80"
};

#define ANY(dice, list) list[dice_below(dice, sizeof list / sizeof *list)]

static int64_t any_amount(struct dice *dice)
{
    static const int64_t amounts[] = { 0, 1, 2, 10, 40, -1, WEIR_MAX_AMOUNT, WEIR_MAX_AMOUNT + 1 };

    return dice_below(dice, 4) ? amounts[dice_below(dice, 5)] : ANY(dice, amounts);
}

static size_t any_costs(struct dice *dice, weir_cost *costs)
{
    static const char *const counts[] = {
        "tokens",
        "money",
        "tokens",
        "money",
        "requests",
        "teapots",
        "a-name-of-sixty-five-bytes-is-longer-than-one-may-be-by-a-byte-xyz",
        NULL,
        "to"
    };
    const size_t n = (size_t)dice_below(dice, dice_below(dice, 20) ? 3 : 6);

    for (size_t i = 0; i < n; i++)
        costs[i] = (weir_cost){ counts[dice_below(dice, dice_below(dice, 10) ? 5 : 9)],
                                any_amount(dice) };
    return n;
}

/* One thing that no pattern has. */
static void spoil(struct dice *dice, weir_request *r)
{
    static const weir_attribute attribute = { "user", "k", 0 };
    static const char *const several[] = { "one", "three" };

    switch (dice_below(dice, 14)) {
    case 0:
        r->plan = "paid";
        break;
    case 1:
        r->exempt = true;
        break;
    case 2:
        r->limit = 5;
        break;
    case 3:
        r->window_ms = 40;
        break;
    case 4:
        r->name = "n";
        break;
    case 5:
        r->attributes = &attribute;
        r->attribute_count = 1;
        r->key = dice_below(dice, 2) ? NULL : r->key;
        break;
    case 6:
        r->policies = several;
        r->policy_count = 2;
        r->policy = dice_below(dice, 2) ? NULL : r->policy;
        break;
    case 7:
        r->reservation = "a";
        break;
    case 8:
        r->key = NULL;
        break;
    case 9:
        r->id = "z";
        break;
    case 10:
        r->on_error = WEIR_ON_ERROR_DENY;
        break;
    case 11:
        r->cost = WEIR_COST_ZERO;
        break;
    case 12:
        r->cost = -3;
        break;
    default:
        r->ttl_ms = dice_below(dice, 2) ? -1 : WEIR_MAX_TTL_MS + 1;
        break;
    }
}

static weir_request any_request(struct dice *dice, enum how how, weir_cost *costs, int64_t now)
{
    weir_request r = { .costs = costs, .cost_count = any_costs(dice, costs) };

    if (how == RESERVE) {
        r.policy = ANY(dice, names);
        r.key = ANY(dice, keys);
        r.id = dice_below(dice, 8) ? ANY(dice, ids) : NULL;
        r.ttl_ms = dice_below(dice, 3) ? 1 + dice_below(dice, 60) : 0;
    } else {
        r.reservation = dice_below(dice, 20) ? ANY(dice, ids) : NULL;
    }
    if (dice_below(dice, 2))
        r.cost_count = 0;
    if (dice_below(dice, 4) == 0)
        r.cost = 1 + dice_below(dice, 4);
    if (dice_below(dice, 8) == 0)
        r.now = dice_below(dice, 10)  ? now + dice_below(dice, 3)
                : dice_below(dice, 2) ? -1
                                      : INT64_C(1) << 48;
    if (dice_below(dice, 8) == 0)
        spoil(dice, &r);
    return r;
}

static void ask_anything(unsigned flags)
{
    struct world world = { .now = NOW };
    struct both b = { .alone = open_world(&world, some_policies, NULL, flags),
                      .long_way = open_world(&world, some_policies, NULL, flags) };
    struct dice dice = dice_new();
    int answered = 0, held = 0;

    for (int i = 0; i < scaled(60000); i++) {
        const enum how how = (enum how)dice_below(&dice, HOWS);
        weir_cost costs[8];
        const weir_request r = any_request(&dice, how, costs, world.now);

        world.now += dice_below(&dice, 3) - (dice_below(&dice, 50) == 0 ? 5 : 0);
        if (dice_below(&dice, 2000) == 0)
            world.now += 600000; /* what was settled is not known any more */
        assert_alike(&b, how, &r);
        answered += !b.err;
        held += !b.err && b.answer.reservation[0];
    }
    assert_true(answered > scaled(60000) / 20 && held > scaled(60000) / 50);
    close_both(&b);
}

static void anything_is_answered_as_by_the_long_way(void **state)
{
    (void)state;
    ask_anything(0);
}

static void so_it_is_where_callers_bring_their_time(void **state)
{
    (void)state;
    ask_anything(WEIR_TRUST_NOW);
}

/* ---- the usual ones ------------------------------------------------------------------------ */

/* All fields in which a reservation may differ from one before, one after the other. */
static void what_differs_in_one_thing_is_another(void **state)
{
    struct world world = { .now = NOW };
    struct both b = { .alone = open_world(&world, some_policies, NULL, 0),
                      .long_way = open_world(&world, some_policies, NULL, 0) };
    weir_cost costs[] = { { "tokens", 10 }, { "money", 5 } }, used = { "tokens", 4 };
    weir_request r = { .policy = "three",
                       .key = "k",
                       .id = "a",
                       .ttl_ms = 30,
                       .costs = costs,
                       .cost_count = 2 },
                 done = { .reservation = "a", .costs = &used, .cost_count = 1 };

    (void)state;
    for (int i = 0; i < 2; i++) { /* the second is a repetition */
        assert_alike(&b, RESERVE, &r);
        assert_int_equal(b.answer.repeated, i == 1);
    }
    costs[0].amount = 11;
    assert_alike(&b, RESERVE, &r);
    assert_int_equal(b.err, WEIR_EREUSED);
    costs[0].amount = 10;
    r.cost_count = 1;
    assert_alike(&b, RESERVE, &r);
    assert_int_equal(b.err, WEIR_EREUSED);
    r.cost_count = 2;
    r.key = "other";
    assert_alike(&b, RESERVE, &r);
    assert_int_equal(b.err, WEIR_EREUSED);
    r.policy = "usual";
    r.key = "k";
    assert_alike(&b, RESERVE, &r);
    assert_int_equal(b.err, WEIR_EREUSED);
    r.policy = "three";
    r.ttl_ms = 31; /* is not what it is of */
    assert_alike(&b, RESERVE, &r);
    assert_true(b.answer.repeated);
    assert_alike(&b, COMMIT, &done);
    assert_int_equal(b.answer.rules[1].remaining, 96);
    assert_alike(&b, COMMIT, &done);
    assert_true(b.answer.repeated);
    used.amount = 5;
    assert_alike(&b, COMMIT, &done);
    assert_int_equal(b.err, WEIR_ESETTLED);
    close_both(&b);
}

/* The id may be that of the answer before, in its place. */
static void the_id_may_be_that_of_the_answer(void **state)
{
    weir *w = open_text(some_policies);
    weir_request r = { .policy = "usual", .key = "k" };
    weir_answer a;
    char id[WEIR_MAX_ID + 1];

    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(weir_reserve(w, &r, &a, NULL), WEIR_OK);
        assert_int_equal(strlen(a.reservation), 32);
        assert_int_equal(a.expires_in_ms, 20);
        strcpy(id, a.reservation);
        assert_int_equal(weir_commit(w, &(weir_request){ .reservation = a.reservation }, &a, NULL),
                         WEIR_OK);
        assert_string_equal(a.reservation, id);
    }
    weir_close(w);
}

static void without_memory_it_is_answered_as_its_policy_says(void **state)
{
    static const char text[] = POLICIES(
        "  open: {limit: 5000 per 1m, by: user, precision: 1ms, on_error: allow}\n"
        "  shut: {limit: 5000 per 1m, by: user, precision: 1ms, on_error: deny}\n"
        "  local: {limit: 5000 per 1m, by: user, precision: 1ms}\n"
        "  three:\n" THREE);
    static const char *const policies[] = { "open", "shut", "local", "three" };
    struct world world = { .now = NOW };
    struct both b = { .alone = open_world(&world, text, NULL, 0),
                      .long_way = open_world(&world, text, NULL, 0) };
    int failed = 0;

    (void)state;
    for (int i = 0; i < 3000; i++) {
        char id[16];
        const weir_request r = { .policy = policies[i % 4], .key = "k", .id = id, .ttl_ms = 50000 },
                           done = { .reservation = id };

        snprintf(id, sizeof id, "id-%d", i);
        world.now += i % 3;
        world.is_poor = i >= 40 && i < 2500;
        assert_alike(&b, RESERVE, &r);
        failed += b.err || b.answer.source == WEIR_FROM_FALLBACK;
        if (i % 2)
            assert_alike(&b, COMMIT, &done);
    }
    assert_true(failed > 10);
    close_both(&b);
}

/* ---- reloads ------------------------------------------------------------------------------- */

static void write_file(const char *text)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void reload(const struct both *b, const char *text)
{
    weir_diag diag;

    write_file(text);
    assert_int_equal(weir_reload(b->alone, &diag), WEIR_OK);
    assert_int_equal(weir_reload(b->long_way, &diag), WEIR_OK);
}

/* What was kept is of the policies as they were. */
static void a_reload_is_heard_between_two_of_a_kind(void **state)
{
    static const char *const texts[] = {
        POLICIES("  p:\n" THREE),
        POLICIES("  p:\n    by: user\n    rules:\n"
                 "      spend: {limit: 50 per month, counts: money}\n"
                 "      tokens: {limit: 10 per 60ms, algorithm: token_bucket, counts: tokens}\n"),
        POLICIES("  p:\n    mode: shadow\n" THREE),
        POLICIES("  p:\n    exempt: [{user: k}]\n" THREE),
        POLICIES("  p:\n    mode: off\n" THREE),
        POLICIES("  p: {limit: 3 per 40ms, by: user, algorithm: token_bucket}\n"),
        POLICIES("  p: {limit: 3 per 40ms, by: team}\n"),
        POLICIES("  p: {limit: 3 per 40ms, by: [user, team]}\n"),
        POLICIES("  q: {limit: 3 per 40ms, by: user}\n"),
        POLICIES("  p:\n    reserve: {max_ttl: 10ms}\n" THREE),
        POLICIES("  p:\n    reserve: {ttl: 10ms, on_expiry: release}\n" THREE),
    };
    enum { TEXTS = sizeof texts / sizeof *texts };
    struct world world = { .now = NOW };
    struct dice dice = dice_new();
    struct both b = { 0 };

    (void)state;
    write_file(texts[0]);
    b.alone = open_world(&world, NULL, path, 0);
    b.long_way = open_world(&world, NULL, path, 0);
    for (int i = 0; i < scaled(3000); i++) {
        const weir_cost costs[] = { { "tokens", dice_below(&dice, 4) }, { "money", 1 } };
        char id[16];
        weir_request r = { .policy = "p",
                           .key = "k",
                           .id = id,
                           .ttl_ms = dice_below(&dice, 30),
                           .costs = costs,
                           .cost_count = (size_t)dice_below(&dice, 3) };
        const weir_request done = { .reservation = id, .costs = costs, .cost_count = 1 };

        snprintf(id, sizeof id, "id-%d", (int)dice_below(&dice, 500));
        world.now += dice_below(&dice, 3);
        if (dice_below(&dice, 4) == 0)
            reload(&b, texts[dice_below(&dice, TEXTS)]);
        assert_alike(&b, RESERVE, &r);
        if (dice_below(&dice, 4) == 0)
            reload(&b, texts[dice_below(&dice, TEXTS)]);
        assert_alike(&b, dice_below(&dice, 3) ? COMMIT : RELEASE, &done);
    }
    close_both(&b);
}

static int make_files(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/p.yaml", directory);
    snprintf(secret_file, sizeof secret_file, "%s/secret", directory);
    return 0;
}

static int remove_files(void **state)
{
    (void)state;
    remove(path);
    remove(secret_file);
    return rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(anything_is_answered_as_by_the_long_way),
        cmocka_unit_test(so_it_is_where_callers_bring_their_time),
        cmocka_unit_test(what_differs_in_one_thing_is_another),
        cmocka_unit_test(the_id_may_be_that_of_the_answer),
        cmocka_unit_test(without_memory_it_is_answered_as_its_policy_says),
        cmocka_unit_test(a_reload_is_heard_between_two_of_a_kind),
    };

    return cmocka_run_group_tests(tests, make_files, remove_files);
}
