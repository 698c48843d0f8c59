/* test_reservations.c - holding now, settling later, through the library: the rules of
 * reservation.h. The traces of budgets have the numbers. */
#include <stdlib.h>
#include <unistd.h>

#include "policy/policy.h"
#include "support/limiter.h"

#define JOBS                                                                                       \
    POLICIES("  jobs:\n    by: user\n    rules:\n      running: {limit: 2 at once}\n"              \
             "      units: {limit: 10 per 1m, algorithm: fixed_window}\n"                          \
             "  bucket: {limit: 10 per 1m, algorithm: token_bucket, by: user}\n"                   \
             "  free: {limit: 1 per 1m, by: user, exempt: [{user: root}]}\n")

enum { TTL = 5000, KNOWN = 600000 };

static weir_request held(const char *policy, const char *key, const char *id, int64_t now)
{
    return (weir_request){ .policy = policy, .key = key, .id = id, .ttl_ms = TTL, .now = now };
}

static weir_request of(const char *id, int64_t now)
{
    return (weir_request){ .reservation = id, .now = now };
}

static weir_err err_of(ask_fn *how, weir *w, const weir_request *r)
{
    weir_answer a;

    return how(w, r, &a, NULL);
}

static void R1_a_denial_by_one_rule_keeps_nothing_of_the_others(void **state)
{
    weir *w = open_text(JOBS);
    weir_request r = held("jobs", "ann", NULL, NOW);
    weir_answer a;

    (void)state;
    assert_true(ask(weir_reserve, w, &r).allowed);
    assert_true(ask(weir_reserve, w, &r).allowed);
    a = ask(weir_reserve, w, &r);
    assert_false(a.allowed);
    assert_string_equal(a.rule, "running");
    assert_string_equal(a.reservation, "");
    assert_int_equal(a.retry_after_ms, TTL);
    assert_int_equal(rule_of(&a, "units")->remaining, 8);
    r = held("jobs", "bob", "b", NOW);
    r.cost = 11; /* more than two slots, and more than all units */
    assert_false(ask(weir_reserve, w, &r).allowed);
    a = peek(w, NOW, "jobs user=bob");
    assert_int_equal(rule_of(&a, "running")->remaining, 2);
    assert_int_equal(rule_of(&a, "units")->remaining, 10);
    r.cost = 1; /* a denial is not remembered: another question may have the id */
    assert_false(ask(weir_reserve, w, &r).repeated);
    weir_close(w);
}

static void R2_a_record_is_known_ten_minutes_after_its_expiry_and_no_longer(void **state)
{
    weir *w = open_text(JOBS);
    const weir_request r = held("bucket", "ann", "x", NOW);
    weir_request late = of("x", NOW + TTL + KNOWN - 1);

    (void)state;
    assert_true(ask(weir_reserve, w, &r).allowed);
    assert_true(ask(weir_commit, w, &late).expired);
    late.now++;
    assert_int_equal(err_of(weir_commit, w, &late), WEIR_ENORESERVATION);
    weir_close(w);
}

static void R3_what_is_held_is_not_evicted(void **state)
{
    weir *w = open_with(&(weir_options){
        .policy_text = JOBS,
        .max_keys = 200,
        .flags = WEIR_TRUST_NOW | WEIR_NO_THREAD | WEIR_IGNORE_ENVIRONMENT,
    });
    const weir_request r = held("jobs", "ann", "a", NOW);
    weir_request done = of("a", NOW + 1);
    weir_answer a;
    char key[32];

    (void)state;
    assert_true(ask(weir_reserve, w, &r).allowed);
    for (int i = 0; i < 2000; i++) {
        weir_request other = { .policy = "bucket", .key = key, .cost = 10, .now = NOW };

        snprintf(key, sizeof key, "user-%d", i);
        assert_true(ask(weir_check, w, &other).allowed);
    }
    assert_true(stats_of(w).evicted_keys > 1000);
    a = peek(w, NOW, "jobs user=ann");
    assert_int_equal(rule_of(&a, "running")->remaining, 1);
    assert_false(ask(weir_commit, w, &done).repeated);
    weir_close(w);
}

