/* explanation.h - what a policy would do with a request, and why: facts for people and
 * programs. The request may be left out; then they are about the policy alone. */
#ifndef WEIR_CLI_POLICY_EXPLANATION_H
#define WEIR_CLI_POLICY_EXPLANATION_H

#include "cli/policy/file.h"
#include "cli/policy/origin.h"

/* The numbers of one limit. */
struct explained_limit {
    const struct rule *numbers; /* NULL: there is no such limit */
    struct origin limit, burst, precision;
};

struct explained_rule {
    const struct policy_rule *rule;
    const struct plan *plan; /* the one that was asked for, if the rule has it */
    struct explained_limit live, shadow;
    struct origin algorithm, start, block_for, counts, by, ipv6_prefix, mode, rollout, lease;
    bool is_reached;             /* by the rollout, if there is a request */
    char how[POLICY_MAX_BY][64]; /* each attribute of `by` is normalised */
    char tag[TAG_HEX + 1];       /* the hash of the identity; "": it has none */
};

struct explanation {
    const char *path;
    const struct policy *policy;
    struct origin mode, on_error, retry;
    const char *plan;      /* asked for, or NULL */
    const char *plan_near; /* no rule has it, but one with this name */
    bool plan_is_known;
    bool has_request;
    const char *unused[WEIR_MAX_ATTRIBUTES]; /* attributes that nothing looks at */
    size_t unused_count;
    enum { OUTCOME_COUNTED, OUTCOME_OFF, OUTCOME_EXEMPT, OUTCOME_ERROR } outcome;
    char why[512];   /* a sentence about the outcome */
    weir_diag error; /* OUTCOME_ERROR: what a check would say */
    int exempt_line; /* OUTCOME_EXEMPT */
    struct explained_rule rules[WEIR_MAX_RULES];
};

/* Borrows everything. */
void explain(struct explanation *e, const struct policy_file *f, const struct outline *outline,
             const struct policy *policy, const struct attribute *attributes, size_t n,
             const char *plan, bool is_shared); /* the store: Postgres or Redis */

void explanation_print(const struct explanation *e, bool secret_is_lasting);
void explanation_json(const struct explanation *e);

#endif
