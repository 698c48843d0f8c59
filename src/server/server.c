/* server.c - starts the loops and what they share, and ends them.
 *
 * The thread that runs server_run() serves no client: it waits for signals and for files to change,
 * and at the end for all other threads. server_reload.c has what is read again meanwhile. */
#include "server/server.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/json.h"
#include "base/url.h"
#include "policy/envoy.h"
#include "server/control.h"
#include "server/handover.h"
#include "server/http/routes.h"
#include "server/metrics/metrics.h"
#include "server/reloader.h"
#include "server/sd_notify.h"

enum { LOCK_RETRY_MS = 20, SPARE_FILES = 64 };

/* ---- what the loops share ------------------------------------------------------------------ */

static void log_store(void *ctx, const char *line)
{
    struct server *s = ctx;

    event_log_write(s->log, "warn", "store", "%s", line);
}

/* A process that is being replaced has the files until it has ended. Whatever else is wrong with a
 * store must be found before it is told to go. */
static weir_err open_weir(struct server *s, weir_diag *diag)
{
    const struct server_settings *o = &s->settings;
    const weir_options options = {
        .policy_file = o->config,
        .store = o->store,
        .sync = o->sync,
        .secret_file = o->secret_file,
        .max_keys = o->max_keys,
        .flags = o->trusts_client_clock ? WEIR_TRUST_NOW : 0u,
        .log = log_store,
        .log_ctx = s,
    };
    const struct envoy_files envoy = envoy_files_at(o->envoy.config, o->envoy.merges_domains);
    int64_t patience = handover_is_successor() ? 2 * o->drain_timeout_ms : 0;
    weir_err err = handle_open(&s->weir, &options, &envoy, diag);

    if (err && err != WEIR_EBUSY)
        return err;
    handover_tell_ready();
    for (; err == WEIR_EBUSY && patience > 0; patience -= LOCK_RETRY_MS) {
        nanosleep(&(struct timespec){ .tv_nsec = LOCK_RETRY_MS * 1000000L }, NULL);
        err = handle_open(&s->weir, &options, &envoy, diag);
    }
    if (!err) {
        s->weir->engine.proxies = s->settings.trusted_proxies;
        s->weir->engine.proxy_count = s->settings.trusted_proxy_count;
    }
    return err;
}

/* A policy file with a mistake in it must be found before a predecessor is told to go. */
static weir_err check_policies(const struct server *s, weir_diag *diag)
{
    const struct server_settings *o = &s->settings;
    const struct envoy_files envoy = envoy_files_at(o->envoy.config, o->envoy.merges_domains);
    weir *tried;
    weir_err err;

    if ((!o->config && !o->envoy.config) || !handover_is_successor())
        return WEIR_OK;
    err = handle_open(&tried, &(weir_options){ .policy_file = o->config }, &envoy, diag);
    if (!err)
        weir_close(tried);
    return err;
}

/* The listeners are closed while a reload may still run: what it must know of them is kept. */
static weir_err note_reachable(struct server *s, weir_diag *diag)
{
    for (size_t i = 0; i < s->listeners.count && !s->reachable; i++)
        if (!s->listeners.all[i].is_loopback) {
            s->reachable = strdup(s->listeners.all[i].name);
            if (!s->reachable)
                return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
        }
    return WEIR_OK;
}

/* Every connection is an open file. */
static weir_err raise_file_limit(struct server *s, weir_diag *diag)
{
    const rlim_t wanted = (rlim_t)s->settings.max_connections + SPARE_FILES;
    struct rlimit limit;

    s->most_connections = s->settings.max_connections;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
        return WEIR_OK;
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur >= wanted)
        return WEIR_OK;
    if (limit.rlim_cur <= SPARE_FILES)
        return diag_fail(diag, WEIR_ESYSTEM,
                         "%llu open files are too few to serve clients: raise the limit "
                         "(LimitNOFILE= or ulimit -n)",
                         (unsigned long long)limit.rlim_cur);
    s->most_connections = (int64_t)limit.rlim_cur - SPARE_FILES;
    event_log_write(
        s->log, "warn", "file-limit",
        "the limit of open files allows only %lld connections: raise it (LimitNOFILE= or ulimit "
        "-n)",
        (long long)s->most_connections);
    return WEIR_OK;
}

