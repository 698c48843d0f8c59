/* reload.c - what of a handle is replaced while it is in use: its policies, and a secret that was
 * not known when it was opened; and the upkeep, ten times a second. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/diag.h"
#include "base/secret.h"
#include "engine/handle.h"
#include "engine/leases.h"

enum { SECRET_MS = 500 }; /* from one look for the secret to the next */

void handle_log(const weir *w, const char *what, const char *why)
{
    char line[sizeof(weir_diag) + 128];

    if (!w->log)
        return;
    snprintf(line, sizeof line, "%s%s%s", what, why ? ": " : "", why ? why : "");
    w->log(w->log_ctx, line);
}

/* ---- policies ------------------------------------------------------------------------------- */

/* A limit of what runs at once is of no use where nothing can be held. */
static weir_err refuse_slots(const struct policies *set, weir_diag *diag)
{
    for (size_t i = 0; i < policies_count(set); i++) {
        const struct policy *p = policies_at(set, i);

        for (size_t r = 0; r < p->rule_count; r++)
            if (algorithm_counts_slots(p->rules[r].counted.rule.algorithm))
                return diag_fail(diag, WEIR_EPOLICY, "policy '%s', rule '%s': %s", p->name,
                                 p->rules[r].name, weir_err_text(WEIR_ENOTHERE));
    }
    return WEIR_OK;
}

static weir_err load(const weir *w, struct policies **out, weir_diag *diag)
{
    struct policy_source source = w->source;
    struct problems problems;
    weir_err err;

    *out = NULL;
    source.secret = engine_secret(&w->engine);
    source.environment = w->ignores_environment ? NULL : (const char *const *)environ;
    problems_init(&problems, &w->allocator);
    err = policies_load(&source, out, &problems);
    if (err == WEIR_ENOMEM)
        diag_set(diag, "%s", weir_err_text(err));
    else if (err)
        problems_to_diag(&problems, diag);
    problems_done(&problems);
    if (err)
        return err;
    if (!w->engine.store->ops->reserves)
        err = refuse_slots(*out, diag);
    if (err)
        policies_free(*out);
    return err;
}

static void publish(weir *w, struct policies *set)
{
    policies_set_edition(set, ++w->editions);
    atomic_store(&w->after_errors, (unsigned)policies_fallback(set).after_errors);
    policies_free((struct policies *)published_replace(&w->policies, set));
}

/* With `reloading`. */
static weir_err load_and_publish(weir *w, weir_diag *diag)
{
    struct policies *policies;
    weir_err err = load(w, &policies, diag);

    if (!err)
        publish(w, policies);
    return err;
}

weir_err handle_load_policies(weir *w, weir_diag *diag)
{
    weir_err err;

    pthread_mutex_lock(&w->reloading);
    err = load_and_publish(w, diag);
    pthread_mutex_unlock(&w->reloading);
    return err;
}

weir_err handle_preview_policies(weir *w, struct policies **out, weir_diag *diag)
{
    weir_err err;

    pthread_mutex_lock(&w->reloading); /* the secret may be replaced */
    err = load(w, out, diag);
    pthread_mutex_unlock(&w->reloading);
    return err;
}

weir_err weir_reload(weir *w, weir_diag *diag)
{
    weir_err err;

    if (!w->source.file && !w->source.text && !w->source.envoy.path)
        return diag_fail(diag, WEIR_EOPTION, "there is no policy file to reload");
    err = handle_load_policies(w, diag);
    if (err)
        return err;
    pushed_want(w->pushed);
    if (w->engine.denials)
        deny_cache_forget_all(w->engine.denials, clock_steady_ms());
    if (w->engine.leases)
        lease_table_recall_all(w->engine.leases->table, clock_steady_ms());
    return WEIR_OK;
}

/* ---- the secret ----------------------------------------------------------------------------- */

/* When the policies have been replaced, nothing is under way that was hashed with the other secret:
 * only then may the store be asked. */
static weir_err take_secret(weir *w, const struct secret *secret, weir_diag *diag)
{
    struct store *store = w->engine.store;
    weir_err err;

    pthread_mutex_lock(&w->reloading);
    if (memcmp(engine_secret(&w->engine), secret, sizeof *secret) != 0)
        engine_take_secret(&w->engine, secret);
    err = load_and_publish(w, diag);
    pthread_mutex_unlock(&w->reloading);
    if (!err)
        store->ops->take_secret(store, secret);
    return err;
}

static void look_for_secret(weir *w)
{
    struct secret secret;
    weir_diag diag;
    weir_err err;

    if (clock_steady_ms() < w->ask_secret_at)
        return;
    err = store_secret(w->secret_uri, &w->allocator, &secret, &diag);
    if (!err)
        err = take_secret(w, &secret, &diag);
    w->ask_secret_at = clock_steady_ms() + SECRET_MS;
    if (!err) {
        handle_log(w, "the secret is known, the store is in use from now on", NULL);
        alloc_free(&w->allocator, w->secret_uri);
        w->secret_uri = NULL;
    } else if (err != WEIR_EIO && err != w->secret_err) {
        handle_log(w, "the secret is still missing", diag.text);
    }
    w->secret_err = err;
    explicit_bzero(&secret, sizeof secret);
}

/* ---- upkeep --------------------------------------------------------------------------------- */

void weir_tick(weir *w)
{
    if (w->secret_uri)
        look_for_secret(w);
    w->engine.store->ops->tick(w->engine.store, handle_now(w));
    if (w->engine.local)
        w->engine.local->ops->tick(w->engine.local, handle_now(w));
    if (atomic_exchange(&w->has_news, false)) {
        ledger_view_hear(w->ledger_view);
        pushed_want(w->pushed);
    }
    ledger_view_tick(w->ledger_view, handle_now(w));
    pushed_tick(w->pushed, w->log, w->log_ctx);
}
