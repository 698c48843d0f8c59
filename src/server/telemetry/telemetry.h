/* telemetry.h - sends metrics and spans to a receiver of OpenTelemetry (OTLP by HTTP, as JSON).
 *
 * A thread of its own does it, and only while there is something to send: loops put spans into
 * rings and never wait. Metrics are those of /metrics, read when they are sent: a lost request
 * loses nothing that the next does not have. Spans wait in the rings while the receiver is away;
 * what does not fit is counted and dropped.
 *
 * Not safe for several threads at once, but for telemetry_counts(). */
#ifndef WEIR_SERVER_TELEMETRY_TELEMETRY_H
#define WEIR_SERVER_TELEMETRY_TELEMETRY_H

#include "server/metrics/metric_sink.h"
#include "server/telemetry/telemetry_config.h"

struct event_log;
struct telemetry;

enum {
    TELEMETRY_MOST_BATCH = 512,                 /* spans of a request */
    TELEMETRY_MOST_TRIES = 5,                   /* to send them */
    TELEMETRY_MOST_WAIT_MS = 60 * 1000,         /* between two tries … */
    TELEMETRY_MOST_RETRY_AFTER_MS = 600 * 1000, /* … unless the receiver asks for longer */
    TELEMETRY_FLUSH_MS = 2000,                  /* for what is left at the end */
};

struct telemetry_options {
    void (*write_metrics)(void *ctx, struct metric_sink *m); /* all of them */
    void *ctx;
    int64_t started_ms; /* since when they are counted */
    struct event_log *log;
    size_t loop_count;

    /* From now on a loop traces with this; NULL: no more. It lives until telemetry_free(). */
    void (*set_tracing)(void *ctx, size_t loop, struct tracing *tracing);
    int64_t first_wait_ms; /* before the second try; each further one waits twice as long */
};

/* It does nothing yet. */
WEIR_MUSTCHECK weir_err telemetry_new(struct telemetry **out, const struct telemetry_options *o,
                                      weir_diag *diag);

/* By these settings from now on; on an error, as before. On success the diag has a warning, or is
 * empty. */
WEIR_MUSTCHECK weir_err telemetry_configure(struct telemetry *t,
                                            const struct telemetry_settings *settings,
                                            weir_diag *diag);

/* At the end, when no loop runs any more: stop sending, and write down what is to be sent last.
 * Then the metrics and the names of policies may go, and telemetry_flush() sends it, for
 * TELEMETRY_FLUSH_MS at most. NULL is fine for all. */
void telemetry_end(struct telemetry *t);
void telemetry_flush(struct telemetry *t);
void telemetry_free(struct telemetry *t);

/* How long to wait after so many failures in a row: twice as long each time, and up to a quarter
 * less, so that not all servers come at once; or as long as the receiver asks for (-1: it does
 * not). */
int64_t telemetry_pause(int64_t first_ms, int failures, int64_t asked_ms, uint64_t random);

enum telemetry_signal { SIGNAL_METRICS, SIGNAL_TRACES, TELEMETRY_SIGNALS };
extern const char *const telemetry_signal_names[TELEMETRY_SIGNALS];

struct telemetry_counts {
    uint64_t sent[TELEMETRY_SIGNALS], failed[TELEMETRY_SIGNALS]; /* requests */
    uint64_t spans, dropped_spans;
    uint64_t dropped_points; /* of metrics: too many for their requests, or rejected */
};
struct telemetry_counts telemetry_counts(const struct telemetry *t); /* of NULL: zeros */

#endif
