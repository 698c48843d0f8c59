/* page_comparison.c - two sets of policies side by side: what only one of them denies, and to
 * whom. */
#include "cli/replay/page.h"

enum { WIDTH = 1000, HEIGHT = 10 };

static void put_line(struct buf *to, const char *what, int64_t requests, int64_t all,
                     int64_t identities)
{
    buf_printf(to, "<tr><th scope=\"row\">%s</th>", what);
    html_share_cell(to, requests, all);
    html_count_cell(to, identities);
    buf_text(to, "</tr>\n");
}

/* Those that are denied by either, as one bar. */
static void put_bar(struct buf *to, const struct comparison *c)
{
    const double all = (double)(c->first + c->both + c->second);
    const struct {
        const char *class, *what;
        int64_t n;
    } parts[] = { { "only-a", "only by A", c->first },
                  { "by-both", "by both", c->both },
                  { "only-b", "only by B", c->second } };
    double x = 0;

    if (all == 0)
        return;
    buf_printf(to,
               "<svg class=\"parts\" viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" "
               "role=\"img\" aria-label=\"Of the denied requests: only by A, by both, only by "
               "B\">",
               WIDTH, HEIGHT);
    for (size_t i = 0; i < 3; i++) {
        const double width = WIDTH * (double)parts[i].n / all;

        if (parts[i].n == 0)
            continue;
        buf_printf(to, "<rect class=\"%s\" x=\"%.1f\" y=\"0\" width=\"%.1f\" height=\"%d\"><title>",
                   parts[i].class, x, width, HEIGHT);
        html_count(to, parts[i].n);
        buf_printf(to, " denied %s</title></rect>", parts[i].what);
        x += width;
    }
    buf_text(to,
             "</svg>\n<p class=\"scale\"><i class=\"key only-a\"></i>only by A "
             "<i class=\"key by-both\"></i>by both <i class=\"key only-b\"></i>only by B</p>\n");
}

static void put_identities(struct page *p, bool of_second)
{
    struct compared worst[REPORT_HTML_IDENTITIES];
    const size_t most = p->report->top < REPORT_HTML_IDENTITIES ? p->report->top
                                                                : REPORT_HTML_IDENTITIES;
    const size_t n = comparison_worst(&p->report->replay->comparison, of_second, worst, most);

    if (n == 0)
        return;
    buf_printf(p->to,
               "<h3>Identities denied more by %c</h3><table><thead><tr><th scope=\"col\">Identity"
               "</th><th scope=\"col\" class=\"n\">Only by A</th><th scope=\"col\" class=\"n\">"
               "Only by B</th><th scope=\"col\" class=\"n\">By both</th></tr></thead><tbody>\n",
               of_second ? 'B' : 'A');
    for (size_t i = 0; i < n; i++) {
        char tag[TAG_HEX + 1];

        tag_write(worst[i].tag, tag);
        buf_printf(p->to, "<tr><th scope=\"row\"><code>%s</code></th>", tag);
        html_count_cell(p->to, worst[i].first);
        html_count_cell(p->to, worst[i].second);
        html_count_cell(p->to, worst[i].both);
        buf_text(p->to, "</tr>\n");
    }
    buf_text(p->to, "</tbody></table>\n");
}

void page_put_comparison(struct page *p)
{
    const struct comparison *const c = &p->report->replay->comparison;
    int64_t first, second, both;

    comparison_identities(c, &first, &second, &both);
    buf_text(p->to, "<section id=\"comparison\"><h2>Comparison</h2>\n<p>Requests that both have "
                    "judged: ");
    html_count(p->to, c->requests);
    buf_text(p->to, "</p>\n");
    put_bar(p->to, c);
    buf_text(p->to, "<table><thead><tr><th scope=\"col\">Denied</th><th scope=\"col\" class=\"n\">"
                    "Requests</th><th scope=\"col\" class=\"n\">Identities</th></tr></thead>"
                    "<tbody>\n");
    put_line(p->to, "only by A", c->first, c->requests, first);
    put_line(p->to, "only by B", c->second, c->requests, second);
    put_line(p->to, "by both", c->both, c->requests, both);
    buf_text(p->to, "</tbody></table>\n");
    if (c->is_cut)
        buf_text(p->to, "<p class=\"faint\">There were too many identities: not all of them are "
                        "counted here.</p>\n");
    put_identities(p, false);
    put_identities(p, true);
    buf_text(p->to, "</section>\n");
}
