/* plot_peaks.c - how much identities asked for in a window at most: a histogram, with the limits.
 *
 * Most identities ask for little, and those that matter are few: heights are logarithmic, and so
 * are widths if there are large peaks. */
#include <inttypes.h>
#include <math.h>

#include "cli/replay/html.h"
#include "cli/replay/plot.h"
#include "cli/terminal.h"
#include "limit/calendar.h"

enum { WIDTH = 1000, HEIGHT = 100, LEAST_HEIGHT = 3, MOST_MARKS = 4, MOST_LABELS = 6 };
enum { LINEAR = 2 * PEAKS_STEPS - 1 }; /* up to here each number has a bin of its own */

struct bin {
    int64_t from, to; /* both are in it */
    int64_t identities;
};

struct histogram {
    const struct report_row *row;
    struct bin bins[PLOT_MOST_BINS];
    size_t count;
    int64_t most;
};

/* A limit, what a bucket holds, or a limit that is suggested: of two sets, or of one. */
struct mark {
    int64_t value;
    const char *what;
    int set; /* 0: there is only one; else 1 or 2 */
};

struct marks {
    struct mark at[MOST_MARKS];
    size_t count;
};

static void add_marks(struct marks *m, const struct report_row *row, int set)
{
    const struct rule *const r = &row->row->counted->rule;

    m->at[m->count++] = (struct mark){ r->limit, "limit", set };
    if (algorithm_has_burst(r->algorithm) && r->burst != r->limit)
        m->at[m->count++] = (struct mark){ r->burst, "burst", set };
}

/* ---- bins ----------------------------------------------------------------------------------- */

/* A power of two, so that its bounds are bounds of what was counted. */
static int64_t bin_width(int64_t from, int64_t up_to, int64_t parts)
{
    int64_t width = 1;

    while (up_to > LINEAR && width <= from / parts / 2)
        width *= 2;
    return width;
}

/* The last value of a bin: bins begin at multiples of their width, and none goes across a limit. */
static int64_t bin_end(int64_t from, int64_t width, const struct marks *marks)
{
    int64_t to = from - from % width + (width - 1);

    for (size_t i = 0; i < marks->count; i++) {
        const int64_t end = peaks_upper(peaks_bucket(marks->at[i].value));

        to = end >= from && end < to ? end : to;
    }
    return to;
}

/* `parts` of each doubling. False: these are too many. */
static bool fill(struct histogram *h, const struct marks *marks, int64_t up_to, int64_t parts)
{
    const struct peaks *const p = h->row->peaks;
    int64_t from = p->buckets[0] > 0 ? 0 : 1, to;

    h->count = 0;
    h->most = 0;
    do {
        struct bin *const bin = &h->bins[h->count];

        if (h->count == PLOT_MOST_BINS)
            return false;
        to = bin_end(from, bin_width(from, up_to, parts), marks);
        *bin = (struct bin){ .from = from, .to = to };
        for (size_t i = peaks_bucket(from); i <= peaks_bucket(to); i++)
            bin->identities += p->buckets[i];
        h->most = bin->identities > h->most ? bin->identities : h->most;
        h->count++;
        if (to >= up_to)
            return true;
        from = to + 1;
    } while (true);
}

static void make_bins(struct histogram *h, const struct marks *marks)
{
    int64_t up_to = h->row->peaks->largest;

    for (size_t i = 0; i < marks->count; i++)
        up_to = marks->at[i].value > up_to ? marks->at[i].value : up_to;
    for (int64_t parts = 4; !fill(h, marks, up_to, parts) && parts > 1; parts /= 2)
        continue;
}

/* Where a value ends: what is not above it is to the left. A share of the width. */
static double place(const struct histogram *h, int64_t value)
{
    size_t i = 0;

    while (i + 1 < h->count && h->bins[i].to < value)
        i++;
    if (value < h->bins[i].from)
        return 0;
    return ((double)i +
            (double)(value - h->bins[i].from + 1) / (double)(h->bins[i].to - h->bins[i].from + 1)) /
           (double)h->count;
}

/* ---- drawing -------------------------------------------------------------------------------- */

static void put_range(struct buf *to, const struct bin *bin)
{
    html_count(to, bin->from);
    if (bin->to > bin->from) {
        buf_text(to, " to ");
        html_count(to, bin->to);
    }
}

static void put_bars(struct buf *to, const struct histogram *h, int64_t limit)
{
    const double width = (double)WIDTH / (double)h->count;

    for (size_t i = 0; i < h->count; i++) {
        const struct bin *const bin = &h->bins[i];
        double height = HEIGHT * log1p((double)bin->identities) / log1p((double)h->most);

        if (bin->identities == 0)
            continue;
        height = height < LEAST_HEIGHT ? LEAST_HEIGHT : height;
        buf_printf(to,
                   "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
                   "height=\"%.1f\"><title>",
                   bin->from > limit ? "over" : "within", (double)i * width, HEIGHT - height,
                   width * 0.86, height);
        put_range(to, bin);
        buf_text(to, ": ");
        html_count(to, bin->identities);
        buf_text(to, " identities</title></rect>");
    }
}

