/* top_live.c - `weir top` on a terminal: views, keys, and what an operator does from there. */
#include "cli/watch/top_live.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "cli/terminal.h"
#include "cli/told.h"
#include "cli/watch/top_frame.h"

/* Of the time at most a 20th is spent on asking; a server that is away is asked each 2 seconds. */
enum { PART = 20, SLOWEST_MS = 30 * 1000, AWAY_MS = 2000, PATIENCE_MS = 3000 };

enum { LOOKING_UP = -1 }; /* what the form asks for, if it is no action */

struct live {
    struct top_data data;
    struct top_table table;
    struct top_frame frame;
    struct top_form form;
    struct top_act act;
    char filter[128], said[256], selected_id[TOP_ROW_ID];
    int64_t interval_ms, next_ms;
    int asks; /* an action, or LOOKING_UP */
    bool is_late, is_away, wants_out;
};

/* ---- looking --------------------------------------------------------------------------------- */

static void sort_usually(struct live *l)
{
    l->frame.sort = l->frame.view == TOP_VIEW_DENIED ? 2 : -1;
    l->frame.is_turned = false;
}

/* The selection stays on what it was on, wherever that has moved to. */
static void fill(struct live *l)
{
    const size_t before = l->frame.selected;

    top_table_done(&l->table);
    top_view_fill(l->frame.view, &l->data, &l->table);
    if (l->filter[0])
        top_table_filter(&l->table, l->filter);
    top_table_sort(&l->table, l->frame.sort, l->frame.is_turned);
    for (size_t i = 0; i < l->table.count; i++)
        if (strcmp(l->table.rows[i].id, l->selected_id) == 0) {
            l->frame.selected = i;
            return;
        }
    l->frame.selected = before < l->table.count ? before : l->table.count ? l->table.count - 1 : 0;
}

static bool look(struct live *l)
{
    const int64_t began = clock_monotonic_ms();
    int64_t took, wait;

    l->is_away = !top_data_look(&l->data, top_view_docs(l->frame.view), l->is_late);
    l->is_late = l->is_away; /* what was not asked for is due */
    l->frame.problem = l->is_away ? l->data.diag.text : NULL;
    took = clock_monotonic_ms() - began;
    wait = took * PART > l->interval_ms ? took * PART : l->interval_ms;
    if (wait > SLOWEST_MS && wait > l->interval_ms)
        wait = l->interval_ms > SLOWEST_MS ? l->interval_ms : SLOWEST_MS;
    if (l->is_away && wait > AWAY_MS)
        wait = AWAY_MS;
    l->next_ms = clock_monotonic_ms() + wait;
    fill(l);
    return !l->is_away;
}

static void show(struct live *l, enum top_view view)
{
    if (view != l->frame.view) {
        l->filter[0] = l->selected_id[0] = '\0';
        l->frame.selected = l->frame.first = 0;
    }
    l->frame.view = view;
    l->frame.shows_help = false;
    sort_usually(l);
    l->is_late = true;
    look(l);
}

static void draw(struct live *l)
{
    struct top_frame *f = &l->frame;
    struct buf out;
    size_t rows;

    f->size = top_terminal_size();
    f->said = l->said;
    f->filter = l->filter;
    rows = top_frame_rows(f, &l->data);
    if (f->selected < f->first)
        f->first = f->selected;
    if (f->selected >= f->first + rows)
        f->first = f->selected - rows + 1;
    if (f->first + rows > l->table.count) /* the last rows are at the bottom, and none is wasted */
        f->first = l->table.count > rows ? l->table.count - rows : 0;
    buf_init(&out, &l->data.stats_body.allocator);
    top_frame_draw(f, &l->data, &l->table, &out);
    if (!out.failed)
        top_terminal_write(buf_span(&out));
    buf_done(&out);
}

/* ---- moving ---------------------------------------------------------------------------------- */

static void select_row(struct live *l, int64_t at)
{
    const int64_t last = (int64_t)l->table.count - 1;

    at = at > last ? last : at;
    at = at < 0 ? 0 : at;
    l->frame.selected = (size_t)at;
    snprintf(l->selected_id, sizeof l->selected_id, "%s",
             l->table.count > 0 ? l->table.rows[at].id : "");
}

/* Past the last column comes the order of the server, and then the first column. */
static void sort_by(struct live *l, int step)
{
    const int columns = (int)top_table_columns(&l->table);

    l->frame.sort += step;
    if (l->frame.sort >= columns)
        l->frame.sort = -1;
    if (l->frame.sort < -1)
        l->frame.sort = columns - 1;
    l->frame.is_turned = false;
    fill(l);
}

