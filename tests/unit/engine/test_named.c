/* test_named.c - limits that come with a request and have a name. */
#include "support/limiter.h"

#include <pthread.h>
#include <unistd.h>

#include "engine/handle.h"
#include "engine/override_request.h"

static weir_request named(const char *name, const char *key)
{
    return (weir_request){
        .name = name, .key = key, .limit = 3, .window_ms = 60000, .now = NOW, .cost = 1
    };
}

static weir_answer check_named(weir *w, const char *name, const char *key)
{
    const weir_request r = named(name, key);

    return ask(weir_check, w, &r);
}

static void assert_refused(weir *w, weir_request r, const char *text)
{
    weir_answer a;
    weir_diag diag;

    assert_int_equal(weir_check(w, &r, &a, &diag), WEIR_EREQUEST);
    assert_string_equal(diag.text, text);
}

/* ---- names ------------------------------------------------------------------------------------ */

static void a_name_tells_limits_apart_and_is_the_answers_policy(void **state)
{
    weir *w = open_text(NULL);
    weir_answer a;

    (void)state;
    a = check_named(w, "login", "ann");
    assert_string_equal(a.policy, "login");
    assert_string_equal(a.rule, "default");
    assert_string_equal(a.rules[0].policy, "login");
    assert_int_equal(a.remaining, 2);
    assert_int_equal(check_named(w, "login", "ann").remaining, 1);
    assert_int_equal(check_named(w, "login", "bob").remaining, 2);
    assert_int_equal(check_named(w, "signup", "ann").remaining, 2);
    a = check_named(w, NULL, "ann");
    assert_null(a.policy);
    assert_null(a.rules[0].policy);
    assert_int_equal(a.remaining, 2);
    weir_close(w);
}

static void numbers_may_change_and_the_count_stays_but_not_the_window(void **state)
{
    weir *w = open_text(NULL);
    weir_request r = named("login", "ann");

    (void)state;
    assert_int_equal(ask(weir_check, w, &r).remaining, 2);
    r.limit = 10;
    assert_int_equal(ask(weir_check, w, &r).remaining, 8);
    assert_int_equal(ask(weir_peek, w, &r).remaining, 8);
    assert_int_equal(ask(weir_refund, w, &r).remaining, 9);
    assert_int_equal(ask(weir_reset, w, &r).remaining, 10);
    assert_int_equal(ask(weir_check, w, &r).remaining, 9);
    for (int64_t window = 1000; window < 20000; window += 1000) { /* more than are kept */
        r.window_ms = window;
        assert_int_equal(ask(weir_check, w, &r).remaining, 9);
        assert_int_equal(ask(weir_check, w, &r).remaining, 8);
    }
    r.algorithm = WEIR_FIXED_WINDOW;
    assert_int_equal(ask(weir_check, w, &r).remaining, 9);
    weir_close(w);
}

