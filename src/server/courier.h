/* courier.h - brings messages to webhooks, and comes again if nobody opens.
 *
 * A thread of its own does it. Whoever has a message only puts it into a bounded queue. */
#ifndef WEIR_SERVER_COURIER_H
#define WEIR_SERVER_COURIER_H

#include <stdatomic.h>

#include "base/span.h"
#include "weir.h"

struct courier;
struct event_log;

enum {
    COURIER_MOST = 64,         /* messages that wait */
    COURIER_TIMEOUT_MS = 5000, /* for one attempt */
    COURIER_MOST_TRIES = 10,
};

struct courier_counts {
    uint64_t sent, failed; /* failed: given up, or there was no room */
    size_t waiting;
};

/* `first_wait_ms`: before the second attempt; each further one waits twice as long, up to a minute.
 * 0: a second. */
WEIR_MUSTCHECK weir_err courier_start(struct courier **out, struct event_log *log,
                                      int64_t first_wait_ms, weir_diag *diag);

/* What waits is told of, and dropped. NULL is fine. */
void courier_stop(struct courier *c);

/* Both are copied. `what` names it in the log. False: there is no room. */
bool courier_send(struct courier *c, const char *what, const char *url, struct span body);

struct courier_counts courier_counts(struct courier *c); /* of NULL: zeros */

#endif
