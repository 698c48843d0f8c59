/* test_memory_failure.c - no memory at the first allocation, then at the second, and so on until
 * the work runs to its end: a clear error, no leak, nothing half done, and the next try works.
 *
 * Each once with the allocator that a caller may bring, and once with malloc itself, so that
 * those libraries fail too that know nothing of it. Each with one allocation failing, and with
 * all from there on. */
#include "support/limiter.h"

#include <pthread.h>

/* ---- malloc that fails ------------------------------------------------------------------ */

#if defined(__has_feature)
#define HAS_FEATURE(x) __has_feature(x)
#else
#define HAS_FEATURE(x) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) ||                               \
    HAS_FEATURE(address_sanitizer) || HAS_FEATURE(thread_sanitizer) || !defined(__GLIBC__)
#define MALLOC_IS_OURS 0
#else
#define MALLOC_IS_OURS 1
#endif

static _Atomic long malloc_blocks;
static _Thread_local long malloc_until_failure, malloc_failures; /* only in threads that set them */

#if MALLOC_IS_OURS

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *block, size_t size);
void __libc_free(void *block);

static bool fails(void)
{
    if (malloc_failures == 0)
        return false;
    if (malloc_until_failure > 0) {
        malloc_until_failure--;
        return false;
    }
    malloc_failures--;
    return true;
}

static void *counted(void *block)
{
    malloc_blocks += block != NULL;
    return block;
}

void *malloc(size_t size)
{
    return fails() ? NULL : counted(__libc_malloc(size));
}

void *calloc(size_t nmemb, size_t size)
{
    return fails() ? NULL : counted(__libc_calloc(nmemb, size));
}

void *realloc(void *ptr, size_t size)
{
    void *resized;

    if (!ptr)
        return malloc(size);
    if (size > 0 && fails())
        return NULL;
    resized = __libc_realloc(ptr, size);
    malloc_blocks -= size == 0 && !resized;
    return resized;
}

void free(void *ptr)
{
    malloc_blocks -= ptr != NULL;
    __libc_free(ptr);
}

#endif

/* ---- memory of two kinds ---------------------------------------------------------------- */

struct kind {
    weir_allocator allocator;
    void (*start_failing)(long after, long failures);
    long (*stop_failing)(void); /* how many have not failed */
    long (*blocks)(void);
};

static struct counted_memory hook;

static void hook_fail(long after, long failures)
{
    hook.until_failure = after;
    hook.failures = failures;
}

static long hook_stop(void)
{
    const long left = hook.failures;

    hook.failures = 0;
    return left;
}

static long hook_blocks(void)
{
    return hook.blocks;
}

static void malloc_fail(long after, long failures)
{
    malloc_until_failure = after;
    malloc_failures = failures;
}

static long malloc_stop(void)
{
    const long left = malloc_failures;

    malloc_failures = 0;
    return left;
}

static long malloc_count(void)
{
    return malloc_blocks;
}

static struct kind brought_allocator = {
    { counted_resize, &hook }, hook_fail, hook_stop, hook_blocks
};
static struct kind plain_malloc = { { NULL, NULL }, malloc_fail, malloc_stop, malloc_count };

static const struct kind *kind_of(void **state)
{
    const struct kind *kind = *state;

    if (kind == &plain_malloc && !MALLOC_IS_OURS)
        skip();
    return kind;
}

/* The n-th trial: even ones have one failure, odd ones all from there on. */
static void fail_nth(const struct kind *kind, long n)
{
    kind->start_failing(n / 2, n % 2 ? 1000000 : 1);
}

static bool some_failed(const struct kind *kind, long n)
{
    return kind->stop_failing() < (n % 2 ? 1000000 : 1);
}

/* ---- opening, reloading, closing -------------------------------------------------------- */

