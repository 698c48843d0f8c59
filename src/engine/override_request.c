/* override_request.c - what an operator asks for, checked, and made an entry of the ledger.
 *
 * What would have no effect is refused: it was meant to have one. What is to be removed is not
 * looked at as closely, as the policy may have changed since. */
#include "engine/override_request.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/diag.h"
#include "base/printable.h"
#include "base/suggest.h"
#include "base/utf8.h"
#include "engine/override_apply.h"

struct reading {
    const struct engine *e;
    const struct policies *set;
    const struct override_request *c;
    const struct policy *policy;
    struct named_limit named; /* … which this is, if the file has none of that name */
    struct attribute attributes[WEIR_MAX_ATTRIBUTES];
    size_t count;
    struct key tag;
    bool has_tag, is_vague; /* vague: it could be of several sets of attributes */
    struct override_request_room *room;
    struct ledger_entry *out;
    weir_diag *diag;
};

/* ---- texts ---------------------------------------------------------------------------------- */

static weir_err check_text(const char *what, const char *text, size_t most, weir_diag *diag)
{
    const struct span span = span_of(text);

    if (span.len > most)
        return diag_fail(diag, WEIR_EREQUEST, "%s has %zu bytes: at most %zu are allowed", what,
                         span.len, most);
    if (!utf8_is_text(span))
        return diag_fail(diag, WEIR_EREQUEST, "%s is not UTF-8", what);
    if (!is_printable(span))
        return diag_fail(diag, WEIR_EREQUEST, "%s must be one line of text", what);
    return WEIR_OK;
}

/* The numbers come with each request: those that are checked against are as good as any. */
static void take_named(struct reading *r, struct span name)
{
    const struct rule numbers = {
        .algorithm = WEIR_TOKEN_BUCKET, .limit = 1, .window = 1, .burst = 1
    };

    named_sketch(r->e->named, name, &numbers, &r->named);
    r->named.rule.tag_key = engine_keys(r->e)->called;
    r->named.policy.name = r->c->policy;
    r->policy = &r->named.policy;
}

static weir_err refuse_policy(const struct reading *r, struct span name)
{
    const char *near = policies_suggest(r->set, name);

    if (near)
        return diag_fail(r->diag, WEIR_ENOPOLICY, "there is no policy '%s': did you mean '%s'?",
                         printable(name).text, near);
    if (r->c->subject == LEDGER_PLAN || r->c->effect == LEDGER_REMOVED || !name_is_valid(name))
        return diag_fail(r->diag, WEIR_ENOPOLICY, "there is no policy '%s'", printable(name).text);
    return diag_fail(r->diag, WEIR_ENOPOLICY,
                     "there is no policy '%s', and no request has sent a limit of this name: if "
                     "requests will, add `named`",
                     printable(name).text);
}

/* What is set for a limit that comes with requests is for its name. That one is known is a sign
 * that it was meant; otherwise it must be said. The name of what is to be removed is kept. */
static bool is_of_limit(const struct reading *r, struct span name)
{
    if (r->c->subject == LEDGER_PLAN || !name_is_valid(name))
        return false;
    return r->c->is_named || (r->c->effect == LEDGER_REMOVED ? named_is_kept(r->e->named, name)
                                                             : named_is_known(r->e->named, name));
}

static weir_err find_policy(struct reading *r)
{
    struct span name;

    if (!r->c->policy)
        return WEIR_OK;
    name = span_of(r->c->policy);
    r->policy = policies_find(r->set, name);
    if (r->policy && r->c->is_named)
        return diag_fail(r->diag, WEIR_EREQUEST, "'%s' is a policy of the file: leave out `named`",
                         r->policy->name);
    if (r->policy)
        return WEIR_OK;
    if (!is_of_limit(r, name))
        return refuse_policy(r, name);
    take_named(r, name);
    return WEIR_OK;
}

/* ---- tags ----------------------------------------------------------------------------------- */

