/* report.c - what a replay has found, put in order for those who write it. */
#include "replay/report.h"

#include <stdlib.h>

#include "limit/calendar.h"
#include "policy/rate.h"
#include "replay/scan.h"

static int by_row_and_denied(const void *a, const void *b)
{
    const struct denied_identity *const x = *(const struct denied_identity *const *)a;
    const struct denied_identity *const y = *(const struct denied_identity *const *)b;

    if (x->row != y->row)
        return x->row < y->row ? -1 : 1;
    if (x->denied != y->denied)
        return x->denied < y->denied ? 1 : -1;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return x->key < y->key ? -1 : x->key > y->key;
}

static void fill_row(struct report_side *s, struct report_row *row, const struct tally_row *of,
                     size_t top)
{
    const struct identities *const t = &s->tally->identities;
    size_t at = 0;

    row->row = of;
    row->peaks = &s->peaks[of->index];
    row->identities = identities_of_row(t, of->index);
    row->denied_identities = t->rows[of->index].denied_identities;
    row->worst_count = timeline_worst(&of->timeline, row->worst, REPORT_WORST_HOURS);
    while (at < t->denied_count && s->order[at]->row < of->index)
        at++;
    row->top = s->order + at;
    while (row->top_count < top && at + row->top_count < t->denied_count &&
           row->top[row->top_count]->row == of->index)
        row->top_count++;
}

static bool fill_side(struct report_side *s, struct replay_side *side, const char *config,
                      size_t top)
{
    struct tally *const tally = &side->tally;

    s->config = config;
    s->tally = tally;
    s->peaks = calloc(tally->row_count + 1, sizeof *s->peaks);
    s->order = calloc(tally->identities.denied_count + 1, sizeof *s->order);
    s->rows = calloc(tally->row_count + 1, sizeof *s->rows);
    if (!s->peaks || !s->order || !s->rows)
        return false;
    identities_finish(&tally->identities, s->peaks);
    for (size_t i = 0; i < tally->identities.denied_count; i++)
        s->order[i] = &tally->identities.denied[i];
    qsort(s->order, tally->identities.denied_count, sizeof *s->order, by_row_and_denied);
    for (size_t i = 0; i < tally->row_count; i++) {
        if (tally->rows[i].requests > 0)
            fill_row(s, &s->rows[s->row_count++], &tally->rows[i], top);
        else
            s->silent_rows++;
    }
    return true;
}

bool report_init(struct report *report, struct replay *r, size_t top)
{
    const char *const configs[2] = { r->options.policy_file, r->options.against_file };

    *report = (struct report){ .replay = r, .top = top < REPORT_MOST_TOP ? top : REPORT_MOST_TOP };
    for (size_t i = 0; i < 2 && r->sides[i].judge; i++)
        if (!fill_side(&report->sides[i], &r->sides[i], configs[i], report->top)) {
            report_done(report);
            return false;
        }
    return true;
}

void report_done(struct report *report)
{
    for (size_t i = 0; i < 2; i++) {
        free(report->sides[i].peaks);
        free(report->sides[i].order);
        free(report->sides[i].rows);
    }
    *report = (struct report){ 0 };
}

void report_write_limit(const struct tally_row *row, struct buf *to)
{
    const struct rule *const r = &row->counted->rule;
    char window[32];

    buf_int(to, r->limit);
    if (r->start == START_CALENDAR) {
        buf_printf(to, " per %s", period_names[r->calendar->period]);
    } else if (r->limit > 0 && r->window > 0) {
        duration_write(r->window, window);
        buf_printf(to, " per %s", window);
    } else if (r->limit > 0) {
        buf_text(to, " at once");
    }
    if (algorithm_has_burst(r->algorithm) && r->burst != r->limit)
        buf_printf(to, ", burst %lld", (long long)r->burst);
    buf_printf(to, ", %s", weir_algorithm_name(r->algorithm));
    for (size_t i = 0; i < row->rule->by_count; i++)
        buf_printf(to, "%s%s", i == 0 ? ", by " : ", ", row->rule->by[i]);
}

const char *report_in_shadow(const struct tally_row *row)
{
    if (row->is_shadow_limit)
        return " (shadow_limit)";
    return row->rule->mode == MODE_SHADOW ? " (in shadow)" : "";
}

/* An identity is "length:value" for each attribute. */
void report_write_raw(const struct identities *t, const struct denied_identity *d, struct buf *to)
{
    const char *at = t->raw.at + d->raw, *const end = at + d->raw_len;
    bool is_first = true;

    while (d->raw_len > 0 && at < end) {
        size_t len = 0;

        while (at < end && scan_is_digit(*at))
            len = len * 10 + (size_t)(*at++ - '0');
        at++; /* the colon */
        if (at > end || len > (size_t)(end - at))
            return;
        if (!is_first)
            buf_byte(to, ' ');
        is_first = false;
        buf_add(to, (struct span){ at, len });
        at += len;
    }
}
