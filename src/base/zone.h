/* zone.h - a time zone: which offset from UTC holds when, from the system's zone data.
 *
 * A zone never changes once it is read, and may be used by any number of threads. */
#ifndef WEIR_BASE_ZONE_H
#define WEIR_BASE_ZONE_H

#include "base/span.h"
#include "weir.h"

/* Offsets are known up to the end of the year 2200; from then on the last one holds. */
enum { ZONE_MOST_CHANGES = 1200, ZONE_LAST_YEAR = 2200, ZONE_MAX_NAME = 64 };

struct zone {
    uint32_t count;
    int64_t at[ZONE_MOST_CHANGES];         /* seconds since 1970, ascending */
    int32_t offset[ZONE_MOST_CHANGES + 1]; /* in seconds: before at[0], from at[0] on, ... */
};

extern const struct zone *const zone_utc;

/* The bytes of a TZif file (RFC 9636). False: they are none that can be used. */
bool zone_parse(struct span bytes, struct zone *out);

/* By its name, as in Europe/Berlin, from /usr/share/zoneinfo or $TZDIR. UTC needs no file. The diag
 * says what is wrong, and what to install if there is no zone data. */
WEIR_MUSTCHECK weir_err zone_load(const char *name, struct zone *out, weir_diag *diag);

int32_t zone_offset(const struct zone *z, int64_t second);

/* The first second whose local time is at or after 0:00 of this day, counted from 1970-01-01. */
int64_t zone_midnight(const struct zone *z, int64_t day);

/* A day of the Gregorian calendar, from 1970-01-01 on, and back. Months are 1 to 12. */
int64_t day_of_date(int64_t year, int month, int day);
void date_of_day(int64_t days, int64_t *year, int *month, int *day);
int days_in_month(int64_t year, int month);

#endif
