/* test_vitals.c - the last hour of a server, by the minute. */
#include "server/metrics/vitals.h"

#include "server/metrics/observer_internal.h"
#include "support/limiter.h"

enum { MINUTE = 60 * 1000 };

static struct buf written(struct vitals *v)
{
    const weir_allocator usual = heap();
    struct buf out;

    buf_init(&out, &usual);
    vitals_write(v, &out);
    assert_false(out.failed);
    return out;
}

static void assert_points(struct vitals *v, const char *points)
{
    struct buf out = written(v);
    const char *at = strstr(out.at, "\"points\":");

    assert_non_null(at);
    assert_string_equal(at + 9, points);
    buf_done(&out);
}

static void a_minute_has_its_own_quantile(void **state)
{
    struct observer *o = calloc(1, sizeof *o);
    struct vitals *v = vitals_new();

    (void)state;
    assert_non_null(v);
    histogram_init(&o->decision, &histogram_times);
    vitals_look(v, &o, 1, 5, 1000, 10 * MINUTE);
    assert_points(v, "[[600000,null,5,1000]]}");
    histogram_add(&o->decision, 900 * 1000, 100);
    vitals_look(v, &o, 1, 6, 1000, 10 * MINUTE + 1000);
    assert_points(v, "[[600000,1000000,6,1000]]}");
    vitals_look(v, &o, 1, 7, -1, 11 * MINUTE);
    histogram_add(&o->decision, 900, 100); /* faster, and the slow ones do not count any more */
    vitals_look(v, &o, 1, -1, 1000, 11 * MINUTE + 1000);
    assert_points(v, "[[600000,1000000,6,1000],[660000,1000,null,1000]]}");
    vitals_free(v);
    free(o);
}

static void an_hour_is_kept_and_no_more(void **state)
{
    struct observer *o = calloc(1, sizeof *o);
    struct vitals *v = vitals_new();
    struct buf out;

    (void)state;
    histogram_init(&o->decision, &histogram_times);
    for (int64_t i = 1; i <= 100; i++)
        vitals_look(v, &o, 1, i, 0, i * MINUTE);
    out = written(v);
    assert_null(strstr(out.at, "[2400000,"));      /* the 40th */
    assert_non_null(strstr(out.at, "[[2460000,")); /* the 41st is the first */
    assert_non_null(strstr(out.at, "[6000000,null,100,0]]}"));
    buf_done(&out);
    vitals_free(v);
    free(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_minute_has_its_own_quantile),
        cmocka_unit_test(an_hour_is_kept_and_no_more),
    };

    return cmocka_run_group_tests_name("vitals", tests, NULL, NULL);
}
