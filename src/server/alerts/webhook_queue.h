/* webhook_queue.h - brings messages to webhooks, and retries what could not be delivered.
 *
 * A thread of its own does it. Other threads only put messages into a bounded queue. */
#ifndef WEIR_SERVER_ALERTS_WEBHOOK_QUEUE_H
#define WEIR_SERVER_ALERTS_WEBHOOK_QUEUE_H

#include <stdatomic.h>

#include "base/span.h"
#include "weir.h"

struct webhook_queue;
struct event_log;

enum {
    WEBHOOK_QUEUE_MOST = 64,         /* messages that wait */
    WEBHOOK_QUEUE_TIMEOUT_MS = 5000, /* for one attempt */
    WEBHOOK_QUEUE_MOST_TRIES = 10,
};

struct webhook_queue_counts {
    uint64_t sent, failed; /* failed: given up, or there was no room */
    size_t waiting;
};

/* `first_wait_ms`: before the second attempt; each further one waits twice as long, up to a minute.
 * 0: a second. */
WEIR_MUSTCHECK weir_err webhook_queue_start(struct webhook_queue **out, struct event_log *log,
                                            int64_t first_wait_ms, weir_diag *diag);

/* What waits is told of, and dropped. NULL is fine. */
void webhook_queue_stop(struct webhook_queue *c);

/* Both are copied. `what` names it in the log. False: there is no room. */
bool webhook_queue_send(struct webhook_queue *c, const char *what, const char *url,
                        struct span body);

struct webhook_queue_counts webhook_queue_counts(struct webhook_queue *c); /* of NULL: zeros */

#endif
