/* descriptors.c - checks of limits that were found for the descriptors of a request of Envoy. */
#include "engine/descriptors.h"

#include "base/diag.h"
#include "engine/charges.h"
#include "engine/override_apply.h"

static bool is_exempt(const struct check *check, const struct limit_ask *ask)
{
    struct attribute attributes[POLICY_MAX_BY];
    size_t n = 0;

    if (!ask->limit)
        return false;
    for (size_t i = 0; i < ask->entry_count && n < ask->rule->by_count; i++)
        if (ask->limit->varies >> i & 1) {
            attributes[n] = (struct attribute){ span_of(ask->rule->by[n]), ask->entries[i].value };
            n++;
        }
    return policies_exempt(check->policies, ask->rule->policy, attributes, n);
}

/* What an operator says of a policy holds for numbers that come with a request, too. */
static enum mode mode_of(const struct engine *e, const struct override_index *o,
                         struct check *check, const struct limit_ask *ask)
{
    check->policy = ask->rule->policy;
    check->has_mode = false;
    if (o)
        override_apply_mode(e, o, check);
    if (check->has_mode)
        return policy_rule_mode(ask->rule, &check->mode);
    return ask->is_enforced ? MODE_ENFORCE : ask->rule->mode;
}

static bool is_same_key(struct key a, struct key b)
{
    return a.high == b.high && a.low == b.low;
}

static const char *called(const struct engine *e, const struct limit_ask *ask)
{
    char name[WEIR_MAX_NAME + 1];
    const char *kept = NULL;

    if (ask->limit && envoy_metric_name(ask->limit, ask->entries, ask->entry_count, name))
        kept = named_keep(e->named, span_of(name));
    return kept ? kept : ask->rule->policy->name;
}

/* One that is asked for twice is one charge: the keys of a question differ. */
static bool add_to_other(struct check *check, const struct limit_ask *ask)
{
    for (size_t i = 0; i < check->live; i++)
        if (is_same_key(check->charges[i].key, ask->key)) {
            check->charges[i].cost = add_amount(check->charges[i].cost, ask->cost, AMOUNT_MOST);
            return true;
        }
    return false;
}

static void add_charge(const struct engine *e, struct check *check, struct limit_ask *ask)
{
    const struct counted *counted = &ask->rule->counted;
    const size_t at = check->live + check->shadow;
    const struct rule *numbers = &counted->rule;
    struct identity identity;
    struct span bytes;

    envoy_identity(ask->limit, ask->rule, ask->entries, ask->entry_count, &identity);
    bytes = (struct span){ identity.bytes, identity.len };
    ask->key = engine_counted_key(e, counted, bytes);
    if (!ask->is_shadow && add_to_other(check, ask))
        return;
    if (ask->brings_numbers) {
        check->room->brought[at] = ask->numbers;
        numbers = &check->room->brought[at];
    }
    charge_put(e, check, ask->rule, numbers, ask->key, bytes);
    check->charges[at].cost = ask->cost;
    charge_name(e, check, ask->rule->policy->name, ask->rule->name, bytes);
    check->room->called[at] = called(e, ask);
    if (ask->is_shadow)
        check->shadow++;
    else
        check->live++;
}

/* Each once. */
static void list_policies(struct check *check)
{
    check->policy_count = 0;
    for (size_t i = 0; i < check->live + check->shadow; i++) {
        const struct policy *policy = check->rules[i]->policy;
        size_t at = 0;

        while (at < check->policy_count && check->room->policies[at] != policy)
            at++;
        check->room->policies[at] = policy;
        if (at == check->policy_count)
            check->policy_count++;
    }
    check->policy = check->room->policies[0];
}

static weir_err add_limits(const struct engine *e, const struct override_index *o,
                           struct check *check, weir_diag *diag)
{
    weir_err err = WEIR_OK;

    for (size_t i = 0; i < check->ask_count; i++) {
        struct limit_ask *ask = &check->asks[i];
        const enum mode mode = mode_of(e, o, check, ask);

        ask->is_shadow = mode == MODE_SHADOW;
        ask->is_left_out = mode == MODE_OFF || !policies_enabled(check->policies) ||
                           is_exempt(check, ask);
        if (!ask->is_left_out && !ask->is_shadow)
            add_charge(e, check, ask);
    }
    for (size_t i = 0; i < check->ask_count; i++)
        if (!check->asks[i].is_left_out && check->asks[i].is_shadow)
            add_charge(e, check, &check->asks[i]);
    check->has_mode = false;
    if (check->live + check->shadow == 0) {
        check->policy_count = 1;
        charges_are_none(check, WEIR_FROM_OFF);
        return WEIR_OK;
    }
    list_policies(check);
    check->on_error = check->policy->on_error;
    if (o)
        err = override_apply_charges(e, o, check, NULL, 0, diag);
    check->has_no_limit &= check->override_id == 0;
    return err;
}

weir_err engine_prepare_limits(struct engine *e, struct check *check, struct limit_ask *asks,
                               size_t n, weir_diag *diag)
{
    const bool is_judged = check->is_judged, has_no_limit = check->has_no_limit;
    weir_err err;

    charges_begin(check);
    check->is_judged = is_judged;
    check->has_no_limit = has_no_limit;
    check->lists_charges = true;
    check->ask = (struct ask){ .peek = check->peek };
    check->plan = NULL;
    check->asks = asks;
    check->ask_count = n;
    charges_make_room(check);
    if (n > WEIR_MAX_RULES)
        err = diag_fail(diag, WEIR_EREQUEST,
                        "%zu limits are too many: at most %d are judged as one", n, WEIR_MAX_RULES);
    else
        err = charges_with_overrides(e, check, add_limits, diag);
    check->asks = NULL;
    check->answer->err = err;
    if (err) {
        check->answer->allowed = false;
        check->answer->rule_count = 0;
    }
    return err;
}

const weir_rule_answer *check_row_of(const struct check *check, struct key key)
{
    for (size_t i = 0; i < check->answer->rule_count; i++)
        if (is_same_key(check->charges[i].key, key))
            return &check->answer->rules[i];
    return NULL;
}
