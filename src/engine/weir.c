/* weir.c - the library's handle: an engine, its policies, and a thread that tidies up. */
#include "weir.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/diag.h"
#include "base/intern.h"
#include "base/secret.h"
#include "engine/caller_loop.h"
#include "engine/handle.h"

enum {
    DEFAULT_MAX_KEYS = 1 << 24,
    TICK_US = 100000,
    SECRET_MS = 500, /* from one look for the secret to the next */
    MANY = 8,        /* checks that are looked up together: enough to hide the latency of memory */
    GROUP = 64,      /* checks that are committed together */
};

struct group {
    struct check checks[GROUP];
    struct check_room rooms[GROUP];
};

static int64_t system_clock(void *ctx)
{
    (void)ctx;
    return clock_wall_ms();
}

static int64_t clock_now(const weir *w)
{
    return w->clock(w->clock_ctx);
}

/* ---- opening and closing --------------------------------------------------------------- */

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

static bool has_policies(const weir *w)
{
    return w->source.file || w->source.text;
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
    return err;
}

static void publish(weir *w, struct policies *set)
{
    atomic_store(&w->after_errors, (unsigned)policies_fallback(set).after_errors);
    policies_free((struct policies *)published_replace(&w->policies, set));
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

static void tell(const weir *w, const char *what, const char *why)
{
    char line[sizeof(weir_diag) + 128];

    if (!w->log)
        return;
    snprintf(line, sizeof line, "%s%s%s", what, why ? ": " : "", why ? why : "");
    w->log(w->log_ctx, line);
}

/* The secret of a file store lives in its directory and that of a shared store in itself, unless the
 * caller has another place. */
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

/* Of a store that keeps the secret and is away nobody can know it: begin with another, by which
 * nobody but this process will count, and look for it until it is there. */
static weir_err find_or_await_secret(weir *w, const weir_options *o, struct secret *out,
                                     weir_diag *diag)
{
    const char *uri = NULL;
    weir_err err = find_secret(w, o, out, diag);

    if (err != WEIR_EIO || o->secret_file || o->flags & WEIR_NO_THREAD ||
        !store_opens_without_secret(o->store))
        return err;
    tell(w, "on_error decides until the secret is known", diag ? diag->text : NULL);
    err = keep_text(w, o->store, &uri);
    w->secret_uri = (char *)uri;
    return err ? err : secret_random(out, diag);
}

/* When the policies have been replaced, nothing is under way that was hashed with the other secret:
 * only then may the store be asked. */
static weir_err take_secret(weir *w, const struct secret *secret, weir_diag *diag)
{
    struct store *store = w->engine.store;
    struct policies *policies;
    weir_err err;

    pthread_mutex_lock(&w->reloading);
    if (memcmp(engine_secret(&w->engine), secret, sizeof *secret) != 0)
        engine_take_secret(&w->engine, secret);
    err = load(w, &policies, diag);
    if (!err)
        publish(w, policies);
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
        tell(w, "the secret is known, the store is in use from now on", NULL);
        alloc_free(&w->allocator, w->secret_uri);
        w->secret_uri = NULL;
    } else if (err != WEIR_EIO && err != w->secret_err) {
        tell(w, "the secret is still missing", diag.text);
    }
    w->secret_err = err;
    explicit_bzero(&secret, sizeof secret);
}