static weir_err open_shared(struct server *s, weir_diag *diag)
{
    weir_err err = event_log_open(s->settings.log_file, &s->log, diag);

    if (!err)
        event_log_style(s->log, s->settings.log_level, s->settings.log_format);
    if (!err)
        err = listeners_open(&s->listeners, s->settings.listen, s->settings.listen_count,
                             s->loop_count, diag);
    if (!err)
        err = note_reachable(s, diag);
    if (!err)
        err = server_check_listeners(s, &s->settings, diag);
    if (!err)
        err = tokens_load(&s->settings, &s->tokens, diag);
    if (!err)
        server_warn_of_tokens(s, diag);
    if (!err)
        err = server_load_tls(s, &s->settings, diag);
    if (!err)
        err = check_policies(s, diag);
    if (err)
        return err;
    err = raise_file_limit(s, diag);
    return err ? err : open_weir(s, diag);
}

/* ---- life ---------------------------------------------------------------------------------- */

static weir_err make_loops(struct server *s, weir_diag *diag)
{
    weir_err err = WEIR_OK;

    for (size_t i = 0; i < s->loop_count && !err; i++) {
        s->observers[i] = observer_new(&s->weir->engine, s->log);
        if (!s->observers[i])
            return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
        s->loops[i].observer = s->observers[i];
        err = loop_init(&s->loops[i], s, i, diag);
    }
    return err;
}

/* After all that they look at is there. */
static weir_err start_loops(struct server *s, weir_diag *diag)
{
    weir_err err = WEIR_OK;

    for (size_t i = 0; i < s->loop_count && !err; i++)
        err = loop_start(&s->loops[i], diag);
    return err;
}

static weir_err open_history(struct server *s, weir_diag *diag)
{
    const struct history_store_options options = { .allocator = s->weir->allocator,
                                                   .log = log_store,
                                                   .log_ctx = s };

    return store_history(s->weir->engine.store, &s->history_store, &options, diag);
}

static weir_err open_alarms(struct server *s, weir_diag *diag)
{
    weir_err err = webhook_queue_start(&s->webhook_queue, s->log, 0, diag);
    const struct alarms_options options = {
        .weir = s->weir,
        .webhook_queue = s->webhook_queue,
        .log = s->log,
    };

    if (err)
        return err;
    s->alarms = alarms_new(&options);
    return s->alarms ? WEIR_OK : diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
}

static weir_err make_holdings(struct server *s, weir_diag *diag)
{
    s->holdings = holdings_new();
    s->vitals = vitals_new();
    return s->holdings && s->vitals
               ? WEIR_OK
               : diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
}

static void note_vitals(void *ctx, int64_t now)
{
    metrics_note_vitals(ctx, now);
}

static weir_err start_sampler(struct server *s, weir_diag *diag)
{
    const struct sampler_options options = {
        .observers = s->observers,
        .observer_count = s->loop_count,
        .history_store = s->history_store,
        .alarms = s->alarms,
        .holdings = s->holdings,
        .store = s->weir->engine.store,
        .each_second = note_vitals,
        .each_second_ctx = s,
        .log = s->log,
        .clock = s->weir->clock,
        .clock_ctx = s->weir->clock_ctx,
    };

    return sampler_start(&s->sampler, &options, diag);
}

static void write_metrics(void *ctx, struct metric_sink *m)
{
    metrics_write(ctx, m);
}

static void set_tracing(void *ctx, size_t loop, struct tracing *tracing)
{
    struct server *s = ctx;

    atomic_store_explicit(&s->loops[loop].tracing, tracing, memory_order_release);
}

