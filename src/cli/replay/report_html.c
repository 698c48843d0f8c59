/* report_html.c - what a replay has found, as one page that needs nothing beside it. */
#include "cli/replay/report_html.h"

#include <stdlib.h>

#include "cli/replay/page.h"
#include "cli/terminal.h"

const char *const page_set_names[2] = { "<b class=\"set\">A</b>", "<b class=\"set\">B</b>" };

/* ---- rules of both sets --------------------------------------------------------------------- */

static int64_t denied_of(const struct rule_pair *p)
{
    const int64_t a = p->of[0] ? p->of[0]->row->denied : 0;
    const int64_t b = p->of[1] ? p->of[1]->row->denied : 0;

    return a > b ? a : b;
}

const struct tally_row *page_row_of(const struct rule_pair *p)
{
    return p->of[0] ? p->of[0]->row : p->of[1]->row;
}

static bool is_same_rule(const struct tally_row *a, const struct tally_row *b)
{
    return a->is_shadow_limit == b->is_shadow_limit && strcmp(a->rule->name, b->rule->name) == 0 &&
           strcmp(a->rule->policy->name, b->rule->policy->name) == 0;
}

/* The worst first; those that deny nothing in the order of the files. */
static int by_denied(const void *a, const void *b)
{
    const struct rule_pair *const x = a, *const y = b;

    if (denied_of(x) != denied_of(y))
        return denied_of(x) < denied_of(y) ? 1 : -1;
    if (!x->of[0] != !y->of[0])
        return x->of[0] ? -1 : 1;
    return page_row_of(x)->index < page_row_of(y)->index
               ? -1
               : page_row_of(x)->index > page_row_of(y)->index;
}

static bool find_pairs(struct page *p)
{
    const struct report_side *const a = &p->report->sides[0], *const b = &p->report->sides[1];

    p->pairs = calloc(a->row_count + b->row_count + 1, sizeof *p->pairs);
    if (!p->pairs)
        return false;
    for (size_t i = 0; i < a->row_count; i++) {
        p->pairs[p->pair_count].of[0] = &a->rows[i];
        page_find_suggested(p, &p->pairs[p->pair_count++]);
    }
    for (size_t i = 0, next = 0; i < b->row_count; i++) { /* most are in the same order */
        size_t tried = 0;

        while (tried < a->row_count &&
               !is_same_rule(a->rows[(next + tried) % a->row_count].row, b->rows[i].row))
            tried++;
        if (tried < a->row_count) {
            next = (next + tried) % a->row_count;
            p->pairs[next++].of[1] = &b->rows[i];
        } else {
            p->pairs[p->pair_count++].of[1] = &b->rows[i];
        }
    }
    qsort(p->pairs, p->pair_count, sizeof *p->pairs, by_denied);
    return true;
}

void page_put_rule_name(struct buf *to, const struct tally_row *row)
{
    html_name(to, span_of(row->rule->policy->name));
    buf_byte(to, ' ');
    html_name(to, span_of(row->rule->name));
    buf_text(to, report_in_shadow(row));
}

/* ---- the head ------------------------------------------------------------------------------- */

static void put_head(struct page *p)
{
    buf_text(p->to,
             "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
             "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
             "<meta name=\"color-scheme\" content=\"light dark\">\n"
             "<meta name=\"referrer\" content=\"no-referrer\">\n"
             "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
             "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'\">\n"
             "<link rel=\"icon\" href=\"data:,\">\n<title>");
    html_text(p->to, span_of(p->report->sides[0].config));
    buf_text(p->to, ": what would these limits have done?</title>\n<style>\n");
    buf_text(p->to, report_style);
    buf_text(p->to, "</style>\n</head>\n<body>\n<header>\n"
                    "<h1>What would these limits have done?</h1>\n<p>");
    for (size_t i = 0; i < 2 && p->report->sides[i].tally; i++) {
        if (p->sets == 2)
            buf_printf(p->to, "%s%s ", i ? ", compared with " : "", page_set_names[i]);
        html_name(p->to, span_of(p->report->sides[i].config));
    }
    buf_text(p->to, "</p>\n</header>\n<main>\n");
    if (p->report->replay->is_stopped)
        buf_text(p->to, "<p class=\"note\">Stopped before the end of the logs: this is the report "
                        "so far.</p>\n");
    if (p->report->suggest && p->report->suggest->is_stopped)
        buf_text(p->to, "<p class=\"note\">Stopped while limits were searched: suggestions are "
                        "missing, or may be too large.</p>\n");
}

static void put_sum(struct buf *to, const char *name, int64_t n)
{
    buf_printf(to, "<div><dt>%s</dt><dd>", name);
    html_count(to, n);
    buf_text(to, "</dd></div>\n");
}

static void put_denied(struct page *p, size_t side)
{
    const struct tally *const t = p->report->sides[side].tally;

    buf_text(p->to, "<div><dt>Denied");
    if (p->sets == 2)
        buf_printf(p->to, " by %s", page_set_names[side]);
    buf_printf(p->to, "</dt><dd%s>", t->denied > 0 ? " class=\"bad\"" : "");
    html_count(p->to, t->denied);
    buf_printf(p->to, " <small>%.2f&nbsp;%%</small></dd></div>\n",
               report_percent(t->denied, t->judged));
    if (t->shadow_denied > 0)
        put_sum(p->to, "… in shadow", t->shadow_denied);
}

