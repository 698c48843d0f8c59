/* test_traceparent.c - which trace a request belongs to, and what is not taken for one. */
#include "support/unit.h"

#include "proto/traceparent.h"

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define SPAN "00f067aa0ba902b7"

static bool is_read(const char *text)
{
    struct traceparent t = { .is_set = true };
    const bool result = traceparent_read(span_of(text), &t);

    assert_int_equal(t.is_set, result);
    return result;
}

static void ids_and_the_flag_are_read(void **state)
{
    static const unsigned char trace[] = { 0x4b, 0xf9, 0x2f, 0x35, 0x77, 0xb3, 0x4d, 0xa6,
                                           0xa3, 0xce, 0x92, 0x9d, 0x0e, 0x0e, 0x47, 0x36 };
    static const unsigned char span[] = { 0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7 };
    struct traceparent t = { .is_set = false };

    (void)state;
    assert_true(traceparent_read(span_of("00-" TRACE "-" SPAN "-01"), &t));
    assert_true(t.is_set && t.is_sampled);
    assert_memory_equal(t.trace_id, trace, sizeof trace);
    assert_memory_equal(t.span_id, span, sizeof span);
    assert_true(traceparent_read(span_of("00-" TRACE "-" SPAN "-00"), &t));
    assert_false(t.is_sampled);
    assert_true(traceparent_read(span_of("00-" TRACE "-" SPAN "-03"), &t)); /* other flags, too */
    assert_true(t.is_sampled);
    assert_true(traceparent_read(span_of("00-" TRACE "-" SPAN "-fe"), &t));
    assert_false(t.is_sampled);
}

static void a_later_version_may_have_more_behind_a_dash(void **state)
{
    char text[TRACEPARENT_MAX + 2];
    const int len = snprintf(text, sizeof text, "cc-" TRACE "-" SPAN "-01-");

    (void)state;
    assert_true(is_read("01-" TRACE "-" SPAN "-01"));
    assert_true(is_read("cc-" TRACE "-" SPAN "-01-what-the-future-brings"));
    assert_false(is_read("cc-" TRACE "-" SPAN "-01.what"));
    assert_false(is_read("00-" TRACE "-" SPAN "-01-what"));
    assert_false(is_read("00-" TRACE "-" SPAN "-01-"));
    assert_false(is_read("ff-" TRACE "-" SPAN "-01"));
    memset(text + len, 'x', sizeof text - (size_t)len);
    assert_true(is_read((text[TRACEPARENT_MAX] = '\0', text)));
    text[TRACEPARENT_MAX] = 'x';
    text[TRACEPARENT_MAX + 1] = '\0';
    assert_false(is_read(text));
}

static void what_is_not_valid_is_none(void **state)
{
    (void)state;
    assert_false(is_read(""));
    assert_false(is_read("00"));
    assert_false(is_read("00-" TRACE "-" SPAN "-0"));
    assert_false(is_read("0-" TRACE "-" SPAN "-001"));
    assert_false(is_read("00-00000000000000000000000000000000-" SPAN "-01"));
    assert_false(is_read("00-" TRACE "-0000000000000000-01"));
    assert_false(is_read("00-4BF92F3577B34DA6A3CE929D0E0E4736-" SPAN "-01"));
    assert_false(is_read("00-" TRACE "-00F067AA0BA902B7-01"));
    assert_false(is_read("00_" TRACE "-" SPAN "-01"));
    assert_false(is_read("00-" TRACE "_" SPAN "-01"));
    assert_false(is_read("00-" TRACE "-" SPAN "_01"));
    assert_false(is_read("0g-" TRACE "-" SPAN "-01"));
    assert_false(is_read("00-" TRACE "-" SPAN "-0g"));
    assert_false(is_read("00-" TRACE "-" SPAN "- 1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_and_the_flag_are_read),
        cmocka_unit_test(a_later_version_may_have_more_behind_a_dash),
        cmocka_unit_test(what_is_not_valid_is_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
