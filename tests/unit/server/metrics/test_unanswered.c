/* test_unanswered.c - checks that have no answer: counted, told apart, and bounded. */
#include "support/unit.h"

#include <jansson.h>

#include "server/metrics/unanswered.h"

static const int64_t now = INT64_C(1700000040000);
enum { MINUTE = 60 * 1000 };

static bool count(struct unanswered *u, const char *text, int64_t at, uint64_t *left_out)
{
    return unanswered_count(u, ASKED_BY_HTTP, PROBLEM_NO_SUCH_POLICY, text, at, left_out);
}

static json_t *told(const struct unanswered *u, int64_t at)
{
    const weir_allocator usual = heap();
    struct buf text;
    struct json j = { .to = &text };
    json_t *root, *found;

    buf_init(&text, &usual);
    json_open(&j, NULL, '{');
    unanswered_write(u, at, &j);
    json_close(&j, '}');
    root = json_loads(text.at, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(root);
    found = json_incref(json_object_get(root, "unanswered"));
    json_decref(root);
    buf_done(&text);
    return found;
}

static int64_t number(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

static void one_in_ten_seconds_is_logged_with_the_number_of_those_dropped(void **state)
{
    struct unanswered *u = calloc(1, sizeof *u);
    uint64_t left_out = 9;

    (void)state;
    assert_true(count(u, "a", now, &left_out));
    assert_int_equal(left_out, 0);
    for (int i = 0; i < 7; i++)
        assert_false(count(u, "b", now + 9999, &left_out));
    assert_true(unanswered_count(u, ASKED_BY_RESP, PROBLEM_UNAUTHORIZED, "c", now, &left_out));
    assert_true(count(u, "a", now + 10000, &left_out));
    assert_int_equal(left_out, 7);
    assert_true(count(u, "a", now - 3600 * 1000, &left_out)); /* the clock has stepped back */
    assert_int_equal(unanswered_by(u, PROBLEM_NO_SUCH_POLICY), 10);
    free(u);
}

static void reasons_are_reported_for_five_minutes(void **state)
{
    struct unanswered *u = calloc(1, sizeof *u);
    uint64_t left_out;
    json_t *t;

    (void)state;
    for (int i = 0; i < 3; i++)
        count(u, "there is no policy 'a'", now + i * MINUTE, &left_out);
    unanswered_count(u, ASKED_BY_RESP, PROBLEM_UNAUTHORIZED, "b", now, &left_out);
    t = told(u, now + 2 * MINUTE);
    assert_int_equal(number(t, "total"), 4);
    assert_int_equal(number(t, "recent"), 4);
    assert_int_equal(json_array_size(json_object_get(t, "reasons")), 2);
    assert_string_equal(json_string_value(json_object_get(
                            json_array_get(json_object_get(t, "reasons"), 0), "detail")),
                        "there is no policy 'a'");
    json_decref(t);
    t = told(u, now + 6 * MINUTE);
    assert_int_equal(number(t, "recent"), 1);
    assert_int_equal(json_array_size(json_object_get(t, "reasons")), 1);
    json_decref(t);
    t = told(u, now + 60 * MINUTE);
    assert_int_equal(number(t, "total"), 4);
    assert_int_equal(number(t, "recent"), 0);
    assert_int_equal(json_array_size(json_object_get(t, "reasons")), 0);
    json_decref(t);
    free(u);
}

static void the_numbers_of_all_loops_are_summed(void **state)
{
    struct unanswered *u = calloc(3, sizeof *u);
    uint64_t left_out;
    json_t *t, *reason;

    (void)state;
    for (int i = 0; i < 10; i++)
        count(&u[i % 2], "a", now + i * MINUTE / 10, &left_out);
    for (int i = 0; i < 2; i++)
        unanswered_merge(&u[2], &u[i], now + MINUTE);
    t = told(&u[2], now + MINUTE);
    assert_int_equal(number(t, "recent"), 10);
    assert_int_equal(json_array_size(json_object_get(t, "reasons")), 1);
    reason = json_array_get(json_object_get(t, "reasons"), 0);
    assert_int_equal(number(reason, "recent"), 10);
    assert_int_equal(number(reason, "last_ms"), now + 9 * MINUTE / 10);
    json_decref(t);
    free(u);
}

/* What strangers send is what the texts are made of. */
static void ever_new_texts_take_no_more_room_and_long_ones_are_cut(void **state)
{
    struct unanswered *u = calloc(1, sizeof *u);
    char text[1024];
    uint64_t left_out;
    json_t *t, *reasons, *reason;
    size_t i;

    (void)state;
    for (int n = 0; n < 1000; n++) {
        snprintf(text, sizeof text, "%d %0600d", n, n);
        count(u, text, now, &left_out);
    }
    memset(text, 'x', UNANSWERED_TEXT - 1);
    strcpy(text + UNANSWERED_TEXT - 1, "\xc3\xa4 is cut in the middle");
    count(u, text, now + 1, &left_out);
    t = told(u, now);
    assert_int_equal(number(t, "recent"), 1001);
    reasons = json_object_get(t, "reasons");
    assert_int_equal(json_array_size(reasons), UNANSWERED_REASONS);
    json_array_foreach(reasons, i, reason) assert_in_range(
        strlen(json_string_value(json_object_get(reason, "detail"))), 1, UNANSWERED_TEXT);
    assert_int_equal(
        strlen(json_string_value(json_object_get(json_array_get(reasons, 0), "detail"))),
        UNANSWERED_TEXT - 1);
    json_decref(t);
    free(u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_in_ten_seconds_is_logged_with_the_number_of_those_dropped),
        cmocka_unit_test(reasons_are_reported_for_five_minutes),
        cmocka_unit_test(the_numbers_of_all_loops_are_summed),
        cmocka_unit_test(ever_new_texts_take_no_more_room_and_long_ones_are_cut),
    };

    return cmocka_run_group_tests_name("unanswered", tests, NULL, NULL);
}