static bool by_the_same(const struct policy_rule *a, const struct policy_rule *b)
{
    for (size_t i = 0; i < a->by_count; i++)
        if (i >= b->by_count || a->by[i] != b->by[i])
            return false;
    return a->by_count == b->by_count;
}

/* The one that is named, or one that counts as all others do that tell identities apart. */
static const struct policy_rule *find_tagged(const struct reading *r, bool *is_vague)
{
    const struct policy_rule *found = NULL;

    for (size_t i = 0; r->policy && i < r->policy->rule_count; i++) {
        const struct policy_rule *rule = &r->policy->rules[i];

        if (r->c->rule && strcmp(r->c->rule, rule->name) == 0)
            return rule;
        if (r->c->rule || (rule->by_count == 0 && found))
            continue;
        if (found && found->by_count > 0 && !by_the_same(found, rule))
            *is_vague = true;
        if (!found || found->by_count == 0)
            found = rule;
    }
    return found;
}

/* What the identity is made of: their names only, as the values are not known. */
static weir_err read_tag(struct reading *r)
{
    const struct override_request *c = r->c;
    const struct policy_rule *rule = find_tagged(r, &r->is_vague);

    if (c->key || c->attribute_count > 0)
        return diag_fail(r->diag, WEIR_EREQUEST, "give a tag, a key or attributes: one of them");
    if (!tag_read(c->tag, &r->tag))
        return diag_fail(r->diag, WEIR_EREQUEST,
                         "a tag is 32 hexadecimal digits, as in the log and GET /v1/top");
    r->has_tag = true;
    r->is_vague = r->is_vague && c->by_count == 0;
    if (c->by_count > 0)
        for (r->count = 0; r->count < c->by_count; r->count++)
            r->attributes[r->count].name = span_of(c->by[r->count]);
    else if (rule && !r->is_vague)
        for (r->count = 0; r->count < rule->by_count; r->count++)
            r->attributes[r->count].name = span_of(rule->by[r->count]);
    return WEIR_OK;
}

static weir_err ask_by(const struct reading *r)
{
    return diag_fail(
        r->diag, WEIR_EREQUEST,
        "the attributes of the tag are not clear: give 'by', or the rule that it was seen with");
}

/* ---- identities ----------------------------------------------------------------------------- */

static weir_err read_attributes(struct reading *r)
{
    const struct override_request *c = r->c;

    if (c->tag)
        return read_tag(r);
    if (c->by_count > 0)
        return diag_fail(r->diag, WEIR_EREQUEST,
                         "'by' needs a tag: attributes are given with their names");
    if (c->key && c->attribute_count > 0)
        return diag_fail(r->diag, WEIR_EREQUEST, "give a key or attributes, not both");
    if (c->key && (!r->policy || !r->policy->sole_attribute))
        return diag_fail(r->diag, WEIR_EREQUEST,
                         "a key is only for a policy that counts by one attribute: give attributes "
                         "by name instead");
    if (c->key) {
        r->attributes[0] = (struct attribute){ span_of(r->policy->sole_attribute),
                                               span_of(c->key) };
        r->count = 1;
        return WEIR_OK;
    }
    if (c->attribute_count > WEIR_MAX_ATTRIBUTES)
        return diag_fail(r->diag, WEIR_EREQUEST, "%zu attributes are too many: at most %d",
                         c->attribute_count, WEIR_MAX_ATTRIBUTES);
    for (size_t i = 0; i < c->attribute_count; i++)
        r->attributes[i] = (struct attribute){
            span_of(c->attributes[i].name),
            { c->attributes[i].value, c->attributes[i].value_len ? c->attributes[i].value_len
                                                                 : strlen(c->attributes[i].value) },
        };
    r->count = c->attribute_count;
    return WEIR_OK;
}

static bool counts_by_these(const struct reading *r, const struct policy_rule *rule)
{
    if (rule->by_count != r->count)
        return false;
    for (size_t i = 0; i < rule->by_count; i++)
        if (!attribute_find(r->attributes, r->count, rule->by[i]))
            return false;
    return true;
}

