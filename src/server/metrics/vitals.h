/* vitals.h - the last hour of a server, by the minute: how long decisions took, keys and memory. */
#ifndef WEIR_SERVER_METRICS_VITALS_H
#define WEIR_SERVER_METRICS_VITALS_H

#include "base/buf.h"
#include "server/metrics/observer.h"
#include "weir.h"

enum { VITALS_MINUTES = 60 };

struct vitals;
struct vitals *vitals_new(void); /* NULL: out of memory */
void vitals_free(struct vitals *v);

/* What the minute of `now` is like so far; -1: it is not known. By one thread, every second. */
void vitals_look(struct vitals *v, struct observer *const *observers, size_t count, int64_t keys,
                 int64_t memory_bytes, int64_t now);

/* One JSON object, from any thread. */
void vitals_write(struct vitals *v, struct buf *out);

#endif