static bool move(struct live *l, int key)
{
    const int64_t at = (int64_t)l->frame.selected,
                  page = (int64_t)top_frame_rows(&l->frame, &l->data);

    if (key == TOP_KEY_UP || key == 'k')
        select_row(l, at - 1);
    else if (key == TOP_KEY_DOWN || key == 'j')
        select_row(l, at + 1);
    else if (key == TOP_KEY_PAGE_UP)
        select_row(l, at - page);
    else if (key == TOP_KEY_PAGE_DOWN)
        select_row(l, at + page);
    else if (key == TOP_KEY_HOME || key == 'g')
        select_row(l, 0);
    else if (key == TOP_KEY_END || key == 'G')
        select_row(l, (int64_t)l->table.count);
    else
        return false;
    return true;
}

static bool change_view(struct live *l, int key)
{
    const int now = (int)l->frame.view;

    if (key >= '1' && key < '1' + TOP_VIEWS)
        show(l, (enum top_view)(key - '1'));
    else if (key == TOP_KEY_TAB || key == TOP_KEY_RIGHT)
        show(l, (enum top_view)((now + 1) % TOP_VIEWS));
    else if (key == TOP_KEY_BACK_TAB || key == TOP_KEY_LEFT)
        show(l, (enum top_view)((now + TOP_VIEWS - 1) % TOP_VIEWS));
    else
        return false;
    return true;
}

static void type_filter(struct live *l, int key)
{
    const size_t len = strlen(l->filter);

    if (key == TOP_KEY_ENTER || key == TOP_KEY_ESCAPE)
        l->frame.is_filtering = false;
    if (key == TOP_KEY_ESCAPE)
        l->filter[0] = '\0';
    else if (key == TOP_KEY_BACKSPACE && len > 0)
        l->filter[len - 1] = '\0';
    else if (key >= ' ' && key < TOP_KEY_BACKSPACE && len + 1 < sizeof l->filter) {
        l->filter[len] = (char)key;
        l->filter[len + 1] = '\0';
    }
    fill(l);
}

/* ---- acting ---------------------------------------------------------------------------------- */

static const struct top_table_row *selected_row(const struct live *l)
{
    return l->frame.selected < l->table.count ? &l->table.rows[l->frame.selected] : NULL;
}

static void ask_for_value(struct live *l)
{
    l->form = (struct top_form){ .count = 0 };
    snprintf(l->form.title, sizeof l->form.title, "Look up a value in all policies");
    top_form_add(&l->form, "Value", "", "203.0.113.7, or ip=203.0.113.7 user=ann");
    l->asks = LOOKING_UP;
    l->frame.form = &l->form;
}

/* One value, or attributes: words with a '=' in each. */
static void write_lookup(const char *text, struct buf *into)
{
    struct json j = { .to = into };
    size_t words = 0, pairs = 0;

    into->len = 0;
    for (const char *at = text + strspn(text, " "); *at; words++) {
        const size_t len = strcspn(at, " ");

        pairs += memchr(at, '=', len) != NULL;
        at += len;
        at += strspn(at, " ");
    }
    json_open(&j, NULL, '{');
    if (words > 0 && words == pairs) {
        json_open(&j, "attributes", '{');
        for (const char *at = text + strspn(text, " "); *at;) {
            const size_t len = strcspn(at, " "), name = strcspn(at, "=");
            char attribute[WEIR_MAX_NAME + 1];

            snprintf(attribute, sizeof attribute, "%.*s", (int)name, at);
            json_span(&j, attribute, (struct span){ at + name + 1, len - name - 1 });
            at += len;
            at += strspn(at, " ");
        }
        json_close(&j, '}');
    } else {
        json_text(&j, "key", text);
    }
    json_close(&j, '}');
}

/* A form that was refused stays open, so that it can be corrected. */
static void send_form(struct live *l)
{
    if (l->asks == LOOKING_UP) {
        l->frame.form = NULL;
        write_lookup(top_form_value(&l->form, "Value"), &l->data.lookup);
        show(l, TOP_VIEW_LOOKUP);
        if (l->is_away && l->data.client.reply.status >= 400) { /* the value was refused */
            snprintf(l->said, sizeof l->said, "%.255s", l->data.diag.text);
            l->frame.is_bad = true;
            l->data.lookup.len = 0;
            look(l);
        }
        return;
    }
    l->frame.is_bad = !top_act_send(&l->act, &l->form, &l->data, l->said);
    if (l->frame.is_bad) {
        snprintf(l->form.title, sizeof l->form.title, "%s", l->said);
        return;
    }
    l->frame.form = NULL;
    l->is_late = true;
    look(l);
}

