/* top_act.c - what an operator does to a row: a form that asks once, the request, and the way back. */
#include "cli/watch/top_act.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "cli/override/override_command.h"
#include "cli/told.h"
#include "cli/watch/top_subject.h"

static const struct {
    char key;
    const char *word;
} actions[TOP_ACTION_COUNT] = {
#define X(name, key, word) [TOP_ACTION_##name] = { key, word },
    TOP_ACTIONS(X)
#undef X
};

char top_action_key(enum top_action a)
{
    return actions[a].key;
}

const char *top_action_word(enum top_action a)
{
    return actions[a].word;
}

/* What holds for an identity is set in views of identities; of a tag alone nothing can be given back:
 * a tag is not what is counted by. */
bool top_action_is_offered(enum top_action a, enum top_view view, const struct top_table_row *row,
                           const struct top_data *d)
{
    if (!row || !row->item || !top_data_may(d, "admin"))
        return false;
    switch (a) {
    case TOP_ACTION_BLOCK:
    case TOP_ACTION_EXEMPT:
    case TOP_ACTION_LIMIT:
        return top_subject_is_identity(view, row);
    case TOP_ACTION_PLAN:
        return top_subject_is_identity(view, row) && top_subject_plans(view, row, d, NULL) > 0;
    case TOP_ACTION_RESET:
    case TOP_ACTION_REFUND:
        return view == TOP_VIEW_LOOKUP && told_int(row->item, "used") > 0;
    case TOP_ACTION_MODE:
        return view == TOP_VIEW_POLICIES;
    case TOP_ACTION_REMOVE:
        return view == TOP_VIEW_IN_FORCE;
    case TOP_ACTION_COUNT:
        break;
    }
    return false;
}

void top_act_init(struct top_act *act)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });

    *act = (struct top_act){ .used = -1 };
    buf_init(&act->subject, &usual);
    buf_init(&act->path, &usual);
    buf_init(&act->undo_path, &usual);
    buf_init(&act->undo_body, &usual);
}

void top_act_done(struct top_act *act)
{
    buf_done(&act->subject);
    buf_done(&act->path);
    buf_done(&act->undo_path);
    buf_done(&act->undo_body);
}

/* ---- asking --------------------------------------------------------------------------------- */

static void ask_end(struct top_form *form, const char *usual)
{
    top_form_add(form, "For", usual, "15m, 4h, 7d, 2026-11-20 18:00, or nothing for no end");
}

void top_act_ask(struct top_act *act, enum top_action action, enum top_view view,
                 const struct top_table_row *row, const struct top_data *d, struct top_form *form)
{
    static const char *const modes[] = { "shadow", "off", "enforce", "file" };
    const char *plans[TOP_CHOICES];

    *form = (struct top_form){ .count = 0 };
    act->action = action;
    top_subject_read(act, view, row, d);
    snprintf(form->title, sizeof form->title, "%s: %s", act->called, actions[action].word);
    switch (action) {
    case TOP_ACTION_BLOCK:
        ask_end(form, "1h");
        break;
    case TOP_ACTION_EXEMPT:
        ask_end(form, "1d");
        break;
    case TOP_ACTION_LIMIT:
        top_form_add(form, "Limit", "", "instead of the limit of the file");
        ask_end(form, "1d");
        break;
    case TOP_ACTION_PLAN:
        top_form_choose(form, "Plan", plans, top_subject_plans(view, row, d, plans));
        ask_end(form, "1d");
        break;
    case TOP_ACTION_RESET:
        snprintf(form->title, sizeof form->title, "%s: forget what is counted%s", act->called,
                 act->used > 0 ? "" : "; this cannot be undone");
        break;
    case TOP_ACTION_REFUND:
        top_form_add(form, "Amount", "1", "to give back");
        break;
    case TOP_ACTION_MODE:
        top_form_choose(form, "Mode", modes, sizeof modes / sizeof *modes);
        ask_end(form, "1h");
        break;
    case TOP_ACTION_REMOVE:
    case TOP_ACTION_COUNT:
        break;
    }
    top_form_add(form, "Reason", "", "for the audit log");
}

/* ---- doing ---------------------------------------------------------------------------------- */

/* A day or a minute in the zone of the terminal, or how long from now. */
static void add_end(struct json *j, const char *text)
{
    static const char *const formats[] = { "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M", "%Y-%m-%d" };

    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        struct tm tm = { .tm_isdst = -1 };
        const char *end = strptime(text, formats[i], &tm);

        if (end && !*end) {
            json_int(j, "expires_ms", (int64_t)mktime(&tm) * 1000);
            return;
        }
    }
    if (*text)
        json_text(j, "for", text);
}

/* A number that is none is rejected by the server, which says what is right. */
static void add_number(struct json *j, const char *name, const char *text)
{
    char *end;
    const long long n = strtoll(text, &end, 10);

    if (*text && !*end)
        json_int(j, name, n);
    else
        json_text(j, name, text);
}

