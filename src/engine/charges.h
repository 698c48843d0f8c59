/* charges.h - from a request to the charges of a check: which rules, whose keys, which numbers. */
#ifndef WEIR_ENGINE_CHARGES_H
#define WEIR_ENGINE_CHARGES_H

#include <string.h>

#include "engine/engine.h"
#include "policy/identity.h"

struct override_index;

extern const char unnamed_scope[]; /* what limits without a name are hashed under */

/* What such a limit is hashed from on, without its identity: its length as a size_t and its bytes
 * follow. Not for a shared store. */
struct hash_start unnamed_start(const struct engine *e, const struct rule *r);

static inline struct span request_key(const weir_request *r)
{
    return (struct span){ r->key, r->key_len ? r->key_len : strlen(r->key) };
}

/* The request names policies: make the charges of their rules, or answer at once. */
WEIR_MUSTCHECK weir_err charges_of_policies(struct engine *e, struct check *check, weir_diag *diag);

/* The same for a limit that came with the request. */
WEIR_MUSTCHECK weir_err charges_of_limit(struct engine *e, struct check *check, weir_diag *diag);

/* Whichever it is. */
WEIR_MUSTCHECK weir_err charges_of_request(struct engine *e, struct check *check, weir_diag *diag);

/* Nothing is known of the check yet but what the caller gives. */
void charges_begin(struct check *check);

/* Have charges added with what operators have changed; the index is NULL if they have not. */
WEIR_MUSTCHECK weir_err charges_with_overrides(struct engine *e, struct check *check,
                                               weir_err (*add)(const struct engine *,
                                                               const struct override_index *,
                                                               struct check *, weir_diag *),
                                               weir_diag *diag);

/* The check may have more charges than one. */
void charges_make_room(struct check *check);

/* What they have in common: the charges of check->policy, whose attributes are known. */
WEIR_MUSTCHECK weir_err charges_of_one(struct engine *e, struct check *check, weir_diag *diag);

/* Nothing is to be asked: it is off, or exempt. */
void charges_are_none(struct check *check, weir_source source);

/* Is it too long, as that of a command? */
WEIR_MUSTCHECK weir_err charge_check_key(struct span key, weir_diag *diag);

/* The next charge; how many there are is not changed. `policy` and `rule` are what it is called in
 * a shared store. */
void charge_put(const struct engine *e, struct check *check, const struct policy_rule *rule,
                const struct rule *numbers, struct key key, struct span identity);
void charge_whose(const struct engine *e, const struct policy_rule *rule, struct span identity,
                  struct whose *out);
void charge_name(const struct engine *e, struct check *check, const char *policy, const char *rule,
                 struct span identity);

#endif
