/* answer.h - from decided charges to the answer of a check. */
#ifndef WEIR_ENGINE_ANSWER_H
#define WEIR_ENGINE_ANSWER_H

#include "engine/engine.h"

/* Allowed and not counted: exempt, or off. */
void answer_uncounted(struct check *check, weir_source source);

/* Refused by an operator until then; 0: for good. The limit is the one that the rule has. */
void answer_blocked(struct check *check, const struct policy_rule *rule, int64_t limit,
                    int64_t until, int64_t now);

/* All questions are decided, or have failed. */
void answer_from_charges(struct check *check);

/* The same of a plain check that was decided. What all answers of its pattern have in common can be
 * written before, while the store's memory is on its way. */
void answer_plain(struct check *check);
void answer_in_common(struct check *check);

/* The same for one that has no struct check: what is known of it before, and what was decided. */
void answer_name_lone(const char *policy, const char *rule, const struct rule *numbers,
                      weir_answer *a);
void answer_lone(const struct decision *d, bool is_unkept, weir_answer *a);

void answer_from_reservation(struct check *check); /* … the one about a reservation */

/* After that, why it has none, if more is known than its error; else NULL. */
const char *answer_why(const struct check *check);

/* The same of one with this id, in which this override had a say (0: none had), without a struct check.
 * False: something was refused, or not all of its rules are enforced and of policies, and what was
 * written means nothing. */
bool answer_held(const struct question *q, const char id[WEIR_MAX_ID + 1], int64_t override_id,
                 weir_answer *a);

#endif
