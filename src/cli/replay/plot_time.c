/* plot_time.c - requests and denials over time, as bars. */
#include <stdio.h>

#include "cli/replay/html.h"
#include "cli/replay/plot.h"
#include "cli/terminal.h"

enum { WIDTH = 1000, HEIGHT = 100, LEAST_HEIGHT = 2, MOST_TICKS = 4 };

static const int64_t SECOND = 1000, MINUTE = 60000, HOUR = 3600000, DAY = 86400000;

/* The time that is drawn. */
struct axis {
    int64_t from, to;
};

struct panel {
    const struct timeline *timeline;
    const char *class, *what;
    bool denied;
    int set; /* 0: there is only one; else 1 or 2 */
};

static size_t points_of(const struct timeline *t)
{
    size_t n = TIMELINE_POINTS;

    while (n > 0 && t->points[n - 1].requests == 0)
        n--;
    return n;
}

static size_t points_in_bar(const struct timeline *t)
{
    return (points_of(t) + PLOT_MOST_BARS - 1) / PLOT_MOST_BARS;
}

static struct timeline_point bar_at(const struct timeline *t, size_t first, size_t n)
{
    struct timeline_point sum = { 0, 0 };

    for (size_t i = first; i < first + n && i < TIMELINE_POINTS; i++) {
        sum.requests += t->points[i].requests;
        sum.denied += t->points[i].denied;
    }
    return sum;
}

static int64_t highest(const struct timeline *t, bool denied)
{
    const size_t points = points_of(t), step = points_in_bar(t);
    int64_t most = 0;

    for (size_t i = 0; i < points; i += step) {
        const struct timeline_point bar = bar_at(t, i, step);
        const int64_t n = denied ? bar.denied : bar.requests;

        most = n > most ? n : most;
    }
    return most;
}

static double place(const struct axis *a, int64_t time)
{
    return (double)(time - a->from) / (double)(a->to - a->from);
}

static const char *bar_format(int64_t step)
{
    return step < MINUTE ? "%Y-%m-%d %H:%M:%S" : "%Y-%m-%d %H:%M";
}

static void put_bars(struct buf *to, const struct panel *p, const struct axis *axis, int64_t most)
{
    const struct timeline *const t = p->timeline;
    const size_t points = points_of(t), step = points_in_bar(t);

    for (size_t i = 0; i < points; i += step) {
        const struct timeline_point bar = bar_at(t, i, step);
        const int64_t n = p->denied ? bar.denied : bar.requests;
        const int64_t at = t->from + (int64_t)i * t->width;
        const double x = WIDTH * place(axis, at);
        const double width = WIDTH * place(axis, at + (int64_t)step * t->width) - x;
        const double height = (double)HEIGHT * (double)n / (double)most;

        if (n == 0)
            continue;
        buf_printf(to, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"><title>%s: ", x,
                   HEIGHT - (height < LEAST_HEIGHT ? LEAST_HEIGHT : height), width * 0.86,
                   height < LEAST_HEIGHT ? LEAST_HEIGHT : height,
                   moment_text(at, bar_format(t->width)).text);
        html_count(to, bar.requests);
        buf_text(to, " requests, ");
        html_count(to, bar.denied);
        buf_text(to, " denied</title></rect>");
    }
}

static void put_panel(struct buf *to, const struct panel *p, const struct axis *axis, int64_t most)
{
    buf_text(to, "<p class=\"scale\">");
    if (p->set)
        buf_printf(to, "<b class=\"set\">%c</b> ", "?AB"[p->set]);
    buf_printf(to, "%s: at most ", p->what);
    html_count(to, highest(p->timeline, p->denied));
    buf_text(to, " in a bar</p>");
    buf_printf(to,
               "<svg class=\"%s\" viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" role=\"img\" "
               "aria-label=\"%s%s over time, at most ",
               p->class, WIDTH, HEIGHT, p->what, p->set ? p->set == 1 ? " by A" : " by B" : "");
    html_count(to, highest(p->timeline, p->denied));
    buf_text(to, " in a bar\">");
    put_bars(to, p, axis, most > 0 ? most : 1);
    buf_text(to, "</svg>\n");
}

/* Round times, a few of them, and none so near to an end that its label would not fit. */
static void put_ticks(struct buf *to, const struct axis *axis)
{
    const int64_t steps[] = {
        SECOND,      5 * SECOND, 10 * SECOND, 30 * SECOND, MINUTE,    5 * MINUTE, 10 * MINUTE,
        30 * MINUTE, HOUR,       3 * HOUR,    6 * HOUR,    12 * HOUR, DAY,        2 * DAY,
        7 * DAY,     14 * DAY,   28 * DAY,    91 * DAY,    365 * DAY, 3650 * DAY,
    };
    const int64_t span = axis->to - axis->from;
    const char *format;
    size_t i = 0;

    while (i + 1 < sizeof steps / sizeof *steps && span / steps[i] > MOST_TICKS)
        i++;
    format = steps[i] < MINUTE ? "%H:%M:%S" : steps[i] < DAY ? "%H:%M" : "%Y-%m-%d";
    buf_text(to, "<div class=\"ticks\">");
    for (int64_t t = (axis->from / steps[i] + 1) * steps[i]; t < axis->to; t += steps[i])
        if (place(axis, t) > 0.1 && place(axis, t) < 0.9)
            buf_printf(to, "<span style=\"left:%.1f%%\">%s</span>", 100 * place(axis, t),
                       moment_text(t, format).text);
    buf_text(to, "</div>\n");
}

static void widen(struct axis *axis, const struct timeline *t)
{
    const int64_t to = t->from + (int64_t)points_of(t) * t->width;

    axis->from = t->from < axis->from ? t->from : axis->from;
    axis->to = to > axis->to ? to : axis->to;
}

void plot_timeline(struct buf *to, const struct rule_pair *pair)
{
    const bool both = pair->of[0] && pair->of[1];
    struct axis axis = { INT64_MAX, INT64_MIN };
    const struct timeline *t = NULL, *first = NULL;
    int64_t most = 0;

    for (size_t i = 0; i < 2; i++)
        if (pair->of[i]) {
            const int64_t denied = highest(&pair->of[i]->row->timeline, true);

            t = &pair->of[i]->row->timeline;
            first = first ? first : t;
            widen(&axis, t);
            most = denied > most ? denied : most;
        }
    if (!first || axis.to <= axis.from)
        return;
    buf_text(to, "<figure><figcaption>Over time, from ");
    html_minute(to, first->first);
    buf_text(to, " to ");
    html_minute(to, first->last);
    buf_printf(to, " UTC; a bar is %s</figcaption>\n",
               duration_text((int64_t)points_in_bar(first) * first->width).text);
    put_panel(to, &(struct panel){ first, "requests", "Requests", false, 0 }, &axis,
              highest(first, false));
    for (int i = 0; i < 2; i++)
        if (pair->of[i])
            put_panel(to,
                      &(struct panel){ &pair->of[i]->row->timeline, "denied", "Denied", true,
                                       both ? i + 1 : 0 },
                      &axis, most);
    put_ticks(to, &axis);
    buf_text(to, "</figure>\n");
}
