/* origin.h - where the settings of a policy were written: whose they are, and the line.
 *
 * A loaded policy has its settings, but not where they come from. So its text is read
 * once more, as a tree, and looked into. */
#ifndef WEIR_CLI_POLICY_ORIGIN_H
#define WEIR_CLI_POLICY_ORIGIN_H

#include "policy/policy.h"
#include "policy/yaml.h"

struct outline {
    struct arena arena;
    const struct yaml *root;
};

/* The text has no problems: it was loaded before. False: out of memory. */
bool outline_read(struct outline *o, struct span text);
void outline_done(struct outline *o);

/* The key of this name in a mapping; NULL: none, or it is no mapping. */
const struct yaml *outline_key(const struct yaml *mapping, const char *name);

/* The line of an exemption of this policy, or of the file if it is NULL. */
int outline_exemption_line(const struct outline *o, const char *policy, size_t i);

struct origin {
    const char *whose;        /* "rule", "policy", "defaults", "plan", "environment", "built in" */
    int line;                 /* 0: it is not in the file */
    const struct yaml *value; /* as it is in the file, or NULL */
    char variable[160];       /* of the environment */
};

/* Where a rule is in the tree. The one rule of a short policy is the policy itself. */
struct place {
    const struct yaml *defaults, *policy, *rule;
};

struct place place_of(const struct outline *o, const struct policy *p, const struct policy_rule *r);

/* The rule's own, or what the policy or the defaults hand down to it. */
struct origin origin_of(const struct place *place, const char *setting);

/* Of the numbers of a plan or a shadow limit, which is a text or a mapping. */
struct origin origin_within(const struct yaml *limit, const char *whose, const char *setting);

/* If a variable overrides the rule's limit, turn its origin into that. */
void origin_overridden(struct origin *limit, const struct policy *p, const struct policy_rule *r);

#endif
