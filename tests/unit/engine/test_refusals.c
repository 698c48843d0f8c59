/* test_refusals.c - bad requests and bad options: each is told from right, with what to do,
 * and leaves everything as it was. */
#include "support/limiter.h"

#include <sys/stat.h>
#include <unistd.h>

#define SECRET_NAME "identity-never-in-errors"

#define TEXT                                                                                       \
    POLICIES("  login: {limit: 5 per 1m, by: ip}\n"                                                \
             "  reset: {limit: 5 per 1m, by: email}\n"                                             \
             "  upload: {limit: 5 per 1m, by: user}\n"                                             \
             "  pair: {limit: 5 per 1m, by: [user, route]}\n"                                      \
             "  all: {limit: 5 per 1m}\n")

static ask_fn *const verbs[] = { weir_check, weir_peek, weir_refund, weir_reset };

/* With every verb: the same error, no identity in it, nothing counted. */
static void refuses(weir *w, weir_request r, weir_err err, const char *text)
{
    weir_answer a;
    weir_diag diag;

    if (!r.now)
        r.now = NOW;
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        const weir_stats before = stats_of(w);

        strcpy(diag.text, "something old");
        memset(&a, 0x55, sizeof a);
        assert_int_equal(verbs[i](w, &r, &a, &diag), err);
        assert_int_equal(a.err, err);
        assert_string_equal(diag.text, text);
        assert_null(strstr(diag.text, SECRET_NAME));
        assert_int_equal(verbs[i](w, &r, &a, NULL), err); /* the diag is optional */
        assert_int_equal(stats_of(w).keys, before.keys);
    }
    assert_int_equal(weir_check_many(w, &r, &a, 1, &diag), err);
    assert_string_equal(diag.text, text);
}

/* A request that is good but for one thing. */
#define LOGIN(...) ((weir_request){ .policy = "login", .key = "192.0.2.7", __VA_ARGS__ })
#define LOGIN_OF(who) ((weir_request){ .policy = "login", .key = (who) })
#define LIMIT(...)                                                                                 \
    ((weir_request){ .key = SECRET_NAME, .limit = 5, .window_ms = 1000, __VA_ARGS__ })
#define LIMIT_OF(who, len)                                                                         \
    ((weir_request){ .key = (who), .key_len = (len), .limit = 5, .window_ms = 1000 })
#define LIMIT_IS(n, window)                                                                        \
    ((weir_request){ .key = SECRET_NAME, .limit = (n), .window_ms = (window) })

static int open_charged(void **state)
{
    weir *w = open_text(TEXT);

    check(w, NOW, "login ip=192.0.2.7 cost=2");
    check(w, NOW, "upload user=" SECRET_NAME " cost=2");
    check(w, NOW, "all cost=2");
    *state = w;
    return 0;
}

/* What had been counted still is, and nothing else. */
static int close_unchanged(void **state)
{
    weir *w = *state;

    assert_int_equal(peek(w, NOW, "login ip=192.0.2.7").remaining, 3);
    assert_int_equal(peek(w, NOW, "upload user=" SECRET_NAME).remaining, 3);
    assert_int_equal(peek(w, NOW, "all").remaining, 3);
    assert_int_equal(stats_of(w).keys, 3);
    weir_close(w);
    return 0;
}

static void a_policy_that_does_not_exist(void **state)
{
    weir *w = *state, *none = open_text(NULL);

    refuses(w, (weir_request){ .policy = "logn", .key = "192.0.2.7" }, WEIR_ENOPOLICY,
            "there is no policy 'logn': did you mean 'login'?");
    refuses(w, (weir_request){ .policy = "nothing like it", .key = "192.0.2.7" }, WEIR_ENOPOLICY,
            "there is no policy 'nothing like it'");
    refuses(w, (weir_request){ .policy = "", .key = "192.0.2.7" }, WEIR_ENOPOLICY,
            "there is no policy ''");
    refuses(w, (weir_request){ .policy = "a\nb\x1b[2J", .key = "192.0.2.7" }, WEIR_ENOPOLICY,
            "there is no policy 'a?b?[2J'"); /* fit for a log */
    refuses(none, (weir_request){ .policy = "login", .key = "192.0.2.7" }, WEIR_ENOPOLICY,
            "there is no policy 'login'");
    weir_close(none);
}

