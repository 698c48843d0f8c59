/* breaker.h - keeps a lane from waiting for a store that does not answer.
 *
 * It opens after so many failures in a row. While it is open, questions fail at once; but one each
 * PROBE_MS is asked nevertheless, to find out whether the store is back. See R5 in remote.h. */
#ifndef WEIR_STORE_REMOTE_BREAKER_H
#define WEIR_STORE_REMOTE_BREAKER_H

#include "store/remote/remote.h"

enum {
    BREAKER_FAILURES = 5,   /* in a row that open it, if the options do not say how many */
    PROBE_MS = 1000,        /* from one probe to the next */
    PROBE_ALONE_MS = 250,   /* if none was asked for so much longer, the lane asks one of its own */
    FAILURE_LOG_MS = 10000, /* between two lines about failures that open no breaker */
};

struct breaker {
    struct remote *remote;
    unsigned failures; /* in a row */
    bool is_open;
    bool has_just_opened; /* and the questions that wait have yet to fail */
    bool has_timeout;     /* since the last answer a question has timed out */
    int64_t probe_at;
};

void breaker_count_failure(struct breaker *b, int64_t now, const char *why);

/* A question that was not answered. Only this failure is logged, if it opens no breaker: a lost
 * link has a line of its own. */
void breaker_count_unanswered(struct breaker *b, int64_t now, const char *why);
void breaker_count_success(struct breaker *b);

void breaker_done(struct breaker *b); /* its lane goes away */

#endif
