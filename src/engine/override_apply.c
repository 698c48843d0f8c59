/* override_apply.c - what operators' changes do to a check. */
#include "engine/override_apply.h"

#include "engine/answer.h"
#include "engine/tag.h"

/* The request's time, if it brings one. */
static int64_t time_of(const struct engine *e, const struct check *check)
{
    return check->ask.now ? check->ask.now : e->clock(e->clock_ctx);
}

void override_apply_mode(const struct engine *e, const struct override_index *o,
                         struct check *check)
{
    const struct overridden *p = override_index_of(o, check->policy->name);

    if (!p || !p->has_mode || (p->mode_expires > 0 && time_of(e, check) >= p->mode_expires))
        return;
    check->has_mode = true;
    check->mode = p->mode;
}

/* ---- plans ---------------------------------------------------------------------------------- */

static bool has_plans(const struct policy *p)
{
    for (size_t i = 0; i < p->rule_count; i++)
        if (p->rules[i].plan_count > 0)
            return true;
    return false;
}

/* If several attributes have one, the plan that was assigned last. */
void override_apply_plan(const struct engine *e, const struct override_index *o,
                         struct check *check, const struct attribute *attributes, size_t n)
{
    const struct plan_attribute *by;
    const size_t count = override_index_plan_attributes(o, &by);
    const struct override *last = NULL;

    if (check->plan || count == 0 || !has_plans(check->policy))
        return;
    for (size_t i = 0; i < count; i++) {
        const struct policy_rule rule = { .by = &by[i].name, .by_count = 1, .ipv6_prefix = 64 };
        const struct override *found;
        struct identity identity;
        struct key tag;

        if (!attribute_find(attributes, n, by[i].name) ||
            identity_of(check->policy->name, &rule, attributes, n, &identity, NULL))
            continue;
        tag = engine_key(e, &by[i].tag_key.hash_key, by[i].tag_key.shared_key,
                         (struct span){ identity.bytes, identity.len });
        found = override_index_find_plan(o, tag, check->policy->name, time_of(e, check));
        if (found && (!last || found->id > last->id))
            last = found;
    }
    if (last)
        check->plan = last->plan;
}

/* ---- overrides ------------------------------------------------------------------------------ */

struct overruling {
    const struct engine *e;
    struct check *check;
    const struct attribute *attributes;
    size_t attribute_count;
    const struct override *block; /* the first that refuses, and of which rule; NULL: none */
    const struct policy_rule *blocked;
    int64_t limit; /* … which it has */
    int64_t now;
    size_t altered;
};

/* What was counted before is forgotten, or given back, whatever holds now. */
static bool is_dropped(const struct check *check, const struct override *o)
{
    if (o->effect != LEDGER_EXEMPT)
        return false;
    switch (check->verb) {
    case VERB_CHECK:
    case VERB_CHARGE:
    case VERB_REFUND:
    case VERB_UNDO:
    case VERB_RESERVE:
    case VERB_SETTLE:
    case VERB_GROW:
    case VERB_EXTEND:
        break;
    case VERB_RESET:
        return false;
    }
    return true;
}

/* What is counted under another plan may be another key. */
static weir_err put_on_plan(struct overruling *r, size_t i, const struct override *o,
                            weir_diag *diag)
{
    struct check *check = r->check;
    const struct policy_rule *rule = check->rules[i];
    const struct counted *counted = policy_rule_under(rule, span_of(o->plan));
    struct identity identity;
    const weir_err err = identity_of(rule->policy->name, rule, r->attributes, r->attribute_count,
                                     &identity, diag);

    if (err)
        return err;
    check->charges[i].rule = &counted->rule;
    check->charges[i].key = engine_counted_key(r->e, counted,
                                               (struct span){ identity.bytes, identity.len });
    return WEIR_OK;
}

