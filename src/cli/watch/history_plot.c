/* history_plot.c - a history as a small drawing on a terminal: a row of bars for each number. */
#include "cli/watch/history_plot.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/terminal.h"
#include "policy/rate.h"

enum { LEFT = 16, RIGHT = 26, LEAST_COLUMNS = 10, LEVELS = 9 };

static const char *const names[HISTORY_PLOT_COUNTS] = { "allowed", "denied", "shadow-denied",
                                                        "fallback", "charges" };
static const enum colour colours[HISTORY_PLOT_COUNTS] = { GREEN, RED, YELLOW, YELLOW, PLAIN };

/* The time that is drawn, and how it is cut into columns. */
struct frame {
    int64_t since, until, column; /* ms */
    size_t columns;
};

static int64_t int_in(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

/* As many steps to a column as it takes for all to fit. */
static struct frame frame_of(const json_t *root, int width)
{
    const int room = width - LEFT - RIGHT;
    const int64_t most = room > LEAST_COLUMNS ? room : LEAST_COLUMNS;
    const int64_t step = int_in(root, "step_ms");
    struct frame f = { .since = int_in(root, "since_ms"), .until = int_in(root, "until_ms") };
    const int64_t steps = (f.until - f.since + step - 1) / step,
                  together = (steps + most - 1) / most;

    f.column = step * (together > 0 ? together : 1);
    f.columns = (size_t)((f.until - f.since + f.column - 1) / f.column);
    return f;
}

static const char *bar(uint64_t n, uint64_t most)
{
    static const char *const blocks[LEVELS] = { " ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
    static const char *const letters[LEVELS] = { " ", ".", ".", ":", "-", "=", "+", "*", "#" };
    const char *all = getenv("LC_ALL"), *type = getenv("LC_CTYPE"), *lang = getenv("LANG");
    const char *locale = all && *all ? all : type && *type ? type : lang && *lang ? lang : "";
    const bool has_blocks = strstr(locale, "UTF-8") || strstr(locale, "utf8");
    const size_t level = n == 0 ? 0
                                : 1 + (size_t)((double)n / (double)most * ((double)LEVELS - 1.001));

    return has_blocks ? blocks[level] : letters[level];
}

/* "1.2k", in at most five letters. */
static void write_count(uint64_t n, char out[16])
{
    static const char units[] = " kMGTPE";
    double value = (double)n;
    size_t unit = 0;

    while (value >= 999.5) {
        value /= 1000;
        unit++;
    }
    if (unit == 0)
        snprintf(out, 16, "%" PRIu64, n);
    else
        snprintf(out, 16, value < 9.95 ? "%.1f%c" : "%.0f%c", value, units[unit]);
}

static void draw_row(const struct frame *f, const json_t *points, size_t which, uint64_t *columns)
{
    uint64_t most = 0, sum = 0;
    char sum_text[16], most_text[16], column[32];
    const json_t *point;
    size_t i;

    memset(columns, 0, f->columns * sizeof *columns);
    json_array_foreach(points, i, point)
    {
        const int64_t at = json_integer_value(json_array_get(point, 0));
        const uint64_t n = (uint64_t)json_integer_value(json_array_get(point, which + 1));

        if (at < f->since || at >= f->until)
            continue;
        columns[(size_t)((at - f->since) / f->column)] += n;
        sum += n;
    }
    for (i = 0; i < f->columns; i++)
        most = columns[i] > most ? columns[i] : most;
    if (sum == 0 && which > 1)
        return;
    printf("  %-*s%s", LEFT - 2, names[which], colour(colours[which]));
    for (i = 0; i < f->columns; i++)
        fputs(bar(columns[i], most), stdout);
    write_count(sum, sum_text);
    write_count(most, most_text);
    duration_write(f->column, column);
    printf("%s  %s, at most %s in %s\n", colour(PLAIN), sum_text, most_text, column);
}

/* The day or the minute at both ends, in UTC. */
static void draw_axis(const struct frame *f)
{
    const char *format = f->until - f->since > 2 * 24 * 3600 * 1000LL ? "%b %d" : "%b %d %H:%M";
    const time_t ends[2] = { (time_t)(f->since / 1000), (time_t)(f->until / 1000) };
    char texts[2][32];
    struct tm tm;

    for (int i = 0; i < 2; i++) {
        gmtime_r(&ends[i], &tm);
        strftime(texts[i], sizeof texts[i], format, &tm);
    }
    printf("%s%*s%s%*s%s UTC\n", colour(FAINT), LEFT, "", texts[0],
           (int)f->columns > (int)strlen(texts[0]) + (int)strlen(texts[1])
               ? (int)f->columns - (int)strlen(texts[0]) - (int)strlen(texts[1])
               : 2,
           "", texts[1]);
    fputs(colour(PLAIN), stdout);
}

const char *history_rule(const json_t *series)
{
    return json_string_value(json_object_get(series, "rule"));
}

void history_plot(const json_t *root, const json_t *list, int width)
{
    const struct frame f = frame_of(root, width);
    uint64_t *columns = calloc(f.columns + 1, sizeof *columns);
    const json_t *series;
    size_t i;

    if (!columns) {
        trouble("out of memory");
        return;
    }
    json_array_foreach(list, i, series)
    {
        const json_t *points = json_object_get(series, "points");
        const char *rule = history_rule(series);

        printf("%s%s%s%s%s%s\n", i > 0 ? "\n" : "", colour(BOLD),
               json_string_value(json_object_get(series, "policy")), rule ? " / " : "",
               rule ? rule : "", colour(PLAIN));
        for (size_t which = 0; which < HISTORY_PLOT_COUNTS; which++)
            draw_row(&f, points, which, columns);
        draw_axis(&f);
    }
    free(columns);
}