static weir_err start_telemetry(struct server *s, weir_diag *diag)
{
    const struct telemetry_options options = {
        .write_metrics = write_metrics,
        .set_tracing = set_tracing,
        .ctx = s,
        .started_ms = s->started_ms,
        .log = s->log,
        .loop_count = s->loop_count,
    };
    weir_err err = telemetry_new(&s->telemetry, &options, diag);

    return err ? err : server_load_telemetry(s, &s->settings, diag);
}

/* What runs here, so that nothing need be guessed: where it counts, and by which policies. */
static void write_ready(struct server *s)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    const char *config = s->settings.config;
    const struct published_visit visit = published_enter(&s->weir->policies);
    const size_t count = visit.current ? policies_count(visit.current) : 0;
    struct buf members, store;
    struct json j = { .to = &members };
    weir_diag message;

    published_leave(&s->weir->policies, visit);
    buf_init(&members, &usual);
    buf_init(&store, &usual);
    uri_show(s->settings.store, &store);
    snprintf(message.text, sizeof message.text,
             "weir %s is serving with %zu thread%s, store %s, %zu polic%s%s%s", weir_version(),
             s->loop_count, s->loop_count == 1 ? "" : "s", store.failed ? "?" : store.at, count,
             count == 1 ? "y" : "ies", config ? " of " : "", config ? config : "");
    json_text(&j, "store", store.failed ? NULL : store.at);
    json_text(&j, "config", config);
    json_int(&j, "policies", (int64_t)count);
    json_int(&j, "threads", (int64_t)s->loop_count);
    event_log_write_members(s->log, "info", "ready", message.text,
                            members.failed ? "" : members.at);
    buf_done(&store);
    buf_done(&members);
}

/* A variable with a typing error would otherwise be a setting that is silently missing. */
static void log_environment(struct server *s)
{
    const char *line = s->settings.warnings;

    while (line && *line) {
        const size_t len = strcspn(line, "\n");

        event_log_write(s->log, "warn", "environment", "%.*s", (int)len, line);
        line += len + (line[len] == '\n');
    }
    if (s->settings.token_variable)
        event_log_write(s->log, "info", "environment",
                        "the token is that of %s, and has all scopes", s->settings.token_variable);
}

static void tell_ready(struct server *s)
{
    server_log_switches(s);
    log_environment(s);
    for (size_t i = 0; i < s->listeners.count; i++)
        if (listener_is_for(&s->listeners.all[i], 0)) {
            const char *name = s->listeners.all[i].name;
            char members[256];

            snprintf(members, sizeof members, "\"address\":\"%s\"", name);
            event_log_write_members(s->log, "info", "listening", name, members);
        }
    if (s->settings.config_is_found)
        event_log_write(s->log, "info", "config",
                        "no --config was given: %s of the working directory is used",
                        s->settings.config);
    write_ready(s);
    sd_notify_ready();
}

/* A client that connects now must be refused at once: a socket listens as long as any process or
 * thread has it open. */
static void stop_loops(struct server *s, bool has_successor)
{
    atomic_store(&s->is_draining, true);
    for (size_t i = 0; i < s->loop_count; i++)
        loop_wake(&s->loops[i]);
    listeners_close(&s->listeners, !has_successor);
    for (size_t i = 0; i < s->loop_count; i++)
        loop_join(&s->loops[i]);
}

/* After all is written that can be. */
static void tell_stopped(struct server *s, bool had_failed)
{
    if (had_failed)
        event_log_write(s->log, "error", "stopped",
                        "the store had failed: what was answered since then is not stored");
    else
        event_log_write(s->log, "info", "stopped", "everything that was answered is stored");
}