static void undo(struct live *l)
{
    const struct top_table_row *row = selected_row(l);
    const int64_t id = l->frame.view == TOP_VIEW_CHANGES && row ? told_int(row->item, "id") : 0;

    l->frame.is_bad = !top_act_undo(&l->act, id, &l->data, l->said);
    l->is_late = true;
    look(l);
}

static void begin_action(struct live *l, int key)
{
    const struct top_table_row *row = selected_row(l);

    for (int i = 0; i < TOP_ACTION_COUNT; i++) {
        if (key != top_action_key((enum top_action)i))
            continue;
        if (!top_action_is_offered((enum top_action)i, l->frame.view, row, &l->data)) {
            snprintf(l->said, sizeof l->said, "%s%s", top_action_word((enum top_action)i),
                     top_data_may(&l->data, "admin") ? ": not here"
                                                     : ": a token with scope admin is needed");
            l->frame.is_bad = true;
            return;
        }
        top_act_ask(&l->act, (enum top_action)i, l->frame.view, row, &l->data, &l->form);
        l->asks = i;
        l->frame.form = &l->form;
        return;
    }
}

/* From a policy to those whom it denies. */
static void go_into(struct live *l)
{
    const struct top_table_row *row = selected_row(l);
    char policy[sizeof l->filter];

    if (l->frame.view != TOP_VIEW_POLICIES || !row)
        return;
    snprintf(policy, sizeof policy, "%.*s/", (int)strcspn(row->id, "/"), row->id);
    show(l, TOP_VIEW_DENIED);
    snprintf(l->filter, sizeof l->filter, "%s", policy);
    fill(l);
}

/* ---------------------------------------------------------------------------------------------- */

static void use_form(struct live *l, int key)
{
    switch (top_form_key(&l->form, key)) {
    case TOP_FORM_OPEN:
        break;
    case TOP_FORM_SENT:
        send_form(l);
        break;
    case TOP_FORM_CANCELLED:
        l->frame.form = NULL;
        break;
    }
}

static void use_key(struct live *l, int key)
{
    const bool is_operator = top_data_may(&l->data, "admin");

    if (l->frame.form) {
        use_form(l, key);
        return;
    }
    if (l->frame.is_filtering) {
        type_filter(l, key);
        return;
    }
    l->said[0] = '\0';
    l->frame.is_bad = false;
    if (key == 'q' || key == 'Q' || key == '\004')
        l->wants_out = true;
    else if (key == '?' || key == TOP_KEY_F1 || key == 'h')
        l->frame.shows_help = !l->frame.shows_help;
    else if (key == TOP_KEY_ESCAPE) {
        l->frame.shows_help = false;
        l->filter[0] = '\0';
        fill(l);
    } else if (key == '/') {
        l->frame.is_filtering = true;
        l->filter[0] = '\0';
    } else if (key == '>' || key == '<')
        sort_by(l, key == '>' ? 1 : -1);
    else if (key == 'i') {
        l->frame.is_turned = !l->frame.is_turned;
        fill(l);
    } else if (key == TOP_KEY_ENTER)
        go_into(l);
    else if (key == 'L' && is_operator)
        ask_for_value(l);
    else if (key == 'u' && is_operator)
        undo(l);
    else if (!move(l, key) && !change_view(l, key))
        begin_action(l, key);
}

static void run_until_left(struct live *l, int64_t looks)
{
    for (int64_t looked = 1; !l->wants_out && !top_terminal_is_ended();) {
        int key;

        draw(l);
        key = top_terminal_key(l->next_ms);
        if (key == TOP_KEY_GONE)
            break;
        if (key != TOP_KEY_NONE)
            use_key(l, key);
        else if (clock_monotonic_ms() >= l->next_ms) {
            if (looks > 0 && looked++ == looks)
                break;
            look(l);
        }
    }
}

int top_live_run(struct client *client, int64_t interval_ms, int64_t looks)
{
    struct live l = { .interval_ms = interval_ms,
                      .is_late = true,
                      .frame = { .said = "", .filter = "" } };
    int status = STATUS_YES;

    top_data_init(&l.data);
    top_act_init(&l.act);
    l.data.client = *client;
    l.data.client.timeout_ms = PATIENCE_MS; /* keys wait as long */
    sort_usually(&l);
    if (!look(&l) || !top_terminal_take(&l.data.diag)) {
        status = trouble("%s", l.data.diag.text);
    } else {
        run_until_left(&l, looks);
        top_terminal_give_back();
        top_terminal_obey();
    }
    top_table_done(&l.table);
    top_act_done(&l.act);
    client_close(&l.data.client);
    top_data_done(&l.data);
    return status;
}