/* Each on a line of its own above the drawing, at the side of its line that has more room. */
static void put_mark(struct buf *to, const struct histogram *h, const struct mark *m)
{
    const double at = 100 * place(h, m->value);
    const bool is_left = at > 50;

    buf_printf(to, "<div class=\"mark\"><span class=\"%s\" style=\"%s:%.1f%%\">",
               is_left ? "before" : "behind", is_left ? "right" : "left", is_left ? 100 - at : at);
    if (m->set)
        buf_printf(to, "<b class=\"set\">%c</b> ", "?AB"[m->set]);
    buf_printf(to, "%s ", m->what);
    html_count(to, m->value);
    buf_text(to, "</span></div>");
}

static void put_label(struct buf *to, int64_t n)
{
    if (n < 10000)
        buf_int(to, n);
    else if (n < 1000000)
        buf_printf(to, "%.3gk", (double)n / 1e3);
    else if (n < 1000000000)
        buf_printf(to, "%.3gM", (double)n / 1e6);
    else
        buf_printf(to, "%.3gG", (double)n / 1e9);
}

static void put_labels(struct buf *to, const struct histogram *h)
{
    const size_t step = (h->count + MOST_LABELS - 1) / MOST_LABELS;

    buf_text(to, "<div class=\"ticks\">");
    for (size_t i = 0; i < h->count; i += step) {
        const double at = 100 * ((double)i + 0.5) / (double)h->count;

        if (i > 0 && at > 93)
            continue;
        buf_printf(to, "<span style=\"left:%.1f%%\">", at);
        put_label(to, h->bins[i].from);
        buf_text(to, "</span>");
    }
    buf_text(to, "</div>\n");
}

static void put_table(struct buf *to, const struct histogram *h)
{
    buf_text(to, "<details><summary>As a table</summary><table><thead><tr><th scope=\"col\">Peak"
                 "</th><th scope=\"col\" class=\"n\">Identities</th></tr></thead><tbody>");
    for (size_t i = 0; i < h->count; i++)
        if (h->bins[i].identities > 0) {
            buf_text(to, "<tr><td>");
            put_range(to, &h->bins[i]);
            buf_text(to, "</td>");
            html_count_cell(to, h->bins[i].identities);
            buf_text(to, "</tr>\n");
        }
    buf_text(to, "</tbody></table></details>\n");
}

static void put_histogram(struct buf *to, const struct report_row *row, const struct marks *marks)
{
    const struct rule *const r = &row->row->counted->rule;
    struct histogram h = { .row = row };

    make_bins(&h, marks);
    buf_text(to, "<figure><figcaption>Peaks: the most that each identity asked for in ");
    if (r->start == START_CALENDAR)
        buf_printf(to, "one %s", period_names[r->calendar->period]);
    else
        buf_text(to, duration_text(r->window).text);
    buf_text(to, "</figcaption>\n<p class=\"scale\">Identities: at most ");
    html_count(to, h.most);
    buf_text(to, " in a bar; heights are logarithmic</p>");
    for (size_t i = 0; i < marks->count; i++)
        put_mark(to, &h, &marks->at[i]);
    buf_printf(to,
               "<svg class=\"peaks\" viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" "
               "role=\"img\" aria-label=\"Identities by their peak; the largest is ",
               WIDTH, HEIGHT);
    html_count(to, row->peaks->largest);
    buf_text(to, ", the limit is ");
    html_count(to, marks->at[0].value);
    buf_text(to, "\">");
    put_bars(to, &h, marks->at[0].value);
    for (size_t i = 0; i < marks->count; i++)
        buf_printf(to, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"0\" y2=\"%d\"/>",
                   WIDTH * place(&h, marks->at[i].value), WIDTH * place(&h, marks->at[i].value),
                   HEIGHT);
    buf_text(to, "</svg>\n");
    put_labels(to, &h);
    put_table(to, &h);
    buf_text(to, "</figure>\n");
}

void plot_peaks(struct buf *to, const struct rule_pair *pair)
{
    const struct report_row *const a = pair->of[0], *const b = pair->of[1];
    struct marks marks = { .count = 0 };

    if (a && b && memcmp(a->peaks, b->peaks, sizeof *a->peaks) == 0) {
        if (a->row->rule->by_count > 0) {
            add_marks(&marks, a, 1);
            add_marks(&marks, b, 2);
            put_histogram(to, a, &marks);
        }
        return;
    }
    for (int i = 0; i < 2; i++)
        if (pair->of[i] && pair->of[i]->row->rule->by_count > 0) {
            marks.count = 0;
            add_marks(&marks, pair->of[i], a && b ? i + 1 : 0);
            if (pair->suggested_count > 0 && pair->suggested->is_found)
                marks.at[marks.count++] = (struct mark){ pair->suggested->passes.value, "suggested",
                                                         0 };
            put_histogram(to, pair->of[i], &marks);
        }
}
