/* test_tally.c - what is counted of a log, in bounded memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "replay/comparison.h"
#include "replay/identities.h"
#include "replay/timeline.h"
#include "weir.h"

static int64_t sum_of(const struct timeline *t, bool denied)
{
    int64_t sum = 0;

    for (size_t i = 0; i < TIMELINE_POINTS; i++)
        sum += denied ? t->points[i].denied : t->points[i].requests;
    return sum;
}

/* Whatever the order of times: each is in the point that it belongs to. */
static void a_timeline_holds_all_times_in_their_points(void **state)
{
    static const int64_t spans[] = { 1, 1000, 3600000, 86400000, 3155760000000 };
    struct timeline t;

    (void)state;
    srand(7);
    for (size_t s = 0; s < sizeof spans / sizeof *spans; s++) {
        int64_t times[500];

        timeline_init(&t);
        for (size_t i = 0; i < 500; i++) {
            times[i] = 1700000000000 + (int64_t)((double)rand() / RAND_MAX * (double)spans[s]);
            timeline_add(&t, times[i], i % 5 == 0);
        }
        assert_int_equal(sum_of(&t, false), 500);
        assert_int_equal(sum_of(&t, true), 100);
        assert_int_equal(t.from % t.width, 0);
        for (size_t p = 0; p < TIMELINE_POINTS; p++) {
            const int64_t from = t.from + (int64_t)p * t.width;
            int64_t inside = 0;

            for (size_t i = 0; i < 500; i++)
                inside += times[i] >= from && times[i] < from + t.width;
            assert_int_equal(t.points[p].requests, inside);
        }
        timeline_done(&t);
    }
}

static void the_worst_hours_come_first(void **state)
{
    struct timeline_hour worst[3];
    struct timeline t;

    (void)state;
    timeline_init(&t);
    for (int64_t hour = 0; hour < 200; hour++)
        for (int64_t i = 0; i < 10; i++)
            timeline_add(&t, (1000 + hour) * 3600000 + i, i < hour % 7);
    assert_int_equal(timeline_worst(&t, worst, 3), 3);
    for (int64_t i = 0; i < 3; i++) { /* equal ones in their order */
        assert_int_equal(worst[i].denied, 6);
        assert_int_equal(worst[i].requests, 10);
        assert_int_equal(worst[i].hour, 1006 + 7 * i);
    }
    timeline_done(&t);
}

static void peaks_are_off_by_a_sixteenth_at_most(void **state)
{
    (void)state;
    for (int64_t value = 0; value < INT64_MAX / 3 * 2; value += 1 + value / 5) {
        const size_t bucket = peaks_bucket(value);

        assert_true(bucket < PEAKS_BUCKETS);
        assert_true(peaks_upper(bucket) >= value);
        assert_true(peaks_upper(bucket) - value <= value / 16);
        assert_true(bucket == 0 || peaks_upper(bucket - 1) < value);
    }
}

static struct key key_of(uint64_t n)
{
    n = (n + 1) * 0x9e3779b97f4a7c15u;
    return (struct key){ (n ^ n >> 29) * 0xbf58476d1ce4e5b9u, (n ^ n >> 32) * 0x94d049bb133111ebu };
}

static void an_identity_has_its_peak_and_its_denials(void **state)
{
    struct identities t;
    struct peaks peaks[1];
    struct seen *s;
    struct denied_identity *d;

    (void)state;
    assert_true(identities_init(&t, 1, true));
    for (uint32_t window = 0; window < 3; window++)
        for (int i = 0; i < 5 + (window == 1); i++)
            s = identities_count(&t, 0, key_of(1), 2, window);
    d = identities_deny(&t, s, 10, 500);
    identities_keep_raw(&t, d, span_of("3:abc"));
    identities_deny(&t, s, 20, WEIR_NEVER);
    d = identities_deny(&t, s, 30, 100);
    identities_finish(&t, peaks);
    assert_int_equal(d->denied, 3);
    assert_int_equal(d->first, 10);
    assert_int_equal(d->last, 30);
    assert_int_equal(d->longest_wait, WEIR_NEVER);
    assert_int_equal(d->requests, 16);
    assert_int_equal(peaks[0].largest, 12);
    assert_int_equal(identities_of_row(&t, 0), 1);
    assert_int_equal(t.rows[0].denied_identities, 1);
    identities_done(&t);
}