static void close_shared(struct server *s, bool others_serve)
{
    weir_stats stats = { 0 };

    reloader_stop(s->reloader);
    if (s->weir)
        weir_get_stats(s->weir, &stats);
    for (size_t i = 0; i < s->loop_count; i++)
        loop_done(&s->loops[i]);
    telemetry_end(s->telemetry); /* while all that it tells of is there … */
    sampler_stop(s->sampler);
    holdings_free(s->holdings);
    vitals_free(s->vitals);
    alarms_free(s->alarms);
    webhook_queue_stop(s->webhook_queue);
    if (s->history_store)
        s->history_store->ops->close(s->history_store);
    weir_close(s->weir);
    telemetry_flush(s->telemetry); /* … and when a successor has the store */
    if (s->has_served)
        tell_stopped(s, stats.has_failed);
    telemetry_free(s->telemetry);
    for (size_t i = 0; i < s->loop_count; i++)
        observer_free(s->observers[i]);
    listeners_close(&s->listeners, !others_serve);
    tokens_free(s->tokens);
    buf_done(&s->welcome);
    tls_context_unref(atomic_load(&s->tls));
    event_log_close(s->log);
    free(s->reload_problem);
    free(s->reachable);
    free(s->observers);
    free(s->loops);
    pthread_mutex_destroy(&s->lock);
}

/* The secret, tokens and private keys are in memory: neither a core file nor another process of the
 * same user is to have them. Who looks for a mistake may say otherwise. A successor says so itself,
 * as this does not outlive exec(). */
static void keep_memory_private(void)
{
    const char *request = getenv("WEIR_DUMPABLE");

    if (!request || strcmp(request, "1") != 0)
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

/* Signals are the control loop's; threads are born with these blocked. */
static void block_signals(void)
{
    sigset_t all;

    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&all);
    sigaddset(&all, SIGTERM);
    sigaddset(&all, SIGINT);
    sigaddset(&all, SIGHUP);
    sigaddset(&all, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
}

static weir_err open_server(struct server *s, weir_diag *diag)
{
    const int64_t threads = s->settings.threads;
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);

    http_write_welcome(&s->welcome);
    s->loop_count = threads > 0 ? (size_t)threads : cores > 0 ? (size_t)cores : 1;
    s->loops = calloc(s->loop_count, sizeof *s->loops);
    s->observers = calloc(s->loop_count, sizeof(struct observer *));
    if (!s->loops || !s->observers || s->welcome.failed)
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    return open_shared(s, diag);
}

int server_run(const struct server_settings *settings, const struct settings_source *source,
               char *const argv[])
{
    const weir_allocator allocator = alloc_or_default((weir_allocator){ 0 });
    struct server s = { .settings = *settings, .source = source };
    struct control *control = NULL;
    bool has_successor = false;
    weir_diag diag = { "" };
    weir_err err;

    keep_memory_private();
    buf_init(&s.welcome, &allocator);
    pthread_mutex_init(&s.lock, NULL);
    block_signals();
    err = control_open(&control, &s, argv, &diag);
    if (!err)
        err = open_server(&s, &diag);
    if (!err) {
        s.started_ms = s.weir->clock(s.weir->clock_ctx);
        err = open_history(&s, &diag);
    }
    if (!err)
        err = make_loops(&s, &diag);
    if (!err)
        err = open_alarms(&s, &diag);
    if (!err)
        err = make_holdings(&s, &diag);
    if (!err)
        err = start_sampler(&s, &diag);
    if (!err)
        err = start_telemetry(&s, &diag);
    if (!err)
        err = reloader_start(&s.reloader, &s, &diag);
    if (!err)
        err = start_loops(&s, &diag);
    if (!err) {
        tell_ready(&s);
        s.has_served = true;
        has_successor = control_run(control);
        if (!has_successor)
            sd_notify_stopping();
        event_log_write(s.log, "info", "draining", "no new connections are accepted");
        stop_loops(&s, has_successor);
    }
    if (err)
        fprintf(stderr, "weir: %s\n", diag.text);
    control_close(control);
    close_shared(&s, has_successor || (err && handover_is_successor())); /* who serves on */
    return err ? 2 : 0;
}
