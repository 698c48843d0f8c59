/* explanation.c - what a policy would do with a request, and why: the facts. */
#include "cli/policy/explanation.h"

#include <stdio.h>

#include "base/suggest.h"
#include "policy/exemption.h"
#include "policy/identity.h"
#include "policy/ip.h"
#include "policy/set.h"

/* What a request brings. */
struct facts {
    const struct attribute *attributes;
    size_t count;
    bool is_shared; /* by a store that others share, which hashes in another way */
};

/* ---- rules ----------------------------------------------------------------------------- */

static void describe(const struct policy_rule *rule, const char *name, const struct facts *facts,
                     char out[64])
{
    const struct attribute *a = attribute_find(facts->attributes, facts->count, name);
    struct ip ip;

    if (!a && facts->count > 0)
        snprintf(out, 64, "not given");
    else if (attribute_is_email(name))
        snprintf(out, 64, "trimmed and lower-cased");
    else if (!attribute_is_ip(name))
        snprintf(out, 64, "as it is");
    else if (!a)
        snprintf(out, 64, "IPv4, or IPv6 to %d bits", rule->ipv6_prefix);
    else if (!ip_read(a->value, &ip))
        snprintf(out, 64, "not an IP address");
    else if (ip.is_v6)
        snprintf(out, 64, "IPv6, first %d bits", rule->ipv6_prefix);
    else
        snprintf(out, 64,
                 memchr(a->value.at, ':', a->value.len) ? "IPv4, extracted from IPv6" : "IPv4");
}

static struct explained_limit explain_limit(const struct rule *numbers, const struct yaml *at,
                                            const char *whose)
{
    return (struct explained_limit){
        .numbers = numbers,
        .limit = origin_within(at, whose, "limit"),
        .burst = origin_within(at, whose, "burst"),
        .precision = origin_within(at, whose, "precision"),
    };
}

static void explain_numbers(struct explained_rule *out, const struct policy *p,
                            const struct place *place, const char *plan)
{
    const struct policy_rule *rule = out->rule;
    const struct yaml *own = place->rule ? place->rule : place->policy, *plans, *at;
    const struct counted *counted = policy_rule_under(rule, span_of(plan ? plan : ""));

    for (size_t i = 0; i < rule->plan_count; i++)
        if (counted == &rule->plans[i].counted)
            out->plan = &rule->plans[i];
    if (out->plan) {
        plans = outline_key(own, "plans");
        at = plans ? outline_key(plans->value, out->plan->name) : NULL;
        out->live = explain_limit(&counted->rule, at ? at->value : NULL, "plan");
    } else {
        out->live = explain_limit(&counted->rule, own, place->rule ? "rule" : "policy");
        origin_overridden(&out->live.limit, p, rule);
    }
    /* A rule that is in shadow as a whole has no second limit beside it. */
    if (rule->shadow_limit && rule->mode == MODE_ENFORCE) {
        at = outline_key(own, "shadow_limit");
        out->shadow = explain_limit(&rule->shadow_limit->rule, at ? at->value : NULL, "rule");
    }
}

static weir_err explain_rule(struct explained_rule *out, const struct explanation *e,
                             const struct outline *outline, const struct facts *facts,
                             weir_diag *diag)
{
    const struct place place = place_of(outline, e->policy, out->rule);
    const struct hash_key *key = &out->rule->tag_key.hash_key;
    struct identity identity;
    struct span bytes;
    weir_err err;

    explain_numbers(out, e->policy, &place, e->plan);
    out->algorithm = origin_of(&place, "algorithm");
    out->start = origin_of(&place, "start");
    out->block_for = origin_of(&place, "block_for");
    out->counts = origin_of(&place, "counts");
    out->by = origin_of(&place, "by");
    out->ipv6_prefix = origin_of(&place, "ipv6_prefix");
    out->rollout = origin_of(&place, "rollout");
    out->lease = origin_of(&place, "lease");
    out->mode = out->rule->mode > e->policy->mode ? origin_of(&place, "mode") : e->mode;
    for (size_t i = 0; i < out->rule->by_count; i++)
        describe(out->rule, out->rule->by[i], facts, out->how[i]);
    if (out->rule->mode == MODE_OFF)
        return WEIR_OK;
    err = identity_of(e->policy->name, out->rule, facts->attributes, facts->count, &identity, diag);
    if (err)
        return err;
    bytes = (struct span){ identity.bytes, identity.len };
    out->is_reached = policy_rule_reaches(out->rule, bytes);
    if (out->rule->by_count > 0)
        tag_write(facts->is_shared ? hash_shared(key, bytes) : hash_identity(key, bytes), out->tag);
    return WEIR_OK;
}

/* ---- the request ----------------------------------------------------------------------- */

static bool names_attribute(const struct exemption *all, size_t n, struct span name)
{
    for (size_t i = 0; i < n; i++)
        for (size_t m = 0; m < all[i].match_count; m++)
            if (span_is(name, all[i].matches[m].attribute))
                return true;
    return false;
}

static bool is_used(const struct policies *set, const struct policy *p, struct span name)
{
    for (size_t i = 0; i < p->rule_count; i++)
        for (size_t b = 0; b < p->rules[i].by_count; b++)
            if (span_is(name, p->rules[i].by[b]))
                return true;
    return names_attribute(set->exempt, set->exempt_count, name) ||
           names_attribute(p->exempt, p->exempt_count, name);
}

/* Which one covers the request? Returns their number if none does. */
static size_t find_exemption(const struct exemption *all, size_t n, const struct facts *facts)
{
    struct exemption_facts seen = { .attributes = facts->attributes, .count = facts->count };
    size_t i = 0;

    while (i < n && !exemptions_cover(&all[i], 1, &seen))
        i++;
    return i;
}

