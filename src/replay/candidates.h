/* candidates.h - a set of policies with limits to be tried in place of those of another set.
 *
 * Candidates are rules in shadow: each is judged and counted alone, whatever the others say. What
 * the set has besides, as exemptions, is that of the other set, which it borrows. */
#ifndef WEIR_REPLAY_CANDIDATES_H
#define WEIR_REPLAY_CANDIDATES_H

#include "policy/policy.h"

struct candidate {
    const struct policy_rule *rule; /* of the other set: whose policy and attributes it has */
    struct rule numbers;            /* checked by rule_check() */
    const struct policy_rule *made; /* out: the rule of the new set */
};

/* At most WEIR_MAX_RULES of one policy; those of one policy stand together. */
WEIR_MUSTCHECK weir_err candidates_make(const struct policies *of, const struct secret *secret,
                                        struct candidate *list, size_t n, struct policies **out);

#endif
