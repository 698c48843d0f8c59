/* calendar.h - windows of the calendar: days, weeks, months, quarters and years of a time zone.
 *
 * A boundary is 0:00 of a day there; its instant is the first whose local time is at or after
 * it. */
#ifndef WEIR_LIMIT_CALENDAR_H
#define WEIR_LIMIT_CALENDAR_H

#include <stdatomic.h>

#include "base/zone.h"

/* X(name, text, days at most) */
#define CALENDAR_PERIODS(X)                                                                        \
    X(DAY, "day", 2)                                                                               \
    X(WEEK, "week", 8)                                                                             \
    X(MONTH, "month", 32)                                                                          \
    X(QUARTER, "quarter", 93)                                                                      \
    X(YEAR, "year", 367)

enum period {
#define X(name, text, days) PERIOD_##name,
    CALENDAR_PERIODS(X)
#undef X
        PERIOD_COUNT
};
extern const char *const period_names[PERIOD_COUNT];
int64_t period_most(enum period period); /* ms: none is longer */
static inline bool period_has_month_day(enum period period)
{
    return period >= PERIOD_MONTH;
}

/* Boundaries around a time: the last before its window, those of the window, and two more. */
enum { CALENDAR_BOUNDS = 5 };

struct calendar_bounds {
    int64_t at[CALENDAR_BOUNDS]; /* ms since 1970; at[1] <= the time < at[2] */
};

struct calendar {
    enum period period;
    int month_day; /* 29 to 31: the last day of a shorter month */
    const char *zone_name;
    const struct zone *zone; /* NULL: of a reservation, which has the bounds and no more */
    /* The last bounds that were computed: even and unchanged while they are read, they are good. */
    _Atomic uint32_t version;
    _Atomic int64_t known[CALENDAR_BOUNDS];
};

/* By any number of threads; it computes only when the window of the last call does not have
 * `now`. */
void calendar_bounds(struct calendar *c, int64_t now, struct calendar_bounds *out);

/* One that has bounds alone. Beyond the last of them, windows are as long as the last. */
void calendar_given(struct calendar *c, const int64_t bounds[CALENDAR_BOUNDS]);

#endif
