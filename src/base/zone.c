/* zone.c - a time zone: which offset from UTC holds when, from the system's zone data.
 *
 * A TZif file has its data twice, with times of 32 and of 64 bits, and a rule for the years behind
 * them. The second data are read, and the rule is written out as changes. */
#include "base/zone.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/printable.h"

enum { HEAD = 44, MOST_BYTES = 1 << 16, MOST_OFFSET = 26 * 3600, DAY = 86400 };

/* Not const: so many zeros are then no part of the file. */
static struct zone utc;
const struct zone *const zone_utc = &utc;

/* ---- the calendar ----------------------------------------------------------------------- */

static bool is_leap(int64_t year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

int days_in_month(int64_t year, int month)
{
    static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };

    return month == 2 && is_leap(year) ? 29 : days[month - 1];
}

/* Years that begin in March: the leap day is their last one. */
int64_t day_of_date(int64_t year, int month, int day)
{
    const int64_t y = month <= 2 ? year - 1 : year, era = (y >= 0 ? y : y - 399) / 400;
    const int64_t of_era = y - era * 400, month_of_year = month > 2 ? month - 3 : month + 9;
    const int64_t of_year = (153 * month_of_year + 2) / 5 + day - 1;

    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

void date_of_day(int64_t days, int64_t *year, int *month, int *day)
{
    const int64_t z = days + 719468, era = (z >= 0 ? z : z - 146096) / 146097;
    const int64_t d = z - era * 146097;
    const int64_t y = (d - d / 1460 + d / 36524 - d / 146096) / 365;
    const int64_t of_year = d - (365 * y + y / 4 - y / 100), m = (5 * of_year + 2) / 153;

    *day = (int)(of_year - (153 * m + 2) / 5 + 1);
    *month = (int)(m < 10 ? m + 3 : m - 9);
    *year = y + era * 400 + (*month <= 2);
}

/* ---- the rule for later years -------------------------------------------------------------- */

struct text {
    const char *at, *end;
};

static bool next_is(struct text *t, char c)
{
    if (t->at == t->end || *t->at != c)
        return false;
    t->at++;
    return true;
}

static bool read_number(struct text *t, int most, int *out)
{
    const char *begin = t->at;

    for (*out = 0; t->at < t->end && *t->at >= '0' && *t->at <= '9'; t->at++) {
        *out = *out * 10 + (*t->at - '0');
        if (*out > most)
            return false;
    }
    return t->at > begin;
}

/* hh[:mm[:ss]], with a sign or not: seconds. */
static bool read_time(struct text *t, int *out)
{
    const bool is_negative = next_is(t, '-');
    int hours, minutes = 0, seconds = 0;

    if (!is_negative)
        next_is(t, '+');
    if (!read_number(t, 167, &hours))
        return false;
    if (next_is(t, ':') && !read_number(t, 59, &minutes))
        return false;
    if (next_is(t, ':') && !read_number(t, 59, &seconds))
        return false;
    *out = (hours * 3600 + minutes * 60 + seconds) * (is_negative ? -1 : 1);
    return true;
}

static bool skip_name(struct text *t)
{
    const char *begin = t->at;

    if (next_is(t, '<')) {
        while (t->at < t->end && *t->at != '>')
            t->at++;
        return next_is(t, '>');
    }
    while (t->at < t->end && ((*t->at >= 'a' && *t->at <= 'z') || (*t->at >= 'A' && *t->at <= 'Z')))
        t->at++;
    return t->at > begin;
}

/* When in a year: Mm.w.d, Jn or n, and a time of that day. */
struct when {
    char kind; /* 'M', 'J' or 'n' */
    int month, week, day, time;
};

static bool read_when(struct text *t, struct when *out)
{
    bool is_good;

    *out = (struct when){ .kind = 'n', .time = 2 * 3600 };
    if (next_is(t, 'M')) {
        out->kind = 'M';
        is_good = read_number(t, 12, &out->month) && out->month >= 1 && next_is(t, '.') &&
                  read_number(t, 5, &out->week) && out->week >= 1 && next_is(t, '.') &&
                  read_number(t, 6, &out->day);
    } else {
        if (next_is(t, 'J'))
            out->kind = 'J';
        is_good = read_number(t, 365, &out->day) && (out->kind != 'J' || out->day >= 1);
    }
    return is_good && (!next_is(t, '/') || read_time(t, &out->time));
}

/* In local seconds since 1970. */
static int64_t when_in(const struct when *w, int64_t year)
{
    int64_t day = day_of_date(year, 1, 1);

    if (w->kind == 'M') {
        const int64_t first = day_of_date(year, w->month, 1);
        const int weekday = (int)((first % 7 + 11) %
                                  7); /* 1970-01-01 was a Thursday, Sunday is 0 */

        day = first + (w->day - weekday + 7) % 7 + 7 * (w->week - 1);
        if (day >= first + days_in_month(year, w->month))
            day -= 7;
    } else if (w->kind == 'J') {
        day += w->day - 1 + (is_leap(year) && w->day >= 60);
    } else {
        day += w->day;
    }
    return day * DAY + w->time;
}

static bool add_change(struct zone *z, int64_t at, int offset)
{
    if (offset < -MOST_OFFSET || offset > MOST_OFFSET)
        return false;
    if (z->count > 0 && at <= z->at[z->count - 1])
        return true; /* the data have it already */
    if (z->count == ZONE_MOST_CHANGES)
        return false;
    z->at[z->count++] = at;
    z->offset[z->count] = offset;
    return true;
}

static bool add_years(struct zone *z, const struct when *begin, const struct when *end,
                      int standard, int summer)
{
    int64_t year = 1970;
    int month, day;

    if (z->count > 0)
        date_of_day(z->at[z->count - 1] / DAY, &year, &month, &day);
    for (; year <= ZONE_LAST_YEAR; year++) {
        const int64_t on = when_in(begin, year) - standard, off = when_in(end, year) - summer;
        const bool on_is_first = on < off;

        if (!add_change(z, on_is_first ? on : off, on_is_first ? summer : standard) ||
            !add_change(z, on_is_first ? off : on, on_is_first ? standard : summer))
            return false;
    }
    return true;
}

static bool parse_rule(struct span rule, struct zone *z)
{
    struct text t = { rule.at, rule.at + rule.len };
    int standard, summer;
    struct when begin, end;

    if (rule.len == 0)
        return true;
    if (!skip_name(&t) || !read_time(&t, &standard))
        return false;
    standard = -standard; /* west is positive there */
    if (t.at == t.end)
        return z->count > 0 || (z->offset[0] = standard, true);
    if (!skip_name(&t))
        return false;
    summer = standard + 3600;
    if (t.at < t.end && *t.at != ',') {
        if (!read_time(&t, &summer))
            return false;
        summer = -summer;
    }
    return next_is(&t, ',') && read_when(&t, &begin) && next_is(&t, ',') && read_when(&t, &end) &&
           t.at == t.end && add_years(z, &begin, &end, standard, summer);
}

/* ---- the file ------------------------------------------------------------------------------ */

static int64_t big_endian(const char *at, int bytes)
{
    uint64_t n = (unsigned char)at[0] & 0x80 ? UINT64_MAX : 0;

    for (int i = 0; i < bytes; i++)
        n = n << 8 | (unsigned char)at[i];
    return (int64_t)n;
}

struct head {
    uint64_t utc, standard, leap, times, types, chars;
};

static bool read_head(struct span *bytes, struct head *out)
{
    uint64_t *counts[] = { &out->utc,   &out->standard, &out->leap,
                           &out->times, &out->types,    &out->chars };

    if (bytes->len < HEAD || memcmp(bytes->at, "TZif", 4) != 0 || bytes->at[4] < '2')
        return false;
    for (int i = 0; i < 6; i++) {
        const int64_t n = big_endian(bytes->at + 20 + 4 * i, 4);

        if (n < 0 || n > MOST_BYTES)
            return false;
        *counts[i] = (uint64_t)n;
    }
    *bytes = (struct span){ bytes->at + HEAD, bytes->len - HEAD };
    return true;
}

static uint64_t data_size(const struct head *h, unsigned time)
{
    return h->times * (time + 1) + h->types * 6 + h->chars + h->leap * (time + 4) + h->standard +
           h->utc;
}

bool zone_parse(struct span bytes, struct zone *out)
{
    struct head h;
    const char *types, *kinds;
    struct span footer;

    *out = (struct zone){ 0 };
    if (!read_head(&bytes, &h) || data_size(&h, 4) > bytes.len)
        return false;
    bytes = (struct span){ bytes.at + data_size(&h, 4), bytes.len - data_size(&h, 4) };
    if (!read_head(&bytes, &h) || data_size(&h, 8) + 2 > bytes.len || h.types == 0)
        return false;
    kinds = bytes.at + 8 * h.times;
    types = kinds + h.times;
    out->offset[0] = (int32_t)big_endian(types, 4);
    if (out->offset[0] < -MOST_OFFSET || out->offset[0] > MOST_OFFSET)
        return false;
    for (uint64_t i = 0; i < h.times; i++) {
        const uint64_t kind = (unsigned char)kinds[i];
        const int64_t at = big_endian(bytes.at + 8 * i, 8);

        if (kind >= h.types || at > INT64_C(1) << 40 ||
            (at >= -(INT64_C(1) << 40) &&
             !add_change(out, at, (int)big_endian(types + 6 * kind, 4))))
            return false;
    }
    footer = (struct span){ bytes.at + data_size(&h, 8), bytes.len - data_size(&h, 8) };
    if (footer.at[0] != '\n' || footer.at[footer.len - 1] != '\n')
        return false;
    return parse_rule((struct span){ footer.at + 1, footer.len - 2 }, out);
}

/* Names are paths below the folder, and none leads out of it. */
static bool is_name(const char *name)
{
    const size_t len = strlen(name);

    for (size_t i = 0; i < len; i++)
        if (!((name[i] >= 'a' && name[i] <= 'z') || (name[i] >= 'A' && name[i] <= 'Z') ||
              (name[i] >= '0' && name[i] <= '9') || strchr("_+-/", name[i])))
            return false;
    return len > 0 && len <= ZONE_MAX_NAME && name[0] != '/' && !strstr(name, "//") &&
           name[len - 1] != '/';
}

weir_err zone_load(const char *name, struct zone *out, weir_diag *diag)
{
    const char *folder = getenv("TZDIR");
    char path[512], *bytes = NULL;
    bool is_good = false;
    size_t len = 0;
    FILE *f;

    *out = (struct zone){ 0 };
    if (strcmp(name, "UTC") == 0)
        return WEIR_OK;
    if (!folder || !*folder)
        folder = "/usr/share/zoneinfo";
    snprintf(path, sizeof path, "%s/%s", folder, name);
    f = is_name(name) ? fopen(path, "rbe") : NULL;
    if (f && (bytes = malloc(MOST_BYTES)) != NULL) {
        len = fread(bytes, 1, MOST_BYTES, f);
        is_good = len < MOST_BYTES && zone_parse((struct span){ bytes, len }, out);
    }
    free(bytes);
    if (f)
        fclose(f);
    if (is_good)
        return WEIR_OK;
    snprintf(path, sizeof path, "%s/Europe", folder);
    f = fopen(path, "rbe");
    if (!f)
        return diag_fail(
            diag, WEIR_EPOLICY,
            "there is no zone data in %s, only UTC is known: install the package tzdata", folder);
    fclose(f);
    return diag_fail(diag, WEIR_EPOLICY,
                     "there is no time zone '%s': write one such as Europe/Berlin, or UTC",
                     printable(span_of(name)).text);
}

/* ---- asking -------------------------------------------------------------------------------- */

/* How many changes are at or before this second. */
static uint32_t changes_before(const struct zone *z, int64_t second)
{
    uint32_t low = 0, high = z->count;

    while (low < high) {
        const uint32_t middle = (low + high) / 2;

        if (z->at[middle] <= second)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int32_t zone_offset(const struct zone *z, int64_t second)
{
    return z->offset[changes_before(z, second)];
}

/* Between two changes local time only goes forward: the first stretch that reaches it has it. */
int64_t zone_midnight(const struct zone *z, int64_t day)
{
    const int64_t local = day * DAY;

    for (uint32_t i = changes_before(z, local - 2 * DAY);; i++) {
        int64_t second = local - z->offset[i];

        if (i > 0 && second < z->at[i - 1])
            second = z->at[i - 1];
        if (i == z->count || second < z->at[i])
            return second;
    }
}
