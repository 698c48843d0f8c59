/* envoy_policies.c - the limits that are configured for Envoy, as policies of the set.
 *
 * A policy has the name that envoyproxy/ratelimit has for the limit in its metrics:
 * `domain.key_value.key`. What cannot stand in a name is replaced by `_`, and what is too long is
 * cut. Then, and where the name is another's already, a hash of the whole path is put behind it. */
#include <inttypes.h>
#include <stdio.h>

#include "base/xxh.h"
#include "policy/envoy_reading.h"

enum { HASHED = 9 }; /* bytes of a hash in a name: -xxxxxxxx */

/* ---- names ---------------------------------------------------------------------------------- */

/* False: it has been changed, and might be another's now. */
static bool make_valid(char *name, struct span text, size_t most)
{
    const size_t len = text.len < most ? text.len : most;
    bool is_same = text.len <= most;

    for (size_t i = 0; i < len; i++) {
        name[i] = text.at[i];
        if (!name_is_valid((struct span){ &name[i], 1 })) {
            name[i] = '_';
            is_same = false;
        }
    }
    name[len] = '\0';
    return is_same && len > 0;
}

static void add_hash(char *name, uint64_t hash)
{
    const size_t len = strlen(name), most = WEIR_MAX_NAME - HASHED;

    snprintf(name + (len < most ? len : most), HASHED + 1, "-%08" PRIx32, (uint32_t)(hash >> 32));
}

/* Each text with its length before it, so that no two paths are the same. */
static uint64_t hash_path(const struct envoy_domain *domain, const struct envoy_node *node)
{
    const uint64_t seed = node->parent ? hash_path(domain, node->parent)
                                       : XXH3_64bits(domain->name.at, domain->name.len);

    if (!node->parent)
        return seed;
    return XXH3_64bits_withSeed(node->value.at, node->value.len,
                                XXH3_64bits_withSeed(node->key.at, node->key.len, seed));
}

static const char *keep(struct loader *l, const char *name)
{
    const char *kept = intern_keep(l->source->names, span_of(name));

    l->out_of_memory |= !kept;
    return kept ? kept : "";
}

/* The way to the limit from the top. */
static void find_way(const struct envoy_limit *limit, const struct envoy_node **way)
{
    for (const struct envoy_node *n = limit->node; n->parent; n = n->parent)
        way[n->level] = n;
}

static void put(struct span *room, struct span text)
{
    const size_t len = text.len < room->len ? text.len : room->len;

    if (len > 0)
        memcpy((char *)room->at, text.at, len);
    room->at += len;
    room->len -= len;
}

bool envoy_metric_name(const struct envoy_limit *limit, const struct envoy_entry *entries, size_t n,
                       char name[WEIR_MAX_NAME + 1])
{
    const struct envoy_node *way[ENVOY_MOST_LEVELS];
    char path[WEIR_MAX_NAME];
    struct span room = { path, sizeof path };

    if (!limit->is_detailed && limit->shown == 0)
        return false;
    find_way(limit, way);
    put(&room, limit->domain->name);
    for (size_t i = 0; i < n && i <= limit->node->level; i++) {
        const bool is_shown = !way[i]->is_shared && (limit->is_detailed || limit->shown >> i & 1);
        const struct span value = is_shown ? entries[i].value : way[i]->value;

        put(&room, span_of("."));
        put(&room, way[i]->key);
        if (value.len > 0)
            put(&room, span_of("_"));
        put(&room, value);
    }
    make_valid(name, (struct span){ path, sizeof path - room.len }, WEIR_MAX_NAME);
    return true;
}

/* Names are kept once each, so that they are compared by their places. */
struct taken {
    const char **slots;
    size_t mask;
};

static bool taken_init(struct loader *l, struct taken *t)
{
    const size_t most = l->set->count + l->set->envoy_limits;
    size_t room = 8;

    while (room < 2 * most)
        room *= 2;
    t->slots = arena_take(&l->scratch, room * sizeof(*t->slots));
    t->mask = room - 1;
    l->out_of_memory |= !t->slots;
    return t->slots;
}

/* False: it was taken before. */
static bool take(struct taken *t, const char *name)
{
    size_t at = (size_t)XXH3_64bits(&name, sizeof name) & t->mask;

    while (t->slots[at] && t->slots[at] != name)
        at = (at + 1) & t->mask;
    if (t->slots[at])
        return false;
    t->slots[at] = name;
    return true;
}

static const char *name_limit(struct loader *l, struct taken *taken,
                              const struct envoy_domain *domain, const struct envoy_node *node)
{
    const uint64_t hash = hash_path(domain, node);
    char name[WEIR_MAX_NAME + 1];
    const char *kept;
    struct buf path;
    bool is_same;

    buf_init(&path, &l->scratch.allocator);
    envoy_path(&path, domain, node);
    is_same = make_valid(name, buf_span(&path), WEIR_MAX_NAME);
    l->out_of_memory |= path.failed;
    buf_done(&path);
    if (!is_same)
        add_hash(name, hash);
    kept = keep(l, name);
    for (uint64_t i = 1; !take(taken, kept) && !l->out_of_memory; i++) {
        if (is_same || i > 1)
            add_hash(name, hash + (i << 32));
        kept = keep(l, name);
        is_same = true;
    }
    return kept;
}

/* ---- attributes ----------------------------------------------------------------------------- */

static bool has_before(const char *const *by, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (by[i] == name)
            return true;
    return false;
}