static void a_missing_attribute(void **state)
{
    weir *w = *state;
    const weir_attribute user[] = { { "user", SECRET_NAME, 0 } };

    refuses(w, (weir_request){ .policy = "login" }, WEIR_EATTRIBUTE,
            "policy 'login': the request has no attribute 'ip', which rule 'default' counts by");
    refuses(w, (weir_request){ .policy = "pair", .attributes = user, .attribute_count = 1 },
            WEIR_EATTRIBUTE,
            "policy 'pair': the request has no attribute 'route', which rule 'default' counts by");
    refuses(w, (weir_request){ .policy = "pair", .key = SECRET_NAME }, WEIR_EREQUEST,
            "policy 'pair' counts by several attributes: give them by name instead of a key");
    refuses(w, (weir_request){ .policy = "all", .key = SECRET_NAME }, WEIR_EREQUEST,
            "policy 'all' counts everyone together: leave the key out");
}

static void an_empty_key(void **state)
{
    weir *w = *state;
    const weir_attribute empty[] = { { "user", "", 0 } }, blank[] = { { "email", " \t ", 0 } };

    refuses(w, LOGIN_OF(""), WEIR_EATTRIBUTE, "policy 'login': attribute 'ip' is empty");
    refuses(w, (weir_request){ .policy = "upload", .attributes = empty, .attribute_count = 1 },
            WEIR_EATTRIBUTE, "policy 'upload': attribute 'user' is empty");
    refuses(w, (weir_request){ .policy = "reset", .attributes = blank, .attribute_count = 1 },
            WEIR_EATTRIBUTE, "policy 'reset': attribute 'email' is empty");
    refuses(w, LIMIT_OF("", 0), WEIR_EATTRIBUTE, "the key is empty");
}

static void a_key_of_a_megabyte(void **state)
{
    enum { MEGABYTE = 1 << 20 };
    weir *w = *state;
    char *key = malloc(MEGABYTE + 1);
    const weir_attribute user[] = { { "user", key, 0 } };
    const weir_attribute halves[] = { { "user", key, 2049 }, { "route", key, 2048 } };

    assert_non_null(key);
    memset(key, 'k', MEGABYTE);
    memcpy(key, SECRET_NAME, strlen(SECRET_NAME));
    key[MEGABYTE] = '\0';
    refuses(w, (weir_request){ .policy = "upload", .key = key }, WEIR_EATTRIBUTE,
            "policy 'upload': attribute 'user' is too long: the values that a rule counts by may "
            "have 4096 bytes together");
    refuses(w, (weir_request){ .policy = "upload", .attributes = user, .attribute_count = 1 },
            WEIR_EATTRIBUTE,
            "policy 'upload': attribute 'user' is too long: the values that a rule counts by may "
            "have 4096 bytes together");
    refuses(w, (weir_request){ .policy = "pair", .attributes = halves, .attribute_count = 2 },
            WEIR_EATTRIBUTE,
            "policy 'pair': attribute 'route' is too long: the values that a rule counts by may "
            "have 4096 bytes together");
    refuses(w, LIMIT_OF(key, 0), WEIR_EATTRIBUTE,
            "the key is too long: the values that a rule counts by may have 4096 bytes together");
    refuses(w, LIMIT_OF(key, WEIR_MAX_IDENTITY + 1), WEIR_EATTRIBUTE,
            "the key is too long: the values that a rule counts by may have 4096 bytes together");
    refuses(
        w, LOGIN_OF(key), WEIR_EATTRIBUTE,
        "policy 'login': attribute 'ip' is not an IP address such as 203.0.113.7 or 2001:db8::7");
    free(key);
}

