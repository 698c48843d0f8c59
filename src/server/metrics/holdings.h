/* holdings.h - what reservations hold now, by policy and rule, as the store knows it.
 *
 * A thread that may wait looks from time to time, while there is something held; any thread reads
 * what it has seen. Bounded: rules beyond HOLDINGS_MOST are left out. */
#ifndef WEIR_SERVER_METRICS_HOLDINGS_H
#define WEIR_SERVER_METRICS_HOLDINGS_H

#include "base/json.h"
#include "server/metrics/metric_sink.h"
#include "store/store.h"

enum {
    HOLDINGS_MOST = 1024,
    HOLDINGS_LOOK_MS = 2000,  /* between two looks */
    HOLDINGS_IDLE_MS = 10000, /* … if this server has made none, but others may have */
    HOLDINGS_SHARE = 20,      /* a look takes at most one part in so many of the time */
};

struct holdings;

struct holdings *holdings_new(void); /* NULL: out of memory */
void holdings_free(struct holdings *h);

/* Look, if it is time. `made` is how many reservations the server has made and grown since it
 * started: while none is held and none was made, there is nothing to look at, unless other servers
 * share the store. If a look fails, nothing is known. */
void holdings_look(struct holdings *h, struct store *store, uint64_t made, int64_t now);

/* NULL is fine: nothing is known. */
void holdings_metrics(struct holdings *h, struct metric_sink *m);

/* The member "held": null, if the store cannot tell. */
void holdings_write(struct holdings *h, struct json *j);

#endif
