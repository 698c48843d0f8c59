/* override_request.c - the change that a request of an operator asks for. */
#include "server/http/override_request.h"

#include "base/diag.h"
#include "policy/rate.h"

_Static_assert((int)CHANGE_JSON_MAX_BY == (int)POLICY_MAX_BY, "as many as a rule counts by");

static weir_err read_expiry(const struct override_json *asked, int64_t now, int64_t *out,
                            weir_diag *diag)
{
    weir_diag why;
    int64_t ms;

    *out = asked->expires_ms > 0 ? asked->expires_ms : 0;
    if (!asked->duration)
        return WEIR_OK;
    if (asked->expires_ms >= 0)
        return diag_fail(diag, WEIR_EREQUEST, "give 'for' or 'expires_ms', not both");
    if (duration_read(span_of(asked->duration), &ms, &why))
        return diag_fail(diag, WEIR_EREQUEST, "'for': %s", why.text);
    if (ms > WEIR_MAX_AMOUNT - now)
        return diag_fail(diag, WEIR_EREQUEST, "'for' is too long: leave it out for no end");
    *out = now + ms;
    return WEIR_OK;
}

/* An override says what it does in a word, or by the numbers or the plan it brings. */
static weir_err read_effect(const struct override_json *asked, enum ledger_effect *out,
                            weir_diag *diag)
{
    const bool has_numbers = asked->limit >= 0 || asked->burst >= 0;
    const enum ledger_effect said = asked->effect ? ledger_effect_of(span_of(asked->effect))
                                    : has_numbers ? LEDGER_LIMIT
                                    : asked->plan ? LEDGER_ON_PLAN
                                                  : LEDGER_EFFECTS;

    if (said < LEDGER_EXEMPT || said > LEDGER_ON_PLAN)
        return diag_fail(diag, WEIR_EREQUEST,
                         "what shall hold? Give effect (exempt or block), or limit or burst, or "
                         "plan");
    if ((said == LEDGER_LIMIT) != has_numbers || (said == LEDGER_ON_PLAN) != (asked->plan != NULL))
        return diag_fail(diag, WEIR_EREQUEST,
                         "an override does one thing: exempt, block, other numbers, or a plan");
    *out = said;
    return WEIR_OK;
}

static weir_err refuse_member(const char *name, const char *where, weir_diag *diag)
{
    return diag_fail(diag, WEIR_EREQUEST, "'%s' does not belong %s: leave it out", name, where);
}

/* What is not for this route would be taken for having had an effect. */
static weir_err check_members(const struct operator_ask *ask, weir_diag *diag)
{
    const struct override_json *a = ask->asked;
    const bool is_override = ask->subject == LEDGER_OVERRIDE, removes = ask->removes;

    if (!removes && a->id >= 0)
        return refuse_member("id", "to what is set", diag);
    if (a->mode && (ask->subject != LEDGER_MODE || removes))
        return refuse_member("mode", "here", diag);
    if ((a->effect || a->limit >= 0 || a->burst >= 0) && (!is_override || removes))
        return refuse_member(a->effect       ? "effect"
                             : a->limit >= 0 ? "limit"
                                             : "burst",
                             "here", diag);
    if (a->named && ask->subject == LEDGER_PLAN)
        return refuse_member("named", "to a plan, which limits that come with requests do not have",
                             diag);
    if (a->plan && (ask->subject == LEDGER_MODE || removes))
        return refuse_member("plan", "here", diag);
    if (ask->subject == LEDGER_MODE &&
        (a->rule || a->key || a->attribute_count > 0 || a->tag || a->by_count > 0))
        return refuse_member(a->rule           ? "rule"
                             : a->key          ? "key"
                             : a->tag          ? "tag"
                             : a->by_count > 0 ? "by"
                                               : "attributes",
                             "to the mode of a policy", diag);
    if (ask->subject == LEDGER_MODE && a->policy)
        return refuse_member("policy", "into the body: the path names it", diag);
    if (removes && (a->duration || a->expires_ms >= 0))
        return refuse_member(a->duration ? "for" : "expires_ms", "to what is removed", diag);
    return WEIR_OK;
}

weir_err operator_change(const struct operator_ask *ask, struct override_request *out,
                         weir_diag *diag)
{
    const struct override_json *a = ask->asked;
    const bool removes = ask->removes;
    weir_err err = check_members(ask, diag);

    *out = (struct override_request){
        .subject = ask->subject,
        .effect = removes                       ? LEDGER_REMOVED
                  : ask->subject == LEDGER_PLAN ? LEDGER_ON_PLAN
                                                : LEDGER_IN_MODE,
        .policy = ask->policy[0] ? ask->policy : a->policy,
        .is_named = a->named,
        .rule = a->rule,
        .key = a->key,
        .attributes = a->attributes,
        .attribute_count = a->attribute_count,
        .tag = a->tag,
        .by_count = a->by_count,
        .limit = a->limit >= 0 ? a->limit : LEDGER_UNCHANGED,
        .burst = a->burst >= 0 ? a->burst : LEDGER_UNCHANGED,
        .plan = a->plan,
        .mode = a->mode,
        .who = a->who && a->who[0] ? a->who : ask->who,
        .reason = a->reason ? a->reason : "",
    };
    memcpy(out->by, a->by, a->by_count * sizeof *a->by);
    if (!err && !removes && ask->subject == LEDGER_OVERRIDE)
        err = read_effect(a, &out->effect, diag);
    if (!err && !removes && ask->subject == LEDGER_PLAN && !a->plan)
        err = diag_fail(diag, WEIR_EREQUEST, "which plan? Give 'plan'");
    if (!err && !removes && ask->subject == LEDGER_MODE && !a->mode)
        err = diag_fail(diag, WEIR_EREQUEST, "which mode? Give 'mode': enforce, shadow or off");
    if (!err)
        err = read_expiry(a, ask->now, &out->expires, diag);
    return err;
}
