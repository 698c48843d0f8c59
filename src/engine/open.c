/* open.c - opens and closes a handle. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/diag.h"
#include "base/intern.h"
#include "base/secret.h"
#include "engine/caller_loop.h"
#include "engine/handle.h"
#include "engine/leases.h"

enum { DEFAULT_MAX_KEYS = 1 << 24, TICK_US = 100000 };

/* ---- options -------------------------------------------------------------------------------- */

static int64_t system_clock(void *ctx)
{
    (void)ctx;
    return clock_wall_ms();
}

/* A copy of the caller's text, which need not outlive weir_open(). */
static weir_err keep_text(weir *w, const char *text, const char **out)
{
    char *copy = NULL;

    if (text) {
        copy = alloc_resize(&w->allocator, NULL, strlen(text) + 1);
        if (!copy)
            return WEIR_ENOMEM;
        strcpy(copy, text);
    }
    *out = copy;
    return WEIR_OK;
}

static weir_err keep_options(weir *w, const weir_options *o)
{
    weir_err err = keep_text(w, o->policy_file, &w->source.file);

    if (!err)
        err = keep_text(w, o->policy_text, &w->source.text);
    w->clock = o->clock ? o->clock : system_clock;
    w->clock_ctx = o->clock_ctx;
    w->log = o->log;
    w->log_ctx = o->log_ctx;
    w->source.allocator = w->allocator;
    w->ignores_environment = o->flags & WEIR_IGNORE_ENVIRONMENT;
    w->names = intern_new(&w->allocator);
    w->source.names = w->names;
    if (w->names)
        w->named = named_new(w->names, &w->allocator);
    return w->named ? err : WEIR_ENOMEM;
}

/* ---- the secret ----------------------------------------------------------------------------- */

/* The secret of a file store lives in its directory and that of a shared store in itself, unless
 * the caller has another place. */
static weir_err find_secret(const weir *w, const weir_options *o, struct secret *out,
                            weir_diag *diag)
{
    const char *dir = o->store ? store_directory(o->store) : NULL;
    char *path;
    size_t size;
    weir_err err;

    if (o->secret_file)
        return secret_load(o->secret_file, out, diag);
    if (o->store && store_keeps_secret(o->store))
        return store_secret(o->store, &w->allocator, out, diag);
    if (!dir || dir[0] == '\0')
        return secret_random(out, diag);
    size = strlen(dir) + sizeof "/secret";
    path = alloc_resize(&w->allocator, NULL, size);
    if (!path)
        return WEIR_ENOMEM;
    snprintf(path, size, "%s/secret", dir);
    if (mkdir(dir, 0700) != 0 && errno != EEXIST)
        err = diag_fail(diag, WEIR_ESYSTEM, "cannot create the directory %s: %s", dir,
                        strerror(errno));
    else
        err = secret_load_beside(path, out, diag);
    alloc_free(&w->allocator, path);
    return err;
}

/* The secret of a shared store is in the store. While that is away, begin with a random one, which
 * only this process counts by, and look for the real one until it is there. */
static weir_err find_or_await_secret(weir *w, const weir_options *o, struct secret *out,
                                     weir_diag *diag)
{
    const char *uri = NULL;
    weir_err err = find_secret(w, o, out, diag);

    if (err != WEIR_EIO || o->secret_file || o->flags & WEIR_NO_THREAD ||
        !store_opens_without_secret(o->store))
        return err;
    handle_log(w, "on_error decides until the secret is known", diag ? diag->text : NULL);
    err = keep_text(w, o->store, &uri);
    w->secret_uri = (char *)uri;
    return err ? err : secret_random(out, diag);
}

/* ---- the store ------------------------------------------------------------------------------ */

static int64_t do_housekeeping(void *handle)
{
    weir_tick(handle);
    return TICK_US;
}

static void wake_housekeeper(void *handle)
{
    weir *w = handle;

    worker_wake(&w->housekeeper);
}

static void hear(void *handle, const struct store_event *event)
{
    weir *w = handle;

    deny_cache_hear(w->denials, event, clock_steady_ms());
    leases_hear(w->leases, event, clock_steady_ms());
    if (event->kind != STORE_EVENT_LEDGER && event->kind != STORE_EVENT_ALL)
        return;
    atomic_store(&w->has_news, true);
    wake_housekeeper(w);
}

