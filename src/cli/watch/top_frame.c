/* top_frame.c - the screen of `weir top`: head, views, the table, a form or the help, the keys. */
#include "cli/watch/top_frame.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/told.h"
#include "cli/watch/top_screen.h"

enum { WHOLE_HEAD = 16, ANY_HEAD = 6, HEAD_LINES = 4 }; /* a screen that is less high has less */
enum { NARROW = 32, NAMES_OF_VIEWS = 72 };

#define END "\033[K\r\n"

static const char *const help[] = {
    "1 to 7, Tab       another view",
    "up, down, j, k    select a row; PgUp, PgDn, g, G: further",
    "< >, i            sort by another column; the other way round",
    "/                 only rows with a text; Esc shows all again",
    "Enter             of a policy: whom it denies most",
    "L                 look up a value: what is left of it in every rule",
    "b e l p           block, exempt, other limit, plan of an identity",
    "r f               reset, refund: of a value that was looked up",
    "m                 mode of a policy: enforce, shadow, off",
    "x                 remove what is in force",
    "u                 take back the last change, or the selected one of Changes",
    "q                 quits",
};

static struct top_page page_of(const struct top_frame *f, const struct top_data *d)
{
    return (
        struct top_page){ .server = d->client.url.text, .width = f->size.width, .line_end = END };
}

static int head_lines(const struct top_frame *f, const struct top_data *d)
{
    const int all = HEAD_LINES + (d->stats.unanswered > 0);

    return (f->problem != NULL) + (f->size.height >= WHOLE_HEAD ? all : f->size.height >= ANY_HEAD);
}

static int foot_lines(const struct top_frame *f)
{
    const int lines = f->form ? top_form_lines(f->form) : f->size.height >= ANY_HEAD ? 2 : 1;

    return lines < f->size.height ? lines : f->size.height;
}

size_t top_frame_rows(const struct top_frame *f, const struct top_data *d)
{
    const int rows = f->size.height - head_lines(f, d) - 2 - foot_lines(f);

    return rows > 1 ? (size_t)rows : 1;
}

/* What is behind so many lines is not drawn: it would scroll. */
static void cut_after(struct buf *out, size_t from, int lines)
{
    const char *end = out->at ? out->at + from : NULL;

    for (; end && lines > 0; lines--) {
        end = strchr(end, '\n');
        end = end ? end + 1 : NULL;
    }
    if (end && !out->failed)
        out->len = (size_t)(end - out->at);
}

static void draw_head(const struct top_frame *f, const struct top_data *d, struct buf *out)
{
    const struct top_page page = page_of(f, d);
    const size_t from = out->len;
    struct top_line l = { out, f->size.width };
    char text[300];

    if (f->problem) {
        snprintf(text, sizeof text, "these numbers are old: %.255s", f->problem);
        top_put_coloured(&l, RED, text);
        buf_text(out, END);
    }
    top_screen_head(&page, &d->stats, out);
    cut_after(out, from, head_lines(f, d));
}

static void draw_views(const struct top_frame *f, const struct top_data *d, struct buf *out)
{
    struct top_line l = { out, f->size.width };
    const char *name = told_text(d->token, "name");
    char tab[32];

    for (int i = 0; i < TOP_VIEWS; i++) {
        const bool is_chosen = i == (int)f->view;

        if (f->size.width < NARROW && !is_chosen)
            continue;
        snprintf(tab, sizeof tab, f->size.width < NAMES_OF_VIEWS && !is_chosen ? "%d" : "%d %s",
                 i + 1, top_view_title((enum top_view)i));
        buf_text(out, is_chosen ? "\033[7m" : colour(FAINT));
        top_put(&l, "%s", tab);
        buf_text(out, is_chosen ? "\033[0m" : colour(PLAIN));
        top_put(&l, "  ");
    }
    if (*name && l.room > (int)strlen(name) + 6)
        top_put(&l, "token %s", name);
    buf_text(out, END);
}

static void draw_help(const struct top_frame *f, size_t rows, struct buf *out)
{
    for (size_t i = 0; i < sizeof help / sizeof *help && i <= rows; i++) {
        struct top_line l = { out, f->size.width };

        top_put(&l, "%s", help[i]);
        buf_text(out, END);
    }
}

/* What can be done to the selected row, by this token. */
static void draw_keys(const struct top_frame *f, const struct top_data *d,
                      const struct top_table *table, struct buf *out)
{
    const struct top_table_row *row = f->selected < table->count ? &table->rows[f->selected] : NULL;
    struct top_line l = { out, f->size.width };
    char text[40];

    buf_text(out, colour(FAINT));
    top_put(&l, "q quits  ? help  / filter  < > sort");
    if (top_data_may(d, "admin"))
        top_put(&l, "  L lookup");
    for (int i = 0; i < TOP_ACTION_COUNT; i++)
        if (top_action_is_offered((enum top_action)i, f->view, row, d)) {
            snprintf(text, sizeof text, "  %c %s", top_action_key((enum top_action)i),
                     top_action_word((enum top_action)i));
            top_put(&l, "%s", text);
        }
    if (top_data_may(d, "admin"))
        top_put(&l, "  u undo");
    buf_text(out, colour(PLAIN));
}

static void draw_said(const struct top_frame *f, const struct top_data *d,
                      const struct top_table *table, struct buf *out)
{
    struct top_line l = { out, f->size.width };

    if (f->is_filtering)
        top_put(&l, "filter: %s_   Enter keeps it, Esc shows all", f->filter);
    else if (*f->said)
        top_put_coloured(&l, f->is_bad ? RED : GREEN, f->said);
    else if (*f->filter)
        top_put(&l, "filter: %s (%zu rows; Esc shows all)", f->filter, table->count);
    else if (json_is_true(json_object_get(d->token, "is_needed")) && !top_data_may(d, "admin"))
        top_put(&l, "this token can look and not act: scope admin is needed for that");
    else if (table->count > top_frame_rows(f, d))
        top_put(&l, "row %zu of %zu", f->selected + 1, table->count);
    buf_text(out, END);
}

void top_frame_draw(const struct top_frame *f, const struct top_data *d,
                    const struct top_table *table, struct buf *out)
{
    const size_t rows = top_frame_rows(f, d);
    const struct top_table_place place = { .width = f->size.width,
                                           .first = f->first,
                                           .shown = rows,
                                           .selected = f->selected,
                                           .sort = f->sort,
                                           .is_turned = f->is_turned,
                                           .line_end = END };
    size_t from;

    buf_text(out, "\033[H");
    from = out->len;
    draw_head(f, d, out);
    draw_views(f, d, out);
    if (f->shows_help)
        draw_help(f, rows, out);
    else
        top_table_draw(table, &place, out);
    cut_after(out, from, f->size.height - foot_lines(f));
    buf_text(out, "\033[J");
    buf_printf(out, "\033[%d;1H", f->size.height - foot_lines(f) + 1);
    if (f->form) {
        from = out->len;
        top_form_draw(f->form, f->size.width, END, out);
        cut_after(out, from, foot_lines(f));
        out->len -= sizeof END - 1; /* a newline in the last line would scroll */
    } else {
        if (f->size.height >= ANY_HEAD)
            draw_said(f, d, table, out);
        draw_keys(f, d, table, out);
    }
}