static void R3_what_is_held_of_any_limit_is_not_evicted(void **state)
{
    static const char *const kinds[] = { "fixed", "sliding", "counter", "token", "leaky", "month" };
    weir *w = open_with(&(weir_options){
        .policy_text = POLICIES(
            "  fixed: {limit: 10 per 1h, by: user, algorithm: fixed_window}\n"
            "  sliding: {limit: 10 per 1h, by: user, algorithm: sliding_window}\n"
            "  counter: {limit: 10 per 1h, by: user, algorithm: sliding_counter}\n"
            "  token: {limit: 10 per 1h, by: user, algorithm: token_bucket}\n"
            "  leaky: {limit: 10 per 1h, by: user, algorithm: leaky_bucket}\n"
            "  month: {limit: 10 per month, by: user}\n"
            "  flood: {limit: 10 per 1m, by: user}\n"),
        .max_keys = 200,
        .flags = WEIR_TRUST_NOW | WEIR_NO_THREAD | WEIR_IGNORE_ENVIRONMENT,
    });
    char key[32];

    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        weir_request r = held(kinds[i], "ann", kinds[i], NOW);

        r.cost = 4;
        assert_int_equal(ask(weir_reserve, w, &r).remaining, 6);
    }
    for (int i = 0; i < 2000; i++) {
        weir_request other = { .policy = "flood", .key = key, .cost = 10, .now = NOW };

        snprintf(key, sizeof key, "user-%d", i);
        assert_true(ask(weir_check, w, &other).allowed);
    }
    assert_true(stats_of(w).evicted_keys > 1000);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const weir_request look = { .policy = kinds[i], .key = "ann", .now = NOW },
                           done = of(kinds[i], NOW);

        assert_int_equal(ask(weir_peek, w, &look).remaining, 6);
        assert_int_equal(ask(weir_release, w, &done).remaining, 10);
    }
    weir_close(w);
}

static void R3_a_table_that_is_full_of_what_is_held_admits_nothing_new(void **state)
{
    weir *w = open_with(&(weir_options){
        .policy_text = POLICIES("  some: {limit: 5 at once, by: user, on_error: deny}\n"),
        .max_keys = 100,
        .flags = WEIR_TRUST_NOW | WEIR_NO_THREAD | WEIR_IGNORE_ENVIRONMENT,
    });
    int allowed = 0;
    char key[32];

    (void)state;
    for (int i = 0; i < 300; i++) {
        const weir_request r = held("some", key, NULL, NOW);

        snprintf(key, sizeof key, "user-%d", i);
        allowed += ask(weir_reserve, w, &r).allowed;
    }
    assert_int_equal(allowed, 50); /* each has a record and a key */
    assert_int_equal(stats_of(w).evicted_keys, 0);
    weir_close(w);
}

static void R4_the_same_question_under_the_same_id_is_charged_once(void **state)
{
    weir *w = open_text(JOBS);
    weir_request r = held("bucket", "ann", "x", NOW);
    weir_answer a = ask(weir_reserve, w, &r);

    (void)state;
    assert_false(a.repeated);
    assert_int_equal(a.remaining, 9);
    a = ask(weir_reserve, w, &r);
    assert_true(a.repeated);
    assert_int_equal(a.remaining, 9);
    r.cost = 2;
    assert_int_equal(err_of(weir_reserve, w, &r), WEIR_EREUSED);
    r = held("bucket", "bob", "x", NOW);
    assert_int_equal(err_of(weir_reserve, w, &r), WEIR_EREUSED);
    weir_close(w);
}

static void a_check_with_an_id_is_charged_once(void **state)
{
    weir *w = open_text(JOBS);
    weir_request r = { .policy = "bucket", .key = "ann", .id = "once", .now = NOW };

    (void)state;
    for (int i = 0; i < 3; i++) {
        const weir_answer a = ask(weir_check, w, &r);

        assert_int_equal(a.repeated, i > 0);
        assert_int_equal(a.remaining, 9);
    }
    r.cost = 2;
    assert_int_equal(err_of(weir_check, w, &r), WEIR_EREUSED);
    weir_close(w);
}

static void a_slot_is_free_at_the_instant_of_its_expiry(void **state)
{
    weir *w = open_text(JOBS);
    weir_request r = held("jobs", "ann", NULL, NOW);

    (void)state;
    assert_true(ask(weir_reserve, w, &r).allowed);
    assert_true(ask(weir_reserve, w, &r).allowed);
    r.now = NOW + TTL - 1;
    assert_int_equal(ask(weir_reserve, w, &r).retry_after_ms, 1);
    r.now++;
    assert_true(ask(weir_reserve, w, &r).allowed);
    weir_close(w);
}

