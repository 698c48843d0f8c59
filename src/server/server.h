/* server.h - the only place that knows every layer: loops, listeners, policies, admin. */
#ifndef WEIR_SERVER_SERVER_H
#define WEIR_SERVER_SERVER_H

#include <stdatomic.h>

#include "engine/handle.h"
#include "server/event_log.h"
#include "server/loop.h"
#include "server/observer.h"
#include "server/settings.h"
#include "server/tokens.h"

struct tls_context;

struct server {
    struct server_settings settings;
    weir *weir;
    struct tokens *tokens;
    struct event_log *log;
    _Atomic(struct tls_context *) tls; /* NULL: plain only */

    struct loop *loops;
    size_t loop_count;
    struct observer **observers; /* one a loop */

    atomic_long connections;
    atomic_long refused_connections;
    atomic_bool is_draining; /* /readyz says no */
    int64_t started_ms;

    /* The last reload. */
    pthread_mutex_t reload_lock;
    atomic_long reloads, reload_failures;
    int64_t reloaded_ms;
    char *reload_problem; /* what was wrong with the file; NULL: it was loaded. Under reload_lock */
};

/* Serve until SIGTERM or SIGINT. Returns the exit status; says on stderr why it could not. */
int server_run(const struct server_settings *settings);

/* Read the policies (and tokens and certificates) again; blocks: never from a loop's turn. */
weir_err server_reload(struct server *s, const char *why, weir_diag *diag);

#endif
