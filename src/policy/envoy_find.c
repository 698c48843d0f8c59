/* envoy_find.c - which limit holds for a descriptor, and whom it counts. */

#include "base/xxh.h"
#include "policy/envoy.h"
#include "policy/set.h"

const char *const envoy_unit_names[ENVOY_UNITS] = {
    "unknown", "second", "minute", "hour", "day", "month", "year", "week",
};

int64_t envoy_unit_ms(enum envoy_unit unit)
{
    static const int64_t seconds[ENVOY_UNITS] = {
        0, 1, 60, 3600, 86400, (int64_t)30 * 86400, (int64_t)365 * 86400, (int64_t)7 * 86400
    };

    return seconds[unit] * 1000;
}

bool envoy_is_loaded(const struct policies *set)
{
    return set->domains != NULL;
}

const struct envoy_domain *envoy_find_domain(const struct policies *set, struct span name)
{
    for (const struct envoy_domain *d = set->domains; d; d = d->next)
        if (span_equal(d->name, name))
            return d;
    return NULL;
}

/* The part up to the next star, and what is behind it; false: there is none. */
static bool cut_at_star(struct span *rest, struct span *part)
{
    const char *star = rest->len > 0 ? memchr(rest->at, '*', rest->len) : NULL;

    *part = *rest;
    if (!star)
        return false;
    part->len = (size_t)(star - rest->at);
    rest->len -= part->len + 1;
    rest->at = star + 1;
    return true;
}

static bool begins_with(struct span text, struct span start)
{
    return text.len >= start.len && (start.len == 0 || memcmp(text.at, start.at, start.len) == 0);
}

bool envoy_pattern_matches(struct span pattern, struct span text)
{
    struct span part, next;

    if (!cut_at_star(&pattern, &part))
        return span_equal(part, text);
    if (!begins_with(text, part))
        return false;
    text.at += part.len;
    text.len -= part.len;
    /* What is before the last star, each where it is found first; the rest ends the text. */
    while (cut_at_star(&pattern, &part)) {
        const char *found = part.len == 0 ? text.at : memmem(text.at, text.len, part.at, part.len);

        if (!found)
            return false;
        text.len -= (size_t)(found - text.at) + part.len;
        text.at = found + part.len;
    }
    if (text.len < part.len)
        return false;
    next = (struct span){ text.at + text.len - part.len, part.len };
    return span_equal(next, part);
}

/* ---- nodes ---------------------------------------------------------------------------------- */

static size_t hash_of(struct span key, struct span value)
{
    return (size_t)XXH3_64bits_withSeed(value.at, value.len, XXH3_64bits(key.at, key.len));
}

/* Where it is, or where it belongs. */
static size_t place_of(const struct envoy_node *parent, struct span key, struct span value)
{
    size_t at = hash_of(key, value) & parent->slot_mask;

    while (parent->slots[at] && !(span_equal(parent->slots[at]->key, key) &&
                                  span_equal(parent->slots[at]->value, value)))
        at = (at + 1) & parent->slot_mask;
    return at;
}

bool envoy_index_nodes(struct envoy_node *parent, struct arena *arena, envoy_twin *twin, void *ctx)
{
    size_t room = 4;

    while (room < 2 * parent->count)
        room *= 2;
    parent->slots = arena_take(arena, room * sizeof(*parent->slots));
    if (!parent->slots)
        return false;
    parent->slot_mask = room - 1;
    for (struct envoy_node *n = parent->first; n; n = n->next) {
        const size_t at = place_of(parent, n->key, n->value);

        if (parent->slots[at] && n->is_new)
            twin(ctx, n);
        else if (!parent->slots[at])
            parent->slots[at] = n;
        n->is_new = false;
    }
    return true;
}

static const struct envoy_node *find_node(const struct envoy_node *parent, struct span key,
                                          struct span value)
{
    return parent->count > 0 ? parent->slots[place_of(parent, key, value)] : NULL;
}

static bool matches(const struct envoy_node *n, const struct envoy_entry *e)
{
    return envoy_pattern_matches(n->key, e->key) &&
           (n->value.len == 0 || envoy_pattern_matches(n->value, e->value));
}

static const struct envoy_node *find_next(const struct envoy_node *parent,
                                          const struct envoy_entry *e)
{
    const struct envoy_node *found = NULL;

    if (e->value.len > 0)
        found = find_node(parent, e->key, e->value);
    if (found)
        return found;
    for (const struct envoy_node *n = parent->patterns; n; n = n->next_pattern)
        if (matches(n, e))
            return n;
    return find_node(parent, e->key, (struct span){ "", 0 });
}

const struct envoy_limit *envoy_find_limit(const struct envoy_domain *domain,
                                           const struct envoy_entry *entries, size_t n)
{
    const struct envoy_node *node = &domain->root;

    for (size_t i = 0; i < n && node; i++)
        node = find_next(node, &entries[i]);
    return node ? node->limit : NULL;
}

const struct policy_rule *envoy_brought_rule(const struct envoy_domain *domain,
                                             enum envoy_unit unit)
{
    return &domain->brought_rules[unit];
}

/* ---- identities ----------------------------------------------------------------------------- */

enum { FOLDED = 32 }; /* hex digits of a hash */

struct writer {
    struct identity *to;
    const struct hash_key *key;
    bool folds; /* what is longer than a hash is put as one */
    size_t needed;
};

static void put_span(struct writer *w, struct span value)
{
    char digits[24], folded[TAG_HEX + 1];
    const char *end = digits + sizeof digits;
    char *head = digits + sizeof digits;
    size_t len;

    if (w->folds && value.len > FOLDED) {
        tag_write(hash_identity(w->key, value), folded);
        value = (struct span){ folded, FOLDED };
    }
    *--head = ':';
    len = value.len;
    do {
        *--head = (char)('0' + len % 10);
        len /= 10;
    } while (len > 0);
    len = (size_t)(end - head);
    w->needed += len + value.len;
    if (w->needed > sizeof w->to->bytes)
        return;
    memcpy(w->to->bytes + w->to->len, head, len);
    w->to->len += len;
    if (value.len > 0)
        memcpy(w->to->bytes + w->to->len, value.at, value.len);
    w->to->len += value.len;
}

static void put_all(struct writer *w, const struct envoy_limit *limit,
                    const struct envoy_entry *entries, size_t n)
{
    w->needed = w->to->len = 0;
    for (size_t i = 0; i < n; i++) {
        if (limit && !(limit->varies >> i & 1))
            continue;
        if (!limit || limit->is_wild >> i & 1)
            put_span(w, entries[i].key);
        put_span(w, entries[i].value);
    }
}

void envoy_identity(const struct envoy_limit *limit, const struct policy_rule *rule,
                    const struct envoy_entry *entries, size_t n, struct identity *out)
{
    struct writer w = { .to = out, .key = &rule->counted.hash_key };

    put_all(&w, limit, entries, n);
    if (w.needed <= sizeof out->bytes)
        return;
    w.folds = true;
    put_all(&w, limit, entries, n);
}
