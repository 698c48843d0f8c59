/* reload_log.c - reloads in the audit log: which instance has loaded other policies, by what, what has
 * changed, and what has failed.
 *
 * An entry compares with what was written last, not with the policies before the reload. So nothing is
 * left out if the store was away for a while. After a start only a checksum is known of what was
 * written last. */
#include "server/reload_log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/diag.h"
#include "server/policies_diff.h"
#include "server/server.h"

enum { HOUR_MS = 3600000, MOST_INSTANCE = 200 };

_Static_assert((int)LEDGER_VIEW_CHECKSUM == (int)POLICIES_CHECKSUM, "the same digits");

struct reload_log {
    struct server *server;
    char instance[MOST_INSTANCE + 1]; /* "web-1 0.0.0.0:7878" */
    bool knows_last_run;              /* the ledger was read */
    char written[POLICIES_CHECKSUM + 1];
    struct buf policies;                 /* … as JSON; empty: they are those of another run */
    char failure[LEDGER_MAX_REASON + 1]; /* that was written last; "": nothing has failed since */

    bool is_due, is_told;
    char who[LEDGER_MAX_WHO + SETTINGS_MOST_TOKEN_NAME + 16], problem[LEDGER_MAX_REASON + 1];
    int64_t hour, count; /* of entries in this hour */
};

/* ---- what is written ------------------------------------------------------------------------ */

/* At most so many bytes, on one line, and no part of a character. */
static void copy_line(char *to, size_t size, const char *text)
{
    size_t len = strlen(text);

    if (len >= size) {
        len = size - 1;
        while (len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80)
            len--;
    }
    for (size_t i = 0; i < len; i++)
        to[i] = text[i];
    to[len] = '\0';
    for (char *at = to; (at = strchr(at, '\n')) != NULL;)
        *at = ' ';
}

static bool may_write(struct reload_log *l, int64_t now)
{
    if (l->hour != now / HOUR_MS) {
        l->hour = now / HOUR_MS;
        l->count = 0;
    }
    return l->count < RELOAD_LOG_MOST;
}

static weir_err append(struct reload_log *l, enum ledger_effect effect, const char *checksum,
                       const char *reason, weir_diag *diag)
{
    weir *w = l->server->weir;
    struct ledger_entry e = {
        .subject = LEDGER_RELOAD,
        .effect = effect,
        .limit = LEDGER_UNCHANGED,
        .burst = LEDGER_UNCHANGED,
        .policy = "",
        .rule = "",
        .by = checksum,
        .value = l->instance,
        .who = l->who,
        .reason = reason,
    };
    weir_err err;

    if (!may_write(l, w->clock(w->clock_ctx)))
        return diag_fail(diag, WEIR_EBUSY, "there are too many: at most %d an hour",
                         RELOAD_LOG_MOST);
    err = ledger_view_append(w->ledger_view, &e, diag);
    if (!err)
        l->count++;
    return err;
}

/* "changed login/default"; or "5 policies", if those before are not known. */
static void tell_change(const struct reload_log *l, const struct buf *now, size_t count, char *out,
                        size_t size)
{
    struct buf text;

    buf_init(&text, &l->policies.allocator);
    if (l->policies.len > 0)
        policies_diff_texts(buf_span(&l->policies), buf_span(now), &text, NULL);
    else
        buf_printf(&text, "%zu polic%s%s", count, count == 1 ? "y" : "ies",
                   l->written[0] ? ", others than in the last run" : "");
    copy_line(out, size, text.failed ? "" : buf_span(&text).at);
    buf_done(&text);
}

static weir_err write_change(struct reload_log *l, struct buf *now, size_t count,
                             const char *checksum, weir_diag *diag)
{
    const struct buf before = l->policies;
    char reason[LEDGER_MAX_REASON + 1];
    weir_err err;

    if (strcmp(checksum, l->written) != 0) {
        tell_change(l, now, count, reason, sizeof reason);
        err = append(l, LEDGER_LOADED, checksum, reason, diag);
        if (err)
            return err;
    }
    memcpy(l->written, checksum, sizeof l->written);
    l->policies = *now;
    *now = before;
    return WEIR_OK;
}

static weir_err write_failure(struct reload_log *l, weir_diag *diag)
{
    weir_err err = WEIR_OK;

    if (l->problem[0] && strcmp(l->problem, l->failure) != 0)
        err = append(l, LEDGER_FAILED, l->written, l->problem, diag);
    if (!err)
        memcpy(l->failure, l->problem, sizeof l->failure);
    return err;
}

/* ---- when ----------------------------------------------------------------------------------- */

/* While the store is away, a reload does not wait for it. */
static weir_err learn_last_run(struct reload_log *l, weir_diag *diag)
{
    struct ledger_view *view = l->server->weir->ledger_view;

    if (ledger_view_counts(view).is_stale)
        return diag_fail(diag, WEIR_EIO, "the store cannot be reached");
    if (!l->knows_last_run)
        ledger_view_loaded(view, l->written);
    l->knows_last_run = true;
    return WEIR_OK;
}

static weir_err write_all(struct reload_log *l, weir_diag *diag)
{
    char checksum[POLICIES_CHECKSUM + 1];
    struct buf now;
    size_t count;
    weir_err err = learn_last_run(l, diag);

    if (err)
        return err;
    buf_init(&now, &l->policies.allocator);
    count = server_list_policies(l->server, &now);
    if (now.failed || !policies_checksum(buf_span(&now), checksum))
        err = diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    if (!err)
        err = write_change(l, &now, count, checksum, diag);
    buf_done(&now);
    return err ? err : write_failure(l, diag);
}

void reload_log_try(struct reload_log *l)
{
    weir_diag diag;
    weir_err err;

    if (!l->is_due)
        return;
    err = write_all(l, &diag);
    if (err && !l->is_told)
        event_log_write(l->server->log, "warn", "audit",
                        "the reload will be in the audit log later: %s", diag.text);
    l->is_due = l->is_told = err;
}

bool reload_log_is_due(const struct reload_log *l)
{
    return l->is_due;
}

void reload_log_note(struct reload_log *l, const char *who, const char *problem)
{
    copy_line(l->who, sizeof l->who, who);
    copy_line(l->problem, sizeof l->problem, problem ? problem : "");
    l->is_due = true;
    reload_log_try(l);
}

/* ---- life ----------------------------------------------------------------------------------- */

static void name_instance(struct reload_log *l)
{
    const struct listeners *listeners = &l->server->listeners;
    char host[65] = "weir";

    gethostname(host, sizeof host - 1);
    snprintf(l->instance, sizeof l->instance, "%s%s%s", host, listeners->count > 0 ? " " : "",
             listeners->count > 0 ? listeners->all[0].name : "");
}

weir_err reload_log_open(struct reload_log **out, struct server *s, weir_diag *diag)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    const struct server_settings *o = &s->settings;
    const bool has_policies = o->config || o->envoy.config;
    struct reload_log *l = calloc(1, sizeof *l);

    if (!l)
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    l->server = s;
    buf_init(&l->policies, &usual);
    name_instance(l);
    if (!has_policies || !(store_directory(o->store) || s->weir->engine.store->ops->is_shared)) {
        server_list_policies(s, &l->policies);
        l->knows_last_run = policies_checksum(buf_span(&l->policies), l->written);
    } else {
        reload_log_note(l, "start of the server", NULL);
    }
    *out = l;
    return WEIR_OK;
}

void reload_log_close(struct reload_log *l)
{
    if (!l)
        return;
    buf_done(&l->policies);
    free(l);
}
