/* observer_internal.h - the inside of an observer, for those who write it out. */
#ifndef WEIR_SERVER_METRICS_OBSERVER_INTERNAL_H
#define WEIR_SERVER_METRICS_OBSERVER_INTERNAL_H

#include <pthread.h>

#include "server/grpc/statuses.h"
#include "server/log/decision_log.h"
#include "server/metrics/decision_counts.h"
#include "server/metrics/observer.h"
#include "server/metrics/shadow_stats.h"
#include "server/metrics/top.h"
#include "server/metrics/unanswered.h"

enum { OBSERVED_STATUSES = 600 };

struct observer {
    const struct engine *engine; /* whose secret makes the tags */
    struct decision_log lines;

    /* Counted by the loop, read by any thread. */
    struct decision_counts_table *checks, *rules;
    struct decision_counts_table *reservations; /* by policy and the name of an event */
    struct shadow_stats *shadow_stats;
    struct histogram decision, commit, batch;
    atomic_uint_fast64_t http[OBSERVED_STATUSES]; /* requests by status */
    atomic_uint_fast64_t resp[2];                 /* well answered, answered by an error */
    atomic_uint_fast64_t grpc[GRPC_STATUS_COUNT]; /* calls by status */

    pthread_mutex_t lock;         /* of what follows */
    struct unanswered unanswered; /* but for its counts */
    struct top top;
};

#endif