static bool counts_the_same(const struct policy_rule *a, const struct policy_rule *b)
{
    for (size_t i = 0; i < a->by_count; i++)
        if (a->by[i] != b->by[i])
            return false;
    return a->ipv6_prefix == b->ipv6_prefix;
}

static weir_err find_named_rule(struct reading *r, const struct policy_rule **out)
{
    const char *names[WEIR_MAX_RULES], *near;

    for (size_t i = 0; i < r->policy->rule_count; i++) {
        *out = &r->policy->rules[i];
        names[i] = (*out)->name;
        if (strcmp(r->c->rule, names[i]) != 0)
            continue;
        if (counts_by_these(r, *out))
            return WEIR_OK;
        return diag_fail(r->diag, WEIR_EATTRIBUTE,
                         "rule '%s' counts by other attributes: give exactly those", names[i]);
    }
    near = suggest(span_of(r->c->rule), names, r->policy->rule_count);
    return diag_fail(r->diag, WEIR_EREQUEST, "policy '%s' has no rule '%s'%s%s%s", r->policy->name,
                     printable(span_of(r->c->rule)).text, near ? ": did you mean '" : "",
                     near ? near : "", near ? "'?" : "");
}

/* The rule that is named, or the first of those that count by what is given. */
static weir_err find_rule(struct reading *r, const struct policy_rule **out)
{
    const struct policy_rule *found = NULL;

    if (r->c->rule)
        return find_named_rule(r, out);
    for (size_t i = 0; i < r->policy->rule_count; i++) {
        const struct policy_rule *rule = &r->policy->rules[i];

        if (!counts_by_these(r, rule))
            continue;
        if (found && !r->has_tag && !counts_the_same(found, rule))
            return diag_fail(r->diag, WEIR_EREQUEST,
                             "rules '%s' and '%s' distinguish these identities differently (the "
                             "order of `by`, or ipv6_prefix): name one of them",
                             found->name, rule->name);
        if (!found)
            found = rule;
    }
    *out = found;
    if (found)
        return WEIR_OK;
    return diag_fail(r->diag, WEIR_EATTRIBUTE,
                     "no rule of policy '%s' counts by exactly these attributes: see 'by' in "
                     "GET /v1/policies",
                     r->policy->name);
}

static void list_names(const char *const *by, size_t n, struct override_request_room *room)
{
    size_t len = 0;

    room->by[0] = '\0';
    for (size_t i = 0; i < n; i++)
        len += (size_t)snprintf(room->by + len, sizeof room->by - len, "%s%s", i > 0 ? "," : "",
                                by[i]);
}

/* ---- overrides ------------------------------------------------------------------------------ */

/* Each rule that it is for must be able to have these numbers. */
static weir_err check_numbers(const struct reading *r, const struct policy_rule *first)
{
    struct rule out;
    weir_diag why;

    if (r->c->limit == LEDGER_UNCHANGED && r->c->burst == LEDGER_UNCHANGED)
        return diag_fail(r->diag, WEIR_EREQUEST, "give a limit, a burst or both");
    if (r->c->burst != LEDGER_UNCHANGED && r->c->burst < 1)
        return diag_fail(r->diag, WEIR_EREQUEST, "burst must be at least 1");
    for (size_t i = 0; i < r->policy->rule_count; i++) {
        const struct policy_rule *rule = &r->policy->rules[i];

        if (rule == first || (!r->c->rule && counts_by_these(r, rule)))
            if (override_numbers(r->c->limit, r->c->burst, &rule->counted.rule, &out, &why))
                return diag_fail(r->diag, WEIR_EREQUEST, "rule '%s': %s", rule->name, why.text);
    }
    return WEIR_OK;
}

static bool rule_has_plan(const struct policy_rule *rule, const char *plan)
{
    for (size_t i = 0; i < rule->plan_count; i++)
        if (strcmp(rule->plans[i].name, plan) == 0)
            return true;
    return false;
}