#define TEXT                                                                                       \
    "version: 1\n"                                                                                 \
    "defaults: {on_error: deny}\n"                                                                 \
    "policies:\n"                                                                                  \
    "  login: {limit: 5 per 15m, by: ip, plans: {paid: 50 per 15m}, shadow_limit: 4 per 15m}\n"    \
    "  cleanup:\n"                                                                                 \
    "    exempt: [{email: [a@example.com, b@example.com]}]\n"                                      \
    "    rules:\n"                                                                                 \
    "      global: {limit: 1000 per 60s}\n"                                                        \
    "      email:  {limit: 3 per 60m, by: email}\n"                                                \
    "exempt:\n"                                                                                    \
    "  - {ip: [10.0.0.0/8, \"2001:db8::/32\"], user: cron}\n"

static weir_options options_for(const struct kind *kind, const char *text, unsigned flags)
{
    return (weir_options){
        .policy_text = text,
        .max_keys = 1000,
        .flags = WEIR_TRUST_NOW | flags,
        .allocator = kind->allocator,
    };
}

static void assert_out_of_memory(weir_err err, const weir_diag *diag)
{
    if (err == WEIR_ESYSTEM) /* a thread needs memory too */
        assert_string_equal(
            diag->text, "cannot start the housekeeping thread: Resource temporarily unavailable");
    else if (err != WEIR_ENOMEM || !strstr(diag->text, "memory"))
        fail_msg("%s: '%s'", weir_err_name(err), diag->text);
}

static void opens_and_closes_again(const weir_options *options)
{
    weir *w = open_with(options);

    assert_int_equal(check(w, NOW, "login ip=192.0.2.1").remaining, 4);
    weir_close(w);
}

static void opening(const struct kind *kind, unsigned flags)
{
    const weir_options options = options_for(kind, TEXT, flags);
    bool all_worked = false, one_worked = false;
    long n, before;

    opens_and_closes_again(&options); /* what libraries keep for good */
    before = kind->blocks();
    for (n = 0; !all_worked || !one_worked; n++) {
        weir_diag diag = { "something old" };
        weir *w;
        weir_err err;
        bool failed;

        fail_nth(kind, n);
        err = weir_open(&w, &options, &diag);
        failed = some_failed(kind, n);
        if (err) {
            assert_true(failed);
            assert_null(w);
            assert_out_of_memory(err, &diag);
        } else {
            assert_int_equal(check(w, NOW, "login ip=192.0.2.1").remaining, 4);
            kind->start_failing(0, 1000000);
            weir_close(w); /* closing needs no memory */
            kind->stop_failing();
        }
        assert_int_equal(kind->blocks(), before);
        opens_and_closes_again(&options);
        assert_int_equal(kind->blocks(), before);
        *(n % 2 ? &all_worked : &one_worked) |= !failed;
    }
    printf("# opening allocates %ld times\n", n / 2 - 1);
    assert_true(n > 10);
}

static void opening_without_memory_fails_clearly_and_leaks_nothing(void **state)
{
    const struct kind *kind = kind_of(state);

    opening(kind, WEIR_NO_THREAD);
    opening(kind, 0);
}

/* Told whole or not at all: a list of problems with some left out would mislead. */
static void a_bad_file_without_memory_is_told_whole_or_not_at_all(void **state)
{
    const struct kind *kind = kind_of(state);
    const weir_options options = options_for(
        kind,
        "version: 1\npolicies:\n  p: {limt: 5 per 1m}\n  q: {limit: 5 per 1x}\n  p: {limit: 0}\n",
        WEIR_NO_THREAD);
    weir_diag whole, diag;
    bool worked = false;
    weir *w;
    long before;

    assert_int_equal(weir_open(&w, &options, &whole), WEIR_EPOLICY);
    before = kind->blocks();
    for (long n = 0; !worked || n % 2; n++) {
        weir_err err;
        bool failed;

        fail_nth(kind, n);
        err = weir_open(&w, &options, &diag);
        failed = some_failed(kind, n);
        if (err == WEIR_EPOLICY)
            assert_string_equal(diag.text, whole.text);
        else
            assert_out_of_memory(err, &diag);
        assert_true(failed || err == WEIR_EPOLICY);
        assert_int_equal(kind->blocks(), before);
        worked = !failed;
    }
}

