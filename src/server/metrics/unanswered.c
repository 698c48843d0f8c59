/* unanswered.c - checks that have no answer: how often, why, and what was said. */
#include "server/metrics/unanswered.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MINUTE = 60 * 1000 };

const char *const asked_by_names[ASKED_BY_COUNT] = { "http", "resp", "grpc" };

/* ---- the last minutes ------------------------------------------------------------------------ */

static void recent_add(struct recent *r, int64_t minute, uint64_t n)
{
    for (; r->minute < minute; r->minute++) {
        if (minute - r->minute >= UNANSWERED_MINUTES) {
            memset(r->counts, 0, sizeof r->counts);
            r->minute = minute;
            break;
        }
        r->counts[(r->minute + 1) % UNANSWERED_MINUTES] = 0;
    }
    if (r->minute - minute < UNANSWERED_MINUTES) /* or the clock has stepped back */
        r->counts[minute % UNANSWERED_MINUTES] += n;
}

static uint64_t recent_count(const struct recent *r, int64_t minute)
{
    uint64_t n = 0;

    for (int64_t m = r->minute; m > r->minute - UNANSWERED_MINUTES && m > 0; m--)
        if (m > minute - UNANSWERED_MINUTES)
            n += r->counts[m % UNANSWERED_MINUTES];
    return n;
}

static void recent_merge(struct recent *into, const struct recent *from)
{
    for (int64_t m = from->minute - UNANSWERED_MINUTES + 1; m <= from->minute; m++)
        if (m > 0)
            recent_add(into, m, from->counts[m % UNANSWERED_MINUTES]);
}

/* ---- reasons --------------------------------------------------------------------------------- */

/* As much as there is room for, and no half character. */
static void copy_text(char out[UNANSWERED_TEXT + 1], const char *text)
{
    size_t len = strlen(text);

    if (len > UNANSWERED_TEXT)
        for (len = UNANSWERED_TEXT; len > 0 && (text[len] & 0xc0) == 0x80;)
            len--;
    memcpy(out, text, len);
    out[len] = '\0';
}

/* The one that is this, or else the one that is longest ago. */
static struct unanswered_reason *reason_of(struct unanswered *u, enum asked_by by,
                                           enum problem problem, const char *text)
{
    struct unanswered_reason *oldest = &u->reasons[0];
    char cut[UNANSWERED_TEXT + 1];

    copy_text(cut, text);
    for (size_t i = 0; i < UNANSWERED_REASONS; i++) {
        struct unanswered_reason *r = &u->reasons[i];

        if (r->last > 0 && r->by == by && r->problem == problem && strcmp(r->text, cut) == 0)
            return r;
        if (r->last < oldest->last)
            oldest = r;
    }
    *oldest = (struct unanswered_reason){ .by = by, .problem = problem };
    copy_text(oldest->text, text);
    return oldest;
}

bool unanswered_count(struct unanswered *u, enum asked_by by, enum problem problem,
                      const char *text, int64_t now, uint64_t *left_out)
{
    struct unanswered_reason *r = reason_of(u, by, problem, text);

    count_up(&u->counts[by][problem], 1);
    recent_add(&u->recent, now / MINUTE, 1);
    recent_add(&r->recent, now / MINUTE, 1);
    r->last = now;
    if (now < u->lines[problem].next && now >= u->lines[problem].next - UNANSWERED_LINE_MS) {
        u->lines[problem].left_out++;
        return false;
    }
    u->lines[problem].next = now + UNANSWERED_LINE_MS;
    *left_out = u->lines[problem].left_out;
    u->lines[problem].left_out = 0;
    return true;
}

void unanswered_merge(struct unanswered *into, const struct unanswered *from, int64_t now)
{
    for (int by = 0; by < ASKED_BY_COUNT; by++)
        for (int i = 0; i < PROBLEM_COUNT; i++)
            count_up(&into->counts[by][i], count_of(&from->counts[by][i]));
    recent_merge(&into->recent, &from->recent);
    for (size_t i = 0; i < UNANSWERED_REASONS; i++) {
        const struct unanswered_reason *r = &from->reasons[i];
        struct unanswered_reason *sum;

        if (recent_count(&r->recent, now / MINUTE) == 0)
            continue;
        sum = reason_of(into, r->by, r->problem, r->text);
        recent_merge(&sum->recent, &r->recent);
        if (r->last > sum->last)
            sum->last = r->last;
    }
}