static bool policy_has_plan(const struct policy *p, const char *plan)
{
    for (size_t i = 0; i < p->rule_count; i++)
        if (rule_has_plan(&p->rules[i], plan))
            return true;
    return false;
}

static weir_err read_override(struct reading *r)
{
    const struct override_request *c = r->c;
    const struct policy_rule *rule = NULL;
    struct identity identity;
    weir_err err;

    if (!r->policy)
        return diag_fail(r->diag, WEIR_EREQUEST, "the policy is missing: name it");
    if (r->has_tag && c->effect == LEDGER_REMOVED) {
        r->out->key = r->tag;
        return WEIR_OK;
    }
    if (r->is_vague)
        return ask_by(r);
    err = find_rule(r, &rule);
    if (!rule)
        return err;
    if (!err && !r->has_tag)
        err = identity_of(r->policy->name, rule, r->attributes, r->count, &identity, r->diag);
    if (!err && c->effect == LEDGER_LIMIT)
        err = check_numbers(r, rule);
    if (!err && c->effect == LEDGER_ON_PLAN && !rule_has_plan(rule, c->plan))
        err = diag_fail(r->diag, WEIR_EREQUEST, "rule '%s' of policy '%s' has no plan '%s'",
                        rule->name, r->policy->name, printable(span_of(c->plan)).text);
    if (err)
        return err;
    list_names(rule->by, rule->by_count, r->room);
    r->out->key = r->has_tag ? r->tag
                             : engine_key(r->e, &rule->tag_key.hash_key, NULL,
                                          (struct span){ identity.bytes, identity.len });
    r->out->value = c->effect == LEDGER_ON_PLAN ? c->plan : "";
    return WEIR_OK;
}

/* ---- plans and modes ------------------------------------------------------------------------ */

static weir_err check_plan(const struct reading *r)
{
    const char *plan = r->c->plan;

    if (r->policy && policy_has_plan(r->policy, plan))
        return WEIR_OK;
    for (size_t i = 0; i < policies_count(r->set) && !r->policy; i++)
        if (policy_has_plan(policies_at(r->set, i), plan))
            return WEIR_OK;
    return diag_fail(r->diag, WEIR_EREQUEST, "%s%s%s has a plan '%s': see GET /v1/policies",
                     r->policy ? "no rule of policy '" : "no policy",
                     r->policy ? r->policy->name : "", r->policy ? "'" : "",
                     printable(span_of(plan)).text);
}

/* By its one attribute, whose name fits. */
static weir_err name_planned(struct reading *r)
{
    struct policy_rule rule = { .by_count = 1, .ipv6_prefix = 64 };
    struct identity identity;
    struct hash_key key;
    char name[WEIR_MAX_NAME + 1];
    const char *by = name;
    weir_err err;

    snprintf(name, sizeof name, "%.*s", (int)r->attributes[0].name.len, r->attributes[0].name.at);
    rule.by = &by;
    list_names(rule.by, 1, r->room);
    r->out->key = r->tag;
    if (r->has_tag)
        return WEIR_OK;
    err = identity_of(r->c->policy ? r->c->policy : "all", &rule, r->attributes, 1, &identity,
                      r->diag);
    key = tag_hash_key(engine_secret(r->e), rule.by, 1);
    if (!err)
        r->out->key = engine_key(r->e, &key, NULL, (struct span){ identity.bytes, identity.len });
    return err;
}

