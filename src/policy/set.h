/* set.h - one loaded set of policies, as the loader builds it. */
#ifndef WEIR_POLICY_SET_H
#define WEIR_POLICY_SET_H

#include "base/arena.h"
#include "policy/policy.h"

/* The ends of a name, which tell most names apart, and up to 16 bytes are all of it. */
struct name_ends {
    uint64_t head, tail;
    size_t len;
};

struct policy_slot {
    const struct policy *policy; /* NULL: free */
    struct name_ends ends;       /* of its name */
};

struct policies {
    struct arena arena; /* holds all of the set, this struct too */
    uint64_t edition;   /* see policies_edition() */
    bool enabled;
    struct fallback fallback;
    struct policy *all; /* in file order */
    const char **names; /* theirs */
    size_t count;
    struct policy_slot *slots; /* open addressing by name */
    size_t slot_mask;
    const struct exemption *exempt;
    size_t exempt_count;
    const struct alert *alerts;
    size_t alert_count;
    struct envoy_domain *domains; /* of the files for Envoy, in their order */
    size_t envoy_limits;          /* in them; their policies are the last of `all` */
};

/* Make the policies findable by name; false: out of memory. */
bool policies_index(struct policies *set);

#endif