static void what_is_settled_stays_so(void **state)
{
    weir *w = open_text(JOBS);
    const weir_request r = held("jobs", "ann", "x", NOW);
    weir_request done = of("x", NOW + 1);
    weir_answer a;

    (void)state;
    assert_true(ask(weir_reserve, w, &r).allowed);
    assert_false(ask(weir_release, w, &done).repeated);
    assert_true(ask(weir_release, w, &done).repeated);
    a = peek(w, NOW + 1, "jobs user=ann");
    assert_int_equal(rule_of(&a, "running")->remaining, 2);
    assert_int_equal(rule_of(&a, "units")->remaining, 10);
    done.cost = 1;
    assert_int_equal(err_of(weir_commit, w, &done), WEIR_ESETTLED);
    done.cost = 0;
    assert_int_equal(err_of(weir_grow, w, &done), WEIR_ESETTLED);
    done.ttl_ms = TTL;
    assert_int_equal(err_of(weir_extend, w, &done), WEIR_ESETTLED);
    weir_close(w);
}

static void what_is_not_valid_is_refused(void **state)
{
    weir *w = open_text(JOBS);
    weir_request r = held("bucket", "ann", "x", NOW), check_jobs = held("jobs", "ann", NULL, NOW);

    (void)state;
    r.ttl_ms = 0;
    assert_int_equal(err_of(weir_reserve, w, &r), WEIR_ETTL);
    r.ttl_ms = WEIR_MAX_TTL_MS + 1;
    assert_int_equal(err_of(weir_reserve, w, &r), WEIR_ETTL);
    r.ttl_ms = TTL;
    for (size_t i = 0; i < 4; i++) {
        static const char *const odd[] = { "", "a b", "a\\b", "\xc3\xa4" };

        r.id = odd[i];
        assert_int_equal(err_of(weir_reserve, w, &r), WEIR_EREQUEST);
    }
    r.id = "0123456789012345678901234567890123456789012345678901234567890123";
    assert_true(ask(weir_reserve, w, &r).allowed);
    r.id = "01234567890123456789012345678901234567890123456789012345678901234";
    assert_int_equal(err_of(weir_reserve, w, &r), WEIR_EREQUEST);
    r = of("x", NOW);
    assert_int_equal(err_of(weir_commit, w, &r), WEIR_ENORESERVATION);
    check_jobs.ttl_ms = 0;
    assert_int_equal(err_of(weir_check, w, &check_jobs), WEIR_ENEEDSRESERVATION);
    check_jobs.id = "x";
    assert_int_equal(err_of(weir_check, w, &check_jobs), WEIR_ENEEDSRESERVATION);
    assert_int_equal(stats_of(w).keys, 2);
    weir_close(w);
}

/* Every byte, at every place of ids of lengths around those that are looked at together. */
static void an_id_is_a_name_wherever_its_odd_byte_stands(void **state)
{
    static const size_t lengths[] = { 1, 7, 15, 16, 17, 32, 33, 63, 64 };
    weir *w = open_text(JOBS);

    (void)state;
    for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++)
        for (size_t at = 0; at < lengths[l]; at++)
            for (int byte = 1; byte < 256; byte++) {
                char id[WEIR_MAX_ID + 1] = { 0 };
                weir_request r = of(id, NOW);

                memset(id, 'a', lengths[l]);
                id[at] = (char)byte;
                if ((err_of(weir_commit, w, &r) == WEIR_ENORESERVATION) !=
                    name_is_valid(span_of(id)))
                    fail_msg("byte %d at %zu of %zu", byte, at, lengths[l]);
            }
    weir_close(w);
}

static int64_t fixed_clock(void *ctx)
{
    (void)ctx;
    return NOW;
}

/* What differs in its key, id and time alone is prepared once; a request with a time of its own is
 * prepared from the start. */
