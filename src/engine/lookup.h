/* lookup.h - whom a value stands for: in every policy that counts by it, what it is called and how
 * it stands. */
#ifndef WEIR_ENGINE_LOOKUP_H
#define WEIR_ENGINE_LOOKUP_H

#include "engine/usage.h"
#include "policy/policy.h"

enum { LOOKUP_POLICIES = 1000 }; /* the others are only counted */

struct lookup_rule {
    const char *name, *counts, *by[POLICY_MAX_BY]; /* the handle's, as all names here */
    size_t by_count;
    struct key tag;
};

struct lookup_policy {
    const char *name;
    struct lookup_rule rules[WEIR_MAX_RULES];
    size_t rule_count;
    weir_attribute attributes[WEIR_MAX_ATTRIBUTES]; /* that it counts by */
    size_t attribute_count;
    const char *missing; /* one that was not given: nothing more is known then */
};

struct lookup {
    weir_allocator allocator;
    struct lookup_policy *policies;
    struct usage *usages; /* of each */
    size_t count, room, left_out;
    size_t found; /* of `count`: those that nothing is missing for */
};

/* Of a request's attributes; or of its key, which then stands for the one attribute of each policy
 * that has only one. Policies in which the value cannot be one (an address that is none) are left
 * out; if it can be one in none of them, that is the error. Asks the store once a policy: never from
 * a loop's turn. The request's values are borrowed until lookup_done(), which is needed in any
 * case. */
WEIR_MUSTCHECK weir_err lookup_read(weir *w, const weir_request *r, struct lookup *out,
                                    weir_diag *diag);
void lookup_done(struct lookup *l);

/* The same of the request's policy alone, without how it stands. One that counts by no attribute has
 * no rules in here. */
WEIR_MUSTCHECK weir_err lookup_policy(weir *w, const weir_request *r, struct lookup_policy *out,
                                      weir_diag *diag);

#endif
