/* sampler.h - once a second, what the loops have decided since the last time: for those who keep it
 * and those who watch it.
 *
 * A thread of its own, which may wait. */
#ifndef WEIR_SERVER_ALERTS_SAMPLER_H
#define WEIR_SERVER_ALERTS_SAMPLER_H

#include "server/metrics/observer.h"
#include "store/history_store.h"

struct sampler;
struct alarms;
struct holdings;
struct event_log;

struct sampler_options {
    struct observer *const *observers;
    size_t observer_count;
    struct history_store *history_store; /* outlives the sampler */
    struct event_log *log;
    struct alarms *alarms;     /* NULL: none; outlives the sampler */
    struct holdings *holdings; /* what is held in `store`; NULL: it is not looked at; outlives it */
    struct store *store;
    void (*each_second)(void *ctx, int64_t now); /* is called by the thread; NULL: nothing is */
    void *each_second_ctx;
    int64_t (*clock)(void *ctx);
    void *clock_ctx;
};

WEIR_MUSTCHECK weir_err sampler_start(struct sampler **out, const struct sampler_options *options,
                                      weir_diag *diag);

/* Takes what is left, and ends. NULL is fine. */
void sampler_stop(struct sampler *s);

/* ---- for tests, without the thread ---- */

struct sampler *sampler_new(const struct sampler_options *options); /* NULL: out of memory */
void sampler_take(struct sampler *s, int64_t now);
void sampler_keep(struct sampler *s);                /* hand what was taken to the history_store */
void sampler_finish(struct sampler *s, int64_t now); /* both, with a minute that is not over */
void sampler_free(struct sampler *s);

#endif
