/* server.h - the only place that knows every layer: loops, listeners, policies, admin. */
#ifndef WEIR_SERVER_SERVER_H
#define WEIR_SERVER_SERVER_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/handle.h"
#include "net/listener.h"
#include "server/alerts/alarms.h"
#include "server/alerts/sampler.h"
#include "server/alerts/webhook_queue.h"
#include "server/log/event_log.h"
#include "server/log/incidents.h"
#include "server/loop.h"
#include "server/metrics/holdings.h"
#include "server/metrics/observer.h"
#include "server/metrics/vitals.h"
#include "server/settings.h"
#include "server/telemetry/telemetry.h"
#include "server/tokens.h"

struct server {
    struct server_settings settings; /* what it was started with */
    const struct settings_source *source;
    weir *weir;
    struct tokens *tokens;
    struct event_log *log;
    struct buf welcome; /* see http_write_welcome() */
    struct listeners listeners;
    char *reachable; /* the name of one that other machines can reach; NULL: none */
    struct loop *loops;
    size_t loop_count;
    struct observer **observers;         /* one a loop */
    struct history_store *history_store; /* the history of what they have seen */
    struct webhook_queue *webhook_queue; /* of alarms */
    struct alarms *alarms;
    struct holdings *holdings;
    struct vitals *vitals;
    struct sampler *sampler; /* writes the history, and wakes the alarms */
    struct reloader *reloader;
    struct telemetry *telemetry; /* what is sent to a receiver of OpenTelemetry */

    int64_t most_connections; /* as many as may be, and as there can be files */
    atomic_long connections;
    atomic_long unwelcome; /* of these, those that only wait to be refused */
    atomic_long refused_connections;
    atomic_long unknown_domains; /* that Envoy asked for */
    struct incidents incidents;
    atomic_bool is_draining;
    bool has_served;
    int64_t started_ms;

    pthread_mutex_t lock;                 /* of what follows */
    _Atomic(struct tls_context *) tls;    /* NULL: plain only; counted under the lock */
    atomic_long reloads, reload_failures; /* may be read without it */
    int64_t reloaded_ms;
    char *reload_problem; /* what was wrong at the last reload; NULL: nothing */
};

/* Serve until SIGTERM or SIGINT. `source` is where the settings came from. `argv` is what the
 * program was started with, to start a successor like it. Returns the exit status; says on stderr
 * why it could not. */
int server_run(const struct server_settings *settings, const struct settings_source *source,
               char *const argv[]);

/* Read the policies, tokens and certificates again, and which files they are in. What cannot be
 * read stays as it was. On success the diag says what has changed of the policies. Waits for loops:
 * it is the reloader's to call. */
WEIR_MUSTCHECK weir_err server_reload(struct server *s, const char *why, weir_diag *diag);

/* What a reload would change in the policies, as a sentence and as a list in JSON. Not from a loop's
 * turn. */
WEIR_MUSTCHECK weir_err server_preview(struct server *s, struct buf *sentence, struct buf *list,
                                       weir_diag *diag);

/* The policies in force, as JSON; how many there are. */
size_t server_list_policies(struct server *s, struct buf *out);

/* False: WEIR_ENABLED=false, and everything is allowed. */
bool server_enabled(struct server *s);

/* Counted; NULL: there is none. */
struct tls_context *server_tls(struct server *s);

/* Telemetry by these settings from now on; what is not quite right with them is logged. */
WEIR_MUSTCHECK weir_err server_load_telemetry(struct server *s, const struct server_settings *o,
                                              weir_diag *diag);

/* ---- in server_reload.c, for the start ----------------------------------------------------- */

WEIR_MUSTCHECK weir_err server_load_tls(struct server *s, const struct server_settings *o,
                                        weir_diag *diag);
WEIR_MUSTCHECK weir_err server_check_listeners(const struct server *s,
                                               const struct server_settings *o, weir_diag *diag);
void server_warn_of_tokens(const struct server *s, const weir_diag *diag);
void server_log_switches(struct server *s); /* those of the environment */

#endif
