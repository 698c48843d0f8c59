/* loader.h - what the readers of policies share: the set that is being made.
 *
 * What they return after a complaint is harmless and never seen: a set with problems is thrown
 * away. The same holds after memory ran out. */
#ifndef WEIR_POLICY_LOADER_H
#define WEIR_POLICY_LOADER_H

#include "base/zone.h"
#include "policy/reader.h"
#include "policy/set.h"

struct loader {
    struct reader reader;
    const struct policy_source *source;
    const struct envoy_reader *envoy; /* NULL: there are no such files */
    struct policies *set;
    struct arena scratch; /* freed when the loading is over */
    struct environment *environment;
    uint64_t classes; /* of rules, that are taken, as bits */
    struct {          /* of the rule that is being read */
        const struct zone *zone;
        const char *zone_name;
        int month_day;
        bool algorithm_is_said, is_used, has_months; /* by limits of the calendar */
    } calendar;
    struct loaded_zone *zones; /* each once */
    size_t own_problems; /* the first that is of the policy file: those before it are of others */
    bool out_of_memory;
};

/* What `defaults`, a policy and a rule hand down, each to the next. */
struct settings {
    weir_algorithm algorithm;
    enum mode mode;
    enum on_error on_error;
    enum retry retry;
    int ipv6_prefix;
    int rollout;
    struct policy_lease lease;
    const char *counts; /* NULL: requests */
    const char *const *by;
    size_t by_count;
    bool algorithm_is_said;
};

struct loaded_zone {
    const char *name;
    struct zone zone;
    struct loaded_zone *next;
};

/* loader.c */
void *loader_take(struct loader *l, size_t n, size_t size); /* part of the set; NULL: no memory */

struct span loader_text(struct loader *l, struct span text); /* a copy, as part of the set */

/* The name as it is kept; "" if it is not one. `what` has the name, for the complaint. */
const char *read_name(struct loader *l, const struct yaml *node, const char *what);

/* rules.c */
struct settings settings_default(void);
void read_defaults(struct loader *l, const struct yaml *node, struct settings *s);
void read_policy(struct loader *l, const struct yaml *key, const struct settings *defaults,
                 struct policy *out);

/* Its class, and what it counts with; `numbers` are complete. */
void rule_finish(struct loader *l, const char *policy, const struct rule *numbers,
                 struct policy_rule *rule);

/* calendar_rule.c */
/* What the rule says of its windows of the calendar: the zone, and the day of the month. */
void calendar_begin(struct loader *l, const struct yaml *zone, const struct yaml *month_day,
                    const struct settings *s);
/* "2000000 per month": then `r` has it. False: it is no limit of the calendar. */
bool calendar_read_limit(struct loader *l, struct span text, struct rule *r);
/* Complain of what no limit of the rule uses. */
void calendar_end(struct loader *l, const struct yaml *zone, const struct yaml *month_day);

/* reserve_settings.c */
void read_reserve(struct loader *l, const struct yaml *node, struct policy_reserve *out);

/* lease_settings.c */
void read_lease(struct loader *l, const struct yaml *node, struct policy_lease *out);
bool check_lease(struct loader *l, const struct yaml *at, const struct rule *r); /* false: none */

/* environment.c */
void environment_open(struct loader *l);

/* Is the limit of this rule, or of a policy in its short form (rule NULL), overridden? Then
 * `numbers` has the limit and the window, and `variable` the name to complain of. */
bool environment_limit(struct loader *l, const char *policy, const char *rule, struct rule *numbers,
                       const char **variable);

/* WEIR_ENABLED, WEIR_ENABLED_POLICIES, and complaints about what no rule asked for. */
void environment_apply(struct loader *l);
void environment_complain(struct loader *l, const char *variable, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
