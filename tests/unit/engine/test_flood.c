/* test_flood.c - what a flood of fresh keys can do to a full table, in memory and on disk: nothing to
 * those who have used up their limit. */
#include "support/limiter.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/temp_dir.h"

enum {
    MAX_KEYS = 5000,
    WATCHED = 100,      /* users who have used up what they may */
    LONGEST_FLOOD = 90, /* seconds; then the test is killed */
};

static const char policies[] = POLICIES(
    "  login: {limit: 5 per 15m, by: user}\n"
    "  once: {limit: 1 per 1d, by: user}\n"
    "  api: {limit: 100 per 1h, by: user, algorithm: token_bucket}\n"
    "  steps: {rules: {device: {limit: 1 per 1h, by: device}, user: {limit: 3 per 1h, by: user}}}\n");

struct place {
    struct temp_dir temp;
    char store[PATH_MAX];
    _Atomic int64_t now;
};

static int64_t clock_of(void *ctx)
{
    return ((struct place *)ctx)->now;
}

static weir *open_place(struct place *p)
{
    return open_with(&(weir_options){
        .policy_text = policies,
        .store = p->store,
        .sync = "os",
        .max_keys = MAX_KEYS,
        .clock = clock_of,
        .clock_ctx = p,
        .flags = WEIR_IGNORE_ENVIRONMENT,
    });
}

static int make_memory(void **state)
{
    static struct place p;

    p = (struct place){ .store = "memory:", .now = NOW };
    *state = &p;
    return 0;
}

static int make_file(void **state)
{
    static struct place p;

    p = (struct place){ .temp = temp_dir_make(), .now = NOW };
    snprintf(p.store, sizeof p.store, "file:%s/store", p.temp.path);
    *state = &p;
    return 0;
}

static int remove_file_store(void **state)
{
    temp_dir_remove(&((struct place *)*state)->temp);
    return 0;
}

static bool is_kept(const struct place *p)
{
    return strcmp(p->store, "memory:") != 0;
}

static weir_answer ask_for(weir *w, const char *policy, const char *who, int64_t n)
{
    char key[64];

    snprintf(key, sizeof key, "%s-%" PRId64, who, n);
    return ask(weir_check, w, &(weir_request){ .policy = policy, .key = key });
}

static void use_up(weir *w, const char *policy, int64_t n, int times)
{
    for (int i = 0; i < times; i++)
        assert_true(ask_for(w, policy, "watched", n).allowed);
}

/* So many new keys of a policy, each asked for once. NULL: limits that come with the request. */
static void flood(weir *w, struct place *p, const char *policy, int n)
{
    static int64_t fresh;

    alarm(LONGEST_FLOOD);
    for (int i = 0; i < n; i++, fresh++) {
        char key[32];

        p->now += i % 100 == 0;
        if (policy) {
            assert_true(ask_for(w, policy, "fresh", fresh).allowed);
            continue;
        }
        snprintf(key, sizeof key, "%" PRId64, fresh);
        assert_true(
            ask(weir_check, w,
                &(weir_request){ .key = key, .limit = 1, .window_ms = (fresh % 3 + 1) * 3600000 })
                .allowed);
    }
    alarm(0);
}

static void assert_all_denied(weir *w, const char *policy)
{
    int64_t allowed = 0;

    for (int64_t i = 0; i < WATCHED; i++)
        allowed += ask_for(w, policy, "watched", i).allowed;
    assert_int_equal(allowed, 0);
}

static void end_of_life(weir **w, struct place *p)
{
    weir_close(*w);
    *w = open_place(p);
}

/* ---- an exhausted key stays denied ---------------------------------------------------------- */

static void by_a_flood_of(struct place *p, const char *watched, int limit, const char *flooding)
{
    weir *w = open_place(p);

    flood(w, p, flooding, MAX_KEYS);
    for (int64_t i = 0; i < WATCHED; i++)
        use_up(w, watched, i, limit);
    flood(w, p, flooding, scaled(60000));
    assert_all_denied(w, watched);
    assert_true(stats_of(w).evicted_keys > 0);
    if (is_kept(p)) {
        end_of_life(&w, p);
        assert_all_denied(w, watched);
        flood(w, p, flooding, scaled(60000));
        assert_all_denied(w, watched);
    }
    weir_close(w);
}

static void a_flood_of_a_limit_of_1_makes_no_other_policy_forget(void **state)
{
    by_a_flood_of(*state, "login", 5, "once");
}

static void a_flood_of_large_limits_makes_no_other_policy_forget(void **state)
{
    by_a_flood_of(*state, "login", 5, "api");
}

static void a_flood_of_limits_without_a_policy_makes_no_policy_forget(void **state)
{
    by_a_flood_of(*state, "login", 5, NULL);
}

static void a_flood_of_fresh_keys_does_not_make_their_own_policy_forget(void **state)
{
    by_a_flood_of(*state, "login", 5, "login");
}

