/* descriptors.h - checks of limits that were found for the descriptors of a request of Envoy.
 *
 * They are charged like the rules of policies that are asked together: all or none. But a limit may
 * be asked for several identities at once, each may have a cost of its own, and the rows of the
 * answer stand in the order of the charges. */
#ifndef WEIR_ENGINE_DESCRIPTORS_H
#define WEIR_ENGINE_DESCRIPTORS_H

#include "engine/engine.h"
#include "policy/envoy.h"

struct limit_ask {
    const struct envoy_limit *limit; /* NULL: it came with the descriptor */
    const struct policy_rule *rule;  /* which counts it */
    const struct envoy_entry *entries;
    size_t entry_count;
    int64_t cost;
    bool brings_numbers; /* for those of the rule */
    struct rule numbers;
    bool is_enforced; /* whatever the mode of the rule */

    struct key key;   /* out: what it is counted under; equal ones are one charge of all costs */
    bool is_left_out; /* out: it is off, or exempt */
    bool is_shadow;   /* out */
};

/* Like engine_prepare(), with the verb, `peek` and `is_judged` set; needs no request. At most
 * WEIR_MAX_RULES. */
WEIR_MUSTCHECK weir_err engine_prepare_limits(struct engine *e, struct check *check,
                                              struct limit_ask *asks, size_t n, weir_diag *diag);

/* The row of the answer that is about this key; NULL: there is none. Needs no policies. */
const weir_rule_answer *check_row_of(const struct check *check, struct key key);

#endif
