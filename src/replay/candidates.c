/* candidates.c - a set of policies with limits to be tried in place of those of another set. */
#include "replay/candidates.h"

#include <stdio.h>

#include "policy/set.h"

static bool make_rule(struct policies *set, const struct secret *secret,
                      const struct policy *policy, struct candidate *c, size_t number,
                      struct policy_rule *rule)
{
    char text[32];
    char *name;
    const int len = snprintf(text, sizeof text, "candidate-%zu", number);

    name = arena_text(&set->arena, (struct span){ text, (size_t)len });
    if (!name)
        return false;
    *rule = *c->rule;
    rule->name = name;
    rule->policy = policy;
    rule->mode = rule->own_mode = MODE_SHADOW;
    rule->counted = counted_make(secret, KEYS_TOGETHER,
                                 &(struct counted_scope){ span_of(policy->name), span_of(name),
                                                          &c->numbers, c->rule->counts, false });
    rule->shadow_limit = NULL;
    rule->rollout = SHARE_ALL;
    rule->plan_count = 0;
    c->made = rule;
    return true;
}

/* A policy without candidates is off. */
static bool make_policy(struct policies *set, const struct secret *secret, const struct policy *of,
                        struct candidate *list, size_t n, struct policy *out)
{
    struct policy_rule *rules;
    size_t count = 0;

    *out = *of;
    out->mode = MODE_OFF;
    for (size_t i = 0; i < n; i++)
        count += list[i].rule->policy == of;
    if (count == 0)
        return true;
    rules = arena_take(&set->arena, count * sizeof *rules);
    if (!rules)
        return false;
    out->mode = MODE_SHADOW;
    out->rules = rules;
    out->rule_count = count;
    for (size_t i = 0, k = 0; i < n; i++)
        if (list[i].rule->policy == of && !make_rule(set, secret, out, &list[i], i, &rules[k++]))
            return false;
    return true;
}

weir_err candidates_make(const struct policies *of, const struct secret *secret,
                         struct candidate *list, size_t n, struct policies **out)
{
    const weir_allocator allocator = alloc_or_default((weir_allocator){ 0 });
    struct arena arena;
    struct policies *set;

    arena_init(&arena, &allocator);
    *out = set = arena_take(&arena, sizeof *set);
    if (!set)
        return WEIR_ENOMEM;
    *set = *of;
    set->arena = arena;
    set->all = arena_take(&set->arena, of->count * sizeof *set->all);
    if (!set->all)
        goto fail;
    for (size_t i = 0; i < of->count; i++)
        if (!make_policy(set, secret, &of->all[i], list, n, &set->all[i]))
            goto fail;
    if (policies_index(set))
        return WEIR_OK;
fail:
    policies_free(set);
    *out = NULL;
    return WEIR_ENOMEM;
}
