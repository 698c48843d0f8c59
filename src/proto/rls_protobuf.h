/* rls_protobuf.h - requests to Envoy's rate limit service and its answers, as protobuf. */
#ifndef WEIR_PROTO_RLS_PROTOBUF_H
#define WEIR_PROTO_RLS_PROTOBUF_H

#include "proto/protobuf.h"
#include "proto/rls.h"

/* Only what a request has is written to. */
struct rls_protobuf {
    struct rls_request request;
    struct rls_descriptor descriptors[RLS_MAX_DESCRIPTORS];
    struct rls_entry entries[RLS_MAX_DESCRIPTORS * RLS_MAX_ENTRIES]; /* of all descriptors */
    size_t entry_count;
};

/* The texts of the request are those of the message. */
enum protobuf_fault rls_protobuf_read(struct rls_protobuf *to, struct span message,
                                      weir_diag *diag) WEIR_MUSTCHECK;

void rls_protobuf_answer(struct buf *out, const struct rls_answer *a);

#endif