static weir_err alter(struct overruling *r, size_t i, const struct override *o, weir_diag *diag)
{
    struct check *check = r->check;
    const struct policy_rule *rule = check->rules[i];
    struct charge *charge = &check->charges[i];
    struct rule *numbers = &check->room->altered[r->altered];
    weir_err err = WEIR_OK;

    if (rule->shadow_limit && charge->rule == &rule->shadow_limit->rule)
        return WEIR_OK; /* a second opinion, on every check */
    switch (o->effect) {
    case LEDGER_ON_PLAN:
        err = put_on_plan(r, i, o, diag);
        break;
    case LEDGER_LIMIT:
        if (override_numbers(o->limit, o->burst, charge->rule, numbers, NULL))
            return WEIR_OK; /* the rule has changed since, and has no room for it */
        charge->rule = numbers;
        r->altered++;
        break;
    case LEDGER_BLOCK:
        if (!verb_decides(check->verb))
            return WEIR_OK;
        if (i < check->live && !r->block) {
            r->block = o;
            r->blocked = rule;
            r->limit = charge->rule->limit;
        }
        *numbers = *charge->rule; /* in shadow: refused, but only in the report */
        numbers->limit = numbers->burst = numbers->precision = 0;
        charge->rule = numbers;
        r->altered++;
        break;
    case LEDGER_REMOVED:
    case LEDGER_EXEMPT:
    case LEDGER_IN_MODE:
    case LEDGER_RESET:
    case LEDGER_REFUND:
    case LEDGER_CHARGE:
    case LEDGER_LOADED:
    case LEDGER_FAILED:
    case LEDGER_EFFECTS:
        break; /* none of them alters a charge */
    }
    if (check->override_id == 0)
        check->override_id = (int64_t)o->id;
    return err;
}

/* Take it out, and have those behind it move up. */
static void drop(struct check *check, size_t i)
{
    const size_t behind = check->live + check->shadow - i - 1;

    memmove(&check->charges[i], &check->charges[i + 1], behind * sizeof check->charges[0]);
    memmove(&check->rules[i], &check->rules[i + 1], behind * sizeof check->rules[0]);
    memmove(&check->whose[i], &check->whose[i + 1], behind * sizeof check->whose[0]);
    if (i < check->live)
        check->live--;
    else
        check->shadow--;
}

static void answer(struct overruling *r)
{
    struct check *check = r->check;

    if (r->block) {
        check->override_id = (int64_t)r->block->id;
        answer_blocked(check, r->blocked, r->limit, r->block->expires, r->now);
        check->is_answered = true;
    } else if (check->live + check->shadow == 0) {
        answer_uncounted(check, WEIR_FROM_EXEMPT);
        check->is_answered = true;
    }
}

/* Has anything been changed for identities of one of its policies? */
static bool is_overridden(const struct override_index *o, const struct check *check)
{
    for (size_t i = 0; i < check->policy_count; i++) {
        const struct policy *policy = check->policy_count > 1 ? check->room->policies[i]
                                                              : check->policy;
        const struct overridden *p = override_index_of(o, policy->name);

        if (p && p->has_overrides)
            return true;
    }
    return false;
}

weir_err override_apply_charges(const struct engine *e, const struct override_index *o,
                                struct check *check, const struct attribute *attributes, size_t n,
                                weir_diag *diag)
{
    struct overruling r = {
        .e = e, .check = check, .attributes = attributes, .attribute_count = n
    };

    if (check->live + check->shadow == 0 || !is_overridden(o, check))
        return WEIR_OK;
    r.now = time_of(e, check);
    for (size_t i = 0; i < check->live + check->shadow;) {
        const struct policy_rule *rule = check->rules[i];
        const struct override *found = override_index_find(o, check_tag(e, check, i),
                                                           rule->policy->name, rule->name, r.now);
        weir_err err;

        if (found && is_dropped(check, found)) {
            check->override_id = (int64_t)found->id;
            drop(check, i);
            continue;
        }
        err = found ? alter(&r, i, found, diag) : WEIR_OK;
        if (err)
            return err;
        i++;
    }
    answer(&r);
    return WEIR_OK;
}
