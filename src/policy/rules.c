/* rules.c - one policy and its rules, read from the tree. */
#include <inttypes.h>
#include <stdio.h>

#include "base/printable.h"
#include "base/xxh.h"
#include "policy/exemption.h"
#include "policy/loader.h"
#include "policy/rate.h"

enum {
    LIMIT,
    BURST,
    PRECISION,
    START,
    BLOCK_FOR,
    ZONE,
    MONTH_DAY,
    BY,
    COUNTS,
    ALGORITHM,
    PLANS,
    MODE,
    IPV6_PREFIX,
    SHADOW_LIMIT,
    ROLLOUT,
    LEASE,
    ON_ERROR,
    RESERVE,
    RETRY_AFTER,
    EXEMPT,
    RULES,
    KEY_COUNT
};

static const char *const words[KEY_COUNT] = {
    [LIMIT] = "limit",
    [BURST] = "burst",
    [PRECISION] = "precision",
    [START] = "start",
    [BLOCK_FOR] = "block_for",
    [ZONE] = "zone",
    [MONTH_DAY] = "month_day",
    [BY] = "by",
    [COUNTS] = "counts",
    [ALGORITHM] = "algorithm",
    [PLANS] = "plans",
    [MODE] = "mode",
    [IPV6_PREFIX] = "ipv6_prefix",
    [SHADOW_LIMIT] = "shadow_limit",
    [ROLLOUT] = "rollout",
    [LEASE] = "lease",
    [ON_ERROR] = "on_error",
    [RESERVE] = "reserve",
    [RETRY_AFTER] = "retry_after",
    [EXEMPT] = "exempt",
    [RULES] = "rules",
};

#define BIT(key) (1u << (key))
#define OF_WINDOWS (BIT(START) | BIT(BLOCK_FOR) | BIT(ZONE) | BIT(MONTH_DAY))
#define IN_LIMIT (BIT(LIMIT) | BIT(BURST) | BIT(PRECISION))
#define IN_RULE                                                                                    \
    (IN_LIMIT | OF_WINDOWS | BIT(BY) | BIT(COUNTS) | BIT(ALGORITHM) | BIT(PLANS) | BIT(MODE) |     \
     BIT(IPV6_PREFIX) | BIT(SHADOW_LIMIT) | BIT(ROLLOUT) | BIT(LEASE))
#define IN_POLICY                                                                                  \
    (IN_RULE | BIT(ON_ERROR) | BIT(RESERVE) | BIT(RETRY_AFTER) | BIT(EXEMPT) | BIT(RULES))
#define BESIDE_RULES (IN_POLICY & ~(IN_LIMIT | OF_WINDOWS | BIT(PLANS) | BIT(SHADOW_LIMIT)))
#define IN_DEFAULTS                                                                                \
    (BIT(ALGORITHM) | BIT(ON_ERROR) | BIT(MODE) | BIT(RETRY_AFTER) | BIT(IPV6_PREFIX))

struct settings settings_default(void)
{
    return (struct settings){
        .algorithm = ALGORITHM_BY_DEFAULT,
        .mode = MODE_ENFORCE,
        .on_error = ON_ERROR_LOCAL,
        .retry = RETRY_LONGEST,
        .ipv6_prefix = 64,
        .rollout = SHARE_ALL,
    };
}

static void read_by(struct loader *l, const struct yaml *node, struct settings *s)
{
    const struct yaml *first = node;
    const char **by;
    size_t n = 1, kept = 0;

    if (node->kind == YAML_LIST) {
        first = node->first;
        n = node->count;
    } else if (!wants(&l->reader, node, YAML_TEXT, "by", "ip")) {
        return;
    }
    s->by = NULL;
    s->by_count = 0;
    by = loader_take(l, n, sizeof *by);
    if (!by)
        return;
    if (n > POLICY_MAX_BY)
        complain(&l->reader, node, "by has %zu attributes: a rule counts by at most %d", n,
                 POLICY_MAX_BY);
    for (const struct yaml *item = first; item; item = item->next) {
        const char *name;

        if (!wants(&l->reader, item, YAML_TEXT, "an attribute", "ip"))
            continue;
        name = read_name(l, item, "an attribute");
        for (size_t i = 0; i < kept; i++)
            if (*name && strcmp(by[i], name) == 0) {
                complain(&l->reader, item, "by has '%s' twice: leave one out", name);
                name = "";
            }
        if (*name && kept < POLICY_MAX_BY)
            by[kept++] = name;
        if (node->kind != YAML_LIST)
            break;
    }
    s->by = by;
    s->by_count = kept;
}