static void a_reload_without_memory_keeps_the_old_policies(void **state)
{
    const struct kind *kind = kind_of(state);
    const weir_options options = options_for(kind, TEXT, WEIR_NO_THREAD);
    const long before = kind->blocks();
    weir *w = open_with(&options);
    bool worked = false;
    int64_t limit = 5;

    check(w, NOW, "login ip=192.0.2.1");
    for (long n = 0; !worked || n % 2; n++) {
        char value[32];
        weir_diag diag;
        weir_err err;
        bool failed;

        snprintf(value, sizeof value, "%lld per 15m", (long long)limit + 1);
        setenv("WEIR_POLICY_LOGIN_LIMIT", value, 1); /* so that old and new differ */
        fail_nth(kind, n);
        err = weir_reload(w, &diag);
        failed = some_failed(kind, n);
        if (err) {
            assert_true(failed);
            assert_out_of_memory(err, &diag);
            assert_int_equal(peek(w, NOW, "login ip=192.0.2.1").limit, limit);
            assert_int_equal(peek(w, NOW, "login ip=192.0.2.1").remaining, limit - 1);
            assert_int_equal(weir_reload(w, &diag), WEIR_OK);
        }
        limit++;
        assert_int_equal(peek(w, NOW, "login ip=192.0.2.1").limit, limit);
        assert_int_equal(peek(w, NOW, "login ip=192.0.2.1").remaining, limit - 1);
        worked = !failed;
    }
    weir_close(w);
    unsetenv("WEIR_POLICY_LOGIN_LIMIT");
    if (kind == &brought_allocator) /* setenv() keeps what it was given */
        assert_int_equal(kind->blocks(), before);
}

/* ---- checking --------------------------------------------------------------------------- */

/* Two logs that grow: at each step none, the first or the second has no memory. */
static void a_check_without_memory_charges_nothing_and_the_next_does(void **state)
{
    const struct kind *kind = kind_of(state);
    const weir_options options = options_for(
        kind,
        "version: 1\n"
        "policies:\n"
        "  p:\n"
        "    on_error: allow\n"
        "    rules:\n"
        "      a: {limit: 1000 per 1h, precision: 1ms}\n"
        "      n: {limit: 1000 per 1h, algorithm: token_bucket}\n"
        "      b: {limit: 900 per 1h, precision: 1ms, by: user}\n",
        WEIR_NO_THREAD);
    const long before = kind->blocks();
    weir *w = open_with(&options);
    int refused = 0;

    for (int step = 0; step < 900; step++)
        for (long n = 0;; n++) {
            weir_answer a, now;
            bool failed;

            kind->start_failing(n, 1);
            a = check(w, NOW + step, "p user=u");
            failed = kind->stop_failing() == 0;
            assert_true(a.allowed);
            assert_int_equal(a.source, failed ? WEIR_FROM_FALLBACK : WEIR_FROM_STORE);
            refused += failed;
            now = peek(w, NOW + step, "p user=u");
            for (size_t i = 0; i < 3; i++)
                assert_int_equal(now.rules[i].remaining, now.rules[i].limit - step - !failed);
            if (!failed)
                break;
        }
    assert_true(refused >= 2 * 8); /* both grew that often */
    kind->start_failing(0, 1000000);
    assert_false(check(w, NOW + 900, "p user=u").allowed); /* what needs no memory goes on */
    assert_int_equal(refund(w, NOW + 900, "p user=u").remaining, 1);
    assert_int_equal(reset(w, NOW + 900, "p user=u").remaining, 900);
    weir_close(w);
    kind->stop_failing();
    assert_int_equal(kind->blocks(), before);
}

#define WITH_BOTH(test)                                                                            \
    { #test " with the caller's allocator", test, NULL, NULL, &brought_allocator },                \
    {                                                                                              \
#test " with malloc", test, NULL, NULL, &plain_malloc                                      \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_BOTH(opening_without_memory_fails_clearly_and_leaks_nothing),
        WITH_BOTH(a_bad_file_without_memory_is_told_whole_or_not_at_all),
        WITH_BOTH(a_reload_without_memory_keeps_the_old_policies),
        WITH_BOTH(a_check_without_memory_charges_nothing_and_the_next_does),
    };

    return cmocka_run_group_tests_name("memory_failure", tests, NULL, NULL);
}