static void a_key_that_is_not_text(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
    } bad[] = {
        { SECRET_NAME "\0b", sizeof SECRET_NAME + 1 }, /* a NUL inside */
        { "\0", 1 },
        { SECRET_NAME "\xff", 0 },
        { SECRET_NAME "\xc3", 0 },         /* cut off */
        { SECRET_NAME "\xc0\x80", 0 },     /* an overlong NUL */
        { SECRET_NAME "\xed\xa0\x80", 0 }, /* half a surrogate pair */
        { SECRET_NAME "\xf4\x90\x80\x80", 0 },
    };
    weir *w = *state;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const weir_attribute user[] = { { "user", bad[i].bytes, bad[i].len } };

        refuses(w, LIMIT_OF(bad[i].bytes, bad[i].len), WEIR_EATTRIBUTE,
                "the key is not valid UTF-8, or contains a NUL byte");
        refuses(w, (weir_request){ .policy = "upload", .attributes = user, .attribute_count = 1 },
                WEIR_EATTRIBUTE,
                "policy 'upload': attribute 'user' is not valid UTF-8, or contains a NUL byte");
    }
    refuses(
        w, LOGIN_OF(SECRET_NAME), WEIR_EATTRIBUTE,
        "policy 'login': attribute 'ip' is not an IP address such as 203.0.113.7 or 2001:db8::7");
}

/* What people give for an address, and what to do instead. */
static void an_ip_that_is_something_else(void **state)
{
    static const char *const hashes[] = { "0123456789abcdef", "A94A8FE5CCB19BA61C4C0873D391E987",
                                          "a94a8fe5ccb19ba61c4c0873d391e987982fbbd3" };
    weir *w = *state;

    for (size_t i = 0; i < sizeof hashes / sizeof *hashes; i++)
        refuses(w, LOGIN_OF(hashes[i]), WEIR_EATTRIBUTE,
                "policy 'login': attribute 'ip' looks like a hash, but must be an address: use "
                "another attribute name, such as ip_hash, and count by it (`by: ip_hash`)");
    refuses(w, LOGIN_OF("203.0.113.7, 10.0.0.1"), WEIR_EATTRIBUTE,
            "policy 'login': attribute 'ip' is a list of addresses: give only the client's, or set "
            "trusted_proxies, so that the server can find it in the list");
    refuses(
        w, LOGIN_OF("0123456789abcde"), WEIR_EATTRIBUTE,
        "policy 'login': attribute 'ip' is not an IP address such as 203.0.113.7 or 2001:db8::7");
}

static void a_cost_out_of_bounds(void **state)
{
    weir *w = *state;

    refuses(w, LOGIN(.cost = -1), WEIR_ECOST, "cost must be from 0 to 2^53, not -1");
    refuses(w, LOGIN(.cost = INT64_MIN + 1), WEIR_ECOST,
            "cost must be from 0 to 2^53, not -9223372036854775807");
    refuses(w, LIMIT(.cost = WEIR_MAX_AMOUNT + 1), WEIR_ECOST,
            "cost must be from 0 to 2^53, not 9007199254740993");
    refuses(w, LIMIT(.cost = INT64_MAX), WEIR_ECOST,
            "cost must be from 0 to 2^53, not 9223372036854775807");
}

