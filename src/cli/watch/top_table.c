/* top_table.c - rows of a view: sorted by a column, filtered by a text, drawn with one selected. */
#include "cli/watch/top_table.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { LEAST_FLEXIBLE = 12, MOST_FLEXIBLE = 60 };

void top_table_init(struct top_table *t, const struct top_column *columns, const char *none)
{
    *t = (struct top_table){ .columns = columns, .none = none };
}

void top_table_done(struct top_table *t)
{
    free(t->rows);
    *t = (struct top_table){ .rows = NULL };
}

struct top_table_row *top_table_add(struct top_table *t)
{
    if (t->count == t->room) {
        const size_t room = t->room ? 2 * t->room : 32;
        struct top_table_row *more = realloc(t->rows, room * sizeof *more);

        if (!more) {
            t->failed = true;
            return NULL;
        }
        t->rows = more;
        t->room = room;
    }
    t->rows[t->count] = (struct top_table_row){ .order = t->count };
    return &t->rows[t->count++];
}

void top_cell_text(struct top_table_row *r, size_t column, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(r->cells[column].text, TOP_CELL, format, args);
    va_end(args);
}

void top_cell_count(struct top_table_row *r, size_t column, int64_t n)
{
    top_cell_text(r, column, "%" PRId64, n);
    r->cells[column].number = (double)n;
}

void top_cell_rate(struct top_table_row *r, size_t column, double per_second, enum colour as)
{
    top_cell_text(r, column, "%s", top_rate(per_second).text);
    r->cells[column].number = per_second;
    r->cells[column].colour = per_second > 0 ? as : PLAIN;
}

size_t top_table_columns(const struct top_table *t)
{
    size_t n = 0;

    while (n < TOP_COLUMNS && t->columns[n].title)
        n++;
    return n;
}

/* ---- order ---------------------------------------------------------------------------------- */

/* A row with its parts. */
struct group {
    const struct top_table_row *rows;
    size_t count;
    int column, sign;
    bool is_number;
};

static int compare_groups(const void *a, const void *b)
{
    const struct group *x = a, *y = b;
    const struct top_cell *left, *right;
    int order = 0;

    if (x->column >= 0) {
        left = &x->rows->cells[x->column];
        right = &y->rows->cells[x->column];
        order = x->is_number ? (left->number < right->number) - (left->number > right->number)
                             : strcasecmp(left->text, right->text);
    }
    if (order == 0)
        return x->rows->order < y->rows->order ? -1 : 1;
    return x->sign * order;
}

static size_t group_rows(const struct top_table *t, struct group *into)
{
    size_t n = 0;

    for (size_t i = 0; i < t->count; i++)
        if (n > 0 && t->rows[i].is_part)
            into[n - 1].count++;
        else
            into[n++] = (struct group){ .rows = &t->rows[i], .count = 1 };
    return n;
}

void top_table_sort(struct top_table *t, int column, bool is_turned)
{
    struct group *groups = calloc(t->count + 1, sizeof *groups);
    struct top_table_row *sorted = calloc(t->count + 1, sizeof *sorted);
    size_t n, done = 0;

    if (!groups || !sorted) {
        t->failed = true;
        free(groups);
        free(sorted);
        return;
    }
    n = group_rows(t, groups);
    for (size_t i = 0; i < n; i++) {
        groups[i].column = column;
        groups[i].sign = is_turned ? -1 : 1;
        groups[i].is_number = column >= 0 && t->columns[column].is_number;
    }
    qsort(groups, n, sizeof *groups, compare_groups);
    for (size_t i = 0; i < n; i++) {
        memcpy(sorted + done, groups[i].rows, groups[i].count * sizeof *sorted);
        done += groups[i].count;
    }
    free(groups);
    free(t->rows);
    t->rows = sorted;
    t->room = t->count + 1;
}

static bool has_text(const struct top_table_row *r, size_t columns, const char *text)
{
    for (size_t i = 0; i < columns; i++)
        if (strcasestr(r->cells[i].text, text))
            return true;
    return strcasestr(r->id, text) != NULL;
}

void top_table_filter(struct top_table *t, const char *text)
{
    const size_t columns = top_table_columns(t);
    size_t kept = 0, end;

    for (size_t i = 0; i < t->count; i = end) {
        bool is_wanted = has_text(&t->rows[i], columns, text);

        for (end = i + 1; end < t->count && t->rows[end].is_part; end++)
            is_wanted = is_wanted || has_text(&t->rows[end], columns, text);
        for (size_t k = i; is_wanted && k < end; k++)
            t->rows[kept++] = t->rows[k];
    }
    t->count = kept;
}

