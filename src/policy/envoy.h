/* envoy.h - limits as they are configured for envoyproxy/ratelimit: domains, descriptors, limits.
 *
 * A request of Envoy has a domain and some descriptors; a descriptor is a list of entries, each a
 * key and a value. What is configured is a tree of descriptors for each domain. A limit holds for
 * the descriptors that lead to it: on each level the entry is looked for with its value, then
 * among the patterns in their order, then with its key alone.
 *
 * Each limit is also a policy of the set, which stands behind those of the policy file. It has one
 * rule that counts by those entries of which the configuration does not say the value. So all that
 * is known of policies is known of limits: metrics, history, overrides.
 *
 * A loaded set never changes. Names are kept as those of policies are; everything else is freed
 * with the set. */
#ifndef WEIR_POLICY_ENVOY_H
#define WEIR_POLICY_ENVOY_H

#include "base/value.h"
#include "policy/identity.h"
#include "policy/policy.h"

enum {
    ENVOY_MOST_FILES = 256,
    ENVOY_MOST_DESCRIPTORS = 65536, /* of all files, as aliases can make many */
    ENVOY_MOST_LEVELS = 16,         /* of descriptors below each other */
};

/* Numbered as in the answers of the service. */
enum envoy_unit {
    ENVOY_UNKNOWN,
    ENVOY_SECOND,
    ENVOY_MINUTE,
    ENVOY_HOUR,
    ENVOY_DAY,
    ENVOY_MONTH,
    ENVOY_YEAR,
    ENVOY_WEEK,
    ENVOY_UNITS
};
extern const char *const envoy_unit_names[ENVOY_UNITS]; /* "second" */
int64_t envoy_unit_ms(enum envoy_unit unit);            /* 0: it is ENVOY_UNKNOWN */

struct envoy_entry {
    struct span key, value;
};

struct envoy_limit {
    const struct policy_rule *rule; /* NULL: it is unlimited */
    uint32_t requests_per_unit;
    enum envoy_unit unit;
    struct rule numbers; /* the same */
    const char *name;    /* "": it has none */
    const char *const *replaces;
    size_t replaces_count;
    bool is_unlimited, is_quota;
    bool is_shared;               /* one count for a pattern, somewhere on the way to it */
    uint16_t varies;              /* bits: the levels whose values are counted by … */
    uint16_t is_wild;             /* … and of these, those whose keys are patterns */
    uint16_t shown;               /* the levels whose values are part of what metrics call it … */
    bool is_detailed;             /* … or all of them */
    const struct value *metadata; /* NULL: none */
    const struct envoy_domain *domain;
    const struct envoy_node *node;
};

struct envoy_domain;

bool envoy_is_loaded(const struct policies *set);
const struct envoy_domain *envoy_find_domain(const struct policies *set, struct span name);

/* NULL: there is none for it. */
const struct envoy_limit *envoy_find_limit(const struct envoy_domain *domain,
                                           const struct envoy_entry *entries, size_t n);

/* What counts for limits that come with a descriptor, in so large a window. Its numbers are those of
 * the request. */
const struct policy_rule *envoy_brought_rule(const struct envoy_domain *domain,
                                             enum envoy_unit unit);

/* Whom the limit counts for these entries; NULL: a limit that came with them, which counts by all.
 * Never too long: then values stand for themselves by hashes. */
void envoy_identity(const struct envoy_limit *limit, const struct policy_rule *rule,
                    const struct envoy_entry *entries, size_t n, struct identity *out);

/* What metrics call it if values are part of that: `domain.key_value`. False: they are not, and it
 * is called as its policy is. */
bool envoy_metric_name(const struct envoy_limit *limit, const struct envoy_entry *entries, size_t n,
                       char name[WEIR_MAX_NAME + 1]);

/* Does it match? A `*` stands for any characters, or none. */
bool envoy_pattern_matches(struct span pattern, struct span text);

/* ---- loading: envoy_read.c, envoy_policies.c ------------------------------------------------ */

struct loader;
struct settings;

/* The files of a path: itself, or what is in the directory. Sorted by name. False: `problem` says
 * why not. */
typedef void envoy_file(void *ctx, const char *path);
bool envoy_each_file(const char *path, envoy_file *each, void *ctx, weir_diag *problem);

struct envoy_reader {
    void (*read)(struct loader *l); /* the trees, before the policies are read */
    void (*make_policies)(struct loader *l,
                          const struct settings *defaults); /* behind the others */
};
extern const struct envoy_reader envoy_reader;

static inline struct envoy_files envoy_files_at(const char *path, bool merges_domains)
{
    return (struct envoy_files){ path, merges_domains, &envoy_reader };
}

/* ---- of these files ------------------------------------------------------------------------- */

struct envoy_node {
    struct span key, value; /* value.len 0: any */
    bool is_pattern;
    struct envoy_node *patterns, *last_pattern, *next_pattern; /* of those below, in file order */
    bool is_shared, shows_value, is_detailed, is_shadow, is_quota;
    struct envoy_limit *limit;       /* NULL: none */
    const struct envoy_node *parent; /* NULL: the domain's */
    struct envoy_node *first, *last, *next;
    size_t count;              /* of those below */
    struct envoy_node **slots; /* of these, by key and value */
    size_t slot_mask;
    size_t level; /* from 0 */
    int line, column;
    bool is_new; /* not looked at by envoy_index_nodes() yet */
};

struct envoy_domain {
    struct span name;
    struct envoy_node root;
    struct policy brought; /* of limits that come with descriptors; not one of the set's */
    struct policy_rule brought_rules[ENVOY_UNITS];
    struct envoy_domain *next;
};

/* Make those below findable. Those that are new, and there already, are told. False: out of
 * memory. */
typedef void envoy_twin(void *ctx, const struct envoy_node *node);
bool envoy_index_nodes(struct envoy_node *parent, struct arena *arena, envoy_twin *twin, void *ctx);

#endif
