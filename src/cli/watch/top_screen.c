/* top_screen.c - what `weir top` prints if it is not on a terminal, and the head of its screen. */
#include "cli/watch/top_screen.h"

#include <inttypes.h>
#include <stdio.h>

#include "cli/watch/top_line.h"

enum { NAME_WIDTH = 25, IDENTITY_WIDTH = 24 }; /* of a line of 80 */

static struct top_line begin(const struct top_page *p, struct buf *out)
{
    return (struct top_line){ out, p->width };
}

static void end(const struct top_page *p, struct buf *out)
{
    buf_text(out, p->line_end);
}

/* ---- the page ------------------------------------------------------------------------------ */

void top_screen_head(const struct top_page *p, const struct top_stats *s, struct buf *out)
{
    struct top_line l = begin(p, out);

    top_put_coloured(&l, BOLD, "weir");
    top_put(&l, " %s at %s, up %s, %" PRId64 " thread%s", s->version, p->server,
            top_age(s->now_ms - s->started_ms).text, s->threads, s->threads == 1 ? "" : "s");
    if (s->is_draining)
        top_put_coloured(&l, YELLOW, "  draining");
    end(p, out);

    l = begin(p, out);
    top_put(&l, "requests %s/s", top_rate(s->request_rate).text);
    if (s->failed_requests > 0)
        top_put(&l, ", %" PRId64 " failed", s->failed_requests);
    top_put(&l, "   decisions p50 %s", top_nanoseconds(s->decision_p50_ns).text);
    top_put(&l, ", p99 %s", top_nanoseconds(s->decision_p99_ns).text);
    top_put(&l, "   commits p99 %s", top_nanoseconds(s->commit_p99_ns).text);
    end(p, out);

    l = begin(p, out);
    top_put(&l, "connections %" PRId64 " of %" PRId64, s->connections, s->max_connections);
    if (s->refused_connections > 0)
        top_put(&l, ", %" PRId64 " refused", s->refused_connections);
    if (s->keys >= 0 && s->max_keys >= 0)
        top_put(&l, "   keys %" PRId64 " of %" PRId64, s->keys, s->max_keys);
    else if (s->keys >= 0)
        top_put(&l, "   keys %" PRId64, s->keys);
    else
        top_put(&l, "   keys unknown");
    if (s->evicted_keys > 0)
        top_put(&l, ", %" PRId64 " evicted", s->evicted_keys);
    top_put(&l, "   memory %s", top_bytes(s->memory).text);
    end(p, out);

    l = begin(p, out);
    top_put(&l, "store ");
    top_put_coloured(&l, s->has_failed ? RED : GREEN, s->has_failed ? "has failed" : "well");
    if (s->journal_bytes > 0)
        top_put(&l, ", journal %s", top_bytes(s->journal_bytes).text);
    if (s->held + s->expired > 0)
        top_put(&l, "   reservations %" PRId64 " held", s->held);
    if (s->expired > 0)
        top_put(&l, ", %" PRId64 " expired", s->expired);
    if (s->lease_checks > 0)
        top_put(&l, "   leases %" PRId64 " held, %" PRId64 " checks by %" PRId64 " requests",
                s->leases, s->lease_checks, s->lease_requests);
    if (s->reload_failures > 0) {
        top_put(&l, "   ");
        top_put_coloured(&l, YELLOW, "a reload has failed: see /v1/policies");
    }
    end(p, out);
    if (s->unanswered > 0) {
        char text[384];

        snprintf(text, sizeof text, "%" PRId64 " check%s without an answer in %s: %s",
                 s->unanswered, s->unanswered == 1 ? "" : "s", duration_text(s->unanswered_ms).text,
                 s->unanswered_why);
        l = begin(p, out);
        top_put_coloured(&l, RED, text);
        end(p, out);
    }
}

static void draw_number(struct top_line *l, enum colour as, double value, const char *text,
                        int width)
{
    if (value > 0 && as != PLAIN)
        buf_text(l->out, colour(as));
    top_put(l, " %*s", width, text);
    if (value > 0 && as != PLAIN)
        buf_text(l->out, colour(PLAIN));
}

/* Of a rule, allowed is left out: it is the policy's. */
static void draw_row(const struct top_page *p, const struct top_row *r, struct buf *out)
{
    const bool is_rule = *r->rule;
    struct top_line l = begin(p, out);

    if (is_rule)
        top_put(&l, "  %-*.*s", NAME_WIDTH - 2, NAME_WIDTH - 2, r->rule);
    else
        top_put(&l, "%-*.*s", NAME_WIDTH, NAME_WIDTH, r->policy);
    draw_number(&l, PLAIN, 0, is_rule ? "" : top_rate(r->allowed_rate).text, 10);
    draw_number(&l, RED, r->denied_rate, top_rate(r->denied_rate).text, 9);
    draw_number(&l, YELLOW, r->shadow_rate, top_rate(r->shadow_rate).text, 9);
    if (is_rule)
        top_put(&l, " %11s %11" PRId64, "", r->denied);
    else
        top_put(&l, " %11" PRId64 " %11" PRId64, r->allowed, r->denied);
    end(p, out);
}

static void draw_rows(const struct top_page *p, const struct top_stats *s, struct buf *out)
{
    struct top_line l = begin(p, out);

    buf_text(out, colour(BOLD));
    top_put(&l, "%-*s  allowed/s  denied/s  shadow/s     allowed      denied", NAME_WIDTH - 1,
            "POLICY");
    buf_text(out, colour(PLAIN));
    end(p, out);
    for (size_t i = 0; i < s->row_count; i++)
        draw_row(p, &s->rows[i], out);
}

static void draw_identities(const struct top_page *p, const struct top_stats *s, struct buf *out)
{
    struct top_line l = begin(p, out);

    buf_text(out, colour(BOLD));
    top_put(&l, "%-*s %-32s %10s %11s", IDENTITY_WIDTH, "DENIED MOST", "tag", "at least", "last");
    buf_text(out, colour(PLAIN));
    end(p, out);
    for (size_t i = 0; i < s->identity_count; i++) {
        const struct top_identity *t = &s->identities[i];

        l = begin(p, out);
        top_put(&l, "%-*.*s %-32.32s %10" PRId64 " %7s ago", IDENTITY_WIDTH, IDENTITY_WIDTH,
                t->name, t->tag, t->denied, top_age(s->now_ms - t->last_ms).text);
        end(p, out);
    }
    if (s->hides_identities || s->identity_count == 0) {
        l = begin(p, out);
        top_put(&l, "%s",
                s->hides_identities ? "a token with scope admin or view is needed to see them"
                                    : "none");
        end(p, out);
    }
}

void top_screen_draw(const struct top_page *p, const struct top_stats *s, struct buf *out)
{
    top_screen_head(p, s, out);
    end(p, out);
    draw_rows(p, s, out);
    end(p, out);
    draw_identities(p, s, out);
}