static bool explain_exemption(struct explanation *e, const struct policies *set,
                              const struct outline *outline, const struct facts *facts)
{
    const struct policy *p = e->policy;
    const struct exemption *found = NULL;
    size_t i = find_exemption(set->exempt, set->exempt_count, facts);

    if (i < set->exempt_count) {
        found = &set->exempt[i];
        e->exempt_line = outline_exemption_line(outline, NULL, i);
    } else {
        i = find_exemption(p->exempt, p->exempt_count, facts);
        if (i == p->exempt_count)
            return false;
        found = &p->exempt[i];
        e->exempt_line = outline_exemption_line(outline, p->name, i);
    }
    e->outcome = OUTCOME_EXEMPT;
    snprintf(e->why, sizeof e->why,
             "This request is allowed and not counted: line %d exempts it, by its %s%s.",
             e->exempt_line, found->matches[0].attribute,
             found->match_count > 1 ? " and more" : "");
    return true;
}

static bool explain_off(struct explanation *e, const struct policies *set)
{
    bool any = false;

    for (size_t i = 0; i < e->policy->rule_count; i++)
        any = any || e->policy->rules[i].mode != MODE_OFF;
    if (policies_enabled(set) && e->policy->mode != MODE_OFF && any)
        return false;
    e->outcome = OUTCOME_OFF;
    if (!policies_enabled(set))
        snprintf(e->why, sizeof e->why,
                 "All requests are allowed and not counted: WEIR_ENABLED turns everything off.");
    else if (e->policy->mode != MODE_OFF)
        snprintf(e->why, sizeof e->why,
                 "Requests are allowed and not counted: all rules of the policy are off.");
    else if (e->mode.line > 0)
        snprintf(e->why, sizeof e->why,
                 "Requests are allowed and not counted: line %d turns the policy off.",
                 e->mode.line);
    else
        snprintf(e->why, sizeof e->why,
                 "Requests are allowed and not counted: WEIR_ENABLED_POLICIES leaves it out.");
    return true;
}

static void explain_counting(struct explanation *e)
{
    const char *who = e->has_request ? "This request is" : "Requests are";
    size_t live = 0, shadow = 0;
    int len;

    for (size_t i = 0; i < e->policy->rule_count; i++) {
        live += e->policy->rules[i].mode == MODE_ENFORCE;
        shadow += e->policy->rules[i].mode == MODE_SHADOW;
    }
    e->outcome = OUTCOME_COUNTED;
    if (live == 0)
        len = snprintf(e->why, sizeof e->why, "%s allowed, whatever the count", who);
    else if (live == 1)
        len = snprintf(e->why, sizeof e->why, "%s judged by one rule", who);
    else
        len = snprintf(e->why, sizeof e->why,
                       "%s judged by %zu rules at once: if one denies, none is charged", who, live);
    if (shadow > 0)
        len += snprintf(e->why + len, sizeof e->why - (size_t)len,
                        "; %zu rule%s in shadow count%s, but never den%s", shadow,
                        shadow == 1 ? "" : "s", shadow == 1 ? "s" : "", shadow == 1 ? "ies" : "y");
    snprintf(e->why + len, sizeof e->why - (size_t)len, ".");
}

static void explain_plan(struct explanation *e)
{
    const char *names[WEIR_MAX_RULES * 8];
    size_t n = 0;

    for (size_t i = 0; i < e->policy->rule_count; i++)
        for (size_t p = 0; p < e->policy->rules[i].plan_count; p++) {
            if (strcmp(e->policy->rules[i].plans[p].name, e->plan) == 0)
                e->plan_is_known = true;
            if (n < sizeof names / sizeof *names)
                names[n++] = e->policy->rules[i].plans[p].name;
        }
    if (!e->plan_is_known)
        e->plan_near = suggest(span_of(e->plan), names, n);
}

static void explain_policy(struct explanation *e, const struct outline *outline)
{
    const struct place place = place_of(outline, e->policy, NULL);

    e->mode = origin_of(&place, "mode");
    e->on_error = origin_of(&place, "on_error");
    e->retry = origin_of(&place, "retry_after");
    if (e->policy->mode == MODE_OFF && !(e->mode.value && span_is(e->mode.value->text, "off"))) {
        e->mode = (struct origin){ .whose = "environment" };
        snprintf(e->mode.variable, sizeof e->mode.variable, "WEIR_ENABLED_POLICIES");
    }
    if (e->plan)
        explain_plan(e);
}

void explain(struct explanation *e, const struct policy_file *f, const struct outline *outline,
             const struct policy *policy, const struct attribute *attributes, size_t n,
             const char *plan, bool is_shared)
{
    const struct facts facts = { attributes, n, is_shared };
    weir_err first = WEIR_OK;

    *e = (struct explanation){ .path = f->path, .policy = policy, .plan = plan };
    e->has_request = n > 0;
    explain_policy(e, outline);
    for (size_t i = 0; i < n; i++)
        if (!is_used(f->set, policy, attributes[i].name))
            e->unused[e->unused_count++] = attributes[i].name.at;
    for (size_t i = 0; i < policy->rule_count; i++) {
        weir_err err;

        e->rules[i].rule = &policy->rules[i];
        err = explain_rule(&e->rules[i], e, outline, &facts, first ? NULL : &e->error);
        first = first ? first : err;
    }
    if (explain_off(e, f->set) || (n > 0 && explain_exemption(e, f->set, outline, &facts)))
        return;
    explain_counting(e);
    if (first && n > 0) {
        e->outcome = OUTCOME_ERROR;
        snprintf(e->why, sizeof e->why, "This request cannot be checked: %.400s.", e->error.text);
    }
}
