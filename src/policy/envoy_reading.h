/* envoy_reading.h - what the readers of files for envoyproxy/ratelimit share. */
#ifndef WEIR_POLICY_ENVOY_READING_H
#define WEIR_POLICY_ENVOY_READING_H

#include "policy/envoy.h"
#include "policy/loader.h"

struct envoy_reading {
    struct loader *loader;
    struct envoy_domain *domain; /* whose file is read */
    size_t count;                /* of descriptors */
    bool is_full;                /* there are more than may be */
};

/* envoy_scalar.c: what YAML takes a text for that has no quotes. */
enum value_kind envoy_scalar_kind(const struct yaml *node);
bool envoy_scalar_is_float(const struct yaml *node); /* a number that is not whole */

/* Free values, which may be anything. NULL: there are none, or they were complained of. */
const struct value *envoy_read_metadata(struct loader *l, const struct yaml *node);

/* Into the trees of the set. */
void envoy_read(struct loader *l);

/* "domain.key_value.key": what envoyproxy/ratelimit calls it in metrics and messages. */
void envoy_path(struct buf *out, const struct envoy_domain *domain, const struct envoy_node *node);

#endif
