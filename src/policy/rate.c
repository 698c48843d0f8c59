/* rate.c - durations ("15m") and rates ("5 per 15m"), read from text. */
#include "policy/rate.h"

#include <inttypes.h>
#include <stdio.h>
#include <strings.h>

#include "base/diag.h"
#include "base/printable.h"

static const struct unit {
    const char *name;
    int64_t ms;
} units[] = {
    { "w", 7 * 24 * 3600 * 1000 },
    { "d", 24 * 3600 * 1000 },
    { "h", 3600 * 1000 },
    { "m", 60 * 1000 },
    { "s", 1000 },
    { "ms", 1 },
};
enum { UNIT_COUNT = sizeof units / sizeof *units };

/* What people write instead, without a plural's s. */
static const struct {
    const char *word, *unit;
} habits[] = {
    { "w", "w" },   { "week", "w" },   { "d", "d" },      { "day", "d" },
    { "h", "h" },   { "hr", "h" },     { "hour", "h" },   { "m", "m" },
    { "min", "m" }, { "minute", "m" }, { "s", "s" },      { "sec", "s" },
    { "ms", "ms" }, { "msec", "ms" },  { "second", "s" }, { "millisecond", "ms" },
};

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static struct span skip(struct span text, size_t n)
{
    return (struct span){ text.at + n, text.len - n };
}

static struct span skip_spaces(struct span text)
{
    while (text.len > 0 && is_space(*text.at))
        text = skip(text, 1);
    return text;
}

static struct span trim(struct span text)
{
    text = skip_spaces(text);
    while (text.len > 0 && is_space(text.at[text.len - 1]))
        text.len--;
    return text;
}

/* The number that `text` begins with, WEIR_MAX_AMOUNT for any that is as large, and how
 * many digits it has. */
static size_t read_digits(struct span text, int64_t *number)
{
    size_t i = 0;

    *number = 0;
    for (; i < text.len && is_digit(text.at[i]); i++)
        if (*number < WEIR_MAX_AMOUNT) {
            *number = *number * 10 + (text.at[i] - '0');
            if (*number > WEIR_MAX_AMOUNT)
                *number = WEIR_MAX_AMOUNT;
        }
    return i;
}

static int64_t unit_ms(struct span name)
{
    for (size_t i = 0; i < UNIT_COUNT; i++)
        if (span_is(name, units[i].name))
            return units[i].ms;
    return 0;
}

static const char *unit_meant(struct span word)
{
    if (word.len > 2 && (word.at[word.len - 1] | 0x20) == 's')
        word.len--;
    for (size_t i = 0; i < sizeof habits / sizeof *habits; i++)
        if (strlen(habits[i].word) == word.len &&
            strncasecmp(habits[i].word, word.at, word.len) == 0)
            return habits[i].unit;
    return NULL;
}

static weir_err refuse_duration(struct span text, weir_diag *diag)
{
    int64_t number;
    size_t digits = read_digits(text, &number);
    const char *unit = unit_meant(skip_spaces(skip(text, digits)));

    if (unit && digits > 0 && number < WEIR_MAX_AMOUNT)
        return diag_fail(diag, WEIR_EPOLICY, "'%s' is not a duration: write %" PRId64 "%s",
                         printable(text).text, number, unit);
    if (unit && digits == 0)
        return diag_fail(diag, WEIR_EPOLICY, "'%s' is not a duration: write 1%s",
                         printable(text).text, unit);
    return diag_fail(diag, WEIR_EPOLICY,
                     "'%s' is not a duration: write a whole number and one of ms, s, m, h, d, w, "
                     "as in 15m",
                     printable(text).text);
}

weir_err duration_read(struct span text, int64_t *ms, weir_diag *diag)
{
    int64_t number, unit;
    size_t digits;

    text = trim(text);
    digits = read_digits(text, &number);
    unit = unit_ms(skip(text, digits));
    if (digits == 0 || unit == 0)
        return refuse_duration(text, diag);
    if (number == 0)
        return diag_fail(diag, WEIR_EPOLICY, "'%s' is too short: at least 1ms",
                         printable(text).text);
    if (number > (WEIR_MAX_AMOUNT - 1) / unit)
        return diag_fail(diag, WEIR_EPOLICY, "'%s' is too long: it must be below 2^53 ms",
                         printable(text).text);
    *ms = number * unit;
    return WEIR_OK;
}

