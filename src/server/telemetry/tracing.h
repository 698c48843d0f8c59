/* tracing.h - which checks of a loop become spans of a trace, and the spans that wait to be sent.
 *
 * A loop's tracing is written by that loop alone; one other thread takes spans out. Neither waits:
 * what there is no room for is counted and left out. The names of policies and rules are those that
 * the handle keeps until it closes. */
#ifndef WEIR_SERVER_TELEMETRY_TRACING_H
#define WEIR_SERVER_TELEMETRY_TRACING_H

#include <stdatomic.h>

#include "engine/engine.h"
#include "proto/traceparent.h"
#include "server/metrics/decision_counts.h"

enum { TRACING_MOST_SPANS = 2048 }; /* that wait, of one loop */

struct trace_span {
    unsigned char trace_id[TRACE_ID], span_id[SPAN_ID];
    unsigned char parent_id[SPAN_ID];
    bool has_parent;
    uint64_t began_ns, ended_ns; /* since 1970 */
    const char *policy, *rule;   /* policy NULL: the limit came with the request, without a name */
    enum outcome outcome;
    weir_source source;
    bool has_tag; /* else nothing was charged */
    struct key tag;
};

/* Which checks. Shares are of SHARE_ALL, see policy/rate.h. */
struct tracing_rule {
    bool follows_caller; /* those whose caller records the trace */
    int denied, all;     /* shares of the others */
    bool is_logged;      /* lines about a check have the ids of its caller's trace */
};

struct tracing;

struct tracing *tracing_new(void); /* NULL: out of memory */
void tracing_free(struct tracing *t);

/* From any thread. */
void tracing_set(struct tracing *t, const struct tracing_rule *rule);

/* ---- the loop's ---- */

/* A check was answered, which was asked at `began_ns` by clock_monotonic_ns(). Returns what the log
 * is to have of its caller's trace; NULL: nothing. */
const struct traceparent *tracing_answer(struct tracing *t, const struct engine *engine,
                                         const struct check *check,
                                         const struct traceparent *caller, uint64_t began_ns);

/* All that were answered are decided and kept by now. */
void tracing_decided(struct tracing *t, uint64_t now_ns);

/* ---- the taker's ---- */

/* Up to so many, the oldest first. Returns how many. */
size_t tracing_take(struct tracing *t, struct trace_span *out, size_t most);
size_t tracing_waiting(const struct tracing *t);
uint64_t tracing_dropped(const struct tracing *t); /* there was no room for them */

#endif