/* Beyond the bound, those that were denied stay, and the number of all is an estimate. */
static void more_identities_than_there_is_room_for_are_estimated(void **state)
{
    enum { MANY = IDENTITIES_MOST / 4 * 5 };
    struct identities t;
    struct peaks *peaks = calloc(1, sizeof *peaks);
    int64_t missed = 0;

    (void)state;
    assert_non_null(peaks);
    assert_true(identities_init(&t, 1, false));
    for (uint64_t i = 0; i < MANY; i++) {
        struct seen *s = identities_count(&t, 0, key_of(i), 1, (uint32_t)(i / 1000));

        if (s && i % 100000 == 0)
            assert_non_null(identities_deny(&t, s, 1, 1));
        missed += !s;
    }
    assert_true(t.is_estimated);
    assert_false(t.failed);
    assert_int_equal(missed, 0);
    assert_true(t.room * sizeof(struct seen) <= 84 * 1024 * 1024);
    assert_int_equal(t.denied_count, (MANY + 99999) / 100000);
    identities_finish(&t, peaks);
    assert_int_equal(peaks->count, MANY);
    for (size_t i = 0; i < t.denied_count; i++)
        assert_int_equal(t.denied[i].requests, 1);
    assert_true(identities_of_row(&t, 0) > MANY / 100 * 90);
    assert_true(identities_of_row(&t, 0) < MANY / 100 * 110);
    identities_done(&t);
    free(peaks);
}

/* Further ones are counted, and have no entry: neither now nor when they are denied again. */
static void the_list_of_the_denied_is_bounded(void **state)
{
    struct identities t;

    (void)state;
    assert_true(identities_init(&t, 1, false));
    for (uint64_t i = 0; i < IDENTITIES_MOST_DENIED + 2; i++) {
        struct seen *s = identities_count(&t, 0, key_of(i), 1, 1);
        const bool has_room = i < IDENTITIES_MOST_DENIED;

        assert_non_null(s);
        assert_int_equal(identities_deny(&t, s, 1, 1) != NULL, has_room);
        if (!has_room)
            assert_null(identities_deny(&t, s, 2, 1));
    }
    assert_true(t.is_denied_cut);
    assert_int_equal(t.denied_count, IDENTITIES_MOST_DENIED);
    assert_int_equal(t.rows[0].denied_identities, IDENTITIES_MOST_DENIED + 2);
    identities_done(&t);
}

static void the_hours_of_a_timeline_are_bounded(void **state)
{
    struct timeline t;

    (void)state;
    timeline_init(&t);
    for (int64_t hour = 0; hour < 3 * TIMELINE_MOST_HOURS; hour++)
        timeline_add(&t, hour * 3600000, true);
    assert_true(t.hour_room <= 2 * TIMELINE_MOST_HOURS);
    assert_true(t.hour_count <= TIMELINE_MOST_HOURS);
    assert_int_equal(sum_of(&t, true), 3 * TIMELINE_MOST_HOURS);
    timeline_done(&t);
}

static void the_identities_of_a_comparison_are_bounded(void **state)
{
    const struct key none = { 0, 0 };
    struct comparison c;
    int64_t first, second, both;

    (void)state;
    assert_true(comparison_init(&c));
    for (uint64_t i = 0; i < COMPARISON_MOST; i++)
        comparison_add(&c, true, key_of(i), false, none);
    assert_false(c.is_cut);
    for (uint64_t i = 0; i < 3; i++)
        comparison_add(&c, true, key_of(COMPARISON_MOST + i), false, none);
    assert_true(c.is_cut);
    comparison_identities(&c, &first, &second, &both);
    assert_int_equal(first, COMPARISON_MOST);
    assert_int_equal(c.first, COMPARISON_MOST + 3);
    comparison_done(&c);
}

static void a_comparison_tells_who_is_denied_by_one_alone(void **state)
{
    const struct key none = { 0, 0 };
    struct compared worst[2];
    struct comparison c;
    int64_t first, second, both;

    (void)state;
    assert_true(comparison_init(&c));
    for (uint64_t i = 0; i < 5000; i++) {
        comparison_add(&c, false, none, false, none);
        comparison_add(&c, true, key_of(i), i % 2 == 0, key_of(i));
        if (i < 2)
            comparison_add(&c, false, none, true, key_of(9999 + i));
    }
    comparison_add(&c, true, key_of(3), false, none);
    comparison_identities(&c, &first, &second, &both);
    assert_int_equal(c.requests, 10003);
    assert_int_equal(c.first, 2501);
    assert_int_equal(c.second, 2);
    assert_int_equal(c.both, 2500);
    assert_int_equal(first, 2500);
    assert_int_equal(second, 2);
    assert_int_equal(both, 2500);
    assert_int_equal(comparison_worst(&c, false, worst, 2), 2);
    assert_int_equal(worst[0].tag.low, key_of(3).low);
    assert_int_equal(worst[0].first, 2);
    assert_int_equal(comparison_worst(&c, true, worst, 2), 2);
    assert_int_equal(worst[0].second, 1);
    comparison_done(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_timeline_holds_all_times_in_their_points),
        cmocka_unit_test(the_worst_hours_come_first),
        cmocka_unit_test(peaks_are_off_by_a_sixteenth_at_most),
        cmocka_unit_test(an_identity_has_its_peak_and_its_denials),
        cmocka_unit_test(more_identities_than_there_is_room_for_are_estimated),
        cmocka_unit_test(the_list_of_the_denied_is_bounded),
        cmocka_unit_test(the_hours_of_a_timeline_are_bounded),
        cmocka_unit_test(the_identities_of_a_comparison_are_bounded),
        cmocka_unit_test(a_comparison_tells_who_is_denied_by_one_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
