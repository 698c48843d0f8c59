/* test_calendar.c - windows of the calendar: odd days, odd zones, and zone data that change. */
#include "support/unit.h"

#include <stdlib.h>
#include <time.h>

#include "limit/calendar.h"
#include "limit/state.h"

static struct zone zone;

static struct calendar calendar_in(const char *name, enum period period, int month_day)
{
    weir_diag diag;

    if (zone_load(name, &zone, &diag))
        fail_msg("%s", diag.text);
    return (struct calendar){ period, month_day, name, &zone, 0, { 0 } };
}

static int64_t utc(int64_t year, int month, int day, int hour, int minute)
{
    return (day_of_date(year, month, day) * 86400 + hour * 3600 + minute * 60) * 1000;
}

/* The window that has this time. */
static void window_is(struct calendar *c, int64_t now, int64_t begin, int64_t end)
{
    struct calendar_bounds b;

    for (int again = 0; again < 2; again++) { /* computed, and from what is known */
        calendar_bounds(c, now, &b);
        assert_int_equal(b.at[1], begin);
        assert_int_equal(b.at[2], end);
        for (int i = 1; i < CALENDAR_BOUNDS; i++)
            assert_true(b.at[i - 1] < b.at[i]);
    }
}

static void days_have_23_24_and_25_hours(void **state)
{
    struct calendar c = calendar_in("Europe/Berlin", PERIOD_DAY, 1);

    (void)state;
    window_is(&c, utc(2026, 3, 29, 12, 0), utc(2026, 3, 28, 23, 0), utc(2026, 3, 29, 22, 0));
    window_is(&c, utc(2026, 10, 25, 12, 0), utc(2026, 10, 24, 22, 0), utc(2026, 10, 25, 23, 0));
    window_is(&c, utc(2026, 7, 1, 21, 59), utc(2026, 6, 30, 22, 0), utc(2026, 7, 1, 22, 0));
    window_is(&c, utc(2026, 7, 1, 22, 0), utc(2026, 7, 1, 22, 0), utc(2026, 7, 2, 22, 0));
    window_is(&c, utc(2090, 7, 1, 12, 0), utc(2090, 6, 30, 22, 0), utc(2090, 7, 1, 22, 0));
}

static void a_midnight_that_does_not_exist_is_the_first_instant_after_it(void **state)
{
    struct calendar c = calendar_in("America/Sao_Paulo", PERIOD_DAY, 1);

    (void)state;
    window_is(&c, utc(2018, 11, 4, 12, 0), utc(2018, 11, 4, 3, 0), utc(2018, 11, 5, 2, 0));
}

static void a_midnight_that_comes_twice_is_the_first_one(void **state)
{
    struct calendar c = calendar_in("America/Havana", PERIOD_DAY, 1);

    (void)state;
    window_is(&c, utc(2024, 11, 3, 12, 0), utc(2024, 11, 3, 4, 0), utc(2024, 11, 4, 5, 0));
}

static void a_day_that_a_zone_has_left_out_is_no_window(void **state)
{
    struct calendar c = calendar_in("Pacific/Apia", PERIOD_DAY, 1);

    (void)state;
    window_is(&c, utc(2011, 12, 30, 9, 59), utc(2011, 12, 29, 10, 0), utc(2011, 12, 30, 10, 0));
    window_is(&c, utc(2011, 12, 30, 10, 0), utc(2011, 12, 30, 10, 0), utc(2011, 12, 31, 10, 0));
}

static void offsets_may_be_of_quarters_and_shift_by_half_an_hour(void **state)
{
    struct calendar c = calendar_in("Asia/Kathmandu", PERIOD_DAY, 1);

    (void)state;
    window_is(&c, utc(2026, 1, 1, 0, 0), utc(2025, 12, 31, 18, 15), utc(2026, 1, 1, 18, 15));
    c = calendar_in("Australia/Lord_Howe", PERIOD_DAY, 1);
    window_is(&c, utc(2026, 4, 5, 2, 0), utc(2026, 4, 4, 13, 0), utc(2026, 4, 5, 13, 30));
}

