/* rls.h - a request to Envoy's rate limit service and its answer, in whichever form they come.
 *
 * The names are those of envoy.service.ratelimit.v3. Spans of a request are borrowed. */
#ifndef WEIR_PROTO_RLS_H
#define WEIR_PROTO_RLS_H

#include <stdint.h>

#include "base/value.h"
#include "weir.h"

enum {
    RLS_MAX_DESCRIPTORS = 64,
    RLS_MAX_ENTRIES = 32,     /* of a descriptor */
    RLS_MAX_BODY = 64 * 1024, /* of a request as JSON */
};

struct rls_entry {
    struct span key, value;
};

struct rls_descriptor {
    const struct rls_entry *entries;
    size_t entry_count;
    bool has_limit; /* of its own, for what is configured: */
    uint32_t requests_per_unit;
    int unit;
    bool has_hits; /* of its own, for those of the request: */
    uint64_t hits;
    bool is_negative; /* they are given back */
};

struct rls_request {
    struct span domain;
    const struct rls_descriptor *descriptors;
    size_t descriptor_count;
    uint32_t hits_addend; /* 0: 1 */
};

enum rls_code { RLS_UNKNOWN, RLS_OK, RLS_OVER_LIMIT };

struct rls_status {
    enum rls_code code;
    bool has_limit; /* then: */
    uint32_t requests_per_unit;
    int unit;
    const char *name; /* "": it has none */
    int64_t until_reset_s;

    uint32_t remaining;
};

struct rls_header {
    const char *name;
    char value[24];
};

struct rls_answer {
    enum rls_code code;
    const struct rls_status *statuses;
    size_t status_count;
    struct rls_header headers[3]; /* of the response */
    size_t header_count;
    const struct value *metadata; /* a map; NULL: there is none */
};

extern const char *const rls_code_names[3];
extern const char *const rls_unit_names[8]; /* as they are numbered in a status */

#endif
