/* policy.c - which rules apply to a request: looking things up in a loaded set. */
#include "policy/policy.h"
#include "limit/calendar.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

#include "base/suggest.h"
#include "policy/exemption.h"
#include "policy/set.h"

#define X(name, text) text,
const char *const mode_names[MODE_COUNT] = { POLICY_MODES(X) };
#undef X
#define X(name, value, text) text,
const char *const on_error_names[ON_ERROR_COUNT] = { WEIR_ON_ERRORS(X) };
#undef X

const char *mode_name(enum mode mode)
{
    return mode_names[mode];
}

bool mode_by_name(struct span name, enum mode *out)
{
    for (enum mode mode = 0; mode < MODE_COUNT; mode++)
        if (span_is(name, mode_name(mode))) {
            *out = mode;
            return true;
        }
    return false;
}

const char *on_error_name(enum on_error on_error)
{
    return on_error_names[on_error];
}

const char *retry_name(enum retry retry)
{
    return retry == RETRY_SOONEST ? "soonest" : "longest";
}

struct fallback policies_fallback(const struct policies *set)
{
    return set->fallback;
}

void policies_set_edition(struct policies *set, uint64_t edition)
{
    set->edition = edition;
}

uint64_t policies_edition(const struct policies *set)
{
    return set->edition;
}

bool policies_enabled(const struct policies *set)
{
    return set->enabled;
}

const struct alert *policies_alerts(const struct policies *set, size_t *count)
{
    *count = set->alert_count;
    return set->alerts;
}

size_t policies_count(const struct policies *set)
{
    return set->count;
}

const struct policy *policies_at(const struct policies *set, size_t i)
{
    return &set->all[i];
}

static inline struct name_ends ends_of(struct span name)
{
    struct name_ends ends = { .len = name.len };

    if (name.len >= sizeof ends.head) {
        memcpy(&ends.head, name.at, sizeof ends.head);
        memcpy(&ends.tail, name.at + name.len - sizeof ends.tail, sizeof ends.tail);
    } else {
        for (size_t i = 0; i < name.len; i++)
            ends.head = ends.head << 8 | (unsigned char)name.at[i];
    }
    return ends;
}

/* Cheap, and good enough for names that the operator chose. */
static inline size_t hash_of(const struct name_ends *of)
{
    const uint64_t mixed = of->head ^ of->tail << 32 ^ of->tail >> 32 ^ of->len;

    return (size_t)(mixed * 0x9e3779b97f4a7c15 >> 32);
}

/* Is this the name whose ends they are? */
static inline bool is_called(const struct policy_slot *slot, const struct name_ends *ends,
                             struct span name)
{
    return slot->ends.head == ends->head && slot->ends.tail == ends->tail &&
           slot->ends.len == ends->len &&
           (name.len <= 16 || memcmp(slot->policy->name, name.at, name.len) == 0);
}

bool policies_index(struct policies *set)
{
    size_t room = 8;

    while (room < 2 * set->count)
        room *= 2;
    set->slots = arena_take(&set->arena, room * sizeof *set->slots);
    set->names = arena_take(&set->arena, (set->count + 1) * sizeof *set->names);
    if (!set->slots || !set->names)
        return false;
    set->slot_mask = room - 1;
    for (size_t i = 0; i < set->count; i++) {
        const struct span name = span_of(set->all[i].name);
        const struct name_ends ends = ends_of(name);
        size_t at = hash_of(&ends) & set->slot_mask;

        while (set->slots[at].policy)
            at = (at + 1) & set->slot_mask;
        set->slots[at] = (struct policy_slot){ &set->all[i], ends };
        set->names[i] = set->all[i].name;
    }
    return true;
}

/* In the high bit of each byte: is it one of a-z A-Z 0-9 _ . : / - ? What is between '-' and ':'
 * all is. A byte that is no ASCII makes the bits of its neighbours wrong, and its own is 0. */
