/* traceparent.h - which trace a request belongs to: the header `traceparent` of W3C Trace Context.
 * Pure: no I/O.
 *
 *     00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 */
#ifndef WEIR_PROTO_TRACEPARENT_H
#define WEIR_PROTO_TRACEPARENT_H

#include <stdbool.h>

#include "base/span.h"

enum { TRACE_ID = 16, SPAN_ID = 8, TRACEPARENT_LEN = 55, TRACEPARENT_MAX = 256 };

struct traceparent {
    unsigned char trace_id[TRACE_ID];
    unsigned char span_id[SPAN_ID]; /* of the caller */
    bool is_sampled;                /* the caller records this trace */
    bool is_set;                    /* false: there is none, and nothing else is valid */
};

/* A later version may have more behind what is known, up to TRACEPARENT_MAX bytes in all. What is
 * not valid is as good as none: false, and nothing is set. */
bool traceparent_read(struct span text, struct traceparent *out);

#endif