static void read_counts(struct loader *l, const struct yaml *node, struct settings *s)
{
    const char *name;

    if (!wants(&l->reader, node, YAML_TEXT, "counts", "tokens"))
        return;
    name = read_name(l, node, "what a rule counts");
    s->counts = *name && strcmp(name, COUNTS_REQUESTS) != 0 ? name : NULL;
}

static void read_rollout(struct loader *l, const struct yaml *node, struct settings *s)
{
    weir_diag diag;

    if (wants(&l->reader, node, YAML_TEXT, "rollout", "10%") &&
        share_read(node->text, &s->rollout, &diag))
        complain(&l->reader, node, "%s", diag.text);
}

static void read_settings(struct loader *l, const struct yaml *const *keys, struct settings *s)
{
    static const char *const retries[] = { "longest", "soonest" };
    int64_t bits;
    size_t i;

    if (keys[ALGORITHM] && read_choice(&l->reader, keys[ALGORITHM]->value, "algorithm",
                                       algorithm_names, ALGORITHM_COUNT, &i))
        s->algorithm = algorithm_by_name(span_of(algorithm_names[i]));
    s->algorithm_is_said |= keys[ALGORITHM] != NULL;
    if (keys[MODE] &&
        read_choice(&l->reader, keys[MODE]->value, "mode", mode_names, MODE_COUNT, &i))
        s->mode = (enum mode)i;
    if (keys[ON_ERROR] && read_choice(&l->reader, keys[ON_ERROR]->value, "on_error", on_error_names,
                                      ON_ERROR_COUNT, &i))
        s->on_error = (enum on_error)i;
    if (keys[RETRY_AFTER] &&
        read_choice(&l->reader, keys[RETRY_AFTER]->value, "retry_after", retries, 2, &i))
        s->retry = (enum retry)i;
    if (keys[IPV6_PREFIX] &&
        read_whole(&l->reader, keys[IPV6_PREFIX]->value, "ipv6_prefix", 1, 128, &bits))
        s->ipv6_prefix = (int)bits;
    if (keys[BY])
        read_by(l, keys[BY]->value, s);
    if (keys[COUNTS])
        read_counts(l, keys[COUNTS]->value, s);
    if (keys[ROLLOUT])
        read_rollout(l, keys[ROLLOUT]->value, s);
    if (keys[LEASE])
        read_lease(l, keys[LEASE]->value, &s->lease);
}

void read_defaults(struct loader *l, const struct yaml *node, struct settings *s)
{
    const struct yaml *keys[KEY_COUNT];

    if (yaml_is_null(node) ||
        !wants(&l->reader, node, YAML_MAPPING, "defaults", "{on_error: local}"))
        return;
    read_keys(&l->reader, node, "defaults", words, KEY_COUNT, IN_DEFAULTS, keys);
    read_settings(l, keys, s);
}

/* Some numbers are not for every algorithm, whatever they and the others are. */
static bool suits(struct loader *l, const struct yaml *key, struct rule least)
{
    weir_diag diag;

    if (!rule_check(&least, &diag))
        return true;
    complain(&l->reader, key, "%s", diag.text);
    return false;
}

/* `10 at once`: that says the algorithm, too. Plans and shadow limits have that of their rule. */
static bool read_slots(struct loader *l, const struct yaml *limit, bool is_said, struct rule *r)
{
    if (is_said && !algorithm_counts_slots(r->algorithm)) {
        complain(&l->reader, limit, "%s has a window: write a limit such as '%" PRId64 " per 1m'",
                 weir_algorithm_name(r->algorithm), r->limit);
        return false;
    }
    r->algorithm = ALGORITHM_OF_SLOTS;
    return true;
}

/* The numbers of a limit as written: bounds are not yet checked. */
static bool read_numbers(struct loader *l, const struct yaml *const *keys, bool algorithm_is_said,
                         struct rule *r)
{
    weir_diag diag;
    bool good = wants(&l->reader, keys[LIMIT]->value, YAML_TEXT, "limit", "5 per 15m");

