/* page_rule.c - a rule in the page: numbers, drawings, worst hours, identities. */
#include "cli/replay/page.h"
#include "cli/terminal.h"

/* Two units of it at most, rounded up: "29d13h", "2h5m". */
static void put_wait(struct buf *to, int64_t wait)
{
    const int64_t second = 1000, hour = 3600 * second, day = 24 * hour;
    const int64_t unit = wait >= day ? hour : wait >= hour ? 60 * second : second;

    if (wait == WEIR_NEVER)
        buf_text(to, "never");
    else
        buf_text(to, duration_text((wait + unit - 1) / unit * unit).text);
}

enum fact { LIMIT, REQUESTS, DENIED, IDENTITIES, EVER_DENIED, LARGEST, LONGEST, FACT_COUNT };

static void put_fact(struct buf *to, const struct report_row *r, enum fact fact)
{
    struct buf limit;

    if (!r) {
        buf_text(to, "<td class=\"n\">–</td>");
        return;
    }
    switch (fact) {
    case LIMIT:
        buf_init(&limit, &to->allocator);
        report_write_limit(r->row, &limit);
        buf_text(to, "<td class=\"n\">");
        html_name(to, buf_span(&limit));
        buf_text(to, "</td>");
        to->failed |= limit.failed;
        buf_done(&limit);
        break;
    case REQUESTS:
        html_count_cell(to, r->row->requests);
        break;
    case DENIED:
        html_share_cell(to, r->row->denied, r->row->requests);
        break;
    case IDENTITIES:
        html_count_cell(to, r->identities);
        break;
    case EVER_DENIED:
        html_share_cell(to, r->denied_identities, r->identities);
        break;
    case LARGEST:
        html_count_cell(to, r->peaks->largest);
        break;
    case LONGEST:
    case FACT_COUNT:
        buf_text(to, "<td class=\"n\">");
        put_wait(to, r->row->never > 0 ? WEIR_NEVER : r->row->longest_wait);
        buf_text(to, "</td>");
    }
}

static void put_facts(struct page *p, const struct rule_pair *pair)
{
    static const char *const names[FACT_COUNT] = {
        "Limit",        "Requests",     "Denied", "Identities", "… denied at least once",
        "Largest peak", "Longest wait",
    };

    buf_text(p->to, "<table class=\"facts\">");
    if (p->sets == 2)
        buf_printf(p->to,
                   "<thead><tr><td></td><th scope=\"col\" class=\"n\">%s</th>"
                   "<th scope=\"col\" class=\"n\">%s</th></tr></thead>",
                   page_set_names[0], page_set_names[1]);
    buf_text(p->to, "<tbody>\n");
    for (int fact = 0; fact < FACT_COUNT; fact++) {
        buf_printf(p->to, "<tr><th scope=\"row\">%s</th>", names[fact]);
        for (size_t k = 0; k < p->sets; k++)
            put_fact(p->to, pair->of[k], (enum fact)fact);
        buf_text(p->to, "</tr>\n");
    }
    buf_text(p->to, "</tbody></table>\n");
}

static void put_worst_hours(struct page *p, const struct report_row *r, const char *by)
{
    if (r->worst_count == 0)
        return;
    buf_printf(p->to,
               "<h3>Worst hours%s</h3><table><thead><tr><th scope=\"col\">Hour</th>"
               "<th scope=\"col\" class=\"n\">Requests</th>"
               "<th scope=\"col\" class=\"n\">Denied</th></tr></thead><tbody>\n",
               by);
    for (size_t i = 0; i < r->worst_count; i++) {
        buf_text(p->to, "<tr><td>");
        html_minute(p->to, r->worst[i].hour * 3600000);
        buf_text(p->to, "</td>");
        html_count_cell(p->to, r->worst[i].requests);
        html_share_cell(p->to, r->worst[i].denied, r->worst[i].requests);
        buf_text(p->to, "</tr>\n");
    }
    buf_text(p->to, "</tbody></table>\n");
}

static void put_identity(struct buf *to, const struct identities *t,
                         const struct denied_identity *d)
{
    char tag[TAG_HEX + 1];
    struct buf raw;

    buf_init(&raw, &to->allocator);
    report_write_raw(t, d, &raw);
    tag_write(d->tag, tag);
    buf_text(to, "<tbody><tr><th scope=\"rowgroup\" colspan=\"4\"><code>");
    html_name(to, raw.len > 0 ? buf_span(&raw) : span_of(tag));
    buf_text(to, "</code> <small>");
    html_minute(to, d->first);
    buf_text(to, " to ");
    html_minute(to, d->last);
    buf_text(to, "</small></th></tr>\n<tr>");
    html_count_cell(to, d->requests);
    html_count_cell(to, d->denied);
    html_count_cell(to, d->peak);
    buf_text(to, "<td class=\"n\">");
    put_wait(to, d->longest_wait);
    buf_text(to, "</td></tr></tbody>\n");
    to->failed |= raw.failed;
    buf_done(&raw);
}

static void put_identities(struct page *p, const struct report_row *r, size_t set, const char *by)
{
    const struct identities *const t = &p->report->sides[set].tally->identities;
    const size_t shown = r->top_count < REPORT_HTML_IDENTITIES ? r->top_count
                                                               : REPORT_HTML_IDENTITIES;

    if (shown == 0)
        return;
    buf_printf(
        p->to,
        "<h3>Identities denied most%s</h3><p class=\"scale\">With the times of the first and "
        "the last denial</p><table class=\"identities\"><thead><tr>"
        "<th scope=\"col\" class=\"n\">Requests</th><th scope=\"col\" class=\"n\">Denied"
        "</th><th scope=\"col\" class=\"n\">Peak</th><th scope=\"col\" class=\"n\">Longest "
        "wait</th></tr></thead>\n",
        by);
    for (size_t i = 0; i < shown; i++)
        put_identity(p->to, t, r->top[i]);
    buf_text(p->to, "</table>\n");
    if ((int64_t)shown < r->denied_identities) {
        buf_text(p->to, "<p class=\"faint\">Denied in all: ");
        html_count(p->to, r->denied_identities);
        buf_text(p->to, " identities.</p>\n");
    }
}

void page_put_rule(struct page *p, size_t i)
{
    const struct rule_pair *const pair = &p->pairs[i];
    const bool both = pair->of[0] && pair->of[1];

    buf_printf(p->to, "<section id=\"rule-%zu\"><h2>", i);
    page_put_rule_name(p->to, page_row_of(pair));
    buf_text(p->to, "</h2>\n");
    put_facts(p, pair);
    if (page_row_of(pair)->rule->plan_count > 0 && !page_row_of(pair)->is_shadow_limit)
        buf_text(p->to, "<p class=\"faint\">Identities with a plan have the limit of their "
                        "plan.</p>\n");
    page_put_suggested(p, pair);
    plot_timeline(p->to, pair);
    plot_peaks(p->to, pair);
    for (size_t k = 0; k < 2; k++)
        if (pair->of[k]) {
            put_worst_hours(p, pair->of[k], both ? k ? " by B" : " by A" : "");
            put_identities(p, pair->of[k], k, both ? k ? " by B" : " by A" : "");
        }
    buf_text(p->to, "</section>\n");
}
