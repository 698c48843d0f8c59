/* override_index.h - what operators' changes come to, made ready for checks to look up.
 *
 * Built from the entries that are in force, and never changed again. Names are those of `names`,
 * which are kept once: so they are compared by where they are. What has expired since is not
 * found. */
#ifndef WEIR_ENGINE_OVERRIDE_INDEX_H
#define WEIR_ENGINE_OVERRIDE_INDEX_H

#include "policy/identity.h"
#include "store/ledger.h"

/* What holds for one identity. */
struct override {
    struct key tag;
    enum ledger_subject subject;
    const char *policy, *rule; /* NULL: all; a plan is of no rule */
    const char *plan;
    enum ledger_effect effect;
    int64_t limit, burst;
    int64_t expires; /* 0: never */
    uint64_t id;     /* of its entry */
};

/* A policy of which something was changed. */
struct overridden {
    const char *policy;
    bool has_mode, has_overrides;
    enum mode mode;
    int64_t mode_expires; /* 0: never */
    uint64_t mode_id;     /* of its entry */
};

/* An attribute by which plans are assigned. */
struct plan_attribute {
    const char *name;
    struct tag_key tag_key;
};

struct override_index; /* all of them */

/* Of those entries that are no longer in force nothing is seen. NULL: out of memory. */
struct override_index *override_index_new(const struct ledger_entry *const *entries, size_t n,
                                          int64_t now, const struct secret *secret,
                                          struct intern *names, const weir_allocator *allocator);
void override_index_free(struct override_index *o); /* NULL is fine */

const struct overridden *override_index_of(const struct override_index *o,
                                           const char *policy); /* or NULL */

/* What an operator has set for this rule of the policy, or else for all that count by the same; or
 * NULL. */
const struct override *override_index_find(const struct override_index *o, struct key tag,
                                           const char *policy, const char *rule, int64_t now);

/* The plan that is assigned for the policy, or else for all; or NULL. */
const struct override *override_index_find_plan(const struct override_index *o, struct key tag,
                                                const char *policy, int64_t now);

size_t override_index_plan_attributes(const struct override_index *o,
                                      const struct plan_attribute **out);

/* The numbers of a rule, changed as the override has it. Where they would be out of bounds, it is
 * an error, and *out is as `own`. */
WEIR_MUSTCHECK weir_err override_numbers(int64_t limit, int64_t burst, const struct rule *own,
                                         struct rule *out, weir_diag *diag);

#endif