static uint64_t name_characters(uint64_t eight)
{
#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))
#define AT_LEAST(bytes, c) ((bytes) + EACH(0x80 - (c)))
#define BETWEEN(bytes, c, last) (AT_LEAST(bytes, c) & ~AT_LEAST(bytes, (last) + 1))
    const uint64_t lower = eight | EACH(0x20);

    return (BETWEEN(lower, 'a', 'z') | BETWEEN(eight, '-', ':') | BETWEEN(eight, '_', '_')) &
           ~eight & EACH(0x80);
}

/* Eight at once: ids of reservations are names, and come with each. */
bool name_is_valid(struct span text)
{
    uint64_t all = EACH(0x80), eight = EACH('a');

    if (text.len == 0 || text.len > WEIR_MAX_NAME)
        return false;
    if (text.len < sizeof eight) {
        memcpy(&eight, text.at, text.len);
        return name_characters(eight) == all;
    }
    for (size_t i = 0; i + sizeof eight < text.len; i += sizeof eight) {
        memcpy(&eight, text.at + i, sizeof eight);
        all &= name_characters(eight);
    }
    memcpy(&eight, text.at + text.len - sizeof eight, sizeof eight);
    return (all & name_characters(eight)) == EACH(0x80);
}

const struct policy *policies_find(const struct policies *set, struct span name)
{
    struct name_ends ends;

    if (name.len == 0 || name.len > WEIR_MAX_NAME)
        return NULL;
    ends = ends_of(name);
    for (size_t at = hash_of(&ends) & set->slot_mask; set->slots[at].policy;
         at = (at + 1) & set->slot_mask)
        if (is_called(&set->slots[at], &ends, name))
            return set->slots[at].policy;
    return NULL;
}

const char *policies_suggest(const struct policies *set, struct span name)
{
    return suggest(name, set->names, set->count);
}

bool policies_may_exempt(const struct policies *set, const struct policy *policy)
{
    return set->exempt_count > 0 || (policy && policy->exempt_count > 0);
}

bool policies_exempt(const struct policies *set, const struct policy *policy,
                     const struct attribute *attributes, size_t n)
{
    struct exemption_facts facts;

    if (!policies_may_exempt(set, policy))
        return false;
    facts = (struct exemption_facts){ .attributes = attributes, .count = n };
    if (set->exempt_count > 0 && exemptions_cover(set->exempt, set->exempt_count, &facts))
        return true;
    return policy && policy->exempt_count > 0 &&
           exemptions_cover(policy->exempt, policy->exempt_count, &facts);
}

static bool exemptions_use(const struct exemption *all, size_t n, struct span attribute)
{
    for (size_t i = 0; i < n; i++)
        for (size_t m = 0; m < all[i].match_count; m++)
            if (span_is(attribute, all[i].matches[m].attribute))
                return true;
    return false;
}

bool policies_use(const struct policies *set, const struct policy *policy, struct span attribute)
{
    for (size_t r = 0; r < policy->rule_count; r++)
        for (size_t i = 0; i < policy->rules[r].by_count; i++)
            if (span_is(attribute, policy->rules[r].by[i]))
                return true;
    return exemptions_use(set->exempt, set->exempt_count, attribute) ||
           exemptions_use(policy->exempt, policy->exempt_count, attribute);
}

const struct counted *policy_rule_under(const struct policy_rule *rule, struct span plan)
{
    if (plan.len > 0)
        for (size_t i = 0; i < rule->plan_count; i++)
            if (span_is(plan, rule->plans[i].name))
                return &rule->plans[i].counted;
    return &rule->counted;
}

/* Names are cut to what the loader lets pass, so that the text always fits. */
static size_t add_text(char *out, size_t len, struct span text)
{
    if (text.len > WEIR_MAX_NAME)
        text.len = WEIR_MAX_NAME;
    if (text.len > 0)
        memcpy(out + len, text.at, text.len);
    out[len + text.len] = '\0';
    return len + text.len + 1;
}

struct hash_key counted_hash_key(const struct secret *secret, const struct counted_scope *of)
{
    char scope[6 * (WEIR_MAX_NAME + 1) + sizeof "counts " + sizeof "shadow" + 32];
    char window[WEIR_MAX_NAME + 32], amount[WEIR_MAX_NAME + sizeof "counts "];
    const struct rule *numbers = of->numbers;
    size_t len = 0;

