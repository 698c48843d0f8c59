/* page_suggested.c - in the page: the least limits of a rule that let the wanted share pass. */
#include "cli/replay/page.h"
#include "cli/terminal.h"

static bool is_for(const struct suggestion *s, const struct tally_row *row)
{
    return !row->is_shadow_limit && strcmp(s->rule->name, row->rule->name) == 0 &&
           strcmp(s->rule->policy->name, row->rule->policy->name) == 0;
}

void page_find_suggested(const struct page *p, struct rule_pair *pair)
{
    const struct suggest *const s = p->report->suggest;

    for (size_t i = 0; s && i < s->count; i++)
        if (is_for(&s->all[i], page_row_of(pair))) {
            if (pair->suggested_count == 0)
                pair->suggested = &s->all[i];
            pair->suggested_count++;
        }
}

static void put_share(struct buf *to, const struct suggest *s, const struct trial_result *r)
{
    buf_printf(to, "<td class=\"n\">%.4g&nbsp;%%</td>", suggest_percent(s, r));
}

static void put_line(struct buf *to, const struct suggest *s, const struct suggestion *one)
{
    buf_text(to, "<tr><th scope=\"row\">");
    html_count(to, one->is_burst ? one->rule->counted.rule.limit : one->passes.value);
    buf_printf(to, " per %s", duration_text(one->window).text);
    if (one->is_burst) {
        buf_text(to, ", burst ");
        html_count(to, one->passes.value);
    }
    buf_text(to, "</th>");
    put_share(to, s, &one->passes);
    if (one->fails.value > 0)
        put_share(to, s, &one->fails);
    else
        buf_text(to, "<td class=\"n\">–</td>");
    buf_text(to, "</tr>\n");
}

void page_put_suggested(struct page *p, const struct rule_pair *pair)
{
    const struct suggest *const s = p->report->suggest;
    char share[16];

    if (pair->suggested_count == 0 || !pair->suggested->is_found)
        return;
    share_write(s->share, share);
    buf_printf(p->to,
               "<h3>Suggested</h3><p class=\"scale\">The least limits that let %s of %s "
               "pass</p><table class=\"suggested\"><thead><tr><th scope=\"col\">Limit</th>"
               "<th scope=\"col\" class=\"n\">Passes</th>"
               "<th scope=\"col\" class=\"n\">With one less</th></tr></thead><tbody>\n",
               share, s->of_identities ? "identities" : "requests");
    for (size_t i = 0; i < pair->suggested_count; i++)
        if (pair->suggested[i].is_found)
            put_line(p->to, s, &pair->suggested[i]);
    buf_text(p->to, "</tbody></table>\n");
}
