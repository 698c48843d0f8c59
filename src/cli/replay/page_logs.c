/* page_logs.c - the logs in the page: what was read, and what was wrong with it. */
#include "cli/replay/page.h"
#include "cli/terminal.h"

static void put_dirt(struct buf *to, const struct dirt *d)
{
#define X(name, json, text) text,
    static const char *const texts[DIRT_KIND_COUNT] = { DIRT_KINDS(X) };
#undef X

    buf_text(to, "<ul>\n");
    for (size_t i = 0; i < DIRT_KIND_COUNT; i++) {
        const struct dirt_kind_count *const k = &d->of[i];

        if (k->count == 0)
            continue;
        buf_text(to, "<li>");
        html_count(to, k->count);
        buf_printf(to, " %s:", texts[i]);
        for (int64_t n = 0; n < k->count && n < DIRT_FIRST; n++) {
            buf_text(to, n > 0 ? ", " : " ");
            html_name(to, span_of(k->first[n].file));
            buf_byte(to, ':');
            buf_int(to, k->first[n].line);
        }
        buf_text(to, k->count > DIRT_FIRST ? ", …</li>\n" : "</li>\n");
    }
    if (d->largest_step > 0)
        buf_printf(to, "<li>largest step back: %s</li>\n", duration_text(d->largest_step).text);
    if (*d->why) {
        buf_text(to, "<li>why the first was not judged: ");
        html_name(to, span_of(d->why));
        buf_text(to, "</li>\n");
    }
    buf_text(to, "</ul>\n");
}

static void put_log(struct buf *to, const struct log_file *log)
{
    const char *const kind = byte_source_kind(log->source);

    buf_text(to, "<tr><th scope=\"row\">");
    html_name(to, span_of(log->name));
    buf_printf(to, "</th><td>%s%s%s</td>", access_format_names[log->parser->format],
               kind ? ", " : "", kind ? kind : "");
    html_count_cell(to, log->lines);
    buf_text(to, "</tr>\n");
}

void page_put_logs(const struct page *p)
{
    const struct merge *const logs = &p->report->replay->logs;
    const size_t shown = logs->count < REPORT_HTML_LOGS ? logs->count : REPORT_HTML_LOGS;

    buf_text(p->to, "<section><h2>Logs</h2>\n<table><thead><tr><th scope=\"col\">File</th>"
                    "<th scope=\"col\">Format</th><th scope=\"col\" class=\"n\">Lines</th></tr>"
                    "</thead><tbody>\n");
    for (size_t i = 0; i < shown; i++)
        put_log(p->to, &logs->logs[i]);
    buf_text(p->to, "</tbody></table>\n");
    if (shown < logs->count)
        buf_printf(p->to, "<p class=\"faint\">%zu more logs were read.</p>\n", logs->count - shown);
    put_dirt(p->to, &p->report->replay->dirt);
    for (size_t i = 0; i < p->sets; i++)
        if (p->report->sides[i].tally->identities.is_estimated) {
            buf_printf(p->to,
                       "<p>There were more than %d identities: how many is an estimate, within "
                       "some percent.</p>\n",
                       IDENTITIES_MOST);
            break;
        }
    buf_text(p->to, "</section>\n");
}