static void hear(void *handle, const struct store_event *event)
{
    weir *w = handle;

    deny_cache_hear(w->denials, event, clock_steady_ms());
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

    hash_secret_id(secret, options.secret_id);
    if (store_is_shared(options.uri)) {
        w->denials = deny_cache_new(&w->allocator); /* before the first news */
        if (!w->denials)
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
    if (!store->ops->is_shared)
        return WEIR_OK;
    options.uri = "memory:";
    err = store_open(&local, &options, diag);
    if (err)
        return err;
    w->engine.local = local;
    if (!trusts_now && !(o->flags & WEIR_NO_DENY_CACHE)) /* whose time is not that of the callers */
        w->engine.denials = w->denials;
    return caller_loop_new(&w->engine, &w->allocator, &w->waiting_room);
}

static weir_err open_parts(weir *w, const weir_options *o, weir_diag *diag)
{
    struct secret secret;
    struct policies *policies;
    weir_err err;

    err = keep_options(w, o);
    if (!err)
        err = find_or_await_secret(w, o, &secret, diag);
    if (!err)
        err = open_store(w, o, &secret, diag);
    if (err)
        return err;
    err = load(w, &policies, diag); /* even if there are none: the environment may say "off" */
    if (err)
        return err;
    publish(w, policies);
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
    caller_loop_free(w->waiting_room);
    ledger_view_close(w->ledger_view);
    pushed_free(w->pushed);
    if (w->engine.store) {
        engine_done(&w->engine);
        w->engine.store->ops->close(w->engine.store);
    }
    if (w->engine.local)
        w->engine.local->ops->close(w->engine.local);
    deny_cache_free(w->denials);
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
    alloc_free(&allocator, w);
}

weir_err weir_reload(weir *w, weir_diag *diag)
{
    struct policies *policies;
    weir_err err;

    if (!has_policies(w))
        return diag_fail(diag, WEIR_EOPTION, "there is no policy file to reload");
    pthread_mutex_lock(&w->reloading);
    err = load(w, &policies, diag);
    if (!err)
        publish(w, policies);
    pthread_mutex_unlock(&w->reloading);
    if (err)
        return err;
    pushed_want(w->pushed);
    if (w->engine.denials)
        deny_cache_forget_all(w->engine.denials, clock_steady_ms());
    return WEIR_OK;
}

/* ---- asking ------------------------------------------------------------------------------ */

static struct pending begin_turn(weir *w)
{
    return w->waiting_room ? caller_loop_enter(w->waiting_room) : (struct pending){ 0 };
}

/* When this returns all of the checks are answered. */
static void end_turn(weir *w, struct pending *pending, struct check *checks, size_t n)
{
    engine_commit(&w->engine, pending);
    if (w->waiting_room)
        caller_loop_leave(w->waiting_room, checks, n);
}

static weir_err ask_one(weir *w, enum verb verb, bool peek, const weir_request *r, weir_answer *a,
                        weir_diag *diag)
{
    struct published_visit visit = published_enter(&w->policies);
    struct check_room room;
    struct check check;
    weir_err err;

    check.request = r;
    check.verb = verb;
    check.peek = peek;
    check.answer = a;
    check.done = NULL;
    check.room = &room;
    check.policies = visit.current;
    check.like = NULL;
    err = engine_prepare(&w->engine, &check, diag);
    if (!err) {
        struct pending pending = begin_turn(w);

        engine_prefetch(&w->engine, &check, PREFETCH_PLACE);
        engine_ask(&w->engine, &pending, &check, clock_now(w));
        end_turn(w, &pending, &check, 1);
    }
    published_leave(&w->policies, visit);
    return err;
}

weir_err weir_check(weir *w, const weir_request *r, weir_answer *a, weir_diag *diag)
{
    return ask_one(w, VERB_CHECK, false, r, a, diag);
}

weir_err weir_peek(weir *w, const weir_request *r, weir_answer *a, weir_diag *diag)
{
    return ask_one(w, VERB_CHECK, true, r, a, diag);
}

weir_err weir_refund(weir *w, const weir_request *r, weir_answer *a, weir_diag *diag)
{
    return ask_one(w, VERB_REFUND, false, r, a, diag);
}

weir_err weir_reset(weir *w, const weir_request *r, weir_answer *a, weir_diag *diag)
{
    return ask_one(w, VERB_RESET, false, r, a, diag);
}

/* A few at a time: find all their places in memory first, then go there. */
static weir_err ask_some(weir *w, struct pending *pending, struct check *checks, size_t n,
                         int64_t now, weir_diag *diag)
{
    weir_err first = WEIR_OK;

    for (size_t i = 0; i < n; i++) {
        weir_err err = engine_prepare(&w->engine, &checks[i], first ? NULL : diag);

        if (!err)
            engine_prefetch(&w->engine, &checks[i], PREFETCH_WAY);
        else if (!first)
            first = err;
    }
    for (size_t i = 0; i < n; i++)
        if (!checks[i].answer->err)
            engine_prefetch(&w->engine, &checks[i], PREFETCH_PLACE);
    for (size_t i = 0; i < n; i++)
        if (!checks[i].answer->err)
            engine_ask(&w->engine, pending, &checks[i], now);
    return first;
}

/* As many as there is room for, and one commit for all of them. */
static weir_err check_group(weir *w, struct check *checks, struct check_room *rooms,
                            const weir_request *requests, weir_answer *answers, size_t n,
                            const void *policies, weir_diag *diag)
{
    struct pending pending = begin_turn(w);
    const int64_t now = clock_now(w);
    weir_err first = WEIR_OK;

    pending.is_long = n > 1;
    for (size_t i = 0; i < n; i += MANY) {
        size_t some = n - i < MANY ? n - i : MANY;
        weir_err err;

        for (size_t k = i; k < i + some; k++) {
            checks[k].request = &requests[k];
            checks[k].verb = VERB_CHECK;
            checks[k].peek = false;
            checks[k].answer = &answers[k];
            checks[k].done = NULL;
            checks[k].room = &rooms[k];
            checks[k].policies = policies;
            checks[k].like = k > 0 ? &checks[k - 1] : NULL;
        }
        err = ask_some(w, &pending, checks + i, some, now, first ? NULL : diag);
        if (!first)
            first = err;
    }
    end_turn(w, &pending, checks, n);
    return first;
}

weir_err weir_check_many(weir *w, const weir_request *requests, weir_answer *answers, size_t n,
                         weir_diag *diag)
{
    struct check few[MANY];
    struct check_room rooms[MANY];
    struct group *group = NULL;
    struct published_visit visit = published_enter(&w->policies);
    weir_err first = WEIR_OK;
    size_t most = MANY;

    if (n > MANY) { /* the block of the last call that had one, if nobody else has it */
        group = atomic_exchange(&w->group, NULL);
        if (!group)
            group = alloc_resize(&w->allocator, NULL, sizeof *group);
        if (group)
            most = GROUP;
    }
    for (size_t i = 0; i < n; i += most) {
        size_t some = n - i < most ? n - i : most;
        weir_err err = check_group(w, group ? group->checks : few, group ? group->rooms : rooms,
                                   requests + i, answers + i, some, visit.current,
                                   first ? NULL : diag);

        if (!first)
            first = err;
    }
    published_leave(&w->policies, visit);
    if (group) {
        group = atomic_exchange(&w->group, group);
        alloc_free(&w->allocator, group);
    }
    return first;
}

/* ---- looking after ----------------------------------------------------------------------- */

void weir_get_stats(weir *w, weir_stats *stats)
{
    struct deny_cache_stats denials;

    w->engine.store->ops->stats(w->engine.store, stats);
    if (!w->engine.denials)
        return;
    deny_cache_get_stats(w->engine.denials, clock_steady_ms(), &denials);
    stats->deny_cache_entries = denials.entries;
    stats->deny_cache_hits = denials.hits;
}

void weir_tick(weir *w)
{
    if (w->secret_uri)
        look_for_secret(w);
    w->engine.store->ops->tick(w->engine.store, clock_now(w));
    if (w->engine.local)
        w->engine.local->ops->tick(w->engine.local, clock_now(w));
    if (atomic_exchange(&w->has_news, false)) {
        ledger_view_hear(w->ledger_view);
        pushed_want(w->pushed);
    }
    ledger_view_tick(w->ledger_view, clock_now(w));
    pushed_tick(w->pushed, w->log, w->log_ctx);
}

const char *weir_source_name(weir_source source)
{
#define X(name, value, text) [value] = (text),
    static const char *const names[] = { WEIR_SOURCES(X) };
#undef X

    return (unsigned)source < sizeof names / sizeof names[0] ? names[source] : "unknown";
}

#define TEXT(x) #x
#define JOIN(a, b, c) TEXT(a) "." TEXT(b) "." TEXT(c)

const char *weir_version(void)
{
    return JOIN(WEIR_VERSION_MAJOR, WEIR_VERSION_MINOR, WEIR_VERSION_PATCH);
}