    if (numbers->start == START_CALENDAR)
        snprintf(window, sizeof window, "%s %d %s", period_names[numbers->calendar->period],
                 numbers->calendar->month_day, numbers->calendar->zone_name);
    else
        snprintf(window, sizeof window, "%" PRId64 "%s", numbers->window,
                 numbers->start == START_FIRST ? " first" : "");
    len = add_text(scope, len, of->policy);
    len = add_text(scope, len, of->rule);
    len = add_text(scope, len, span_of(weir_algorithm_name(numbers->algorithm)));
    len = add_text(scope, len, span_of(window));
    if (of->counts) {
        snprintf(amount, sizeof amount, "counts %s", of->counts);
        len = add_text(scope, len, span_of(amount));
    }
    if (of->is_shadow_limit)
        len = add_text(scope, len, span_of("shadow"));
    return hash_key_of(secret, (struct span){ scope, len - 1 }); /* no NUL at the end */
}

/* No policy is called so: a name has no spaces. */
static struct hash_key policy_hash_key(const struct secret *secret, struct span policy)
{
    char scope[sizeof "side by side" + WEIR_MAX_NAME + 1];
    size_t len = add_text(scope, 0, span_of("side by side"));

    len = add_text(scope, len, policy);
    return hash_key_of(secret, (struct span){ scope, len - 1 });
}

struct counted counted_make(const struct secret *secret, enum key_way way,
                            const struct counted_scope *of)
{
    const struct hash_key own = counted_hash_key(secret, of);
    struct counted made = { .rule = *of->numbers, .hash_key = own };

    if (way == KEYS_TOGETHER && !span_is(of->rule, SOLE_RULE)) {
        made.hash_key = policy_hash_key(secret, of->policy);
        memcpy(&made.own_bits, own.bytes, sizeof made.own_bits);
    }
    return made;
}

struct hash_key rollout_hash_key(const struct secret *secret, struct span policy, struct span rule)
{
    char scope[3 * (WEIR_MAX_NAME + 1)];
    size_t len = add_text(scope, 0, span_of("rollout of"));

    len = add_text(scope, len, policy);
    len = add_text(scope, len, rule);
    return hash_key_of(secret, (struct span){ scope, len - 1 });
}

enum mode policy_rule_mode(const struct policy_rule *rule, const enum mode *live)
{
    if (!live)
        return rule->mode;
    return rule->own_mode > *live ? rule->own_mode : *live;
}

bool policy_rule_reaches(const struct policy_rule *rule, struct span identity)
{
    struct key key;
    unsigned char bytes[4];
    uint32_t place;

    if (rule->rollout == SHARE_ALL)
        return true;
    key = hash_shared(&rule->rollout_key, identity);
    memcpy(bytes, &key, sizeof bytes);
    place = (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 |
            bytes[3];
    return (int)((uint64_t)place * SHARE_ALL >> 32) < rule->rollout;
}

struct hash_key tag_hash_key(const struct secret *secret, const char *const *by, size_t by_count)
{
    char scope[(1 + POLICY_MAX_BY) * (WEIR_MAX_NAME + 1)];
    size_t len = add_text(scope, 0, span_of("tag of"));

    for (size_t i = 0; i < by_count; i++)
        len = add_text(scope, len, span_of(by[i]));
    return hash_key_of(secret, (struct span){ scope, len - 1 });
}

void policies_free(struct policies *set)
{
    struct arena arena;

    if (!set)
        return;
    arena = set->arena; /* the set is in its own arena */
    for (size_t i = 0; i < set->count; i++)
        for (size_t what = 0; what < POLICY_PREPARED; what++)
            alloc_free(&arena.allocator, atomic_load(&set->all[i].prepared[what]));
    arena_done(&arena);
}

bool policy_keep_prepared(const struct policy *p, enum policy_prepared what, void *prepared)
{
    void *none = NULL;

    return atomic_compare_exchange_strong(&((struct policy *)p)->prepared[what], &none, prepared);
}
