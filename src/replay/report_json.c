/* report_json.c - what a replay has found, as one JSON object. */
#include <stdio.h>

#include "base/json.h"
#include "replay/report.h"

static void put_percent(struct json *j, const char *name, int64_t part, int64_t whole)
{
    char text[32];
    const int len = snprintf(text, sizeof text, "%.4f", report_percent(part, whole));

    json_raw(j, name, (struct span){ text, (size_t)len });
}

static void put_tag(struct json *j, struct key tag)
{
    char hex[TAG_HEX + 1];

    tag_write(tag, hex);
    json_text(j, "tag", hex);
}

/* ---- rules ---------------------------------------------------------------------------------- */

static void put_limit(struct json *j, const struct tally_row *row)
{
    const struct rule *const r = &row->counted->rule;

    json_text(j, "policy", row->rule->policy->name);
    json_text(j, "rule", row->rule->name);
    json_text(j, "kind", row->is_shadow_limit ? "shadow_limit" : "limit");
    json_text(j, "mode", row->is_shadow_limit ? "shadow" : mode_name(row->rule->mode));
    json_text(j, "algorithm", weir_algorithm_name(r->algorithm));
    json_int(j, "limit", r->limit);
    json_int(j, "window_ms", r->window);
    if (algorithm_has_burst(r->algorithm))
        json_int(j, "burst", r->burst);
    json_open(j, "by", '[');
    for (size_t i = 0; i < row->rule->by_count; i++)
        json_text(j, NULL, row->rule->by[i]);
    json_close(j, ']');
}

