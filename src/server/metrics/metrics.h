/* metrics.h - the numbers of a whole server: its loops', its store's and its own. */
#ifndef WEIR_SERVER_METRICS_METRICS_H
#define WEIR_SERVER_METRICS_METRICS_H

#include "base/buf.h"
#include "server/metrics/metric_sink.h"

struct server;

/* From any thread. If memory is short, `out` has failed. */
void metrics_write(struct server *s, struct metric_sink *m);
void stats_write(struct server *s, struct buf *out); /* one JSON object */

/* For vitals_look(), by the thread that samples. */
void metrics_note_vitals(struct server *s, int64_t now);

#endif
