/* rls_json.h - requests to Envoy's rate limit service and its answers, as protobuf writes them in
 * JSON. */
#ifndef WEIR_PROTO_RLS_JSON_H
#define WEIR_PROTO_RLS_JSON_H

#include "proto/rls.h"

struct rls_json {
    struct json_t *tree;
    struct rls_entry *entries; /* of all descriptors */
    struct rls_descriptor descriptors[RLS_MAX_DESCRIPTORS];
    struct rls_request request;
};

/* Names of members are taken in both forms, as in `hitsAddend` and `hits_addend`; numbers may be
 * texts. An unknown member is an error. To be closed either way. */
WEIR_MUSTCHECK weir_err rls_json_open(struct rls_json *j, struct span body, weir_diag *diag);
void rls_json_close(struct rls_json *j);

/* What has its default value is left out. */
void rls_json_answer(struct buf *out, const struct rls_answer *a);

#endif
