/* named.h - the names of limits that come with requests, kept once each, and how they are hashed.
 *
 * A limit with a name is counted, and overruled, as a policy of that name would be that has one
 * rule, `default`, and counts by one attribute: so it keeps its counts when it becomes one.
 *
 * RULES (test_named.c has a test of each)
 *   N1  A client may make up names: no more than NAMED_MOST are kept, and NAMED_NUMBERS kinds
 *       of numbers of each. What is beyond is counted exactly too, but reported as `(other)`.
 *   N2  A name that is known is found without a lock. */
#ifndef WEIR_ENGINE_NAMED_H
#define WEIR_ENGINE_NAMED_H

#include "base/intern.h"
#include "policy/policy.h"

enum { NAMED_MOST = 1024, NAMED_NUMBERS = 4 };

/* No policy's name: a parenthesis cannot stand in one. */
extern const char named_other[]; /* "(other)" */

/* All that is needed of a policy, of one limit of one request. */
struct named_limit {
    struct policy policy; /* its name is a kept one, or named_other */
    struct policy_rule rule;
    char text[WEIR_MAX_NAME + 1]; /* the name */
};

struct named; /* all names */

struct named *named_new(struct intern *names,
                        const weir_allocator *allocator); /* NULL: no memory */
void named_free(struct named *n);                         /* NULL is fine */

/* Fill in all but the rule's `tag_key`. The name is valid. `secret` stays where it is. */
void named_fill(struct named *n, const struct secret *secret, struct span name,
                const struct rule *numbers, struct named_limit *out);

/* The name as it is kept, for what is counted under another; NULL: there is no room for it. */
const char *named_keep(struct named *n, struct span name);

/* Operators have changed something, and know it by the name. */
void named_overrule(struct named *n, struct named_limit *limit);

/* The same without a hash key, and without keeping the name: for what is not counted. */
void named_sketch(struct named *n, struct span name, const struct rule *numbers,
                  struct named_limit *out);

/* Has a request brought it, and is it kept? */
bool named_is_known(struct named *n, struct span name);
bool named_is_kept(struct named *n, struct span name); /* … or has anything else this name? */

#endif
