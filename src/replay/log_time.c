/* log_time.c - the times that logs write, as ms since 1970. */
#include "replay/log_time.h"

#include "replay/scan.h"

/* What a store can hold, and a time before 1970 is none. */
#define MOST_TIME ((int64_t)1 << 47)

/* Two digits; -1: they are none. */
static int two(const char *at)
{
    return scan_is_digit(at[0]) && scan_is_digit(at[1]) ? (at[0] - '0') * 10 + at[1] - '0' : -1;
}

static int four(const char *at)
{
    const int high = two(at), low = two(at + 2);

    return high < 0 || low < 0 ? -1 : high * 100 + low;
}

/* 1 to 12; 0: it is none. */
static int month_by_name(const char *at)
{
    static const char names[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

    for (int i = 0; i < 12; i++)
        if (memcmp(at, names + 3 * (size_t)i, 3) == 0)
            return i + 1;
    return 0;
}

/* The first second of a minute, in local time. False: there is no such minute. */
static bool minute_of(int year, int month, int day, int hour, int minute, int64_t *out)
{
    if (year < 1970 || month < 1 || month > 12 || day < 1 || day > days_in_month(year, month) ||
        hour < 0 || hour > 23 || minute < 0 || minute > 59)
        return false;
    *out = day_of_date(year, month, day) * 86400 + hour * 3600 + minute * 60;
    return true;
}

/* Of "+0000", "+00:00", "Z" or nothing. */
static bool offset_of(struct span text, int64_t *seconds)
{
    const bool has_colon = text.len == 6 && text.at[3] == ':';
    int hours, minutes;

    *seconds = 0;
    if (text.len == 1 && (*text.at == 'Z' || *text.at == 'z'))
        return true;
    if ((text.len != 5 && !has_colon) || (text.at[0] != '+' && text.at[0] != '-'))
        return false;
    hours = two(text.at + 1);
    minutes = two(text.at + 3 + has_colon);
    if (hours < 0 || hours > 23 || minutes < 0 || minutes > 59)
        return false;
    *seconds = (hours * 3600 + minutes * 60) * (text.at[0] == '-' ? -1 : 1);
    return true;
}

/* Of a time that does not say its offset: twice, as the first guess may be on the other side of a
 * change. */
static int64_t offset_here(const struct log_clock *c, int64_t local)
{
    int64_t offset = 0;

    if (!c->zone)
        return 0;
    offset = zone_offset(c->zone, local);
    return zone_offset(c->zone, local - offset);
}

/* Is this the minute of the last line, with the same offset? */
static bool is_same_minute(const struct log_clock *c, const char *minute, size_t len,
                           struct span offset)
{
    return c->minute_at > 0 && memcmp(c->minute, minute, len) == 0 && c->offset_len == offset.len &&
           memcmp(c->offset, offset.at, offset.len) == 0;
}

static bool keep_minute(struct log_clock *c, const char *minute, size_t len, struct span offset,
                        int64_t local)
{
    int64_t seconds;

    if (offset.len == 0)
        seconds = offset_here(c, local);
    else if (offset.len > sizeof c->offset || !offset_of(offset, &seconds))
        return false;
    if (local - seconds <= 0)
        return false;
    memset(c->minute, 0, sizeof c->minute);
    memcpy(c->minute, minute, len);
    memcpy(c->offset, offset.at, offset.len);
    c->offset_len = (uint8_t)offset.len;
    c->minute_at = (local - seconds) * 1000;
    return true;
}

/* Add the seconds, and what is behind the point. */
static bool add_seconds(const struct log_clock *c, const char *at, struct span fraction,
                        int64_t *ms)
{
    const int seconds = two(at);
    int64_t rest = 0, unit = 100;

    if (seconds < 0 || seconds > 60) /* a leap second is one */
        return false;
    for (size_t i = 0; i < fraction.len; i++, unit /= 10) {
        if (!scan_is_digit(fraction.at[i]))
            return false;
        rest += (fraction.at[i] - '0') * unit;
    }
    *ms = c->minute_at + seconds * 1000 + rest;
    return true;
}

/* "17/May/2015:10:05" */
static bool minute_of_clf(const char *at, int64_t *local)
{
    if (at[2] != '/' || at[6] != '/' || at[11] != ':' || at[14] != ':')
        return false;
    return minute_of(four(at + 7), month_by_name(at + 3), two(at), two(at + 12), two(at + 15),
                     local);
}

bool log_time_clf(struct log_clock *c, const char *at, int64_t *ms)
{
    const struct span offset = { at + 21, 5 };
    int64_t local;

    if (at[17] != ':' || at[20] != ' ')
        return false;
    if (!is_same_minute(c, at, 17, offset) &&
        (!minute_of_clf(at, &local) || !keep_minute(c, at, 17, offset, local)))
        return false;
    return add_seconds(c, at + 18, (struct span){ "", 0 }, ms);
}

bool log_time_haproxy(struct log_clock *c, struct span text, int64_t *ms)
{
    const struct span none = { "", 0 };
    int64_t local;

    if (text.len < 20 || text.at[17] != ':' || (text.len > 20 && text.at[20] != '.'))
        return false;
    if (!is_same_minute(c, text.at, 17, none) &&
        (!minute_of_clf(text.at, &local) || !keep_minute(c, text.at, 17, none, local)))
        return false;
    return add_seconds(c, text.at + 18,
                       text.len > 20 ? (struct span){ text.at + 21, text.len - 21 } : none, ms);
}

bool log_time_iso(struct log_clock *c, struct span text, int64_t *ms)
{
    struct span offset, fraction = { "", 0 };
    size_t end = 19;
    int64_t local;

    if (text.len < 19 || text.at[16] != ':' || text.at[13] != ':')
        return false;
    if (end < text.len && (text.at[end] == '.' || text.at[end] == ',')) {
        fraction.at = text.at + ++end;
        while (end < text.len && scan_is_digit(text.at[end]))
            end++;
        fraction.len = (size_t)(text.at + end - fraction.at);
    }
    offset = (struct span){ text.at + end, text.len - end };
    if (!is_same_minute(c, text.at, 16, offset)) {
        if (text.at[4] != '-' || text.at[7] != '-' || (text.at[10] != 'T' && text.at[10] != ' ') ||
            !minute_of(four(text.at), two(text.at + 5), two(text.at + 8), two(text.at + 11),
                       two(text.at + 14), &local) ||
            !keep_minute(c, text.at, 16, offset, local))
            return false;
    }
    return add_seconds(c, text.at + 17, fraction, ms);
}

/* Seconds up to the year 5138, then ms, us and ns: no log is as old as that makes them look. */
static bool by_size(int64_t whole, int64_t thousandths, int64_t *ms)
{
    const int64_t seconds = 100000000000;

    if (whole < seconds)
        *ms = whole * 1000 + thousandths;
    else if (whole < seconds * 1000)
        *ms = whole;
    else if (whole < seconds * 1000000)
        *ms = whole / 1000;
    else
        *ms = whole / 1000000;
    return *ms > 0 && *ms < MOST_TIME;
}

static bool read_number(struct span text, int64_t *ms)
{
    int64_t whole = 0, thousandths = 0, unit = 100;
    size_t i = 0;

    for (; i < text.len && scan_is_digit(text.at[i]); i++) {
        if (whole > (INT64_MAX - 9) / 10)
            return false;
        whole = whole * 10 + text.at[i] - '0';
    }
    if (i == 0)
        return false;
    if (i < text.len && text.at[i] == '.')
        for (i++; i < text.len && scan_is_digit(text.at[i]); i++, unit /= 10)
            thousandths += (text.at[i] - '0') * unit;
    return i == text.len && by_size(whole, thousandths, ms);
}

bool log_time_any(struct log_clock *c, struct span text, int64_t *ms)
{
    if (text.len > 0 && *text.at == '[' && text.at[text.len - 1] == ']')
        text = (struct span){ text.at + 1, text.len - 2 };
    if (text.len == LOG_TIME_CLF && text.at[2] == '/')
        return log_time_clf(c, text.at, ms);
    return read_number(text, ms) || log_time_iso(c, text, ms);
}