static void open_body(struct json *j, const char *reason)
{
    j->to->len = 0;
    json_open(j, NULL, '{');
    json_text(j, "who", override_command_user());
    if (*reason)
        json_text(j, "reason", reason);
}

static void add_subject(struct json *j, const struct top_act *act)
{
    if (act->subject.len > 0) {
        buf_byte(j->to, ',');
        buf_add(j->to, buf_span(&act->subject));
    }
}

/* Returns the method. */
static const char *write_request(struct top_act *act, const struct top_form *form, struct json *j)
{
    const char *mode = top_form_value(form, "Mode"), *method = "PUT";

    open_body(j, top_form_value(form, "Reason"));
    add_subject(j, act);
    if (act->action != TOP_ACTION_REMOVE && strcmp(mode, "file") != 0)
        add_end(j, top_form_value(form, "For"));
    switch (act->action) {
    case TOP_ACTION_BLOCK:
    case TOP_ACTION_EXEMPT:
        json_text(j, "effect", actions[act->action].word);
        break;
    case TOP_ACTION_LIMIT:
        add_number(j, "limit", top_form_value(form, "Limit"));
        break;
    case TOP_ACTION_PLAN:
        json_text(j, "plan", top_form_value(form, "Plan"));
        break;
    case TOP_ACTION_RESET:
    case TOP_ACTION_REFUND:
        method = "POST";
        json_text(j, "effect", actions[act->action].word);
        if (act->action == TOP_ACTION_REFUND)
            add_number(j, "cost", top_form_value(form, "Amount"));
        break;
    case TOP_ACTION_MODE:
        method = strcmp(mode, "file") == 0 ? "DELETE" : "POST";
        if (strcmp(mode, "file") != 0)
            json_text(j, "mode", mode);
        break;
    case TOP_ACTION_REMOVE:
        method = "DELETE";
        break;
    case TOP_ACTION_COUNT:
        break;
    }
    json_close(j, '}');
    return method;
}

/* What was counted is counted again; a change of the ledger is taken back by its id. */
static void keep_undo(struct top_act *act, const struct top_form *form, int64_t id)
{
    const bool gives_back = act->action == TOP_ACTION_REFUND,
               resets = act->action == TOP_ACTION_RESET;
    const int64_t again = gives_back ? strtoll(top_form_value(form, "Amount"), NULL, 10)
                                     : act->used;
    struct json j = { .to = &act->undo_body };

    act->undo_path.len = act->undo_body.len = 0;
    snprintf(act->undone, sizeof act->undone, "%s: %s", act->called, actions[act->action].word);
    if (resets && again <= 0)
        return;
    open_body(&j, "");
    if (gives_back || resets) {
        add_subject(&j, act);
        json_text(&j, "effect", "charge");
        json_int(&j, "cost", again);
        buf_text(&act->undo_path, "/v1/corrections");
    } else {
        json_int(&j, "id", id);
        buf_text(&act->undo_path, "/v1/undo");
    }
    json_close(&j, '}');
}

static bool call(struct top_data *d, const char *method, const char *path, const struct buf *body,
                 char said[256])
{
    if (body->failed || !path) {
        snprintf(said, 256, "out of memory");
        return false;
    }
    if (!client_call(&d->client, method, path, buf_span(body), &d->diag)) {
        snprintf(said, 256, "%.255s", d->diag.text);
        return false;
    }
    if (d->client.reply.status == 200)
        return true;
    client_explain(&d->client, &d->diag);
    snprintf(said, 256, "%.255s", d->diag.text);
    return false;
}

bool top_act_send(struct top_act *act, const struct top_form *form, struct top_data *d,
                  char said[256])
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    const char *method;
    struct buf body;
    struct json j = { .to = &body };
    json_t *made;
    bool is_done;

    buf_init(&body, &usual);
    method = write_request(act, form, &j);
    is_done = call(d, method, act->path.at, &body, said);
    buf_done(&body);
    if (!is_done)
        return false;
    made = told_read(d->client.reply.body);
    keep_undo(act, form, told_int(made, "id"));
    snprintf(said, 256, "done: %s%s", act->undone,
             act->undo_path.len > 0 ? " (u takes it back)" : "");
    json_decref(made);
    return true;
}

bool top_act_undo(struct top_act *act, int64_t id, struct top_data *d, char said[256])
{
    struct json j = { .to = &act->undo_body };

    if (id > 0) {
        act->undo_path.len = 0;
        buf_text(&act->undo_path, "/v1/undo");
        open_body(&j, "");
        json_int(&j, "id", id);
        json_close(&j, '}');
        snprintf(act->undone, sizeof act->undone, "change %" PRId64, id);
    }
    if (act->undo_path.len == 0) {
        snprintf(said, 256, "nothing to take back: select a change in the view Changes");
        return false;
    }
    if (!call(d, "POST", act->undo_path.at, &act->undo_body, said))
        return false;
    snprintf(said, 256, "taken back: %s", act->undone);
    act->undo_path.len = act->undo_body.len = 0;
    return true;
}
