/* prepare.c - from a request to what the store is to be asked: rules, keys and numbers. */
#include <inttypes.h>

#include "base/diag.h"
#include "engine/amounts.h"
#include "engine/charges.h"
#include "engine/engine.h"
#include "engine/reserve.h"

static weir_err read_ask(const struct engine *e, struct check *check, weir_diag *diag)
{
    const weir_request *r = check->request;

    check->ask = (struct ask){ .now = r->now, .cost = r->cost, .peek = check->peek };
    if (r->cost == 0)
        check->ask.cost = 1;
    else if (r->cost == WEIR_COST_ZERO)
        check->ask.cost = 0;
    else if (r->cost < 0 || r->cost > WEIR_MAX_AMOUNT)
        return diag_fail(diag, WEIR_ECOST, "cost must be from 0 to 2^53, not %" PRId64, r->cost);
    if (r->cost_count > 0) {
        const weir_err err = amounts_read(check, diag);

        if (err)
            return err;
    }
    if (r->now == 0)
        return WEIR_OK;
    if (!e->trusts_now)
        return diag_fail(diag, WEIR_ENOW,
                         "`now` is not allowed: this limiter uses its own clock (leave it out, or "
                         "trust callers with trust_client_clock or WEIR_TRUST_NOW)");
    if (r->now < 0 || r->now >= (int64_t)1 << 48)
        return diag_fail(diag, WEIR_EREQUEST, "`now` must be ms since 1970, not %" PRId64, r->now);
    return WEIR_OK;
}

void charges_begin(struct check *check)
{
    check->pattern = check->made_by = check->told_by = 0;
    check->policy = NULL;
    check->live = check->shadow = check->waiting = 0;
    check->is_answered = check->is_named = check->is_plain = check->is_lone = false;
    check->is_judged = check->has_no_limit = check->lists_charges = false;
    check->policy_count = 0;
    check->most_ms = 0;
    check->on_error = ON_ERROR_LOCAL;
    check->override_id = 0;
    check->questions = check->one.questions;
    check->charges = check->one.charges;
    check->rules = check->one.rules;
    check->whose = check->one.whose;
}

weir_err charges_of_request(struct engine *e, struct check *check, weir_diag *diag)
{
    return check->request->policy || check->request->policy_count > 0
               ? charges_of_policies(e, check, diag)
               : charges_of_limit(e, check, diag);
}

static bool is_fine_with_slots(const struct check *check)
{
    switch (check->verb) {
    case VERB_RESERVE:
        return !check->reserving.of.is_used;
    case VERB_SETTLE:
    case VERB_GROW:
    case VERB_EXTEND:
    case VERB_RESET:
        return true;
    case VERB_CHECK:
    case VERB_REFUND:
    case VERB_UNDO:
    case VERB_CHARGE:
        break;
    }
    return false;
}

/* A slot is held until it is given back: what cannot be held has none. */
static weir_err refuse_slots(const struct check *check, weir_diag *diag)
{
    if (check->peek || is_fine_with_slots(check))
        return WEIR_OK;
    for (size_t i = 0; i < check->live + check->shadow; i++)
        if (algorithm_counts_slots(check->charges[i].rule->algorithm))
            return diag_fail(diag, WEIR_ENEEDSRESERVATION, "%s",
                             weir_err_text(WEIR_ENEEDSRESERVATION));
    return WEIR_OK;
}

weir_err engine_prepare(struct engine *e, struct check *check, weir_diag *diag)
{
    const weir_request *r = check->request;
    weir_err err;

    charges_begin(check);
    err = read_ask(e, check, diag);
    if (!err && (verb_reserves(check->verb) || r->id))
        err = reserve_prepare(e, check, diag);
    else if (!err)
        err = charges_of_request(e, check, diag);
    if (!err && !check->is_answered)
        err = refuse_slots(check, diag);
    check->answer->err = err;
    if (err) { /* for callers that look no further */
        check->answer->allowed = false;
        check->answer->rule_count = 0;
    }
    return err;
}

/* ---- what commands ask for, without a request ------------------------------------------------ */

weir_err charge_check_key(struct span key, weir_diag *diag)
{
    if (key.len <= WEIR_MAX_IDENTITY)
        return WEIR_OK;
    return diag_fail(diag, WEIR_EREQUEST, "the key is too long: at most %d bytes",
                     WEIR_MAX_IDENTITY);
}

/* check->unnamed on this key, unless there is an error or nothing is limited. */
static weir_err charge_key(struct engine *e, struct check *check, weir_err err,
                           const struct hash_key *hash_key, const char *name, struct span key)
{
    check->answer->err = err;
    if (err) {
        check->answer->allowed = false;
        check->answer->rule_count = 0;
        return err;
    }
    if (!policies_enabled(check->policies)) {
        charges_are_none(check, WEIR_FROM_OFF);
        return WEIR_OK;
    }
    charge_put(e, check, NULL, &check->unnamed, engine_key(e, hash_key, NULL, key), key);
    charge_name(e, check, "-", name, key);
    check->live = 1;
    return WEIR_OK;
}

weir_err engine_prepare_cell(struct engine *e, struct check *check, struct span key,
                             const struct rule *rule, int64_t quantity, weir_diag *diag)
{
    weir_err err = WEIR_OK;

    charges_begin(check);
    check->verb = rule ? VERB_CHECK : VERB_RESET;
    check->peek = quantity == 0;
    check->is_release = false;
    check->ask = (struct ask){ .cost = quantity, .peek = check->peek };
    if (rule)
        check->unnamed = *rule;
    else
        err = cell_rule(1, 1, 1, &check->unnamed, diag);
    if (!err)
        err = cell_check_quantity(&check->unnamed, quantity, diag);
    if (!err)
        err = charge_check_key(key, diag);
    return charge_key(e, check, err, &engine_keys(e)->cell, "cl.throttle", key);
}

static void begin_counting(struct check *check, const struct rule *rule, enum verb verb,
                           int64_t amount)
{
    charges_begin(check);
    check->verb = verb;
    check->peek = verb_decides(verb);
    check->is_release = false;
    check->ask = (struct ask){ .cost = amount, .peek = check->peek };
    check->unnamed = *rule;
}

weir_err engine_prepare_counter(struct engine *e, struct check *check, struct span key,
                                const struct rule *rule, enum verb verb, int64_t amount,
                                weir_diag *diag)
{
    weir_err err;

    begin_counting(check, rule, verb, amount);
    err = rule_check(&check->unnamed, diag);
    if (!err)
        err = charge_check_key(key, diag);
    return charge_key(e, check, err, &engine_keys(e)->counter, "counter", key);
}

void engine_prepare_again(struct check *check, const struct check *of, enum verb verb,
                          int64_t amount)
{
    begin_counting(check, &of->unnamed, verb, amount);
    check->answer->err = WEIR_OK;
    if (of->is_answered) {
        charges_are_none(check, WEIR_FROM_OFF);
        return;
    }
    check->rules[0] = NULL;
    check->whose[0] = of->whose[0];
    check->charges[0] = (struct charge){
        .rule = &check->unnamed,
        .key = of->charges[0].key,
        .name = of->charges[0].name,
        .cost = amount,
    };
    check->live = 1;
}
