/* test_text.c - suggestions, UTF-8, numbers, kept names and shown texts. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/decimal.h"
#include "base/intern.h"
#include "base/printable.h"
#include "base/suggest.h"
#include "base/utf8.h"

static const char *const words[] = {
    "limit", "algorithm", "ip", "mode", "retry_after", "m", "burst"
};

static const char *meant(const char *typed)
{
    return suggest(span_of(typed), words, sizeof words / sizeof *words);
}

static void the_nearest_word_is_suggested(void **state)
{
    (void)state;
    assert_string_equal(meant("limt"), "limit");
    assert_string_equal(meant("lmiit"), "limit"); /* a swap is one edit */
    assert_string_equal(meant("LIMIT"), "limit");
    assert_string_equal(meant("limits"), "limit");
    assert_string_equal(meant("algoritm"), "algorithm");
    assert_string_equal(meant("algo rithem"), "algorithm");
    assert_string_equal(meant("retryafter"), "retry_after");
    assert_string_equal(meant("op"), "ip");
    assert_string_equal(meant("moed"), "mode");
}

static void dissimilar_names_are_not_suggested(void **state)
{
    static char large[100000];

    (void)state;
    assert_null(meant(""));
    assert_null(meant("x"));
    assert_null(meant("rate"));
    assert_null(meant("lxxit"));
    assert_null(meant("algo"));
    memset(large, 'l', sizeof large - 1);
    assert_null(meant(large));
    assert_null(suggest(span_of("limit"), NULL, 0));
}

/* Written from the table of RFC 3629, slowly. */
static bool is_text_by_definition(const unsigned char *s, size_t len)
{
    size_t i = 0;

    while (i < len) {
        static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
        uint32_t c = s[i];
        size_t n = c < 0x80 ? 1 : (c >> 5) == 6 ? 2 : (c >> 4) == 14 ? 3 : (c >> 3) == 30 ? 4 : 0;

        if (n == 0 || i + n > len || c == 0)
            return false;
        if (n > 1)
            c &= 0x7Fu >> n;
        for (size_t k = 1; k < n; k++) {
            if (s[i + k] >> 6 != 2)
                return false;
            c = c << 6 | (s[i + k] & 0x3F);
        }
        if (c < least[n] || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF))
            return false;
        i += n;
    }
    return true;
}

static void utf8_is_judged_as_the_rfc_says(void **state)
{
    unsigned char bytes[24];

    (void)state;
    for (uint32_t lead = 0; lead < 0x1000000; lead++) {
        /* All sequences of three bytes, and some of four, at changing places. */
        size_t at = lead % 9, len = at + 3 + lead % 2;

        memset(bytes, 'a', sizeof bytes);
        bytes[at] = (unsigned char)(lead >> 16);
        bytes[at + 1] = (unsigned char)(lead >> 8);
        bytes[at + 2] = (unsigned char)lead;
        bytes[at + 3] = (unsigned char)(0x7E + lead % 4);
        if (utf8_is_text((struct span){ (const char *)bytes, len }) !=
            is_text_by_definition(bytes, len))
            fail_msg("%06x at %zu of %zu", lead, at, len);
    }
    assert_true(utf8_is_text((struct span){ NULL, 0 }));
}

static void a_nul_is_found_anywhere(void **state)
{
    char bytes[40];

    (void)state;
    for (size_t len = 1; len <= sizeof bytes; len++)
        for (size_t at = 0; at < len; at++) {
            memset(bytes, 0x7F, sizeof bytes);
            assert_true(utf8_is_text((struct span){ bytes, len }));
            bytes[at] = '\0';
            assert_false(utf8_is_text((struct span){ bytes, len }));
        }
}

static void is_written_as_printf_does(int64_t number)
{
    char expected[32], written[DECIMAL_MOST + 1];
    char *end = decimal_write(written, number);

    snprintf(expected, sizeof expected, "%lld", (long long)number);
    *end = '\0';
    assert_string_equal(written, expected);
}