/* What a level is called in `by`. Values of Envoy stay as they are, so that they cannot be called as
 * attributes are that weir normalises. A key that comes twice is told apart by a number. */
static const char *name_attribute(struct loader *l, const char *const *by, size_t n,
                                  struct span key)
{
    char name[WEIR_MAX_NAME + 8] = "entry.", *const at = name;
    const size_t prefix = span_is(key, "ip") || span_is(key, "email") ? 6 : 0;
    const char *kept;
    size_t len;

    make_valid(at + prefix, key, WEIR_MAX_NAME - 8);
    kept = keep(l, name);
    len = strlen(name);
    for (int i = 2; has_before(by, n, kept) && i <= ENVOY_MOST_LEVELS; i++) {
        snprintf(name + len, sizeof name - len, ".%d", i);
        kept = keep(l, name);
    }
    return kept;
}

static void name_attributes(struct loader *l, const struct envoy_limit *limit,
                            struct policy_rule *rule)
{
    const struct envoy_node *way[ENVOY_MOST_LEVELS];
    const char **by;

    find_way(limit, way);
    by = loader_take(l, POLICY_MAX_BY, sizeof(*by));
    if (!by)
        return;
    rule->by = by;
    for (size_t i = 0; i <= limit->node->level && rule->by_count < POLICY_MAX_BY; i++)
        if (limit->varies >> i & 1) {
            by[rule->by_count] = name_attribute(l, by, rule->by_count, way[i]->key);
            rule->by_count++;
        }
}

/* ---- policies ------------------------------------------------------------------------------- */

static void fill_rule(struct loader *l, struct policy *policy, const char *name,
                      const struct rule *numbers, struct policy_rule *rule)
{
    rule->name = name;
    rule->policy = policy;
    rule->mode = rule->own_mode = policy->mode;
    rule->rollout = SHARE_ALL;
    rule->ipv6_prefix = 64;
    rule->line = policy->line;
    rule_finish(l, policy->name, numbers, rule);
}

static void make_policy(struct loader *l, struct taken *taken, const struct settings *defaults,
                        const struct envoy_domain *domain, struct envoy_limit *limit)
{
    struct policy *policy = &l->set->all[l->set->count];
    struct policy_rule *rule = loader_take(l, 1, sizeof *rule);

    if (!rule)
        return;
    *policy = (struct policy){
        .name = name_limit(l, taken, domain, limit->node),
        .mode = limit->node->is_shadow ? MODE_SHADOW : MODE_ENFORCE,
        .on_error = defaults->on_error,
        .retry = defaults->retry,
        .rules = rule,
        .rule_count = 1,
        .envoy = limit,
        .line = limit->node->line,
    };
    name_attributes(l, limit, rule);
    fill_rule(l, policy, keep(l, SOLE_RULE), &limit->numbers, rule);
    if (rule->by_count == 1)
        policy->sole_attribute = rule->by[0];
    limit->rule = rule;
    limit->domain = domain;
    l->set->count++;
}

static void make_below(struct loader *l, struct taken *taken, const struct settings *defaults,
                       const struct envoy_domain *domain, const struct envoy_node *parent)
{
    for (struct envoy_node *n = parent->first; n && !l->out_of_memory; n = n->next) {
        if (n->limit && !n->limit->is_unlimited)
            make_policy(l, taken, defaults, domain, n->limit);
        make_below(l, taken, defaults, domain, n);
    }
}

/* A parenthesis cannot stand in the name of a policy. */
static void make_brought(struct loader *l, const struct settings *defaults, struct envoy_domain *d)
{
    char name[WEIR_MAX_NAME + 1];
    const char **by = loader_take(l, 1, sizeof(*by));

    if (!by)
        return;
    if (!make_valid(name, d->name, WEIR_MAX_NAME - HASHED - sizeof ".(request)"))
        add_hash(name, XXH3_64bits(d->name.at, d->name.len));
    strcat(name, ".(request)");
    by[0] = keep(l, "entries");
    d->brought = (struct policy){
        .name = keep(l, name),
        .on_error = defaults->on_error,
        .retry = defaults->retry,
        .rules = &d->brought_rules[ENVOY_SECOND],
        .rule_count = ENVOY_UNITS - ENVOY_SECOND,
    };
    for (int unit = ENVOY_SECOND; unit < ENVOY_UNITS; unit++) {
        struct rule numbers = { .algorithm = WEIR_FIXED_WINDOW,
                                .limit = 1,
                                .window = envoy_unit_ms((enum envoy_unit)unit),
                                .burst = 1 };

        d->brought_rules[unit].by = by;
        d->brought_rules[unit].by_count = 1;
        fill_rule(l, &d->brought, keep(l, envoy_unit_names[unit]), &numbers,
                  &d->brought_rules[unit]);
    }
}

static void make_policies(struct loader *l, const struct settings *defaults)
{
    struct taken taken;

    if (!l->set->domains || l->reader.problems->count > 0)
        return;
    if (!l->set->all)
        l->set->all = loader_take(l, l->set->envoy_limits, sizeof *l->set->all);
    if (l->out_of_memory || !taken_init(l, &taken))
        return;
    for (size_t i = 0; i < l->set->count; i++)
        (void)take(&taken, l->set->all[i].name);
    for (struct envoy_domain *d = l->set->domains; d && !l->out_of_memory; d = d->next) {
        make_below(l, &taken, defaults, d, &d->root);
        make_brought(l, defaults, d);
    }
}

const struct envoy_reader envoy_reader = { envoy_read, make_policies };