/* ---- drawing -------------------------------------------------------------------------------- */

static int width_of(const int widths[TOP_COLUMNS])
{
    int used = -1;

    for (size_t i = 0; i < TOP_COLUMNS; i++)
        used += widths[i] ? widths[i] + 1 : 0;
    return used;
}

/* The column that is missed least; 0: all are needed. */
static size_t least_needed(const struct top_table *t, const int widths[TOP_COLUMNS])
{
    size_t found = 0;

    for (size_t i = 1; i < top_table_columns(t); i++)
        if (widths[i] && t->columns[i].rank > (found ? t->columns[found].rank : 0))
            found = i;
    return found;
}

/* How wide each column is; 0: there is no room for it. */
static void fit(const struct top_table *t, int width, int widths[TOP_COLUMNS])
{
    const size_t n = top_table_columns(t);
    size_t flexible = 0;

    for (size_t i = 0; i < n; i++) {
        widths[i] = t->columns[i].width   ? t->columns[i].width
                    : t->columns[i].least ? t->columns[i].least
                                          : LEAST_FLEXIBLE;
        flexible = t->columns[i].width ? flexible : i;
    }
    for (size_t i = 0; i < n && width_of(widths) > width; i++)
        if (t->columns[i].least)
            widths[i] = t->columns[i].least;
    while (width_of(widths) > width && least_needed(t, widths))
        widths[least_needed(t, widths)] = 0;
    if (width_of(widths) < width)
        widths[flexible] += width - width_of(widths);
    if (widths[flexible] > MOST_FLEXIBLE && flexible + 1 < n)
        widths[flexible] = MOST_FLEXIBLE;
}

static void draw_titles(const struct top_table *t, const struct top_table_place *p,
                        const int widths[TOP_COLUMNS], struct buf *out)
{
    struct top_line l = { out, p->width };
    const size_t n = top_table_columns(t);

    buf_text(out, colour(BOLD));
    for (size_t i = 0; i < n; i++) {
        const bool is_sorted = (int)i == p->sort;
        char title[64];

        if (widths[i] == 0)
            continue;
        snprintf(title, sizeof title, "%s%s", t->columns[i].title,
                 !is_sorted                                 ? ""
                 : t->columns[i].is_number == !p->is_turned ? " v"
                                                            : " ^");
        top_put_cell(&l, title, widths[i], t->columns[i].is_number);
        top_put(&l, " ");
    }
    buf_text(out, colour(PLAIN));
    buf_text(out, p->line_end);
}

static void draw_row(const struct top_table *t, const struct top_table_row *r,
                     const struct top_table_place *p, const int widths[TOP_COLUMNS],
                     bool is_selected, struct buf *out)
{
    struct top_line l = { out, p->width };
    const size_t n = top_table_columns(t);

    if (is_selected) /* not a colour: it is there without them, too */
        buf_text(out, "\033[7m");
    for (size_t i = 0; i < n; i++) {
        const struct top_cell *cell = &r->cells[i];
        const bool is_coloured = cell->colour != PLAIN && !is_selected;

        if (widths[i] == 0)
            continue;
        if (is_coloured)
            buf_text(out, colour(cell->colour));
        top_put_cell(&l, cell->text, widths[i], t->columns[i].is_number);
        if (is_coloured)
            buf_text(out, colour(PLAIN));
        top_put(&l, " ");
    }
    if (is_selected) {
        top_put_cell(&l, "", l.room, false);
        buf_text(out, "\033[0m");
    }
    buf_text(out, p->line_end);
}

void top_table_draw(const struct top_table *t, const struct top_table_place *p, struct buf *out)
{
    int widths[TOP_COLUMNS] = { 0 };

    fit(t, p->width, widths);
    draw_titles(t, p, widths, out);
    for (size_t i = p->first; i < t->count && i < p->first + p->shown; i++)
        draw_row(t, &t->rows[i], p, widths, i == p->selected, out);
    if (t->count == 0) {
        struct top_line l = { out, p->width };

        top_put(&l, "%s", t->none);
        buf_text(out, p->line_end);
    }
}
