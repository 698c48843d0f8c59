/* metrics.h - the numbers of a whole server: its loops', its store's and its own. */
#ifndef WEIR_SERVER_METRICS_METRICS_H
#define WEIR_SERVER_METRICS_METRICS_H

#include "base/buf.h"

struct server;

/* From any thread. If memory is short, `out` has failed. */
void metrics_write(struct server *s, struct buf *out); /* the text format of Prometheus 0.0.4 */
void stats_write(struct server *s, struct buf *out);   /* one JSON object */

#endif