    if (good && !calendar_read_limit(l, keys[LIMIT]->value->text, r) &&
        rate_read(keys[LIMIT]->value->text, &r->limit, &r->window, &diag)) {
        complain(&l->reader, keys[LIMIT]->value, "%s", diag.text);
        good = false;
    }
    if (good && r->limit > 0 && r->window == 0)
        good = read_slots(l, keys[LIMIT]->value, algorithm_is_said, r);
    if (keys[BURST] && suits(l, keys[BURST], (struct rule){ r->algorithm, 1, 1, .burst = 1 }))
        good &= read_whole(&l->reader, keys[BURST]->value, "burst", 1, WEIR_MAX_AMOUNT - 1,
                           &r->burst);
    if (keys[PRECISION] &&
        suits(l, keys[PRECISION], (struct rule){ r->algorithm, 1, 1, .precision = 1 })) {
        const struct yaml *value = keys[PRECISION]->value;

        if (!wants(&l->reader, value, YAML_TEXT, "precision", "1s")) {
            good = false;
        } else if (duration_read(value->text, &r->precision, &diag)) {
            complain(&l->reader, value, "%s", diag.text);
            good = false;
        }
    }
    return good;
}

/* Check one number after the other, to complain where the one stands that is wrong. */
static void check_numbers(struct loader *l, const struct yaml *const *keys, const char *variable,
                          struct rule *r)
{
    const struct rule given = *r;
    const struct yaml *at = keys[LIMIT]->value;
    weir_diag diag;

    for (int i = LIMIT; i <= PRECISION; i++) {
        if (keys[i])
            at = keys[i]->value;
        *r = given;
        r->burst = i >= BURST ? given.burst : 0;
        r->precision = i >= PRECISION ? given.precision : 0;
        if (!rule_check(r, &diag))
            continue;
        if (variable)
            environment_complain(l, variable, "%s", diag.text);
        else
            complain(&l->reader, at, "%s", diag.text);
        return;
    }
}

static const struct shared_key *make_ready(struct loader *l, const struct hash_key *key)
{
    struct shared_key *ready = loader_take(l, 1, sizeof *ready);

    if (ready)
        shared_key_init(ready, key);
    return ready;
}

static struct counted counted_of(struct loader *l, const char *policy,
                                 const struct policy_rule *rule, const struct rule *numbers,
                                 bool shadow_limit)
{
    const struct counted_scope scope = { span_of(policy), span_of(rule->name), numbers,
                                         rule->counts, shadow_limit };
    struct counted made = counted_make(l->source->secret, l->source->key_way, &scope);

    if (l->source->key_way == KEYS_APART)
        made.shared_key = make_ready(l, &made.hash_key);
    return made;
}

/* A limit on its own, as a text or as a mapping: a plan's, or the shadow_limit. What is not a
 * number of its own it has from the rule: `out` comes with it. */
static bool read_limit(struct loader *l, const struct yaml *node, const char *what,
                       struct rule *out)
{
    const struct yaml *keys[KEY_COUNT] = { NULL };
    const struct yaml alone = { .kind = YAML_TEXT, .value = node };

    if (node->kind == YAML_MAPPING) {
        read_keys(&l->reader, node, what, words, KEY_COUNT, IN_LIMIT, keys);
        if (!keys[LIMIT]) {
            complain(&l->reader, node, "%s has no limit: add one, such as 'limit: 5 per 15m'",
                     what);
            return false;
        }
    } else {
        if (!wants(&l->reader, node, YAML_TEXT, what, "5 per 15m"))
            return false;
        keys[LIMIT] = &alone;
    }
    if (!read_numbers(l, keys, true, out))
        return false;
    check_numbers(l, keys, NULL, out);
    return true;
}

static void read_plans(struct loader *l, const struct yaml *node, const char *policy,
                       const struct rule *usual, struct policy_rule *rule)
{
    struct plan *plan;

    if (yaml_is_null(node) || !wants(&l->reader, node, YAML_MAPPING, "plans", "{paid: 100 per 1h}"))
        return;
    plan = loader_take(l, node->count, sizeof *plan);
    if (!plan)
        return;
    rule->plans = plan;
    rule->plan_count = node->count;
    for (const struct yaml *key = node->first; key; key = key->next, plan++) {
        struct rule numbers = *usual;

        plan->name = read_name(l, key, "a plan");
        plan->line = key->line;
        if (read_limit(l, key->value, "a plan", &numbers))
            plan->counted = counted_of(l, policy, rule, &numbers, false);
    }
}

static void read_start(struct loader *l, const struct yaml *key, struct rule *out)
{
#define X(name, value, text) [value] = text,
    static const char *const starts[] = { WEIR_STARTS(X) };
#undef X
    size_t i;

    if (read_choice(&l->reader, key->value, "start", starts, sizeof starts / sizeof *starts, &i) &&
        i == START_FIRST &&
        suits(l, key, (struct rule){ out->algorithm, 1, 1, .start = START_FIRST }))
        out->start = START_FIRST;
}