/* ---- telling --------------------------------------------------------------------------------- */

bool unanswered_may_be(enum problem problem)
{
    switch (problem) {
    case PROBLEM_INVALID_REQUEST:
    case PROBLEM_INVALID_ATTRIBUTE:
    case PROBLEM_INVALID_COST:
    case PROBLEM_CLOCK_NOT_TRUSTED:
    case PROBLEM_UNAUTHORIZED:
    case PROBLEM_FORBIDDEN:
    case PROBLEM_NO_SUCH_POLICY:
    case PROBLEM_INVALID_TTL:
    case PROBLEM_NEEDS_RESERVATION:
    case PROBLEM_NO_SUCH_RESERVATION:
    case PROBLEM_ALREADY_SETTLED:
    case PROBLEM_RESERVATION_EXPIRED:
    case PROBLEM_ID_REUSED:
    case PROBLEM_BODY_TOO_LARGE:
    case PROBLEM_UNSUPPORTED_MEDIA_TYPE:
    case PROBLEM_INTERNAL_ERROR:
    case PROBLEM_STORE_FAILED:
    case PROBLEM_TABLE_FULL:
    case PROBLEM_OUT_OF_MEMORY:
        return true;
    case PROBLEM_BAD_REQUEST:
    case PROBLEM_NOT_FOUND:
    case PROBLEM_METHOD_NOT_ALLOWED:
    case PROBLEM_REQUEST_TIMEOUT:
    case PROBLEM_URI_TOO_LONG:
    case PROBLEM_EXPECTATION_FAILED:
    case PROBLEM_INVALID_POLICY_FILE:
    case PROBLEM_RELOAD_FAILED:
    case PROBLEM_HEAD_TOO_LARGE:
    case PROBLEM_NOT_IMPLEMENTED:
    case PROBLEM_UNAVAILABLE:
    case PROBLEM_HTTP_VERSION:
    case PROBLEM_COUNT:
        break;
    }
    return false;
}

uint64_t unanswered_by(const struct unanswered *u, enum problem problem)
{
    uint64_t n = 0;

    for (int by = 0; by < ASKED_BY_COUNT; by++)
        n += count_of(&u->counts[by][problem]);
    return n;
}

static int compare_reasons(const void *left, const void *right)
{
    const struct unanswered_reason *a = left, *b = right;

    return (a->last < b->last) - (a->last > b->last);
}

void unanswered_write(const struct unanswered *u, int64_t now, struct json *j)
{
    struct unanswered_reason reasons[UNANSWERED_REASONS];
    uint64_t total = 0;

    for (int i = 0; i < PROBLEM_COUNT; i++)
        total += unanswered_by(u, (enum problem)i);
    memcpy(reasons, u->reasons, sizeof reasons);
    qsort(reasons, UNANSWERED_REASONS, sizeof *reasons, compare_reasons);
    json_open(j, "unanswered", '{');
    json_int(j, "total", (int64_t)total);
    json_int(j, "recent", (int64_t)recent_count(&u->recent, now / MINUTE));
    json_int(j, "recent_ms", (int64_t)UNANSWERED_MINUTES * MINUTE);
    json_open(j, "reasons", '[');
    for (size_t i = 0; i < UNANSWERED_REASONS && reasons[i].last > 0; i++) {
        const uint64_t recent = recent_count(&reasons[i].recent, now / MINUTE);

        if (recent == 0)
            continue;
        json_open(j, NULL, '{');
        json_text(j, "code", problem_code(reasons[i].problem));
        json_text(j, "protocol", asked_by_names[reasons[i].by]);
        json_text(j, "detail", reasons[i].text);
        json_int(j, "recent", (int64_t)recent);
        json_int(j, "last_ms", reasons[i].last);
        json_close(j, '}');
    }
    json_close(j, ']');
    json_close(j, '}');
}
