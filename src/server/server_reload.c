/* server_reload.c - policies, tokens and certificates of a running server are read again.
 *
 * What cannot be read stays as it was. Each part is published beside the old one: loops never wait
 * for a reload. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "policy/policies_json.h"
#include "server/policies_diff.h"
#include "server/sd_notify.h"
#include "server/server.h"

/* ---- what is also read at the start -------------------------------------------------------- */

struct tls_context *server_tls(struct server *s)
{
    struct tls_context *t;

    if (!atomic_load(&s->tls))
        return NULL;
    pthread_mutex_lock(&s->lock);
    t = tls_context_ref(atomic_load(&s->tls));
    pthread_mutex_unlock(&s->lock);
    return t;
}

weir_err server_load_tls(struct server *s, const struct server_settings *o, weir_diag *diag)
{
    struct tls_context *next, *old;
    weir_err err;

    if (!o->tls_cert)
        return WEIR_OK;
    err = tls_context_new(o->tls_cert, o->tls_key, o->tls_client_ca, &next, diag);
    if (err)
        return err;
    if (tls_context_warning(next))
        event_log_write(s->log, "warn", "tls", "%s", tls_context_warning(next));
    pthread_mutex_lock(&s->lock);
    old = atomic_exchange(&s->tls, next);
    pthread_mutex_unlock(&s->lock);
    tls_context_unref(old);
    return WEIR_OK;
}

weir_err server_load_telemetry(struct server *s, const struct server_settings *o, weir_diag *diag)
{
    weir_err err;

    if (!s->telemetry) /* a server that runs one turn at a time */
        return WEIR_OK;
    err = telemetry_configure(s->telemetry, &o->telemetry, diag);
    if (!err && diag->text[0])
        event_log_write(s->log, "warn", "telemetry", "%s", diag->text);
    return err;
}

/* What settings_check() says of addresses, for sockets that another process opened. */
weir_err server_check_listeners(const struct server *s, const struct server_settings *o,
                                weir_diag *diag)
{
    if (!s->reachable || settings_keep_strangers_out(o))
        return WEIR_OK;
    return diag_fail(diag, WEIR_EOPTION,
                     "the socket %s that was handed over can be reached from other "
                     "machines: give a token file, or bind it to loopback",
                     s->reachable);
}

/* Their files may be readable by other users. */
void server_warn_of_tokens(const struct server *s, const weir_diag *diag)
{
    if (diag->text[0])
        event_log_write(s->log, "warn", "tokens", "%s", diag->text);
}

bool server_enabled(struct server *s)
{
    struct published_visit visit = published_enter(&s->weir->policies);
    const bool is_enabled = !visit.current || policies_enabled(visit.current);

    published_leave(&s->weir->policies, visit);
    return is_enabled;
}

/* So that an operator who wonders why nothing is denied finds it in the log. */
void server_log_switches(struct server *s)
{
    const char *list = getenv("WEIR_ENABLED_POLICIES");
    struct published_visit visit = published_enter(&s->weir->policies);
    const struct policies *set = visit.current;
    size_t off = 0;

    for (size_t i = 0; set && list && list[0] && i < policies_count(set); i++)
        off += policies_at(set, i)->mode == MODE_OFF;
    if (set && !policies_enabled(set))
        event_log_write(s->log, "warn", "switched-off",
                        "WEIR_ENABLED is off: everything is allowed, and nothing is counted");
    else if (off > 0)
        event_log_write(s->log, "warn", "switched-off",
                        "WEIR_ENABLED_POLICIES is set: %zu of %zu policies are off", off,
                        policies_count(set));
    published_leave(&s->weir->policies, visit);
}

/* ---- reloading ----------------------------------------------------------------------------- */

/* One part of a reload has failed: the first error is the result, but all are told. */
static void add_problem(weir_err err, const weir_diag *problem, weir_err *first, weir_diag *all)
{
    const size_t len = strlen(all->text);

    snprintf(all->text + len, sizeof all->text - len, "%s%s", len > 0 ? "\n" : "", problem->text);
    if (!*first)
        *first = err;
}

