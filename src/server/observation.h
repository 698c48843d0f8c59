/* observation.h - the inside of an observer, for those who write it out. */
#ifndef WEIR_SERVER_OBSERVATION_H
#define WEIR_SERVER_OBSERVATION_H

#include <pthread.h>

#include "server/log_lines.h"
#include "server/observer.h"
#include "server/series.h"
#include "server/top.h"
#include "server/trials.h"
#include "server/unanswered.h"

enum { OBSERVED_STATUSES = 600 };

struct observer {
    const struct engine *engine; /* whose secret makes the tags */
    struct log_lines lines;

    /* Counted by the loop, read by anybody. */
    struct series_table *checks, *rules;
    struct trials *trials;
    struct histogram decision, commit, batch;
    atomic_uint_fast64_t http[OBSERVED_STATUSES]; /* requests by status */
    atomic_uint_fast64_t resp[2];                 /* well answered, answered by an error */

    pthread_mutex_t lock;         /* of what follows */
    struct unanswered unanswered; /* but for its counts */
    struct top top;
};

#endif