static void reservations_like_one_before_are_the_same_as_others(void **state)
{
    weir *w = open_with(&(weir_options){
        .policy_text = JOBS,
        .max_keys = 10000,
        .clock = fixed_clock,
        .flags = WEIR_TRUST_NOW | WEIR_NO_THREAD | WEIR_IGNORE_ENVIRONMENT,
    });
    weir_request r = held("bucket", "ann", "first", 0), other = held("bucket", "ann", "a", NOW);
    weir_answer a;

    (void)state;
    assert_true(ask(weir_reserve, w, &r).allowed);
    r.id = "a";
    r.ttl_ms = 70;
    a = ask(weir_reserve, w, &r);
    assert_int_equal(a.remaining, 8);
    assert_int_equal(a.expires_in_ms, 70);
    assert_string_equal(a.reservation, "a");
    a = ask(weir_reserve, w, &other);
    assert_true(a.repeated);
    assert_int_equal(a.expires_in_ms, 70);
    r.key = "bob";
    assert_int_equal(err_of(weir_reserve, w, &r), WEIR_EREUSED);
    r.id = "b";
    assert_int_equal(ask(weir_reserve, w, &r).remaining, 9);
    r.id = "c";
    r.ttl_ms = WEIR_MAX_TTL_MS + 1;
    assert_int_equal(err_of(weir_reserve, w, &r), WEIR_ETTL);
    r.ttl_ms = 0;
    assert_int_equal(err_of(weir_reserve, w, &r), WEIR_ETTL);
    r.ttl_ms = TTL;
    r.id = "a b";
    assert_int_equal(err_of(weir_reserve, w, &r), WEIR_EREQUEST);
    r.id = "local.c";
    assert_int_equal(err_of(weir_reserve, w, &r), WEIR_EREQUEST);
    r.id = NULL;
    assert_int_equal(strlen(ask(weir_reserve, w, &r).reservation), 32);
    r.id = "c";
    r.reservation = "b";
    assert_int_equal(err_of(weir_reserve, w, &r), WEIR_EREQUEST);
    r.reservation = NULL;
    r.cost = 3;
    assert_int_equal(ask(weir_reserve, w, &r).remaining, 5);
    weir_close(w);
}

static void what_is_exempt_has_no_reservation_and_none_is_fine(void **state)
{
    weir *w = open_text(JOBS);
    const weir_request r = held("free", "root", "x", NOW), none = of(NULL, NOW),
                       empty = of("", NOW);
    const weir_answer a = ask(weir_reserve, w, &r);

    (void)state;
    assert_true(a.allowed);
    assert_int_equal(a.source, WEIR_FROM_EXEMPT);
    assert_string_equal(a.reservation, "");
    assert_true(ask(weir_commit, w, &none).allowed);
    assert_true(ask(weir_release, w, &empty).allowed);
    weir_close(w);
}

static void a_reload_in_between_changes_nothing(void **state)
{
    char directory[] = "/tmp/weir-reserve-XXXXXX", path[64];
    const weir_request r = held("p", "ann", "x", NOW), done = of("x", NOW + 1);
    weir_diag diag;
    weir_answer a;
    weir *w = NULL;

    (void)state;
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/p.yaml", directory);
    for (int i = 0; i < 2; i++) {
        FILE *f = fopen(path, "w");

        assert_non_null(f);
        fputs(i ? POLICIES("  q: {limit: 1 per 1m, by: user}\n")
                : POLICIES("  p: {limit: 10 per 1m, by: user, algorithm: fixed_window}\n"),
              f);
        fclose(f);
        if (i == 0) {
            w = open_with(&(weir_options){
                .policy_file = path,
                .flags = WEIR_TRUST_NOW | WEIR_NO_THREAD | WEIR_IGNORE_ENVIRONMENT,
            });
            assert_true(ask(weir_reserve, w, &r).allowed);
        }
    }
    assert_int_equal(weir_reload(w, &diag), WEIR_OK);
    a = ask(weir_release, w, &done);
    assert_int_equal(a.remaining, 10);
    assert_string_equal(a.policy, "p");
    weir_close(w);
    remove(path);
    rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(R1_a_denial_by_one_rule_keeps_nothing_of_the_others),
        cmocka_unit_test(R2_a_record_is_known_ten_minutes_after_its_expiry_and_no_longer),
        cmocka_unit_test(R3_what_is_held_is_not_evicted),
        cmocka_unit_test(R3_what_is_held_of_any_limit_is_not_evicted),
        cmocka_unit_test(R3_a_table_that_is_full_of_what_is_held_admits_nothing_new),
        cmocka_unit_test(R4_the_same_question_under_the_same_id_is_charged_once),
        cmocka_unit_test(a_check_with_an_id_is_charged_once),
        cmocka_unit_test(a_slot_is_free_at_the_instant_of_its_expiry),
        cmocka_unit_test(what_is_settled_stays_so),
        cmocka_unit_test(what_is_not_valid_is_refused),
        cmocka_unit_test(an_id_is_a_name_wherever_its_odd_byte_stands),
        cmocka_unit_test(reservations_like_one_before_are_the_same_as_others),
        cmocka_unit_test(what_is_exempt_has_no_reservation_and_none_is_fine),
        cmocka_unit_test(a_reload_in_between_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
