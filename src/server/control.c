/* control.c - what is asked of a running server: by signals, and by files that change.
 *
 * Editors and configuration managers replace a file as often as they write to it, so the directory
 * is watched; and they do it in several steps, so a reload waits until nothing has happened for a
 * moment. Where the name is a link, as to a volume of Kubernetes, what changes is some other name
 * on the way: then the file that is found has become another one.
 *
 * The files for Envoy are looked at from time to time instead: any name on the way to them may be a
 * link that is replaced, and they may come and go. */
#include "server/control.h"

#include <libgen.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/diag.h"
#include "base/xxh.h"
#include "policy/envoy.h"
#include "server/handover.h"
#include "server/reloader.h"
#include "server/sd_notify.h"

enum { SETTLE_MS = 100, ENVOY_MS = 500, SUCCESSOR_MS = 30000 };

struct control {
    struct server *server;
    char *const *argv;
    uv_loop_t uv;
    uv_signal_t terminate, interrupt, hang_up, replace;
    uv_fs_event_t watch;
    uv_timer_t settle;
    char *config_name; /* within its directory */
    struct stat config;
    uv_timer_t look;           /* at the files for Envoy … */
    uint64_t envoy, reloading; /* … as they are, and as they were when a reload was asked for */
    int watch_error;
    uv_timer_t watchdog;

    struct handover handover;
    uv_poll_t successor;
    uv_timer_t patience;
    sigset_t caught;
    bool is_replacing, has_successor;
};

/* ---- reloading ------------------------------------------------------------------------------ */

static void hang_up(uv_signal_t *signal, int number)
{
    struct control *c = signal->data;

    (void)number;
    reloader_wake(c->server->reloader, "SIGHUP");
}

static void settled(uv_timer_t *timer)
{
    struct control *c = timer->data;

    reloader_wake(c->server->reloader, "the policy file has changed");
}

/* Nothing is found while a file is being replaced: then there is more to come. */
static bool is_another_file(struct control *c)
{
    struct stat found;
    bool is_another;

    if (stat(c->server->settings.config, &found) != 0)
        return false;
    is_another = found.st_ino != c->config.st_ino || found.st_dev != c->config.st_dev;
    c->config = found;
    return is_another;
}

static void changed(uv_fs_event_t *watch, const char *name, int events, int status)
{
    struct control *c = watch->data;
    const bool is_named = !name || strcmp(name, c->config_name) == 0;

    (void)events;
    if (status == 0 && (is_another_file(c) || is_named))
        uv_timer_start(&c->settle, settled, SETTLE_MS, 0);
}

static int watch_config(struct control *c)
{
    const char *config = c->server->settings.config;
    char *directory, *name;
    int err = UV_ENOMEM;

    if (!config)
        return 0;
    directory = strdup(config);
    c->config_name = strdup(config);
    if (directory && c->config_name) {
        name = basename(c->config_name);
        memmove(c->config_name, name, strlen(name) + 1);
        err = uv_fs_event_start(&c->watch, changed, dirname(directory), 0);
        is_another_file(c);
    }
    free(directory);
    return err;
}

static void add_file(void *ctx, const char *path)
{
    uint64_t *seen = ctx;
    struct stat found;
    struct {
        uint64_t inode, device, size;
        struct timespec modified;
    } facts = { 0 };

    if (stat(path, &found) == 0) {
        facts.inode = found.st_ino;
        facts.device = found.st_dev;
        facts.size = (uint64_t)found.st_size;
        facts.modified = found.st_mtim;
    }
    *seen = XXH3_64bits_withSeed(path, strlen(path), *seen);
    *seen = XXH3_64bits_withSeed(&facts, sizeof facts, *seen);
}

/* What tells these files from what they were: which they are, and when each was changed. */
static uint64_t look_at_envoy(const struct control *c)
{
    uint64_t seen = 0;
    weir_diag ignored;

    if (!envoy_each_file(c->server->settings.envoy.config, add_file, &seen, &ignored))
        seen = 1;
    return seen;
}

/* Reload when they have changed, and then have stayed as they are. */
static void look(uv_timer_t *timer)
{
    struct control *c = timer->data;
    const uint64_t seen = look_at_envoy(c);

    if (seen == c->envoy && seen != c->reloading) {
        c->reloading = seen;
        reloader_wake(c->server->reloader, "the files for Envoy have changed");
    }
    c->envoy = seen;
}

/* ---- being replaced ------------------------------------------------------------------------- */

static void stop_replacing(struct control *c)
{
    uv_close((uv_handle_t *)&c->successor, NULL);
    uv_timer_stop(&c->patience);
    c->is_replacing = false;
}

static void lost_patience(uv_timer_t *timer)
{
    struct control *c = timer->data;

    stop_replacing(c);
    handover_cancel(&c->handover);
    event_log_write(c->server->log, "error", "handover-failed",
                    "the new process was not ready after %d s: this process goes on",
                    SUCCESSOR_MS / 1000);
}

