/* top_screen.c - what `weir top` shows. */
#include "cli/watch/top_screen.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "cli/terminal.h"

enum { HEAD_LINES = 4, LEAST_WIDTH = 40, TOTALS_WIDTH = 76 }; /* narrower: without totals */

/* A line of a page being written: cut where the page ends. Colours take no room. */
struct line {
    struct buf *out;
    int room;
};

static void put(struct line *l, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(struct line *l, const char *format, ...)
{
    char text[256];
    va_list args;
    int len;

    va_start(args, format);
    len = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (len >= (int)sizeof text)
        len = (int)sizeof text - 1;
    if (len > l->room)
        len = l->room;
    buf_add(l->out, (struct span){ text, (size_t)len });
    l->room -= len;
}

static void put_coloured(struct line *l, enum colour as, const char *text)
{
    buf_text(l->out, colour(as));
    put(l, "%s", text);
    buf_text(l->out, colour(PLAIN));
}

static struct line begin(const struct top_page *p, struct buf *out)
{
    return (struct line){ out, p->width };
}

static void end(const struct top_page *p, struct buf *out)
{
    buf_text(out, p->line_end);
}

/* ---- numbers ------------------------------------------------------------------------------- */

struct number {
    char text[24];
};

static struct number scaled(double value, double step, const char *const *units, size_t n)
{
    struct number out;
    size_t i = 0;

    for (; i + 1 < n && value >= step * 0.9995; i++)
        value /= step;
    snprintf(out.text, sizeof out.text, i > 0 && value < 99.95 ? "%.1f%s" : "%.0f%s", value,
             units[i]);
    return out;
}

static struct number bytes(int64_t n)
{
    static const char *const units[] = { " B", " KB", " MB", " GB", " TB" };

    return scaled((double)n, 1000, units, 5);
}

static struct number nanoseconds(int64_t n)
{
    static const char *const units[] = { " ns", " us", " ms", " s" };

    return scaled((double)n, 1000, units, 4);
}

static struct number rate(double per_second)
{
    struct number out;

    snprintf(out.text, sizeof out.text, per_second > 0 && per_second < 99.95 ? "%.1f" : "%.0f",
             per_second);
    return out;
}

/* To the minute, or to the second if it is young. */
static struct duration_text age(int64_t ms)
{
    const int64_t unit = ms >= 3600 * 1000 ? 60 * 1000 : 1000;

    return ms < 1000 ? (struct duration_text){ "0s" } : duration_text(ms / unit * unit);
}

/* ---- the page ------------------------------------------------------------------------------ */

static void draw_head(const struct top_page *p, const struct top_stats *s, struct buf *out)
{
    struct line l = begin(p, out);

    put_coloured(&l, BOLD, "weir");
    put(&l, " %s at %s, up %s, %" PRId64 " thread%s", s->version, p->server,
        age(s->now_ms - s->started_ms).text, s->threads, s->threads == 1 ? "" : "s");
    if (s->is_draining)
        put_coloured(&l, YELLOW, "  draining");
    end(p, out);

    l = begin(p, out);
    put(&l, "requests %s/s", rate(s->request_rate).text);
    if (s->failed_requests > 0)
        put(&l, ", %" PRId64 " failed", s->failed_requests);
    put(&l, "   decisions p50 %s", nanoseconds(s->decision_p50_ns).text);
    put(&l, ", p99 %s", nanoseconds(s->decision_p99_ns).text);
    put(&l, "   commits p99 %s", nanoseconds(s->commit_p99_ns).text);
    end(p, out);

    l = begin(p, out);
    put(&l, "connections %" PRId64 " of %" PRId64, s->connections, s->max_connections);
    if (s->refused_connections > 0)
        put(&l, ", %" PRId64 " refused", s->refused_connections);
    if (s->keys >= 0 && s->max_keys >= 0)
        put(&l, "   keys %" PRId64 " of %" PRId64, s->keys, s->max_keys);
    else if (s->keys >= 0)
        put(&l, "   keys %" PRId64, s->keys);
    else
        put(&l, "   keys unknown");
    if (s->evicted_keys > 0)
        put(&l, ", %" PRId64 " evicted", s->evicted_keys);
    put(&l, "   memory %s", bytes(s->memory).text);
    end(p, out);

    l = begin(p, out);
    put(&l, "store ");
    put_coloured(&l, s->has_failed ? RED : GREEN, s->has_failed ? "has failed" : "well");
    if (s->journal_bytes > 0)
        put(&l, ", journal %s", bytes(s->journal_bytes).text);
    if (s->held + s->expired > 0)
        put(&l, "   reservations %" PRId64 " held", s->held);
    if (s->expired > 0)
        put(&l, ", %" PRId64 " expired", s->expired);
    if (s->lease_checks > 0)
        put(&l, "   leases %" PRId64 " held, %" PRId64 " checks by %" PRId64 " requests", s->leases,
            s->lease_checks, s->lease_requests);
    if (s->reload_failures > 0) {
        put(&l, "   ");
        put_coloured(&l, YELLOW, "a reload has failed: see /v1/policies");
    }
    end(p, out);
    if (s->unanswered > 0) {
        char text[384];

        snprintf(text, sizeof text, "%" PRId64 " check%s without an answer in %s: %s",
                 s->unanswered, s->unanswered == 1 ? "" : "s", duration_text(s->unanswered_ms).text,
                 s->unanswered_why);
        l = begin(p, out);
        put_coloured(&l, RED, text);
        end(p, out);
    }
}

static void draw_number(struct line *l, enum colour as, double value, const char *text, int width)
{
    if (value > 0 && as != PLAIN)
        buf_text(l->out, colour(as));
    put(l, " %*s", width, text);
    if (value > 0 && as != PLAIN)
        buf_text(l->out, colour(PLAIN));
}

/* Of a rule, allowed is left out: it is the policy's. */
static void draw_row(const struct top_page *p, const struct top_row *r, int name_width,
                     struct buf *out)
{
    const bool is_rule = *r->rule;
    struct line l = begin(p, out);

    if (is_rule)
        put(&l, "  %-*.*s", name_width - 2, name_width - 2, r->rule);
    else
        put(&l, "%-*.*s", name_width, name_width, r->policy);
    draw_number(&l, PLAIN, 0, is_rule ? "" : rate(r->allowed_rate).text, 10);
    draw_number(&l, RED, r->denied_rate, rate(r->denied_rate).text, 9);
    draw_number(&l, YELLOW, r->shadow_rate, rate(r->shadow_rate).text, 9);
    if (p->width >= TOTALS_WIDTH && is_rule)
        put(&l, " %11s %11" PRId64, "", r->denied);
    else if (p->width >= TOTALS_WIDTH)
        put(&l, " %11" PRId64 " %11" PRId64, r->allowed, r->denied);
    end(p, out);
}

static void draw_rows(const struct top_page *p, const struct top_stats *s, size_t most,
                      struct buf *out)
{
    const int numbers = p->width >= TOTALS_WIDTH ? 55 : 31;
    const int name_width = p->width - numbers > 60 ? 60 : p->width - numbers;
    const size_t shown = s->row_count > most ? most : s->row_count;
    struct line l = begin(p, out);

    buf_text(out, colour(BOLD));
    put(&l, "%-*.*s  allowed/s  denied/s  shadow/s%s", name_width - 1, name_width - 1, "POLICY",
        p->width >= TOTALS_WIDTH ? "     allowed      denied" : "");
    buf_text(out, colour(PLAIN));
    end(p, out);
    for (size_t i = 0; i < shown; i++)
        draw_row(p, &s->rows[i], name_width, out);
    if (shown < s->row_count) {
        l = begin(p, out);
        put(&l, "and %zu more", s->row_count - shown);
        end(p, out);
    }
}

static void draw_identities(const struct top_page *p, const struct top_stats *s, size_t most,
                            struct buf *out)
{
    const bool has_last = p->width >= 76;
    const int tag_width = p->width >= 60 ? 32 : 12;
    const int wanted = p->width - tag_width - 12 - (has_last ? 12 : 0);
    const int name_width = wanted > 60 ? 60 : wanted;
    struct line l = begin(p, out);

    buf_text(out, colour(BOLD));
    put(&l, "%-*.*s %-*.*s %10s%s", name_width, name_width, "DENIED MOST", tag_width, tag_width,
        "tag", "at least", has_last ? "        last" : "");
    buf_text(out, colour(PLAIN));
    end(p, out);
    for (size_t i = 0; i < s->identity_count && i < most; i++) {
        const struct top_identity *t = &s->identities[i];

        l = begin(p, out);
        put(&l, "%-*.*s %-*.*s %10" PRId64, name_width, name_width, t->name, tag_width, tag_width,
            t->tag, t->denied);
        if (has_last)
            put(&l, " %7s ago", age(s->now_ms - t->last_ms).text);
        end(p, out);
    }
    if (s->hides_identities || s->identity_count == 0) {
        l = begin(p, out);
        put(&l, "%s",
            s->hides_identities ? "a token with scope admin is needed to see them" : "none");
        end(p, out);
    }
}

void top_screen_draw(const struct top_page *page, const struct top_stats *s, struct buf *out)
{
    struct top_page p = *page;
    struct line l;
    const int head = HEAD_LINES + (s->unanswered > 0);
    size_t rows = SIZE_MAX, left = TOP_IDENTITIES;

    if (p.width < LEAST_WIDTH) /* what is too wide is the terminal's to cut */
        p.width = LEAST_WIDTH;
    if (p.problem) {
        l = begin(&p, out);
        put_coloured(&l, RED, p.problem);
        end(&p, out);
        if (!s->rows)
            return;
    }
    draw_head(&p, s, out);
    end(&p, out);
    if (p.height > 0) {
        /* Not: the problem, the head, two empty lines, two of names, "and more", and the last. */
        rows = p.height > head + 10 ? (size_t)(p.height - head - 7) : 3;
        left = s->identity_count > 0 ? s->identity_count : 1;
        if (left > rows / 2)
            left = rows / 2;
        rows -= left;
    }
    draw_rows(&p, s, rows, out);
    end(&p, out);
    draw_identities(&p, s, left, out);
}