/* The longer the flood's limits last, the less time is left of the other, in comparison. */
static void what_ends_soon_is_not_forgotten_for_what_lasts(void **state)
{
    struct place *p = *state;
    weir *w = open_place(p);

    for (int64_t i = 0; i < WATCHED; i++)
        use_up(w, "login", i, 5);
    p->now += 13 * 60000;
    flood(w, p, "once", 5 * MAX_KEYS);
    assert_all_denied(w, "login");
    weir_close(w);
}

/* To stop before the last one, and to be forgotten, would be as good as to be denied never. */
static void a_flood_does_not_make_the_last_request_but_one_forgotten(void **state)
{
    struct place *p = *state;
    weir *w = open_place(p);

    for (int64_t i = 0; i < WATCHED; i++)
        use_up(w, "login", i, 4);
    flood(w, p, "once", 5 * MAX_KEYS);
    flood(w, p, "login", 5 * MAX_KEYS);
    flood(w, p, NULL, 5 * MAX_KEYS);
    for (int64_t i = 0; i < WATCHED; i++)
        use_up(w, "login", i, 1);
    assert_all_denied(w, "login");
    weir_close(w);
}

/* One rule of a policy has nothing left after one request, another one counts further. */
static void the_rules_of_a_policy_do_not_push_each_other_out(void **state)
{
    struct place *p = *state;
    weir *w = open_place(p);
    char words[96];

    for (int n = 0; n < 3; n++)
        for (int i = 0; i < WATCHED; i++) {
            snprintf(words, sizeof words, "steps device=own-%d-%d user=watched-%d", n, i, i);
            assert_true(check(w, 0, words).allowed);
        }
    for (int i = 0; i < scaled(30000); i++) {
        snprintf(words, sizeof words, "steps device=fresh-%d user=crowd-%d", i, i / 2);
        assert_true(check(w, 0, words).allowed);
    }
    for (int i = 0; i < WATCHED; i++) {
        snprintf(words, sizeof words, "steps device=another-%d user=watched-%d", i, i);
        assert_false(check(w, 0, words).allowed);
    }
    weir_close(w);
}

/* ---- and what is forgotten is counted ------------------------------------------------------- */

/* Beside the limiter, a count of what each key was admitted. If it says that more is left than there
 * can be, the key was forgotten. */
static void more_than_a_limit_is_admitted_only_by_keys_that_are_counted_as_evicted(void **state)
{
    enum { KEYS = 3 * MAX_KEYS };
    static const struct {
        const char *name;
        int limit;
    } limits[] = { { "login", 5 }, { "once", 1 } };
    static int admitted[2][KEYS];
    struct place *p = *state;
    struct dice dice = dice_new();
    weir *w = open_place(p);
    int64_t forgotten = 0;

    memset(admitted, 0, sizeof admitted);
    for (int i = 0; i < scaled(200000); i++) {
        const int which = (int)dice_below(&dice, 2), n = (int)dice_below(&dice, KEYS);
        const weir_answer a = ask_for(w, limits[which].name, "key", n);
        const int left = limits[which].limit - admitted[which][n];

        if (a.allowed != (left > 0) || a.remaining != (left > 0 ? left - 1 : 0)) {
            assert_true(a.allowed);
            assert_true(a.remaining > left - 1); /* never less than it should be */
            assert_int_equal(a.remaining, limits[which].limit - 1);
            forgotten++;
            admitted[which][n] = 0;
        }
        admitted[which][n] += a.allowed;
        assert_true(forgotten <= stats_of(w).evicted_keys || i % 100 != 0);
    }
    assert_true(forgotten > 0);
    assert_true(forgotten <= stats_of(w).evicted_keys);
    assert_int_equal(stats_of(w).keys, MAX_KEYS);
    weir_close(w);
}

/* Policies of different shapes in turns: what once made a check go on for ever. */
static void a_flood_of_several_policies_ends(void **state)
{
    struct place *p = *state;
    weir *w = open_place(p);

    for (int i = 0; i < scaled(100); i++) {
        flood(w, p, "login", 1000);
        flood(w, p, "api", 1000);
        flood(w, p, "once", 1000);
        flood(w, p, NULL, 1000);
    }
    assert_int_equal(stats_of(w).keys, MAX_KEYS);
    weir_close(w);
}

#define BOTH(test)                                                                                 \
    { "memory: " #test, test, make_memory, NULL, NULL },                                           \
    {                                                                                              \
        "file: " #test, test, make_file, remove_file_store, NULL                                   \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(a_flood_of_a_limit_of_1_makes_no_other_policy_forget),
        BOTH(a_flood_of_large_limits_makes_no_other_policy_forget),
        BOTH(a_flood_of_limits_without_a_policy_makes_no_policy_forget),
        BOTH(a_flood_of_fresh_keys_does_not_make_their_own_policy_forget),
        BOTH(what_ends_soon_is_not_forgotten_for_what_lasts),
        BOTH(a_flood_does_not_make_the_last_request_but_one_forgotten),
        BOTH(the_rules_of_a_policy_do_not_push_each_other_out),
        BOTH(more_than_a_limit_is_admitted_only_by_keys_that_are_counted_as_evicted),
        BOTH(a_flood_of_several_policies_ends),
    };

    return cmocka_run_group_tests_name("flood", tests, NULL, NULL);
}