static weir_err refuse_rate(struct span text, weir_diag *diag)
{
    return diag_fail(diag, WEIR_EPOLICY,
                     "'%s' is not a limit: write a whole number per duration, as in 5 per 15m, of "
                     "what runs at once, as in 10 at once, or 0 to always deny",
                     printable(text).text);
}

static bool is_at_once(struct span text)
{
    return text.len > 3 && memcmp(text.at, "at", 2) == 0 && is_space(text.at[2]) &&
           span_is(skip_spaces(skip(text, 2)), "once");
}

weir_err rate_read(struct span text, int64_t *limit, int64_t *window, weir_diag *diag)
{
    struct span rest;
    int64_t number, unit;
    size_t digits;

    text = trim(text);
    digits = read_digits(text, &number);
    rest = skip(text, digits);
    if (digits == 0)
        return refuse_rate(text, diag);
    if (number >= WEIR_MAX_AMOUNT)
        return diag_fail(diag, WEIR_EPOLICY, "'%s' is too large: a limit must be below 2^53",
                         printable(text).text);
    if (rest.len == 0) {
        if (number != 0)
            return diag_fail(diag, WEIR_EPOLICY,
                             "'%s' has no time: write %" PRId64 " per 1m, or another duration",
                             printable(text).text, number);
        *limit = *window = 0;
        return WEIR_OK;
    }
    if (!is_space(*rest.at))
        return refuse_rate(text, diag);
    rest = skip_spaces(rest);
    if (is_at_once(rest)) {
        *limit = number;
        *window = 0;
        return WEIR_OK;
    }
    if (rest.len < 4 || memcmp(rest.at, "per", 3) != 0 || !is_space(rest.at[3]))
        return refuse_rate(text, diag);
    rest = skip_spaces(skip(rest, 3));
    unit = unit_ms(rest);
    if (unit > 0)
        *window = unit;
    else if (duration_read(rest, window, diag))
        return WEIR_EPOLICY;
    *limit = number;
    return WEIR_OK;
}

bool rate_read_word(struct span text, int64_t *limit, struct span *word)
{
    size_t digits;

    text = trim(text);
    digits = read_digits(text, limit);
    text = skip_spaces(skip(text, digits));
    if (digits == 0 || *limit >= WEIR_MAX_AMOUNT || text.len < 4 ||
        memcmp(text.at, "per", 3) != 0 || !is_space(text.at[3]))
        return false;
    *word = skip_spaces(skip(text, 3));
    return true;
}

void duration_write(int64_t ms, char out[32])
{
    size_t i = 0;

    while (ms % units[i].ms != 0 || (ms == 0 && units[i].ms > 1))
        i++;
    snprintf(out, 32, "%" PRId64 "%s", ms / units[i].ms, units[i].name);
}

weir_err share_read(struct span text, int *share, weir_diag *diag)
{
    const bool has_sign = text.len > 1 && text.at[text.len - 1] == '%';
    int hundredths = 0, digits_after = -1; /* of the point */

    for (size_t i = 0; has_sign && i < text.len - 1; i++) {
        const char c = text.at[i];

        if (c == '.' && digits_after < 0 && i > 0 && i < text.len - 2) {
            digits_after = 0;
        } else if (c >= '0' && c <= '9' && digits_after < 2 && hundredths <= SHARE_ALL) {
            hundredths = hundredths * 10 + (c - '0');
            digits_after += digits_after >= 0;
        } else {
            hundredths = SHARE_ALL + 1;
            digits_after = 2;
            break;
        }
    }
    for (int i = digits_after < 0 ? 0 : digits_after; i < 2; i++)
        hundredths *= 10;
    if (!has_sign || hundredths > SHARE_ALL)
        return diag_fail(diag, WEIR_EPOLICY, "'%s' is not a share: write 10%%, or 0.5%%",
                         printable(text).text);
    *share = hundredths;
    return WEIR_OK;
}

void share_write(int share, char out[16])
{
    int len = snprintf(out, 16, "%d.%02d", share / 100, share % 100);

    while (out[len - 1] == '0')
        len--;
    if (out[len - 1] == '.')
        len--;
    out[len] = '%';
    out[len + 1] = '\0';
}