/* Addresses cannot change now: clients that can reach them must still need a token. */
static weir_err read_settings_again(const struct server *s, struct server_settings *out,
                                    weir_diag *diag)
{
    weir_err err = s->source->read(s->source->ctx, out, diag);
    const char *fixed;

    if (err)
        return err;
    fixed = settings_fixed_difference(&s->settings, out);
    if (fixed)
        event_log_write(s->log, "warn", "settings",
                        "`%s` under `server:` has changed, and takes effect at the next handover "
                        "(SIGUSR2) or restart",
                        fixed);
    memcpy(out->listen, s->settings.listen, sizeof out->listen);
    out->listen_count = s->settings.listen_count;
    out->allows_plain = s->settings.allows_plain;
    err = settings_check(out, diag);
    if (!err)
        err = server_check_listeners(s, out, diag);
    if (err)
        settings_done(out);
    return err;
}

/* Each by itself: a mistake in one file must not keep the others from being read. */
static void reload_others(struct server *s, const struct server_settings *o, weir_err *first,
                          weir_diag *all)
{
    weir_diag problem;
    weir_err err = tokens_reload(s->tokens, o, &problem);

    if (err)
        add_problem(err, &problem, first, all);
    else
        server_warn_of_tokens(s, &problem);
    err = s->settings.tls_cert ? server_load_tls(s, o, &problem) : WEIR_OK;
    if (err)
        add_problem(err, &problem, first, all);
    err = server_load_telemetry(s, o, &problem);
    if (err)
        add_problem(err, &problem, first, all);
}

/* Without knowing which files they are in, nothing is read. */
static weir_err reload_parts(struct server *s, weir_diag *diag)
{
    struct server_settings settings;
    weir_err first = WEIR_OK, err;
    weir_diag problem;

    diag->text[0] = '\0';
    err = read_settings_again(s, &settings, &problem);
    if (err) {
        add_problem(err, &problem, &first, diag);
        return first;
    }
    if (s->settings.config || s->settings.envoy.config)
        err = weir_reload(s->weir, &problem);
    if (err)
        add_problem(err, &problem, &first, diag);
    reload_others(s, &settings, &first, diag);
    settings_done(&settings);
    return first;
}

size_t server_list_policies(struct server *s, struct buf *out)
{
    struct published_visit visit = published_enter(&s->weir->policies);
    const size_t count = visit.current ? policies_count(visit.current) : 0;

    policies_json(out, visit.current);
    published_leave(&s->weir->policies, visit);
    return count;
}

weir_err server_preview(struct server *s, struct buf *sentence, struct buf *list, weir_diag *diag)
{
    struct policies *next = NULL;
    struct buf before, after;
    weir_err err;

    if (!s->settings.config)
        return diag_fail(diag, WEIR_EREQUEST, "there is no policy file to reload");
    err = handle_preview_policies(s->weir, &next, diag);
    if (err)
        return err;
    buf_init(&before, &sentence->allocator);
    buf_init(&after, &sentence->allocator);
    server_list_policies(s, &before);
    policies_json(&after, next);
    policies_diff_texts(buf_span(&before), buf_span(&after), sentence, list);
    if (list->len == 0 || list->failed || sentence->failed)
        err = diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    buf_done(&before);
    buf_done(&after);
    policies_free(next);
    return err;
}

weir_err server_reload(struct server *s, const char *why, weir_diag *diag)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    struct buf before, after, change;
    weir_err err;

    sd_notify_reloading();
    event_log_reopen(s->log);
    buf_init(&before, &usual);
    buf_init(&after, &usual);
    buf_init(&change, &usual);
    server_list_policies(s, &before);
    err = reload_parts(s, diag);
    server_list_policies(s, &after);
    policies_diff_texts(buf_span(&before), buf_span(&after), &change, NULL);
    if (!err)
        diag_set(diag, "%s", change.failed ? "" : buf_span(&change).at);
    pthread_mutex_lock(&s->lock);
    free(s->reload_problem);
    s->reload_problem = err ? strdup(diag->text) : NULL;
    s->reloaded_ms = s->weir->clock(s->weir->clock_ctx);
    pthread_mutex_unlock(&s->lock);
    atomic_fetch_add(err ? &s->reload_failures : &s->reloads, 1);
    if (err)
        event_log_write(s->log, "error", "reload-failed",
                        "(%s) what could not be read keeps its "
                        "old settings: %s",
                        why, diag->text);
    else
        event_log_write(s->log, "info", "reloaded", "(%s) %s", why, diag->text);
    buf_done(&before);
    buf_done(&after);
    buf_done(&change);
    server_log_switches(s);
    if (!atomic_load(&s->is_draining))
        sd_notify_ready();
    return err;
}
