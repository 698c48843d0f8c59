/* handle.h - the inside of a `weir`: for the files that it is made of, and for the server, which
 * has event loops of its own. */
#ifndef WEIR_ENGINE_HANDLE_H
#define WEIR_ENGINE_HANDLE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/published.h"
#include "base/worker.h"
#include "engine/engine.h"
#include "engine/ledger_view.h"
#include "engine/pushed.h"

struct weir {
    struct engine engine;
    struct caller_loop *caller_loop; /* of a remote store; else NULL */
    struct deny_cache *denials;      /* the engine's, if it has one */
    struct leases *leases;           /* the engine's, if it has some */
    _Atomic unsigned after_errors;   /* of the policies' fallback */
    struct published policies;       /* a struct policies, or NULL */
    uint64_t editions;               /* of them, that were published; with `reloading` */
    struct ledger_view *ledger_view; /* what operators have changed */
    struct pushed *pushed;           /* what the store has of policies */
    atomic_bool has_news;            /* … and others may have changed more */
    struct policy_source source;
    pthread_mutex_t reloading; /* held from reading policies to publishing them */
    bool ignores_environment;
    char *secret_uri;      /* where the secret is that is not known yet; NULL: it is known */
    int64_t ask_secret_at; /* by clock_steady_ms() */
    weir_err secret_err;
    struct intern *names;
    struct named *named; /* the engine's */
    weir_allocator allocator;
    weir_clock clock;
    void *clock_ctx;
    weir_log log;
    void *log_ctx;

    _Atomic(struct group *) group; /* memory for a group of checks, or NULL: a thread uses it */

    struct worker housekeeper; /* without WEIR_NO_THREAD */
};

static inline int64_t handle_now(const weir *w)
{
    return w->clock(w->clock_ctx);
}

/* weir_open() with limits of envoyproxy/ratelimit beside the policies; NULL: without. */
WEIR_MUSTCHECK weir_err handle_open(weir **out, const weir_options *options,
                                    const struct envoy_files *envoy, weir_diag *diag);

void handle_log(const weir *w, const char *what, const char *why); /* why: NULL, or the cause */

/* Read the policies and publish them; if they cannot be read, those in force stay. */
WEIR_MUSTCHECK weir_err handle_load_policies(weir *w, weir_diag *diag);

/* Only read them: those in force stay. The caller frees what it gets. */
WEIR_MUSTCHECK weir_err handle_preview_policies(weir *w, struct policies **out, weir_diag *diag);

#endif