static void attributes_that_do_not_go_together(void **state)
{
    weir *w = *state;
    weir_attribute many[WEIR_MAX_ATTRIBUTES + 1];
    const weir_attribute twice[] = { { "user", SECRET_NAME, 0 }, { "user", "b", 0 } };
    const weir_attribute nameless[] = { { "user", SECRET_NAME, 0 }, { NULL, SECRET_NAME, 0 } };
    const weir_attribute worthless[] = { { "user", NULL, 0 } };
    static const char *const names[] = { "a", "b", "c", "d", "e", "f", "g", "h",   "i",
                                         "j", "k", "l", "m", "n", "o", "p", "user" };

    for (size_t i = 0; i <= WEIR_MAX_ATTRIBUTES; i++)
        many[i] = (weir_attribute){ names[i], SECRET_NAME, 0 };
    refuses(w, (weir_request){ .policy = "upload", .attributes = many, .attribute_count = 17 },
            WEIR_EREQUEST, "17 attributes are too many: at most 16");
    refuses(w, (weir_request){ .policy = "upload", .attributes = twice, .attribute_count = 2 },
            WEIR_EATTRIBUTE, "an attribute is given twice: give each once");
    refuses(w, (weir_request){ .policy = "upload", .attributes = nameless, .attribute_count = 2 },
            WEIR_EATTRIBUTE, "attribute 2 has no name");
    refuses(w, (weir_request){ .policy = "upload", .attributes = worthless, .attribute_count = 1 },
            WEIR_EATTRIBUTE, "attribute 1 has no value");
    refuses(w,
            (weir_request){
                .policy = "upload", .key = SECRET_NAME, .attributes = many, .attribute_count = 1 },
            WEIR_EREQUEST, "give a key or attributes, not both");
    refuses(w, (weir_request){ .attributes = many, .attribute_count = 1 }, WEIR_EREQUEST,
            "attributes and plans need a policy: name one");
    refuses(w, LIMIT(.plan = "paid"), WEIR_EREQUEST,
            "attributes and plans need a policy: name one");
}

static void numbers_out_of_bounds(void **state)
{
    weir *w = *state;

    refuses(w, LIMIT(.algorithm = (weir_algorithm)7), WEIR_EREQUEST,
            "there is no algorithm number 7: use 0 to 6");
    refuses(w, LIMIT_IS(-1, 1000), WEIR_EREQUEST,
            "limit must be at least 0 (0 always denies), not -1");
    refuses(w, LIMIT_IS(5, -1), WEIR_EREQUEST, "the window must be at least 1 ms, not -1");
    refuses(w, LIMIT_IS(WEIR_MAX_AMOUNT, 1000), WEIR_EREQUEST,
            "limit must be below 2^53, not 9007199254740992");
    refuses(w,
            ((weir_request){ .key = "k",
                             .algorithm = WEIR_SLIDING_COUNTER,
                             .limit = WEIR_MAX_AMOUNT - 1,
                             .window_ms = 1000 }),
            WEIR_EREQUEST,
            "limit 9007199254740991 times a window of 1000 ms is not below 2^53: with this window "
            "it can be at most 9007199254740");
    refuses(w, LIMIT(.burst = 7), WEIR_EREQUEST,
            "sliding_window has no burst: only token_bucket and leaky_bucket do");
    refuses(w, LIMIT(.burst = -7, .algorithm = WEIR_TOKEN_BUCKET), WEIR_EREQUEST,
            "burst must be at least 1, not -7");
    refuses(w, LIMIT(.precision_ms = 7, .algorithm = WEIR_TOKEN_BUCKET), WEIR_EREQUEST,
            "token_bucket has no precision: only sliding_window does");
    refuses(w, LIMIT(.precision_ms = 1001), WEIR_EREQUEST,
            "precision must be from 1 ms to the window of 1000 ms, not 1001");
}

static void neither_a_policy_nor_a_limit_or_both(void **state)
{
    weir *w = *state;

    refuses(
        w, (weir_request){ 0 }, WEIR_EREQUEST,
        "the request has no policy and no key: name a policy, or give key, limit and window_ms");
    refuses(w, (weir_request){ .key = SECRET_NAME }, WEIR_EREQUEST,
            "the request has no policy: name one, or give limit (0 always denies) and window_ms");
    refuses(w, LIMIT_IS(5, 0), WEIR_EREQUEST,
            "the request has no policy: name one, or give limit and window_ms, "
            "which is at least 1");
    refuses(
        w, LOGIN(.limit = 5, .window_ms = 1000), WEIR_EREQUEST,
        "the request names a policy and has a limit: leave out limit, window, burst, precision, "
        "algorithm, start and block_for, or the policy");
    refuses(
        w, LOGIN(.algorithm = WEIR_TOKEN_BUCKET), WEIR_EREQUEST,
        "the request names a policy and has a limit: leave out limit, window, burst, precision, "
        "algorithm, start and block_for, or the policy");
}