static void weeks_begin_on_monday(void **state)
{
    struct calendar c = calendar_in("UTC", PERIOD_WEEK, 1);

    (void)state;
    window_is(&c, utc(2026, 11, 17, 10, 0), utc(2026, 11, 16, 0, 0), utc(2026, 11, 23, 0, 0));
    window_is(&c, utc(2026, 11, 22, 23, 59), utc(2026, 11, 16, 0, 0), utc(2026, 11, 23, 0, 0));
}

static void the_31st_is_the_last_day_of_a_shorter_month_each_time_anew(void **state)
{
    struct calendar c = calendar_in("UTC", PERIOD_MONTH, 31);

    (void)state;
    window_is(&c, utc(2024, 2, 29, 0, 0), utc(2024, 2, 29, 0, 0), utc(2024, 3, 31, 0, 0));
    window_is(&c, utc(2023, 2, 28, 5, 0), utc(2023, 2, 28, 0, 0), utc(2023, 3, 31, 0, 0));
    window_is(&c, utc(2023, 3, 31, 5, 0), utc(2023, 3, 31, 0, 0), utc(2023, 4, 30, 0, 0));
    c = calendar_in("UTC", PERIOD_QUARTER, 31);
    window_is(&c, utc(2026, 4, 29, 0, 0), utc(2026, 1, 31, 0, 0), utc(2026, 4, 30, 0, 0));
    c = calendar_in("UTC", PERIOD_YEAR, 15);
    window_is(&c, utc(2026, 1, 14, 0, 0), utc(2025, 1, 15, 0, 0), utc(2026, 1, 15, 0, 0));
}

static void a_window_in_force_keeps_its_bounds_when_zone_data_change(void **state)
{
    struct calendar before = calendar_in("UTC", PERIOD_DAY, 1), after;
    struct rule r = { WEIR_FIXED_WINDOW,  2, period_most(PERIOD_DAY), 2, .start = START_CALENDAR,
                      .calendar = &before };
    static struct zone moved;
    struct state s = { 0 };
    struct step step;
    weir_diag diag;

    (void)state;
    state_take(&s, &r, &(struct ask){ .now = utc(2026, 5, 1, 12, 0), .cost = 2 }, &step);
    state_apply(&s, &r, &step);
    assert_int_equal(step.decision.reset_after, 12 * 3600000);
    assert_int_equal(zone_load("Europe/Berlin", &moved, &diag), WEIR_OK);
    after = (struct calendar){ PERIOD_DAY, 1, "UTC", &moved, 0, { 0 } };
    r.calendar = &after;
    state_take(&s, &r, &(struct ask){ .now = utc(2026, 5, 1, 23, 0), .cost = 1 }, &step);
    assert_int_equal(step.decision.retry_after, 3600000); /* not 22:00 */
    state_take(&s, &r, &(struct ask){ .now = utc(2026, 5, 2, 0, 0), .cost = 1 }, &step);
    assert_true(step.decision.allowed);
    assert_int_equal(step.decision.reset_after, 22 * 3600000);
}

static void damaged_zone_data_are_refused(void **state)
{
    static char bytes[65536];
    static struct zone z;
    FILE *f = fopen("/usr/share/zoneinfo/Europe/Berlin", "rb");
    size_t len;

    (void)state;
    assert_non_null(f);
    len = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    assert_true(zone_parse((struct span){ bytes, len }, &z));
    for (size_t cut = 0; cut < len; cut++)
        assert_false(zone_parse((struct span){ bytes, cut }, &z));
    bytes[0] = 't';
    assert_false(zone_parse((struct span){ bytes, len }, &z));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(days_have_23_24_and_25_hours),
        cmocka_unit_test(a_midnight_that_does_not_exist_is_the_first_instant_after_it),
        cmocka_unit_test(a_midnight_that_comes_twice_is_the_first_one),
        cmocka_unit_test(a_day_that_a_zone_has_left_out_is_no_window),
        cmocka_unit_test(offsets_may_be_of_quarters_and_shift_by_half_an_hour),
        cmocka_unit_test(weeks_begin_on_monday),
        cmocka_unit_test(the_31st_is_the_last_day_of_a_shorter_month_each_time_anew),
        cmocka_unit_test(a_window_in_force_keeps_its_bounds_when_zone_data_change),
        cmocka_unit_test(damaged_zone_data_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