/* All short ones, and around each power of ten and of two. */
static void numbers_are_written_in_all_their_digits(void **state)
{
    (void)state;
    for (int64_t i = -20000; i < 20000; i++)
        is_written_as_printf_does(i);
    for (int64_t power = 10; power < INT64_MAX / 10; power *= 10)
        for (int64_t by = -11; by <= 11; by++) {
            is_written_as_printf_does(power + by);
            is_written_as_printf_does(power * 9 + by);
            is_written_as_printf_does(-power + by);
        }
    for (uint64_t power = 1; power <= INT64_MAX; power *= 2) {
        is_written_as_printf_does((int64_t)(power - 1));
        is_written_as_printf_does(-(int64_t)power);
    }
    is_written_as_printf_does(INT64_MAX);
    is_written_as_printf_does(INT64_MIN);
    for (uint32_t i = 0, number = 1; i < 200000; i++, number = number * 1664525 + 1013904223)
        is_written_as_printf_does(number % DECIMAL_EIGHT);
}

static void all_of_a_text_can_be_shown(void **state)
{
    char text[] = "a\nb\x1b[31m \xc2\x9b J\xc3\xb6rg \x7f", bad[] = "J\xf6rg \xc2";

    (void)state;
    assert_false(is_printable(span_of(text)));
    printable_all(text, strlen(text));
    assert_string_equal(text, "a?b?[31m ?? J\xc3\xb6rg ?");
    assert_true(is_printable(span_of(text)));
    assert_false(is_printable(span_of(bad)));
    printable_all(bad, strlen(bad));
    assert_string_equal(bad, "J?rg ?");
}

static void shown_text_is_short_and_printable(void **state)
{
    char large[200];

    (void)state;
    assert_string_equal(printable(span_of("login")).text, "login");
    assert_string_equal(printable((struct span){ NULL, 0 }).text, "");
    assert_string_equal(printable((struct span){ "a\nb\0c\x1b[31m\x7f", 11 }).text, "a?b?c?[31m?");
    assert_string_equal(printable(span_of("J\xc3\xb6rg")).text, "J\xc3\xb6rg");
    assert_string_equal(printable(span_of("J\xf6rg")).text, "J?rg");
    assert_string_equal(printable(span_of("a\xc2\x9b"
                                          "b"))
                            .text,
                        "a??b");
    memset(large, 'x', sizeof large);
    assert_int_equal(strlen(printable((struct span){ large, sizeof large }).text), 71);
    for (size_t i = 0; i < sizeof large; i++)
        large[i] = (char)(i % 2 ? 0xb6 : 0xc3);
    for (size_t cut = 0; cut < 8; cut++) {
        struct printable shown = printable((struct span){ large, sizeof large - 2 * cut });

        assert_true(utf8_is_text(span_of(shown.text)));
        assert_null(strchr(shown.text, '?'));
    }
}

static struct intern *shared;

static void *keep_many(void *arg)
{
    const char **kept = arg;

    for (int i = 0; i < 1000; i++) {
        char name[32];

        snprintf(name, sizeof name, "name-%d", i);
        kept[i] = intern_keep(shared, span_of(name));
    }
    return NULL;
}

static void equal_names_are_interned_once(void **state)
{
    static const char *kept[4][1000];
    const weir_allocator allocator = alloc_or_default((weir_allocator){ NULL, NULL });
    pthread_t threads[4];

    (void)state;
    shared = intern_new(&allocator);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, keep_many, kept[i]), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (int n = 0; n < 1000; n++) {
        char name[32];

        snprintf(name, sizeof name, "name-%d", n);
        assert_string_equal(kept[0][n], name);
        for (int i = 1; i < 4; i++)
            assert_ptr_equal(kept[i][n], kept[0][n]);
    }
    intern_free(shared);
    intern_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_nearest_word_is_suggested),
        cmocka_unit_test(dissimilar_names_are_not_suggested),
        cmocka_unit_test(utf8_is_judged_as_the_rfc_says),
        cmocka_unit_test(a_nul_is_found_anywhere),
        cmocka_unit_test(numbers_are_written_in_all_their_digits),
        cmocka_unit_test(all_of_a_text_can_be_shown),
        cmocka_unit_test(shown_text_is_short_and_printable),
        cmocka_unit_test(equal_names_are_interned_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
