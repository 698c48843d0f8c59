/* calendar.c - windows of the calendar: days, weeks, months, quarters and years of a time zone. */
#include "limit/calendar.h"

#include <string.h>

enum { BEFORE = 4, AFTER = 6, ALL = BEFORE + 1 + AFTER, DAY_S = 86400 };

#define X(name, text, days) [PERIOD_##name] = (text),
const char *const period_names[PERIOD_COUNT] = { CALENDAR_PERIODS(X) };
#undef X

int64_t period_most(enum period period)
{
#define X(name, text, days) [PERIOD_##name] = (days),
    static const int64_t most[PERIOD_COUNT] = { CALENDAR_PERIODS(X) };
#undef X
    return most[period] * DAY_S * 1000;
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* The day of the i-th boundary from the one that begins the period of `today`, more or less. */
static int64_t boundary_day(const struct calendar *c, int64_t today, int i)
{
    int64_t year, months, step;
    int month, day;

    switch (c->period) {
    case PERIOD_DAY:
        return today + i;
    case PERIOD_WEEK: /* 1970-01-01 was a Thursday */
        return floor_div(today + 3, 7) * 7 - 3 + 7 * i;
    case PERIOD_MONTH:
    case PERIOD_QUARTER:
    case PERIOD_YEAR:
    case PERIOD_COUNT:
        break;
    }
    step = c->period == PERIOD_MONTH ? 1 : c->period == PERIOD_QUARTER ? 3 : 12;
    date_of_day(today, &year, &month, &day);
    months = floor_div(year * 12 + month - 1, step) * step + i * step;
    year = floor_div(months, 12);
    month = (int)(months - year * 12) + 1;
    day = days_in_month(year, month);
    return day_of_date(year, month, c->month_day < day ? c->month_day : day);
}

static void compute(const struct calendar *c, int64_t now, struct calendar_bounds *out)
{
    const int64_t second = floor_div(now, 1000);
    const int64_t today = floor_div(second + zone_offset(c->zone, second), DAY_S);
    int64_t all[ALL];
    int n = 0, at = 1;

    for (int i = -BEFORE; i <= AFTER; i++) {
        const int64_t ms = zone_midnight(c->zone, boundary_day(c, today, i)) * 1000;

        if (n == 0 || ms > all[n - 1]) /* a day that a zone has left out is no window */
            all[n++] = ms;
    }
    while (at + 3 < n - 1 && all[at + 1] <= now)
        at++;
    for (int i = 0; i < CALENDAR_BOUNDS; i++)
        out->at[i] = all[at - 1 + i];
}

void calendar_given(struct calendar *c, const int64_t bounds[CALENDAR_BOUNDS])
{
    c->zone = NULL;
    atomic_init(&c->version, 0);
    for (int i = 0; i < CALENDAR_BOUNDS; i++)
        atomic_init(&c->known[i], bounds[i]);
}

/* From bounds that were computed for another time to those of this one. */
static void go_on(int64_t now, struct calendar_bounds *of)
{
    const int last = CALENDAR_BOUNDS - 1;
    const int64_t length = of->at[last] - of->at[last - 1];
    const int64_t end = of->at[last] +
                        (now > of->at[last] ? (now - of->at[last]) / length * length : 0);

    for (int i = 0; i < CALENDAR_BOUNDS && end > of->at[last]; i++)
        of->at[i] = end - (last - i) * length;
    while (now >= of->at[2]) {
        memmove(of->at, of->at + 1, sizeof *of->at * (size_t)last);
        of->at[last] = of->at[last - 1] + length;
    }
}

void calendar_bounds(struct calendar *c, int64_t now, struct calendar_bounds *out)
{
    uint32_t version = atomic_load_explicit(&c->version, memory_order_acquire);

    for (int i = 0; i < CALENDAR_BOUNDS; i++)
        out->at[i] = atomic_load_explicit(&c->known[i], memory_order_acquire);
    if (version % 2 == 0 && out->at[1] <= now && now < out->at[2] &&
        atomic_load_explicit(&c->version, memory_order_relaxed) == version)
        return;
    if (!c->zone) {
        go_on(now, out);
        return;
    }
    compute(c, now, out);
    if (version % 2 != 0 ||
        !atomic_compare_exchange_strong_explicit(&c->version, &version, version + 1,
                                                 memory_order_acq_rel, memory_order_relaxed))
        return; /* another thread is writing it down */
    for (int i = 0; i < CALENDAR_BOUNDS; i++)
        atomic_store_explicit(&c->known[i], out->at[i], memory_order_release);
    atomic_store_explicit(&c->version, version + 2, memory_order_release);
}