static void read_block_for(struct loader *l, const struct yaml *key, struct rule *out)
{
    weir_diag diag;
    int64_t ms;

    if (!wants(&l->reader, key->value, YAML_TEXT, "block_for", "15m"))
        return;
    if (duration_read(key->value->text, &ms, &diag))
        complain(&l->reader, key->value, "%s", diag.text);
    else if (suits(l, key->value, (struct rule){ .limit = 1, .window = 1, .block_for = ms }))
        out->block_for = ms;
}

/* The same at each start, unless the file changes much: what is kept of a key names its class. */
static uint8_t class_of(struct loader *l, const struct hash_key *of)
{
    const unsigned most = LIMIT_CLASSES - 1, hash = of->bytes[0] + 256u * of->bytes[1];
    const unsigned first = hash % most;

    for (unsigned i = 0; i < most; i++) {
        const uint64_t class = (first + i) % most + 1;

        if (l->classes >> class & 1)
            continue;
        l->classes |= (uint64_t)1 << class;
        return (uint8_t) class;
    }
    return (uint8_t)(first + 1);
}

void rule_finish(struct loader *l, const char *policy, const struct rule *numbers,
                 struct policy_rule *rule)
{
    rule->tag_key.hash_key = tag_hash_key(l->source->secret, rule->by, rule->by_count);
    rule->tag_key.shared_key = make_ready(l, &rule->tag_key.hash_key);
    rule->rollout_key = rollout_hash_key(l->source->secret, span_of(policy), span_of(rule->name));
    rule->class = class_of(l, &rule->rollout_key);
    rule->counted = counted_of(l, policy, rule, numbers, false);
}

/* `at` is where the rule is named; `is_short`: it is its policy's only one. */
static void read_rule(struct loader *l, const struct yaml *at, const struct yaml *const *keys,
                      const char *policy, bool is_short, const struct settings *s,
                      struct policy_rule *out)
{
    struct rule usual = { .algorithm = s->algorithm }, numbers;
    struct counted *shadow;
    const char *variable = NULL;
    bool overridden;

    out->mode = s->mode;
    out->counts = s->counts;
    out->by = s->by;
    out->by_count = s->by_count;
    out->ipv6_prefix = s->ipv6_prefix;
    out->line = at->line;
    out->rollout = s->rollout;
    if (s->rollout < SHARE_ALL && s->by_count == 0)
        complain(&l->reader, keys[ROLLOUT] ? keys[ROLLOUT] : at,
                 "%s '%s' counts everyone together, so a rollout to a share is not possible: leave "
                 "out 'rollout'%s",
                 is_short ? "policy" : "rule", printable(at->text).text,
                 is_short ? "" : ", or write 'rollout: 100%' in the rule");
    if (keys[START])
        read_start(l, keys[START], &usual);
    if (keys[BLOCK_FOR])
        read_block_for(l, keys[BLOCK_FOR], &usual);
    calendar_begin(l, keys[ZONE], keys[MONTH_DAY], s);
    numbers = usual;
    overridden = environment_limit(l, policy, is_short ? NULL : out->name, &numbers, &variable);
    if (!keys[LIMIT]) {
        complain(&l->reader, at, "%s '%s' has no limit: add one, such as 'limit: 5 per 15m'",
                 is_short ? "policy" : "rule", printable(at->text).text);
    } else {
        const struct rule set = numbers;

        numbers = usual;
        if (read_numbers(l, keys, keys[ALGORITHM] != NULL, &numbers)) {
            if (overridden) {
                numbers.limit = set.limit;
                numbers.window = set.window;
                numbers.start = set.start;
                numbers.calendar = set.calendar;
                if (set.start == START_CALENDAR)
                    numbers.algorithm = set.algorithm;
            }
            check_numbers(l, keys, variable, &numbers);
        }
    }
    if (algorithm_counts_slots(numbers.algorithm))
        usual.algorithm = numbers.algorithm;
    if (s->lease.ttl > 0 && check_lease(l, keys[LEASE] ? keys[LEASE] : at, &numbers))
        out->lease = s->lease;
    rule_finish(l, policy, &numbers, out);
    if (keys[PLANS])
        read_plans(l, keys[PLANS]->value, policy, &usual, out);
    numbers = usual;
    if (keys[SHADOW_LIMIT] && read_limit(l, keys[SHADOW_LIMIT]->value, "shadow_limit", &numbers)) {
        shadow = loader_take(l, 1, sizeof *shadow);
        if (shadow)
            *shadow = counted_of(l, policy, out, &numbers, true);
        out->shadow_limit = shadow;
    }
    calendar_end(l, keys[ZONE], keys[MONTH_DAY]);
}