static void put_sums(struct page *p)
{
    const struct replay *const r = p->report->replay;
    const struct tally *const t = p->report->sides[0].tally;

    buf_text(p->to, "<section aria-label=\"Sums\"><dl>\n");
    put_sum(p->to, "Requests in the logs", r->records);
    put_sum(p->to, "Judged", t->judged);
    for (size_t i = 0; i < 2 && p->report->sides[i].tally; i++)
        put_denied(p, i);
    if (r->skipped > 0)
        put_sum(p->to, "Left out by status", r->skipped);
    if (r->unmapped > 0)
        put_sum(p->to, "For no policy", r->unmapped);
    if (t->exempt > 0)
        put_sum(p->to, "Exempt", t->exempt);
    if (t->off > 0)
        put_sum(p->to, "For a policy that is off", t->off);
    if (t->judged > 0) {
        buf_text(p->to, "<div><dt>First request</dt><dd>");
        html_minute(p->to, t->first);
        buf_text(p->to, "</dd></div>\n<div><dt>Last request</dt><dd>");
        html_minute(p->to, t->last_time);
        buf_text(p->to, "</dd></div>\n");
    }
    buf_text(p->to, "</dl><p class=\"faint\">Times are UTC.</p></section>\n");
}

/* ---- the rules ------------------------------------------------------------------------------ */

static void put_rule_line(struct page *p, size_t i)
{
    const struct rule_pair *const pair = &p->pairs[i];

    buf_text(p->to, "<tr><th scope=\"row\">");
    if (i < REPORT_HTML_DRAWN)
        buf_printf(p->to, "<a href=\"#rule-%zu\">", i);
    page_put_rule_name(p->to, page_row_of(pair));
    buf_text(p->to, i < REPORT_HTML_DRAWN ? "</a></th>" : "</th>");
    html_count_cell(p->to, page_row_of(pair)->requests);
    for (size_t k = 0; k < p->sets; k++)
        if (pair->of[k])
            html_share_cell(p->to, pair->of[k]->row->denied, pair->of[k]->row->requests);
        else
            buf_text(p->to, "<td class=\"n\">–</td>");
    if (p->sets == 1)
        html_share_cell(p->to, pair->of[0]->denied_identities, pair->of[0]->identities);
    buf_text(p->to, "</tr>\n");
}

static void put_rules_table(struct page *p)
{
    const size_t shown = p->pair_count < REPORT_HTML_RULES ? p->pair_count : REPORT_HTML_RULES;

    buf_text(p->to, "<section><h2>Rules</h2>\n");
    if (shown == 0) {
        buf_text(p->to, "<p>No rule had a request.</p></section>\n");
        return;
    }
    buf_text(p->to, "<table><thead><tr><th scope=\"col\">Rule</th>"
                    "<th scope=\"col\" class=\"n\">Requests</th>");
    for (size_t k = 0; k < p->sets; k++)
        buf_printf(p->to, "<th scope=\"col\" class=\"n\">Denied %s</th>",
                   p->sets == 2 ? page_set_names[k] : "");
    if (p->sets == 1)
        buf_text(p->to, "<th scope=\"col\" class=\"n\">Identities denied</th>");
    buf_text(p->to, "</tr></thead><tbody>\n");
    for (size_t i = 0; i < shown; i++)
        put_rule_line(p, i);
    buf_text(p->to, "</tbody></table>\n");
    if (shown < p->pair_count)
        buf_printf(p->to, "<p class=\"faint\">%zu more rules had requests.</p>\n",
                   p->pair_count - shown);
    for (size_t i = 0; i < 2; i++)
        if (p->report->sides[i].silent_rows > 0)
            buf_printf(p->to, "<p class=\"faint\">%zu rules%s%s had no requests.</p>\n",
                       p->report->sides[i].silent_rows, p->sets == 2 ? " of " : "",
                       p->sets == 2 ? page_set_names[i] : "");
    buf_text(p->to, "</section>\n");
}

/* ---- all ------------------------------------------------------------------------------------ */

bool report_write_html(const struct report *report, struct buf *to)
{
    struct page page = { .report = report, .to = to, .sets = report->sides[1].tally ? 2 : 1 };

    if (!find_pairs(&page))
        return false;
    put_head(&page);
    put_sums(&page);
    put_rules_table(&page);
    if (page.sets == 2)
        page_put_comparison(&page);
    for (size_t i = 0; i < page.pair_count && i < REPORT_HTML_DRAWN; i++)
        page_put_rule(&page, i);
    page_put_logs(&page);
    buf_text(
        to,
        "<section><h2>How to read this</h2>\n<ul>\n"
        "<li>Each request of the logs was judged at its own time, by the engine of the server: "
        "a server with these policies would have denied the same requests.</li>\n"
        "<li>An identity is what a rule counts by, such as an IP address. It is shown as a "
        "tag, which is a hash; with <code>--raw</code> as it is in the log.</li>\n"
        "<li>A peak is the most that an identity asked for in one window of the rule, whether "
        "it was denied or not. Windows begin at multiples of their length. Identities to the "
        "right of a limit asked for more in one window.</li>\n"
        "<li>The longest wait is the longest time that a denied request was told to wait.</li>\n");
    if (report->suggest)
        buf_text(to, "<li>The logs were replayed with a suggested limit, and with one less. Each "
                     "rule was judged alone.</li>\n");
    buf_text(to, "</ul></section>\n");
    buf_printf(to, "</main>\n<footer class=\"faint\">weir %s</footer>\n</body>\n</html>\n",
               weir_version());
    free(page.pairs);
    return !to->failed;
}