static weir_err read_plan(struct reading *r)
{
    const struct override_request *c = r->c;
    weir_err err;

    if (c->rule)
        return diag_fail(r->diag, WEIR_EREQUEST, "a plan applies to all rules: leave the rule out");
    r->out->value = c->effect == LEDGER_REMOVED ? "" : c->plan;
    if (r->has_tag && c->effect == LEDGER_REMOVED) {
        r->out->key = r->tag;
        return WEIR_OK;
    }
    if (r->has_tag && r->count == 0)
        return ask_by(r);
    if (r->count != 1)
        return diag_fail(r->diag, WEIR_EREQUEST,
                         "a plan is assigned to one attribute, such as the tenant: give one");
    if (!name_is_valid(r->attributes[0].name))
        return diag_fail(
            r->diag, WEIR_EATTRIBUTE,
            "'%s' cannot name an attribute: names are 1 to %d of a-z A-Z 0-9 _ . : / -",
            printable(r->attributes[0].name).text, WEIR_MAX_NAME);
    err = c->effect == LEDGER_REMOVED ? WEIR_OK : check_plan(r);
    return err ? err : name_planned(r);
}

static weir_err read_mode(struct reading *r)
{
    enum mode mode;

    if (!r->policy)
        return diag_fail(r->diag, WEIR_EREQUEST, "the policy is missing: name it");
    if (r->c->effect != LEDGER_REMOVED && !mode_by_name(span_of(r->c->mode), &mode))
        return diag_fail(r->diag, WEIR_EREQUEST, "mode must be enforce, shadow or off, not '%s'",
                         printable(span_of(r->c->mode)).text);
    r->room->by[0] = '\0';
    r->out->value = r->c->effect == LEDGER_REMOVED ? "" : r->c->mode;
    return WEIR_OK;
}

/* Whose it is, correction_make() finds out: the rules may count by different attributes. */
static weir_err read_correction(struct reading *r)
{
    if (!r->policy || r->policy == &r->named.policy)
        return diag_fail(r->diag, WEIR_EREQUEST, "the policy is missing: name one of the file");
    r->room->amount[0] = '\0';
    if (r->c->cost > 0)
        snprintf(r->room->amount, sizeof r->room->amount, "%" PRId64, r->c->cost);
    r->room->by[0] = '\0';
    r->out->value = r->room->amount;
    return WEIR_OK;
}

/* --------------------------------------------------------------------------------------------- */

static weir_err check_common(const struct reading *r)
{
    const struct override_request *c = r->c;
    const int64_t now = r->e->clock(r->e->clock_ctx);
    weir_err err = check_text("who", c->who, LEDGER_MAX_WHO, r->diag);

    if (!err)
        err = check_text("the reason", c->reason, LEDGER_MAX_REASON, r->diag);
    if (!err && c->expires != 0 && c->expires <= now)
        err = diag_fail(r->diag, WEIR_EREQUEST,
                        "its end is in the past: give a time in the future");
    return err;
}

weir_err override_request_entry(const struct engine *e, const struct policies *set,
                                const struct override_request *c,
                                struct override_request_room *room, struct ledger_entry *out,
                                weir_diag *diag)
{
    struct reading r = { .e = e, .set = set, .c = c, .room = room, .out = out, .diag = diag };
    weir_err err;

    *out = (struct ledger_entry){
        .subject = c->subject,
        .effect = c->effect,
        .limit = c->effect == LEDGER_LIMIT ? c->limit : LEDGER_UNCHANGED,
        .burst = c->effect == LEDGER_LIMIT ? c->burst : LEDGER_UNCHANGED,
        .expires = c->expires,
        .policy = c->policy ? c->policy : "",
        .rule = c->rule ? c->rule : "",
        .by = room->by,
        .who = c->who,
        .reason = c->reason,
    };
    err = check_common(&r);
    if (!err)
        err = find_policy(&r);
    if (!err)
        err = read_attributes(&r);
    if (err)
        return err;
    switch (c->subject) {
    case LEDGER_PLAN:
        return read_plan(&r);
    case LEDGER_MODE:
        return read_mode(&r);
    case LEDGER_OVERRIDE:
        return read_override(&r);
    case LEDGER_CORRECTION:
        return read_correction(&r);
    case LEDGER_RELOAD:
    case LEDGER_SUBJECTS:
        break;
    }
    return diag_fail(diag, WEIR_EREQUEST, "there is no such change");
}