static weir_err open_store(weir *w, const weir_options *o, const struct secret *secret,
                           weir_diag *diag)
{
    const bool no_thread = o->flags & WEIR_NO_THREAD, trusts_now = o->flags & WEIR_TRUST_NOW;
    struct store_options options = {
        .uri = o->store ? o->store : "memory:",
        .max_keys = o->max_keys ? o->max_keys : DEFAULT_MAX_KEYS,
        .callers_bring_now = trusts_now,
        .wake = no_thread ? NULL : wake_housekeeper,
        .wake_ctx = w,
        .sync = o->sync,
        .secret = secret,
        .lacks_secret = w->secret_uri,
        .no_thread = no_thread,
        .clock = w->clock,
        .clock_ctx = w->clock_ctx,
        .log = w->log,
        .log_ctx = w->log_ctx,
        .allocator = w->allocator,
    };
    struct store *store, *local = NULL;
    weir_err err;

    options.secret_ids = hash_secret_ids(secret);
    if (store_is_shared(options.uri)) {
        w->denials = deny_cache_new(&w->allocator); /* before the first news */
        w->leases = leases_new(&w->allocator);
        if (!w->denials || !w->leases)
            return WEIR_ENOMEM;
        options.after_errors = &w->after_errors;
        options.heard = hear;
        options.heard_ctx = w;
    }
    err = store_open(&store, &options, diag);
    if (err)
        return err;
    engine_init(&w->engine, store, NULL, secret, trusts_now);
    w->engine.clock = w->clock;
    w->engine.clock_ctx = w->clock_ctx;
    w->engine.named = w->named;
    w->engine.names = w->names;
    w->source.key_way = store->ops->is_shared || store->is_apart ? KEYS_APART : KEYS_TOGETHER;
    if (!store->ops->is_shared)
        return WEIR_OK;
    options.uri = "memory:";
    err = store_open(&local, &options, diag);
    if (err)
        return err;
    w->engine.local = local;
    if (!trusts_now && !(o->flags & WEIR_NO_DENY_CACHE)) /* whose time is not that of the callers */
        w->engine.denials = w->denials;
    if (w->engine.denials && store->ops->reserves)
        w->engine.leases = w->leases;
    return caller_loop_new(&w->engine, &w->allocator, &w->caller_loop);
}

/* ---- all of it ------------------------------------------------------------------------------ */

static weir_err open_parts(weir *w, const weir_options *o, weir_diag *diag)
{
    struct secret secret;
    weir_err err;

    err = keep_options(w, o);
    if (!err)
        err = find_or_await_secret(w, o, &secret, diag);
    if (!err)
        err = open_store(w, o, &secret, diag);
    if (err)
        return err;
    err = handle_load_policies(w, diag); /* even if there are none: the environment may say "off" */
    if (err)
        return err;
    err = pushed_new(&w->pushed, w->engine.store, &w->policies, &w->allocator);
    if (!err)
        err = ledger_view_open(&w->ledger_view, &w->engine, w->names, &w->allocator, diag);
    if (err)
        return err;
    if (o->flags & WEIR_NO_THREAD)
        return WEIR_OK;
    return worker_start(&w->housekeeper, "housekeeping", TICK_US, do_housekeeping, w, diag);
}

weir_err weir_open(weir **out, const weir_options *options, weir_diag *diag)
{
    return handle_open(out, options, NULL, diag);
}

weir_err handle_open(weir **out, const weir_options *options, const struct envoy_files *envoy,
                     weir_diag *diag)
{
    static const weir_options defaults;
    const weir_options *o = options ? options : &defaults;
    const weir_allocator allocator = alloc_or_default(o->allocator);
    weir *w;
    weir_err err;

    *out = NULL;
    if (o->policy_file && o->policy_text)
        return diag_fail(diag, WEIR_EOPTION, "give policy_file or policy_text, not both");
    diag_set(diag, "%s", weir_err_text(WEIR_ENOMEM)); /* unless something better is said */
    w = alloc_zeroed(&allocator, sizeof *w);
    if (!w)
        return WEIR_ENOMEM;
    w->allocator = allocator;
    published_init(&w->policies, NULL);
    pthread_mutex_init(&w->reloading, NULL);
    worker_init(&w->housekeeper);
    if (envoy)
        w->source.envoy = *envoy;
    err = envoy ? keep_text(w, envoy->path, &w->source.envoy.path) : WEIR_OK;
    if (!err)
        err = open_parts(w, o, diag);
    if (err) {
        weir_close(w);
        return err;
    }
    diag_set(diag, "%s", "");
    *out = w;
    return WEIR_OK;
}

void weir_close(weir *w)
{
    weir_allocator allocator;

    if (!w)
        return;
    allocator = w->allocator;
    worker_stop(&w->housekeeper);
    caller_loop_free(w->caller_loop);
    ledger_view_close(w->ledger_view);
    pushed_free(w->pushed);
    if (w->engine.store) {
        engine_done(&w->engine);
        w->engine.store->ops->close(w->engine.store);
    }
    if (w->engine.local)
        w->engine.local->ops->close(w->engine.local);
    deny_cache_free(w->denials);
    leases_free(w->leases, &w->allocator);
    policies_free((struct policies *)published_replace(&w->policies, NULL));
    published_done(&w->policies);
    worker_done(&w->housekeeper);
    pthread_mutex_destroy(&w->reloading);
    named_free(w->named);
    intern_free(w->names);
    alloc_free(&allocator, w->group);
    alloc_free(&allocator, w->secret_uri);
    alloc_free(&allocator, (void *)w->source.file);
    alloc_free(&allocator, (void *)w->source.text);
    alloc_free(&allocator, (void *)w->source.envoy.path);
    alloc_free(&allocator, w);
}