static void a_time_that_is_none_or_is_not_trusted(void **state)
{
    weir *w = *state, *own = open_with(&(weir_options){ .policy_text = TEXT });

    refuses(w, LOGIN(.now = -1), WEIR_EREQUEST, "`now` must be ms since 1970, not -1");
    refuses(w, LOGIN(.now = INT64_MAX), WEIR_EREQUEST,
            "`now` must be ms since 1970, not 9223372036854775807");
    refuses(own, LOGIN(.now = NOW), WEIR_ENOW,
            "`now` is not allowed: this limiter uses its own clock (leave it out, or "
            "trust callers with trust_client_clock or WEIR_TRUST_NOW)");
    weir_close(own);
}

/* ---- options ---------------------------------------------------------------------------- */

/* `text` is what the diag begins with. */
static void does_not_open(weir_options options, weir_err err, const char *text)
{
    struct counted_memory memory = { 0 };
    weir_diag diag = { "something old" };
    weir *w = (void *)&memory;

    options.allocator = (weir_allocator){ counted_resize, &memory };
    assert_int_equal(weir_open(&w, &options, &diag), err);
    assert_null(w);
    diag.text[strlen(diag.text) > strlen(text) ? strlen(text) : sizeof diag.text - 1] = '\0';
    assert_string_equal(diag.text, text);
    assert_int_equal(memory.blocks, 0);
    assert_int_equal(weir_open(&w, &options, NULL), err);
    assert_int_equal(memory.blocks, 0);
}

static void a_max_keys_out_of_bounds(void **state)
{
    (void)state;
    does_not_open((weir_options){ .max_keys = 63 }, WEIR_EOPTION,
                  "max_keys must be from 64 to 17179869184, not 63");
    does_not_open((weir_options){ .max_keys = -1 }, WEIR_EOPTION,
                  "max_keys must be from 64 to 17179869184, not -1");
    does_not_open((weir_options){ .max_keys = INT64_MAX }, WEIR_EOPTION,
                  "max_keys must be from 64 to 17179869184, not 9223372036854775807");
}

static void a_store_that_does_not_exist(void **state)
{
    (void)state;
    does_not_open((weir_options){ .store = "memry:" }, WEIR_EOPTION,
                  "there is no store 'memry:': did you mean 'memory:'?");
    does_not_open((weir_options){ .store = "memory" }, WEIR_EOPTION,
                  "there is no store 'memory': did you mean 'memory:'?");
    does_not_open((weir_options){ .store = "ftp://user:" SECRET_NAME "@host/" }, WEIR_EOPTION,
                  "there is no store 'ftp:': use file:DIR, memory:, postgres://... or "
                  "redis://...");
    does_not_open((weir_options){ .store = "" }, WEIR_EOPTION,
                  "there is no store '': use file:DIR, memory:, postgres://... or "
                  "redis://...");
    does_not_open((weir_options){ .store = "memory:x" }, WEIR_EOPTION,
                  "nothing may follow 'memory:'");
}

static void policies_from_two_places(void **state)
{
    (void)state;
    does_not_open((weir_options){ .policy_text = TEXT, .policy_file = "/dev/null" }, WEIR_EOPTION,
                  "give policy_file or policy_text, not both");
}

static void a_policy_file_that_cannot_be_read_or_has_errors(void **state)
{
    char big[] = "/tmp/weir-big-XXXXXX", text[128];
    int fd = mkstemp(big);

    (void)state;
    does_not_open(
        (weir_options){ .policy_file = "/nonexistent/policies.yaml" }, WEIR_EPOLICY,
        "/nonexistent/policies.yaml: cannot read it: No such file or directory: check the path");
    does_not_open((weir_options){ .policy_file = "/" }, WEIR_EPOLICY,
                  "/: cannot read it: Is a directory");
    does_not_open((weir_options){ .policy_file = "/dev/null" }, WEIR_EPOLICY,
                  "/dev/null:1:1: the file is empty: it must begin with 'version: 1'");
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (1 << 20) + 1), 0);
    close(fd);
    snprintf(text, sizeof text, "%s: it is larger than 1 MiB, the most that a policy file may have",
             big);
    does_not_open((weir_options){ .policy_file = big }, WEIR_EPOLICY, text);
    unlink(big);
    does_not_open(
        (weir_options){ .policy_text = POLICIES("  p: {limit: 5 per 1m, colour: red}\n"
                                                "  q: {limit: 5 parsecs}\n"
                                                "  p: {limit: 9007199254740992 per 1s}\n") },
        WEIR_EPOLICY, "policy_text:3:");
}

