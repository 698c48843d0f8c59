/* test_json.c - JSON as it is written: commas, escapes, numbers. */
#include "support/unit.h"

#include "base/json.h"

static void expect_text(struct span text, const char *expected)
{
    weir_allocator a = heap();
    struct buf out;
    struct json j = { .to = &out };

    buf_init(&out, &a);
    json_span(&j, NULL, text);
    assert_string_equal(buf_span(&out).at, expected);
    buf_done(&out);
}

static void commas_stand_where_they_belong(void **state)
{
    weir_allocator a = heap();
    struct buf out;
    struct json j = { .to = &out };

    (void)state;
    buf_init(&out, &a);
    json_open(&j, NULL, '{');
    json_text(&j, "a", "b");
    json_text(&j, "none", NULL);
    json_open(&j, "list", '[');
    json_open(&j, NULL, '[');
    json_close(&j, ']');
    json_int(&j, NULL, -7);
    json_bool(&j, NULL, true);
    json_close(&j, ']');
    json_bool(&j, "no", false);
    json_raw(&j, "raw", span_of("{}"));
    json_span(&j, "empty", (struct span){ NULL, 0 });
    json_close(&j, '}');
    assert_string_equal(out.at, "{\"a\":\"b\",\"none\":null,\"list\":[[],-7,true],\"no\":false,"
                                "\"raw\":{},\"empty\":\"\"}");
    buf_done(&out);
}

static void special_characters_are_escaped(void **state)
{
    (void)state;
    expect_text(span_of("plain, and longer than eight bytes"),
                "\"plain, and longer than eight bytes\"");
    expect_text(span_of("a\"b\\c\n\t\x01\x1f\x7f"), "\"a\\\"b\\\\c\\n\\u0009\\u0001\\u001f\x7f\"");
    expect_text((struct span){ "a\0b", 3 }, "\"a\\u0000b\"");
    expect_text(span_of("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"),
                "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"");
    expect_text(span_of("a\xff\xc3"), "\"a\\ufffd\\ufffd\"");
    expect_text(span_of("\xed\xa0\x80x"), "\"\\ufffd\\ufffd\\ufffdx\"");
}

/* The eight bytes that are looked at together say the same as one by one. */
static void plain_bytes_are_counted_wherever_the_first_other_is(void **state)
{
    char text[24];

    (void)state;
    for (int c = 0; c < 256; c++)
        for (size_t at = 0; at < sizeof text; at++) {
            const bool is_plain = c >= 0x20 && c < 0x80 && c != '"' && c != '\\';

            memset(text, 0x20, sizeof text);
            memset(text + at, c, sizeof text - at);
            assert_int_equal(json_plain(text, sizeof text), is_plain ? sizeof text : at);
            assert_int_equal(json_plain(text, at), at);
            memset(text, 'a', sizeof text);
            text[at] = (char)c;
            assert_int_equal(json_plain(text, sizeof text), is_plain ? sizeof text : at);
        }
}

static void numbers_are_exact_to_their_ends(void **state)
{
    static const struct {
        int64_t number;
        const char *text;
    } cases[] = {
        { 0, "0" },
        { 9, "9" },
        { 10, "10" },
        { -1, "-1" },
        { INT64_MAX, "9223372036854775807" },
        { INT64_MIN, "-9223372036854775808" },
    };
    weir_allocator a = heap();

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buf out;

        buf_init(&out, &a);
        buf_int(&out, cases[i].number);
        assert_string_equal(out.at, cases[i].text);
        buf_done(&out);
    }
}

static void numbers_around_every_power_of_ten_have_as_many_digits(void **state)
{
    const weir_allocator a = heap();
    int64_t power = 1;

    (void)state;
    for (int digits = 1; digits < 19; digits++, power *= 10)
        for (int64_t number = power - 2; number <= power + 1; number++)
            for (int sign = -1; sign <= 1; sign += 2) {
                struct buf out;
                char expected[32];

                snprintf(expected, sizeof expected, "%lld", (long long)(sign * number));
                buf_init(&out, &a);
                buf_int(&out, sign * number);
                assert_string_equal(out.at, expected);
                buf_done(&out);
            }
}

static void *refuse_memory(void *ctx, void *block, size_t size)
{
    (void)ctx;
    (void)block;
    (void)size;
    return NULL;
}

static void a_buf_without_memory_remembers_it(void **state)
{
    weir_allocator none = { .resize = refuse_memory };
    struct buf out;
    struct json j = { .to = &out };

    (void)state;
    buf_init(&out, &none);
    json_open(&j, NULL, '{');
    json_text(&j, "a", "b\n");
    json_int(&j, "c", 1);
    json_close(&j, '}');
    assert_true(out.failed);
    assert_int_equal(out.len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commas_stand_where_they_belong),
        cmocka_unit_test(special_characters_are_escaped),
        cmocka_unit_test(plain_bytes_are_counted_wherever_the_first_other_is),
        cmocka_unit_test(numbers_are_exact_to_their_ends),
        cmocka_unit_test(numbers_around_every_power_of_ten_have_as_many_digits),
        cmocka_unit_test(a_buf_without_memory_remembers_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