static void successor_speaks(uv_poll_t *poll, int status, int events)
{
    struct control *c = poll->data;
    weir_diag diag;

    (void)status;
    (void)events;
    switch (handover_look(&c->handover, &diag)) {
    case HANDOVER_WAITING:
        return;
    case HANDOVER_READY:
        stop_replacing(c);
        c->has_successor = true;
        sd_notify_main_pid(c->handover.pid);
        event_log_write(c->server->log, "info", "handover", "process %ld takes over",
                        (long)c->handover.pid);
        uv_stop(&c->uv);
        break;
    case HANDOVER_FAILED:
        stop_replacing(c);
        event_log_write(c->server->log, "error", "handover-failed", "%s: this process goes on",
                        diag.text);
        break;
    }
}

/* Files that this process cannot write any more, another one could not open. */
static weir_err check_store(const struct server *s, weir_diag *diag)
{
    weir_stats stats;

    weir_get_stats(s->weir, &stats);
    if (stats.has_failed && store_directory(s->settings.store))
        return diag_fail(diag, WEIR_EIO, "the store has failed: wait until it has recovered");
    return WEIR_OK;
}

static void replace(uv_signal_t *signal, int number)
{
    struct control *c = signal->data;
    weir_diag diag;

    (void)number;
    if (c->is_replacing)
        return;
    if (check_store(c->server, &diag) ||
        handover_spawn(&c->server->listeners, c->argv, &c->handover, &diag)) {
        event_log_write(c->server->log, "error", "handover-failed", "%s: this process goes on",
                        diag.text);
        return;
    }
    c->is_replacing = true;
    uv_poll_init(&c->uv, &c->successor, c->handover.fd);
    c->successor.data = c;
    uv_poll_start(&c->successor, UV_READABLE | UV_DISCONNECT, successor_speaks);
    uv_timer_start(&c->patience, lost_patience, SUCCESSOR_MS, 0);
}

/* ---- life ----------------------------------------------------------------------------------- */

static void terminate(uv_signal_t *signal, int number)
{
    (void)number;
    uv_stop(signal->loop);
}

static void bark(uv_timer_t *timer)
{
    (void)timer;
    sd_notify_watchdog();
}

static void catch_signal(struct control *c, uv_signal_t *signal, uv_signal_cb callback, int number)
{
    uv_signal_init(&c->uv, signal);
    signal->data = c;
    uv_signal_start(signal, callback, number);
    sigaddset(&c->caught, number);
}

static void close_any(uv_handle_t *handle, void *ctx)
{
    (void)ctx;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

weir_err control_open(struct control **out, struct server *s, char *const argv[], weir_diag *diag)
{
    struct control *c = calloc(1, sizeof *c);
    const int err = c ? uv_loop_init(&c->uv) : UV_ENOMEM;

    if (err) {
        free(c);
        return diag_fail(diag, WEIR_ESYSTEM, "cannot make an event loop: %s", uv_strerror(err));
    }
    c->server = s;
    c->argv = argv;
    uv_fs_event_init(&c->uv, &c->watch);
    uv_timer_init(&c->uv, &c->settle);
    uv_timer_init(&c->uv, &c->patience);
    uv_timer_init(&c->uv, &c->watchdog);
    uv_timer_init(&c->uv, &c->look);
    c->watch.data = c->settle.data = c->patience.data = c->look.data = c;
    sigemptyset(&c->caught);
    catch_signal(c, &c->terminate, terminate, SIGTERM);
    catch_signal(c, &c->interrupt, terminate, SIGINT);
    catch_signal(c, &c->hang_up, hang_up, SIGHUP);
    catch_signal(c, &c->replace, replace, SIGUSR2);
    c->watch_error = watch_config(c);
    if (s->settings.envoy.config) {
        c->envoy = c->reloading = look_at_envoy(c);
        uv_timer_start(&c->look, look, ENVOY_MS, ENVOY_MS);
    }
    *out = c;
    return WEIR_OK;
}

bool control_run(struct control *c)
{
    const int64_t watchdog_ms = sd_notify_watchdog_interval_ms();

    if (c->watch_error)
        event_log_write(c->server->log, "warn", "not-watching",
                        "changes of the policy file are not detected (%s): reload it by SIGHUP",
                        uv_strerror(c->watch_error));
    if (watchdog_ms > 0)
        uv_timer_start(&c->watchdog, bark, (uint64_t)watchdog_ms, (uint64_t)watchdog_ms);
    pthread_sigmask(SIG_UNBLOCK, &c->caught, NULL); /* those that came meanwhile come now */
    uv_run(&c->uv, UV_RUN_DEFAULT);
    if (c->is_replacing)
        handover_cancel(&c->handover);
    return c->has_successor;
}

void control_close(struct control *c)
{
    if (!c)
        return;
    uv_walk(&c->uv, close_any, NULL);
    uv_run(&c->uv, UV_RUN_DEFAULT);
    uv_loop_close(&c->uv);
    free(c->config_name);
    free(c);
}
