/* test_rate.c - durations and rates, read from text. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "policy/rate.h"

static void durations_have_six_units(void **state)
{
    static const struct {
        const char *text;
        int64_t ms;
    } cases[] = {
        { "1ms", 1 },         { "500ms", 500 },   { "1s", 1000 },
        { "15m", 900000 },    { "1h", 3600000 },  { "1d", 86400000 },
        { "2w", 1209600000 }, { " 007s ", 7000 }, { "9007199254740991ms", 9007199254740991 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t ms;

        assert_int_equal(duration_read(span_of(cases[i].text), &ms, NULL), WEIR_OK);
        assert_int_equal(ms, cases[i].ms);
    }
}

static void invalid_durations_are_rejected_with_an_example(void **state)
{
#define EXAMPLE "write a whole number and one of ms, s, m, h, d, w, as in 15m"
    static const char *const cases[][2] = {
        { "", "'' is not a duration: " EXAMPLE },
        { "15", "'15' is not a duration: " EXAMPLE },
        { "1.5h", "'1.5h' is not a duration: " EXAMPLE },
        { "-1s", "'-1s' is not a duration: " EXAMPLE },
        { "1m30s", "'1m30s' is not a duration: " EXAMPLE },
        { "1 month", "'1 month' is not a duration: " EXAMPLE },
        { "15 m", "'15 m' is not a duration: write 15m" },
        { "15M", "'15M' is not a duration: write 15m" },
        { "15 minutes", "'15 minutes' is not a duration: write 15m" },
        { "10 secs", "'10 secs' is not a duration: write 10s" },
        { "2weeks", "'2weeks' is not a duration: write 2w" },
        { "250 Milliseconds", "'250 Milliseconds' is not a duration: write 250ms" },
        { "hour", "'hour' is not a duration: write 1h" },
        { "0s", "'0s' is too short: at least 1ms" },
        { "9007199254740992ms", "'9007199254740992ms' is too long: it must be below 2^53 ms" },
        { "99999999999999999999999w",
          "'99999999999999999999999w' is too long: it must be below 2^53 ms" },
        { "1s\n", "'1s?' is not a duration: " EXAMPLE },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weir_diag diag;
        int64_t ms;

        assert_int_equal(duration_read(span_of(cases[i][0]), &ms, &diag), WEIR_EPOLICY);
        assert_string_equal(diag.text, cases[i][1]);
    }
}

static void rates_are_a_number_per_duration(void **state)
{
    static const struct {
        const char *text;
        int64_t limit, window;
    } cases[] = {
        { "5 per 15m", 5, 900000 },
        { "1 per h", 1, 3600000 },
        { " 3  per\t1s ", 3, 1000 },
        { "0", 0, 0 },
        { "0 per 1m", 0, 60000 },
        { "100 per ms", 100, 1 },
        { "9007199254740991 per 1ms", 9007199254740991, 1 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t limit, window;

        assert_int_equal(rate_read(span_of(cases[i].text), &limit, &window, NULL), WEIR_OK);
        assert_int_equal(limit, cases[i].limit);
        assert_int_equal(window, cases[i].window);
    }
}

static void invalid_rates_are_rejected_with_an_example(void **state)
{
#define RATE_EXAMPLE                                                                               \
    "write a whole number per duration, as in 5 per 15m, of what runs at once, as in 10 at once, " \
    "or 0 to always deny"
    static const char *const cases[][2] = {
        { "", "'' is not a limit: " RATE_EXAMPLE },
        { "5/15m", "'5/15m' is not a limit: " RATE_EXAMPLE },
        { "5per 15m", "'5per 15m' is not a limit: " RATE_EXAMPLE },
        { "5 per15m", "'5 per15m' is not a limit: " RATE_EXAMPLE },
        { "5 per", "'5 per' is not a limit: " RATE_EXAMPLE },
        { "5 PER 1m", "'5 PER 1m' is not a limit: " RATE_EXAMPLE },
        { "-5 per 1m", "'-5 per 1m' is not a limit: " RATE_EXAMPLE },
        { "+5 per 1m", "'+5 per 1m' is not a limit: " RATE_EXAMPLE },
        { "1e3 per 1m", "'1e3 per 1m' is not a limit: " RATE_EXAMPLE },
        { "many per 1m", "'many per 1m' is not a limit: " RATE_EXAMPLE },
        { "100", "'100' has no time: write 100 per 1m, or another duration" },
        { "5 per 15 minutes", "'15 minutes' is not a duration: write 15m" },
        { "5 per 0s", "'0s' is too short: at least 1ms" },
        { "9007199254740992 per 1ms",
          "'9007199254740992 per 1ms' is too large: a limit must be below 2^53" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t limit, window;
        weir_diag diag;

        assert_int_equal(rate_read(span_of(cases[i][0]), &limit, &window, &diag), WEIR_EPOLICY);
        assert_string_equal(diag.text, cases[i][1]);
    }
}

static void durations_are_written_in_the_largest_exact_unit(void **state)
{
    static const struct {
        int64_t ms;
        const char *text;
    } cases[] = {
        { 0, "0ms" },
        { 1, "1ms" },
        { 1000, "1s" },
        { 1500, "1500ms" },
        { 90000, "90s" },
        { 900000, "15m" },
        { 86400000, "1d" },
        { 90000000, "25h" },
        { 604800000, "1w" },
        { 691200000, "8d" },
        { 9007199254740991, "9007199254740991ms" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[32];

        duration_write(cases[i].ms, text);
        assert_string_equal(text, cases[i].text);
    }
}

static void every_duration_reads_back(void **state)
{
    (void)state;
    for (int64_t ms = 1; ms < (int64_t)1 << 52; ms = ms * 3 / 2 + 7) {
        int64_t again;
        char text[32];

        duration_write(ms, text);
        assert_int_equal(duration_read(span_of(text), &again, NULL), WEIR_OK);
        assert_int_equal(again, ms);
    }
}

static void shares_are_hundredths_of_a_percent(void **state)
{
    static const struct {
        const char *text, *written;
        int share;
    } good[] = {
        { "0%", "0%", 0 },         { "10%", "10%", 1000 },       { "0.5%", "0.5%", 50 },
        { "0.05%", "0.05%", 5 },   { "12.50%", "12.5%", 1250 },  { "99.99%", "99.99%", 9999 },
        { "100%", "100%", 10000 }, { "100.00%", "100%", 10000 },
    };
    static const char *const bad[] = {
        "",    "%",   "10",  "100.01%", "101%",   "0.001%", ".5%",
        "5.%", "-1%", "1 %", "10%%",    "1.2.3%", "1e1%",   "99999999999999999999%"
    };
    weir_diag diag;
    int share;

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        char text[16];

        assert_int_equal(share_read(span_of(good[i].text), &share, &diag), WEIR_OK);
        assert_int_equal(share, good[i].share);
        share_write(share, text);
        assert_string_equal(text, good[i].written);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(share_read(span_of(bad[i]), &share, &diag), WEIR_EPOLICY);
        assert_non_null(strstr(diag.text, "is not a share: write 10%"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations_have_six_units),
        cmocka_unit_test(invalid_durations_are_rejected_with_an_example),
        cmocka_unit_test(rates_are_a_number_per_duration),
        cmocka_unit_test(invalid_rates_are_rejected_with_an_example),
        cmocka_unit_test(durations_are_written_in_the_largest_exact_unit),
        cmocka_unit_test(every_duration_reads_back),
        cmocka_unit_test(shares_are_hundredths_of_a_percent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