static void read_rules(struct loader *l, const struct yaml *node, const struct settings *policy,
                       struct policy *out)
{
    const struct yaml *keys[KEY_COUNT];
    struct policy_rule *rule;
    size_t n = 0;

    if (!wants(&l->reader, node, YAML_MAPPING, "rules", "{ip: {limit: 5 per 15m, by: ip}}"))
        return;
    if (node->count == 0)
        complain(&l->reader, node,
                 "rules is empty: add one, as in {ip: {limit: 5 per 15m, by: ip}}");
    rule = loader_take(l, node->count, sizeof *rule);
    if (!rule)
        return;
    out->rules = rule;
    for (const struct yaml *key = node->first; key; key = key->next, n++) {
        struct settings s = *policy;

        if (n == WEIR_MAX_RULES)
            complain(&l->reader, key, "this is rule %zu: a policy has at most %d", n + 1,
                     WEIR_MAX_RULES);
        rule[n].name = read_name(l, key, "a rule");
        rule[n].policy = out;
        if (!wants(&l->reader, key->value, YAML_MAPPING, "a rule", "{limit: 5 per 15m, by: ip}"))
            continue;
        read_keys(&l->reader, key->value, "a rule", words, KEY_COUNT, IN_RULE, keys);
        s.mode = MODE_ENFORCE;
        read_settings(l, keys, &s);
        rule[n].own_mode = s.mode;
        if (s.mode < policy->mode)
            s.mode = policy->mode;
        read_rule(l, key, keys, out->name, false, &s, &rule[n]);
    }
    out->rule_count = n;
}

/* A request brings at most WEIR_MAX_ATTRIBUTES: a policy that needs more could never be met. */
static void count_attributes(struct loader *l, const struct yaml *at, struct policy *p)
{
    const char *seen[WEIR_MAX_ATTRIBUTES];
    size_t count = 0;
    bool one_each = true;

    for (size_t r = 0; r < p->rule_count; r++) {
        one_each &= p->rules[r].by_count <= 1;
        for (size_t i = 0; i < p->rules[r].by_count; i++) {
            const char *name = p->rules[r].by[i];
            size_t known = 0;

            while (known < count && seen[known] != name) /* names are kept once */
                known++;
            if (known < count)
                continue;
            if (count == WEIR_MAX_ATTRIBUTES) {
                complain(&l->reader, at,
                         "policy '%s' counts by more than %d attributes: a request has "
                         "at most that many",
                         p->name, WEIR_MAX_ATTRIBUTES);
                return;
            }
            seen[count++] = name;
        }
    }
    if (one_each && count == 1)
        p->sole_attribute = seen[0];
}

void read_policy(struct loader *l, const struct yaml *key, const struct settings *defaults,
                 struct policy *out)
{
    struct settings s = *defaults;
    const struct yaml *keys[KEY_COUNT];
    const struct yaml *node = key->value;

    out->name = read_name(l, key, "a policy");
    out->name_hash = XXH3_64bits(out->name, strlen(out->name));
    out->line = key->line;
    if (!wants(&l->reader, node, YAML_MAPPING, "a policy", "{limit: 5 per 15m, by: ip}"))
        return;
    read_keys(&l->reader, node, "a policy", words, KEY_COUNT, IN_POLICY, keys);
    read_settings(l, keys, &s);
    out->mode = s.mode;
    out->on_error = s.on_error;
    out->retry = s.retry;
    if (keys[RESERVE])
        read_reserve(l, keys[RESERVE]->value, &out->reserve);
    if (keys[RULES]) {
        for (int i = 0; i < KEY_COUNT; i++)
            if (keys[i] && !(BESIDE_RULES & BIT(i)))
                complain(&l->reader, keys[i],
                         "'%s' cannot be combined with 'rules': put it into the rules", words[i]);
        read_rules(l, keys[RULES]->value, &s, out);
    } else {
        struct policy_rule *rule = loader_take(l, 1, sizeof *rule);

        if (!rule)
            return;
        rule->policy = out;
        rule->name = intern_keep(l->source->names, span_of(SOLE_RULE));
        l->out_of_memory |= !rule->name;
        if (!rule->name)
            return;
        read_rule(l, key, keys, out->name, true, &s, rule);
        out->rules = rule;
        out->rule_count = 1;
    }
    count_attributes(l, key, out);
    if (keys[EXEMPT])
        out->exempt = exemptions_read(l, keys[EXEMPT]->value, &out->exempt_count);
}
