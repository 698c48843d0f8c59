/* observer.h - what one loop has decided: counters, times, who is limited most, what is logged.
 *
 * A loop's observer is written by that loop alone and read by whoever answers /metrics, /v1/stats
 * or /v1/top; all of its numbers are atomics or under its own short lock. Its memory is bounded. */
#ifndef WEIR_SERVER_OBSERVER_H
#define WEIR_SERVER_OBSERVER_H

#include "base/buf.h"
#include "engine/engine.h"

struct observer;
struct event_log; /* see event_log.h */

struct observer *observer_new(const struct secret *secret, struct event_log *log);
void observer_free(struct observer *o);

/* One check was answered. For every rule of the answer: allowed, denied, shadow-denied …; on a
 * refusal, the identity's tag goes to the top list and, sampled, to the log. */
void observer_answer(struct observer *o, const struct check *check, int64_t now);

/* n decisions took this long from decoded to decided. */
void observer_time(struct observer *o, uint64_t ns, size_t n);
void observer_commit(struct observer *o, uint64_t ns, size_t batch); /* one commit of so many */
void observer_request(struct observer *o, int protocol,
                      int status); /* HTTP status; RESP: 0, or 1: an error */

/* ---- read from any thread ---- */

struct server;

/* The sums over all loops. */
void observers_metrics(struct observer *const *all, size_t n,
                       struct buf *out);                                      /* Prometheus text */
void observers_stats(struct observer *const *all, size_t n, struct buf *out); /* JSON members */
void observers_top(struct observer *const *all, size_t n, size_t count, const char *policy,
                   struct buf *out); /* JSON array */

#endif