static void names_are_as_those_of_policies_and_of_none_in_the_file(void **state)
{
    weir *w = open_text(POLICIES("  login: {limit: 5 per 1m, by: ip}\n"));
    char too_long[WEIR_MAX_NAME + 2];

    (void)state;
    memset(too_long, 'a', sizeof too_long - 1);
    too_long[sizeof too_long - 1] = '\0';
    assert_refused(w, named("a b", "k"),
                   "'a b' cannot name a limit: names are 1 to 64 of a-z A-Z 0-9 _ . : / -");
    assert_refused(w, named("", "k"),
                   "'' cannot name a limit: names are 1 to 64 of a-z A-Z 0-9 _ . : / -");
    assert_refused(w, named("(other)", "k"),
                   "'(other)' cannot name a limit: names are 1 to 64 of a-z A-Z 0-9 _ . : / -");
    too_long[WEIR_MAX_NAME] = '\0';
    assert_string_equal(check_named(w, too_long, "k").policy, too_long);
    assert_refused(w, named("login", "k"),
                   "'login' is a policy of the file, which has its own limit: name the policy "
                   "instead, or give this limit another name");
    assert_refused(w, (weir_request){ .policy = "login", .name = "x", .key = "k" },
                   "a name needs a limit in the request: leave out the name, or the policy");
    assert_refused(w,
                   (weir_request){ .policy = "login", .on_error = WEIR_ON_ERROR_DENY, .key = "k" },
                   "on_error is set by the policy: leave out on_error, or the policy");
    assert_refused(w, (weir_request){ .key = "k", .limit = 1, .window_ms = 1, .on_error = 9 },
                   "on_error must be local, allow or deny");
    weir_close(w);
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void a_named_limit_keeps_its_counts_when_it_becomes_a_policy(void **state)
{
    char path[] = "/tmp/test_named.XXXXXX";
    const int fd = mkstemp(path);
    weir *w;

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    write_file(path, POLICIES("  site: {limit: 9 per 1m}\n"));
    w = open_with(&(weir_options){
        .policy_file = path, .flags = WEIR_TRUST_NOW | WEIR_NO_THREAD | WEIR_IGNORE_ENVIRONMENT });
    check_named(w, "login", "ann");
    check_named(w, "login", "ann");
    write_file(path, POLICIES("  login: {limit: 3 per 1m, by: user}\n"));
    assert_int_equal(weir_reload(w, NULL), WEIR_OK);
    assert_int_equal(check(w, NOW, "login user=ann").remaining, 0);
    assert_false(check(w, NOW, "login user=ann").allowed);
    weir_close(w);
    unlink(path);
}

/* ---- how many --------------------------------------------------------------------------------- */

static void names_beyond_the_bound_are_counted_as_other(void **state)
{
    struct counted_memory memory = { .until_failure = -1 };
    weir *w = open_with(&(weir_options){
        .max_keys = 100000,
        .flags = WEIR_TRUST_NOW | WEIR_NO_THREAD | WEIR_IGNORE_ENVIRONMENT,
        .allocator = { counted_resize, &memory },
    });
    char name[16];
    long blocks = 0;

    (void)state;
    for (int i = 0; i < NAMED_MOST + 500; i++) {
        weir_answer a;

        snprintf(name, sizeof name, "n%d", i);
        if (i == NAMED_MOST)
            blocks = memory.blocks;
        a = check_named(w, name, "k");
        assert_string_equal(a.policy, i < NAMED_MOST ? name : "(other)");
        assert_int_equal(a.remaining, 2);
        assert_int_equal(check_named(w, name, "k").remaining, 1);
    }
    assert_int_equal(memory.blocks, blocks);
    assert_string_equal(check_named(w, "n7", "k").policy, "n7");
    weir_close(w);
    assert_int_equal(memory.blocks, 0);
}

enum { THREADS = 4, NAMES = 300 };

struct asker {
    weir *w;
    pthread_t thread;
    const char *policies[NAMES];
};

static void *bring_names(void *ctx)
{
    struct asker *a = ctx;
    char name[16];

    for (int i = 0; i < NAMES; i++) {
        snprintf(name, sizeof name, "n%d", i);
        a->policies[i] = check_named(a->w, name, "k").policy;
    }
    return NULL;
}

static void threads_that_intern_a_name_at_once_get_one_pointer(void **state)
{
    struct asker askers[THREADS] = { 0 };
    weir *w = open_text(NULL);
    char name[16];

    (void)state;
    for (int i = 0; i < THREADS; i++) {
        askers[i].w = w;
        assert_int_equal(pthread_create(&askers[i].thread, NULL, bring_names, &askers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(askers[i].thread, NULL);
    for (int i = 0; i < NAMES; i++) {
        snprintf(name, sizeof name, "n%d", i);
        assert_string_equal(askers[0].policies[i], name);
        for (int k = 1; k < THREADS; k++)
            assert_ptr_equal(askers[k].policies[i], askers[0].policies[i]);
        assert_false(check_named(w, name, "k").allowed); /* 4 of 3 were asked for before */
    }
    weir_close(w);
}

/* ---- operators -------------------------------------------------------------------------------- */

static weir_err try_change(weir *w, struct override_request c, weir_diag *diag)
{
    struct published_visit visit = published_enter(&w->policies);
    struct override_request_room room;
    struct ledger_entry e;
    weir_err err;

    c.who = "ann";
    c.reason = "";
    err = override_request_entry(&w->engine, visit.current, &c, &room, &e, diag);
    if (!err)
        err = ledger_view_append(w->ledger_view, &e, diag);
    published_leave(&w->policies, visit);
    return err;
}

static void make(weir *w, struct override_request c)
{
    weir_diag diag;

    if (try_change(w, c, &diag))
        fail_msg("%s", diag.text);
}

static struct override_request limit_for(const char *name, const char *key, int64_t limit)
{
    return (struct override_request){ .subject = LEDGER_OVERRIDE,
                                      .effect = LEDGER_LIMIT,
                                      .policy = name,
                                      .key = key,
                                      .limit = limit,
                                      .burst = LEDGER_UNCHANGED };
}

static void overrides_are_for_a_name_and_a_key(void **state)
{
    weir *w = open_text(NULL);
    weir_answer a;

    (void)state;
    check_named(w, "login", "ann");
    make(w, limit_for("login", "ann", 10));
    a = check_named(w, "login", "ann");
    assert_int_equal(a.limit, 10);
    assert_int_equal(a.remaining, 8);
    assert_int_equal(a.override_id, 1);
    assert_int_equal(check_named(w, "login", "bob").limit, 3);
    assert_int_equal(check_named(w, "signup", "ann").limit, 3);
    assert_int_equal(check_named(w, NULL, "ann").limit, 3);
    make(w, (struct override_request){ .subject = LEDGER_OVERRIDE,
                                       .effect = LEDGER_BLOCK,
                                       .policy = "signup",
                                       .key = "ann" });
    a = check_named(w, "signup", "ann");
    assert_false(a.allowed);
    assert_int_equal(a.source, WEIR_FROM_BLOCKED);
    assert_string_equal(a.policy, "signup");
    assert_int_equal(a.limit, 3);
    make(w, (struct override_request){ .subject = LEDGER_OVERRIDE,
                                       .effect = LEDGER_EXEMPT,
                                       .policy = "login",
                                       .key = "bob" });
    assert_int_equal(check_named(w, "login", "bob").source, WEIR_FROM_EXEMPT);
    make(w, (struct override_request){ .subject = LEDGER_OVERRIDE,
                                       .effect = LEDGER_REMOVED,
                                       .policy = "login",
                                       .key = "ann" });
    assert_int_equal(check_named(w, "login", "ann").limit, 3);
    weir_close(w);
}

static void a_name_that_no_request_has_brought_must_be_meant(void **state)
{
    weir *w = open_text(POLICIES("  login: {limit: 5 per 1m, by: ip}\n"));
    struct override_request c = limit_for("uploads", "ann", 7);
    weir_diag diag;

    (void)state;
    assert_int_equal(try_change(w, c, &diag), WEIR_ENOPOLICY);
    assert_string_equal(diag.text, "there is no policy 'uploads', and no request has sent a limit "
                                   "of this name: if requests will, add `named`");
    c.is_named = true;
    make(w, c);
    assert_int_equal(check_named(w, "uploads", "ann").limit, 7);
    c.policy = "logn";
    c.is_named = false;
    assert_int_equal(try_change(w, c, &diag), WEIR_ENOPOLICY);
    assert_string_equal(diag.text, "there is no policy 'logn': did you mean 'login'?");
    check_named(w, "logn", "ann");
    make(w, c);
    assert_int_equal(check_named(w, "logn", "ann").limit, 7);
    c.policy = "login";
    c.is_named = true;
    assert_int_equal(try_change(w, c, &diag), WEIR_EREQUEST);
    assert_string_equal(diag.text, "'login' is a policy of the file: leave out `named`");
    c.policy = "a b";
    assert_int_equal(try_change(w, c, &diag), WEIR_ENOPOLICY);
    assert_int_equal(try_change(w,
                                (struct override_request){ .subject = LEDGER_OVERRIDE,
                                                           .effect = LEDGER_ON_PLAN,
                                                           .policy = "uploads",
                                                           .key = "ann",
                                                           .plan = "paid" },
                                &diag),
                     WEIR_EREQUEST);
    assert_string_equal(diag.text, "rule 'default' of policy 'uploads' has no plan 'paid'");
    weir_close(w);
}

static void overrides_hold_for_names_that_are_not_kept(void **state)
{
    struct override_request c = limit_for("beyond", "ann", 8);
    weir *w = open_text(NULL);
    weir_answer a;
    char name[16];

    (void)state;
    for (int i = 0; i < NAMED_MOST; i++) {
        snprintf(name, sizeof name, "n%d", i);
        check_named(w, name, "k");
    }
    assert_string_equal(check_named(w, "beyond", "ann").policy, "(other)");
    c.is_named = true;
    make(w, c);
    a = check_named(w, "beyond", "ann");
    assert_int_equal(a.limit, 8);
    assert_int_equal(a.remaining, 6);
    assert_string_equal(a.policy, "beyond");
    assert_string_equal(check_named(w, "beneath", "ann").policy, "(other)");
    weir_close(w);
}

static void modes_are_for_a_name(void **state)
{
    struct override_request c = {
        .subject = LEDGER_MODE, .effect = LEDGER_IN_MODE, .policy = "login", .mode = "shadow"
    };
    weir *w = open_text(NULL);
    weir_answer a;

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_true(check_named(w, "login", "ann").allowed);
    assert_false(check_named(w, "login", "ann").allowed);
    make(w, c);
    a = check_named(w, "login", "ann");
    assert_true(a.allowed && a.shadow && a.rules[0].shadow_denied);
    assert_string_equal(a.policy, "login");
    assert_false(check_named(w, "signup", "ann").shadow);
    c.mode = "off";
    make(w, c);
    a = check_named(w, "login", "ann");
    assert_int_equal(a.source, WEIR_FROM_OFF);
    assert_int_equal(a.limit, 3);
    c.effect = LEDGER_REMOVED;
    make(w, c);
    assert_false(check_named(w, "login", "ann").allowed);
    weir_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_tells_limits_apart_and_is_the_answers_policy),
        cmocka_unit_test(numbers_may_change_and_the_count_stays_but_not_the_window),
        cmocka_unit_test(names_are_as_those_of_policies_and_of_none_in_the_file),
        cmocka_unit_test(a_named_limit_keeps_its_counts_when_it_becomes_a_policy),
        cmocka_unit_test(names_beyond_the_bound_are_counted_as_other),
        cmocka_unit_test(threads_that_intern_a_name_at_once_get_one_pointer),
        cmocka_unit_test(overrides_are_for_a_name_and_a_key),
        cmocka_unit_test(a_name_that_no_request_has_brought_must_be_meant),
        cmocka_unit_test(overrides_hold_for_names_that_are_not_kept),
        cmocka_unit_test(modes_are_for_a_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