static void put_worst_hours(struct json *j, const struct report_row *r)
{
    json_open(j, "worst_hours", '[');
    for (size_t i = 0; i < r->worst_count; i++) {
        json_open(j, NULL, '{');
        json_int(j, "at_ms", r->worst[i].hour * 3600000);
        json_int(j, "requests", r->worst[i].requests);
        json_int(j, "denied", r->worst[i].denied);
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void put_identities(struct json *j, const struct report_row *r, const struct identities *t)
{
    struct buf raw;

    buf_init(&raw, &j->to->allocator);
    json_open(j, "most_denied", '[');
    for (size_t i = 0; i < r->top_count; i++) {
        const struct denied_identity *const d = r->top[i];

        json_open(j, NULL, '{');
        put_tag(j, d->tag);
        raw.len = 0;
        report_write_raw(t, d, &raw);
        if (raw.len > 0)
            json_span(j, "identity", buf_span(&raw));
        json_int(j, "requests", d->requests);
        json_int(j, "denied", d->denied);
        json_int(j, "peak", d->peak);
        json_int(j, "longest_wait_ms", d->longest_wait);
        json_int(j, "first_ms", d->first);
        json_int(j, "last_ms", d->last);
        json_close(j, '}');
    }
    json_close(j, ']');
    buf_done(&raw);
}

/* As far as there are requests. */
static void put_timeline(struct json *j, const struct timeline *t)
{
    size_t count = TIMELINE_POINTS;

    while (count > 0 && t->points[count - 1].requests == 0)
        count--;
    json_open(j, "timeline", '{');
    json_int(j, "since_ms", t->from);
    json_int(j, "step_ms", t->width);
    json_open(j, "points", '[');
    for (size_t i = 0; i < count; i++) {
        json_open(j, NULL, '[');
        json_int(j, NULL, t->points[i].requests);
        json_int(j, NULL, t->points[i].denied);
        json_close(j, ']');
    }
    json_close(j, ']');
    json_close(j, '}');
}

static void put_peaks(struct json *j, const struct peaks *p)
{
    json_int(j, "largest_peak", p->largest);
    json_open(j, "peaks", '[');
    for (size_t i = 0; i < PEAKS_BUCKETS; i++) {
        if (p->buckets[i] == 0)
            continue;
        json_open(j, NULL, '[');
        json_int(j, NULL, peaks_upper(i));
        json_int(j, NULL, p->buckets[i]);
        json_close(j, ']');
    }
    json_close(j, ']');
}

static void put_row(struct json *j, const struct report_row *r, const struct identities *t)
{
    const struct tally_row *const row = r->row;

    json_open(j, NULL, '{');
    put_limit(j, row);
    json_int(j, "requests", row->requests);
    json_int(j, "cost", row->cost);
    json_int(j, "denied", row->denied);
    put_percent(j, "denied_percent", row->denied, row->requests);
    json_int(j, "identities", r->identities);
    json_int(j, "denied_identities", r->denied_identities);
    put_percent(j, "denied_identities_percent", r->denied_identities, r->identities);
    json_int(j, "longest_wait_ms", row->longest_wait);
    json_int(j, "never", row->never);
    put_worst_hours(j, r);
    put_identities(j, r, t);
    put_timeline(j, &row->timeline);
    put_peaks(j, r->peaks);
    json_close(j, '}');
}

static void put_side(struct json *j, const struct report_side *s)
{
    const struct tally *const t = s->tally;

    json_text(j, "config", s->config);
    json_int(j, "judged", t->judged);
    json_int(j, "denied", t->denied);
    put_percent(j, "denied_percent", t->denied, t->judged);
    json_int(j, "shadow_denied", t->shadow_denied);
    json_int(j, "exempt", t->exempt);
    json_int(j, "off", t->off);
    json_bool(j, "identities_exact", !t->identities.is_estimated && !t->identities.failed);
    json_open(j, "rules", '[');
    for (size_t i = 0; i < s->row_count; i++)
        put_row(j, &s->rows[i], &t->identities);
    json_close(j, ']');
}

/* ---- the rest ------------------------------------------------------------------------------- */

static void put_logs(struct json *j, const struct replay *r)
{
    json_open(j, "logs", '[');
    for (size_t i = 0; i < r->logs.count; i++) {
        const struct log_file *const log = &r->logs.logs[i];

        json_open(j, NULL, '{');
        json_text(j, "file", log->name);
        json_text(j, "format", access_format_names[log->parser->format]);
        json_text(j, "compressed", byte_source_kind(log->source));
        json_int(j, "lines", log->lines);
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void put_dirt(struct json *j, const struct dirt *d)
{
#define X(name, json, text) json,
    static const char *const names[DIRT_KIND_COUNT] = { DIRT_KINDS(X) };
#undef X

    json_open(j, "dirt", '{');
    for (size_t i = 0; i < DIRT_KIND_COUNT; i++) {
        const struct dirt_kind_count *const k = &d->of[i];

        json_open(j, names[i], '{');
        json_int(j, "count", k->count);
        json_open(j, "first", '[');
        for (int64_t n = 0; n < k->count && n < DIRT_FIRST; n++) {
            json_open(j, NULL, '{');
            json_text(j, "file", k->first[n].file);
            json_int(j, "line", k->first[n].line);
            json_close(j, '}');
        }
        json_close(j, ']');
        json_close(j, '}');
    }
    json_int(j, "largest_step_ms", d->largest_step);
    json_text(j, "why_not_judged", *d->why ? d->why : NULL);
    json_close(j, '}');
}

static void put_compared(struct json *j, const char *name, const struct comparison *c,
                         bool of_second, int64_t requests, int64_t identities, size_t top)
{
    struct compared worst[REPORT_MOST_TOP];
    const size_t n = comparison_worst(c, of_second, worst, top);

    json_open(j, name, '{');
    json_int(j, "requests", requests);
    json_int(j, "identities", identities);
    json_open(j, "most_denied", '[');
    for (size_t i = 0; i < n; i++) {
        json_open(j, NULL, '{');
        put_tag(j, worst[i].tag);
        json_int(j, "only_config", worst[i].first);
        json_int(j, "only_against", worst[i].second);
        json_int(j, "both", worst[i].both);
        json_close(j, '}');
    }
    json_close(j, ']');
    json_close(j, '}');
}

static void put_comparison(struct json *j, const struct comparison *c, size_t top)
{
    int64_t first, second, both;

    comparison_identities(c, &first, &second, &both);
    json_open(j, "comparison", '{');
    json_int(j, "requests", c->requests);
    put_compared(j, "only_config", c, false, c->first, first, top);
    put_compared(j, "only_against", c, true, c->second, second, top);
    json_open(j, "both", '{');
    json_int(j, "requests", c->both);
    json_int(j, "identities", both);
    json_close(j, '}');
    json_bool(j, "identities_exact", !c->is_cut);
    json_close(j, '}');
}

void report_write_json(const struct report *report, struct buf *to)
{
    const struct replay *const r = report->replay;
    const struct tally *const t = report->sides[0].tally;
    struct json j = { to, false };

    json_open(&j, NULL, '{');
    put_logs(&j, r);
    json_int(&j, "lines", replay_lines(r));
    json_int(&j, "requests", r->records);
    json_int(&j, "skipped", r->skipped);
    json_int(&j, "unmapped", r->unmapped);
    json_int(&j, "since_ms", t->judged > 0 ? t->first : 0);
    json_int(&j, "until_ms", t->last_time);
    json_bool(&j, "ended_early", r->is_stopped);
    put_dirt(&j, &r->dirt);
    put_side(&j, &report->sides[0]);
    if (report->sides[1].tally) {
        json_open(&j, "against", '{');
        put_side(&j, &report->sides[1]);
        json_close(&j, '}');
        put_comparison(&j, &r->comparison, report->top);
    }
    json_close(&j, '}');
}