static void a_policy_file_that_others_own(void **state)
{
    char path[] = "/tmp/weir-closed-XXXXXX", text[128];
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(chmod(path, 0), 0);
    if (access(path, R_OK) == 0) { /* nothing is closed to root */
        unlink(path);
        skip();
    }
    snprintf(text, sizeof text, "%s: cannot read it: Permission denied: let this user read it",
             path);
    does_not_open((weir_options){ .policy_file = path }, WEIR_EPOLICY, text);
    unlink(path);
}

static void a_secret_file_that_cannot_be_used(void **state)
{
    char path[] = "/tmp/weir-secret-XXXXXX", text[128];
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    does_not_open((weir_options){ .secret_file = "/nonexistent/secret" }, WEIR_ESECRET,
                  "cannot create the secret file /nonexistent/secret: No such file or directory");
    does_not_open((weir_options){ .secret_file = "/" }, WEIR_ESECRET,
                  "the secret / is not a regular file");
    snprintf(text, sizeof text, "the secret file %s does not have 64 hex digits: fill it with",
             path);
    does_not_open((weir_options){ .secret_file = path }, WEIR_ESECRET, text);
    assert_int_equal(fchmod(fd, 0644), 0);
    snprintf(text, sizeof text,
             "other users can access the secret file %s (mode 0644): run chmod 600 on it", path);
    does_not_open((weir_options){ .secret_file = path }, WEIR_ESECRET, text);
    close(fd);
    unlink(path);
}

static void a_reload_of_nothing(void **state)
{
    weir *w = open_text(NULL);
    weir_diag diag;

    (void)state;
    assert_int_equal(weir_reload(w, &diag), WEIR_EOPTION);
    assert_string_equal(diag.text, "there is no policy file to reload");
    weir_close(w);
}

#define ON_A_CHARGED_HANDLE(test)                                                                  \
    cmocka_unit_test_setup_teardown(test, open_charged, close_unchanged)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_A_CHARGED_HANDLE(a_policy_that_does_not_exist),
        ON_A_CHARGED_HANDLE(a_missing_attribute),
        ON_A_CHARGED_HANDLE(an_empty_key),
        ON_A_CHARGED_HANDLE(a_key_of_a_megabyte),
        ON_A_CHARGED_HANDLE(a_key_that_is_not_text),
        ON_A_CHARGED_HANDLE(an_ip_that_is_something_else),
        ON_A_CHARGED_HANDLE(a_cost_out_of_bounds),
        ON_A_CHARGED_HANDLE(attributes_that_do_not_go_together),
        ON_A_CHARGED_HANDLE(numbers_out_of_bounds),
        ON_A_CHARGED_HANDLE(neither_a_policy_nor_a_limit_or_both),
        ON_A_CHARGED_HANDLE(a_time_that_is_none_or_is_not_trusted),
        cmocka_unit_test(a_max_keys_out_of_bounds),
        cmocka_unit_test(a_store_that_does_not_exist),
        cmocka_unit_test(policies_from_two_places),
        cmocka_unit_test(a_policy_file_that_cannot_be_read_or_has_errors),
        cmocka_unit_test(a_policy_file_that_others_own),
        cmocka_unit_test(a_secret_file_that_cannot_be_used),
        cmocka_unit_test(a_reload_of_nothing),
    };

    return cmocka_run_group_tests_name("refusals", tests, NULL, NULL);
}
