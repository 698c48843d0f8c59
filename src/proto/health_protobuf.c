/* health_protobuf.c - the messages of grpc.health.v1. */
#include "proto/health_protobuf.h"

enum protobuf_fault health_protobuf_read(struct span message, struct span *service, weir_diag *diag)
{
    struct protobuf m = protobuf_of(message);
    struct protobuf_field f;

    *service = (struct span){ "", 0 };
    while (protobuf_next(&m, &f))
        if (f.key == PROTOBUF_KEY(1, BYTES)) {
            *service = f.bytes;
            if (!protobuf_is_text(f.bytes))
                return protobuf_not_text(diag);
        }
    return m.is_bad ? protobuf_malformed(diag) : PROTOBUF_FINE;
}

void health_protobuf_answer(struct buf *out, enum health_status status)
{
    protobuf_number(out, 1, status);
}

bool health_protobuf_knows(struct span service)
{
    /* The second is what envoyproxy/ratelimit calls its own. */
    return service.len == 0 || span_is(service, "ratelimit") ||
           span_is(service, "envoy.service.ratelimit.v3.RateLimitService") ||
           span_is(service, "weir.v1.Weir");
}
