/* charges.c - from a request to the charges of a check: which rules, whose keys, which numbers.
 *
 * Several policies are asked as one that has all of their rules: the charges of rules that are
 * enforced are one question, whosever they are. What belongs to a policy is looked at policy by
 * policy: its mode, its exemptions, the plan of the client. */
#include "engine/charges.h"

#include <stdio.h>

#include "base/diag.h"
#include "base/printable.h"
#include "engine/amounts.h"
#include "engine/answer.h"
#include "engine/override_apply.h"
#include "engine/tag.h"
#include "policy/address_list.h"

/* Most checks are of one policy with one rule: their way is one function, and the others' ways are
 * apart from it. */
#define ON_THE_WAY static inline __attribute__((always_inline))
#define APART static __attribute__((noinline))

/* ---- attributes ----------------------------------------------------------------------- */

static bool counts_by_some(const struct policy *p)
{
    for (size_t i = 0; i < p->rule_count; i++)
        if (p->rules[i].by_count > 0)
            return true;
    return false;
}

APART weir_err refuse_key(const struct check *check, weir_diag *diag)
{
    const struct policy *p = check->policy;

    if (check->policy_count > 1)
        return diag_fail(diag, WEIR_EREQUEST,
                         "the policies do not all count by the same one attribute: give attributes "
                         "by name instead of a key");
    if (!counts_by_some(p))
        return diag_fail(diag, WEIR_EREQUEST,
                         "policy '%s' counts everyone together: leave the key out", p->name);
    return diag_fail(diag, WEIR_EREQUEST,
                     "policy '%s' counts by several attributes: give them by name instead of a key",
                     p->name);
}

/* What a bare key stands for; NULL: nothing. Of several policies those that count everyone together
 * have no say. */
static const char *sole_attribute(const struct check *check)
{
    const char *sole = NULL;

    if (check->policy_count == 1)
        return check->policy->sole_attribute;
    for (size_t i = 0; i < check->policy_count; i++) {
        const struct policy *p = check->room->policies[i];

        if (!counts_by_some(p))
            continue;
        if (!p->sole_attribute || (sole && sole != p->sole_attribute))
            return NULL;
        sole = p->sole_attribute;
    }
    return sole;
}

/* An `ip` that is a list, as in X-Forwarded-For: the client's. What cannot be found there stays as
 * it is, and is refused where it is counted by. */
static void find_client(const struct engine *e, struct attribute *attributes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct span *value = &attributes[i].value;

        if (span_is(attributes[i].name, "ip") && memchr(value->at, ',', value->len))
            (void)address_list_client(*value, e->proxies, e->proxy_count, value);
    }
}

static bool is_one_of(struct span name, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (span_is(name, words[i]))
            return true;
    return false;
}

/* By its length most names are seen to be none. */
static bool is_option(struct span name)
{
    static const char *const by_length[][4] = {
        [3] = { "key", "now" },
        [4] = { "cost", "plan", "peek", "name" },
        [5] = { "limit", "burst", "costs", "start" },
        [6] = { "policy", "exempt" },
        [8] = { "policies", "on_error" },
        [9] = { "window_ms", "algorithm" },
        [12] = { "precision_ms", "block_for_ms" },
    };
    size_t n = 0;

    if (name.len >= sizeof by_length / sizeof *by_length)
        return false;
    while (n < 4 && by_length[name.len][n])
        n++;
    return is_one_of(name, by_length[name.len], n);
}

/* Attributes that nothing looks at are fine: callers send all that they know. But one that spells
 * an option was meant to be one, and would have no effect. */
APART weir_err refuse_option(const struct check *check, const struct override_index *o,
                             struct span name, weir_diag *diag)
{
    const struct plan_attribute *by;
    const size_t count = o ? override_index_plan_attributes(o, &by) : 0;

    for (size_t i = 0; i < check->policy_count; i++)
        if (policies_use(check->policies,
                         check->policy_count > 1 ? check->room->policies[i] : check->policy, name))
            return WEIR_OK;
    for (size_t i = 0; i < count; i++)
        if (span_is(name, by[i].name))
            return WEIR_OK;
    return diag_fail(diag, WEIR_EATTRIBUTE,
                     "no rule counts by an attribute '%.*s', which is the name of an option: give "
                     "options beside the attributes, as in `COST 2`, `\"cost\": 2` or `--cost 2`",
                     (int)name.len, name.at);
}

/* The attributes of the request; a bare key stands for the only one. */
ON_THE_WAY weir_err read_attributes(const struct check *check, const struct override_index *o,
                                    struct attribute *out, size_t *count, weir_diag *diag)
{
    const weir_request *r = check->request;

    if (r->attribute_count > WEIR_MAX_ATTRIBUTES)
        return diag_fail(diag, WEIR_EREQUEST, "%zu attributes are too many: at most %d",
                         r->attribute_count, WEIR_MAX_ATTRIBUTES);
    if (r->key && r->attribute_count > 0)
        return diag_fail(diag, WEIR_EREQUEST, "give a key or attributes, not both");
    if (r->key) {
        const char *sole = sole_attribute(check);

        if (!sole)
            return refuse_key(check, diag);
        out[0].name = span_of(sole);
        out[0].value = request_key(r);
        *count = 1;
        return WEIR_OK;
    }
    for (size_t i = 0; i < r->attribute_count; i++) {
        const weir_attribute *a = &r->attributes[i];

        if (!a->name || !a->value)
            return diag_fail(diag, WEIR_EATTRIBUTE, "attribute %zu has no %s", i + 1,
                             a->name ? "value" : "name");
        out[i].name = span_of(a->name);
        out[i].value = (struct span){ a->value, a->value_len ? a->value_len : strlen(a->value) };
        for (size_t j = 0; j < i; j++)
            if (span_equal(out[i].name, out[j].name))
                return diag_fail(diag, WEIR_EATTRIBUTE,
                                 "an attribute is given twice: give each once");
        if (is_option(out[i].name)) {
            const weir_err err = refuse_option(check, o, out[i].name, diag);

            if (err)
                return err;
        }
    }
    *count = r->attribute_count;
    return WEIR_OK;
}

/* ---- charges -------------------------------------------------------------------------- */

void charge_whose(const struct engine *e, const struct policy_rule *rule, struct span identity,
                  struct whose *out)
{
    if (identity.len > sizeof out->bytes) {
        note_tag(e, rule, identity, out);
        return;
    }
    out->len = (uint8_t)identity.len;
    memcpy(out->bytes, identity.at, identity.len);
}

void charge_put(const struct engine *e, struct check *check, const struct policy_rule *rule,
                const struct rule *numbers, struct key key, struct span identity)
{
    const size_t at = check->live + check->shadow;

    check->rules[at] = rule;
    check->charges[at].rule = numbers;
    check->charges[at].key = key;
    check->charges[at].cost = rule && rule->counts ? amount_of(check->request, rule->counts)
                                                   : check->ask.cost;
    check->charges[at].class = rule ? rule->class : 0;
    charge_whose(e, rule, identity, &check->whose[at]);
}

/* A rule that counts everyone together has no identity: it is told from others by its name, or all
 * such rules would be in one place. */
void charge_name(const struct engine *e, struct check *check, const char *policy, const char *rule,
                 struct span identity)
{
    struct charge_name *name = &check->charges[check->live + check->shadow].name;
    char both[2 * WEIR_MAX_NAME + 2];

    if (!e->store->ops->is_shared)
        return;
    if (identity.len == 0)
        identity = (struct span){ both,
                                  (size_t)snprintf(both, sizeof both, "%s:%s", policy, rule) };
    *name = (struct charge_name){ policy, rule,
                                  (uint16_t)hash_identity(&engine_keys(e)->place, identity).low };
}

/* The last identity that was hashed, for rules that count by the same. */
struct hashed {
    const struct policy_rule *rule; /* NULL: none was */
    const struct hash_key *hash_key;
    struct key key;
    struct identity identity;
};

static bool counts_by_same(const struct policy_rule *a, const struct policy_rule *b)
{
    if (a->by_count != b->by_count || a->ipv6_prefix != b->ipv6_prefix)
        return false;
    for (size_t i = 0; i < a->by_count && a->by != b->by; i++)
        if (a->by[i] != b->by[i])
            return false;
    return true;
}

static weir_err hash_for(const struct engine *e, const struct check *check,
                         const struct policy_rule *rule, const struct counted *counted,
                         const struct attribute *attributes, size_t n, struct hashed *last,
                         weir_diag *diag)
{
    const bool is_same = last->rule && counts_by_same(last->rule, rule);
    const weir_err err = is_same ? WEIR_OK
                                 : identity_of(check->policy->name, rule, attributes, n,
                                               &last->identity, diag);

    if (err)
        return err;
    if (!is_same || memcmp(last->hash_key, &counted->hash_key, sizeof *last->hash_key) != 0)
        last->key = engine_key(e, &counted->hash_key, counted->shared_key,
                               (struct span){ last->identity.bytes, last->identity.len });
    last->rule = rule;
    last->hash_key = &counted->hash_key;
    return WEIR_OK;
}

static weir_err add_charge(const struct engine *e, struct check *check,
                           const struct policy_rule *rule, const struct counted *counted,
                           const struct attribute *attributes, size_t n, struct hashed *last,
                           weir_diag *diag)
{
    const weir_err err = hash_for(e, check, rule, counted, attributes, n, last, diag);
    const struct span bytes = { last->identity.bytes, last->identity.len };

    if (err)
        return err;
    charge_put(e, check, rule, &counted->rule, counted_key(counted, last->key), bytes);
    charge_name(e, check, check->is_named ? check->room->named.text : check->policy->name,
                rule->name, bytes);
    return WEIR_OK;
}

static const struct counted *under_plan(const struct check *check, const struct policy_rule *rule)
{
    return check->plan ? policy_rule_under(rule, span_of(check->plan)) : &rule->counted;
}

static enum mode mode_of(const struct check *check, const struct policy_rule *rule)
{
    return policy_rule_mode(rule, check->has_mode ? &check->mode : NULL);
}

/* … for this identity: a rule that is being rolled out is in shadow for those whom it has not
 * reached. */
static weir_err mode_for(const struct check *check, const struct policy_rule *rule,
                         const struct attribute *attributes, size_t n, enum mode *out,
                         weir_diag *diag)
{
    struct identity identity;
    weir_err err;

    *out = mode_of(check, rule);
    if (*out != MODE_ENFORCE || rule->rollout == SHARE_ALL)
        return WEIR_OK;
    err = identity_of(check->policy->name, rule, attributes, n, &identity, diag);
    if (!err && !policy_rule_reaches(rule, (struct span){ identity.bytes, identity.len }))
        *out = MODE_SHADOW;
    return err;
}

/* Those of rules that are enforced. `modes` has one for each rule. */
ON_THE_WAY weir_err add_live(const struct engine *e, struct check *check,
                             const struct attribute *attributes, size_t n, enum mode *modes,
                             bool *has_shadows, weir_diag *diag)
{
    const struct policy_rule *const rules = check->policy->rules;
    const size_t count = check->policy->rule_count;
    struct hashed last;
    weir_err err = WEIR_OK;

    last.rule = NULL;
    for (size_t i = 0; i < count && !err; i++) {
        err = mode_for(check, &rules[i], attributes, n, &modes[i], diag);
        if (modes[i] != MODE_ENFORCE || rules[i].shadow_limit)
            *has_shadows = true;
        if (modes[i] != MODE_ENFORCE || err)
            continue;
        err = add_charge(e, check, &rules[i], under_plan(check, &rules[i]), attributes, n, &last,
                         diag);
        check->live++;
    }
    return err;
}

/* Behind all live ones: each is a question of its own. */
static weir_err add_shadows(const struct engine *e, struct check *check,
                            const struct attribute *attributes, size_t n, const enum mode *modes,
                            weir_diag *diag)
{
    const struct policy_rule *const rules = check->policy->rules;
    const size_t count = check->policy->rule_count;
    struct hashed last;
    weir_err err = WEIR_OK;

    last.rule = NULL;
    for (size_t i = 0; i < count && !err; i++) {
        /* add_live() has set all modes, which the analyzer does not see. */
        const struct counted *counted = modes[i] == MODE_ENFORCE    /* NOLINT */
                                            ? rules[i].shadow_limit /* NOLINT */
                                            : under_plan(check, &rules[i]);

        if (modes[i] == MODE_OFF || !counted)
            continue;
        err = add_charge(e, check, &rules[i], counted, attributes, n, &last, diag);
        check->shadow++;
    }
    return err;
}

void charges_make_room(struct check *check)
{
    check->questions = check->room->questions;
    check->charges = check->room->charges;
    check->rules = check->room->rules;
    check->whose = check->room->whose;
}

void charges_are_none(struct check *check, weir_source source)
{
    answer_uncounted(check, source);
    check->is_answered = true;
}

/* ---- one policy ----------------------------------------------------------------------- */

static bool is_off(const struct check *check)
{
    return (check->has_mode ? check->mode : check->policy->mode) == MODE_OFF;
}

/* `o` is NULL if operators have changed nothing, as they mostly have. */
ON_THE_WAY weir_err add_one(const struct engine *e, const struct override_index *o,
                            struct check *check, weir_diag *diag)
{
    struct attribute attributes[WEIR_MAX_ATTRIBUTES];
    enum mode modes[WEIR_MAX_RULES];
    bool has_shadows = false;
    size_t n = 0;
    weir_err err;

    check->has_mode = false;
    check->plan = check->request->plan;
    if (o)
        override_apply_mode(e, o, check);
    if (is_off(check) || !policies_enabled(check->policies)) {
        charges_are_none(check, WEIR_FROM_OFF);
        return WEIR_OK;
    }
    err = read_attributes(check, o, attributes, &n, diag);
    if (err)
        return err;
    if (e->proxy_count > 0)
        find_client(e, attributes, n);
    if (check->request->exempt || policies_exempt(check->policies, check->policy, attributes, n)) {
        charges_are_none(check, WEIR_FROM_EXEMPT);
        return WEIR_OK;
    }
    if (o)
        override_apply_plan(e, o, check, attributes, n);
    if (check->policy->rule_count > 1 || check->policy->rules[0].shadow_limit)
        charges_make_room(check);
    err = add_live(e, check, attributes, n, modes, &has_shadows, diag);
    if (!err && has_shadows)
        err = add_shadows(e, check, attributes, n, modes, diag);
    if (err)
        return err;
    if (check->live + check->shadow == 0) /* all of its rules are off */
        charges_are_none(check, WEIR_FROM_OFF);
    else if (o)
        err = override_apply_charges(e, o, check, attributes, n, diag);
    return err;
}

weir_err charges_with_overrides(struct engine *e, struct check *check,
                                weir_err (*add)(const struct engine *,
                                                const struct override_index *, struct check *,
                                                weir_diag *),
                                weir_diag *diag)
{
    struct published_visit visit;
    weir_err err;

    if (!published_is_set(&e->overrides))
        return add(e, NULL, check, diag);
    visit = published_enter(&e->overrides);
    if (visit.current && check->is_named)
        named_overrule(e->named, &check->room->named);
    err = add(e, visit.current, check, diag);
    published_leave(&e->overrides, visit);
    return err;
}

ON_THE_WAY weir_err ask_one(struct engine *e, struct check *check, weir_diag *diag)
{
    check->policy_count = 1;
    check->on_error = check->policy->on_error;
    if (!published_is_set(&e->overrides))
        return add_one(e, NULL, check, diag);
    return charges_with_overrides(e, check, add_one, diag);
}

weir_err charges_of_one(struct engine *e, struct check *check, weir_diag *diag)
{
    return ask_one(e, check, diag);
}

static weir_err find_policy(const struct check *check, const char *name, const struct policy **out,
                            weir_diag *diag)
{
    const char *near;

    *out = policies_find(check->policies, span_of(name));
    if (*out)
        return WEIR_OK;
    near = policies_suggest(check->policies, span_of(name));
    return diag_fail(diag, WEIR_ENOPOLICY, "there is no policy '%s'%s%s%s",
                     printable(span_of(name)).text, near ? ": did you mean '" : "",
                     near ? near : "", near ? "'?" : "");
}

/* ---- several policies ----------------------------------------------------------------- */

APART weir_err find_policies(struct check *check, weir_diag *diag)
{
    const weir_request *r = check->request;
    const struct policy **all = check->room->policies;
    size_t rules = 0;

    if (r->policy)
        return diag_fail(diag, WEIR_EREQUEST, "give a policy or several policies, not both");
    if (r->policy_count > WEIR_MAX_RULES)
        return diag_fail(diag, WEIR_EREQUEST, "%zu policies are too many: at most %d",
                         r->policy_count, WEIR_MAX_RULES);
    for (size_t i = 0; i < r->policy_count; i++) {
        weir_err err;

        if (!r->policies[i])
            return diag_fail(diag, WEIR_EREQUEST, "policy %zu has no name", i + 1);
        err = find_policy(check, r->policies[i], &all[i], diag);
        if (err)
            return err;
        for (size_t j = 0; j < i; j++)
            if (all[j] == all[i])
                return diag_fail(diag, WEIR_EREQUEST, "policy '%s' is named twice: name each once",
                                 all[i]->name);
        rules += all[i]->rule_count;
    }
    if (rules > WEIR_MAX_RULES)
        return diag_fail(diag, WEIR_EREQUEST,
                         "the policies have %zu rules together: at most %d are asked at once",
                         rules, WEIR_MAX_RULES);
    check->policy = all[0];
    check->policy_count = (uint8_t)r->policy_count;
    return WEIR_OK;
}

/* Of each policy, from its live charges to its shadows. */
struct asked_policy {
    const char *plan;
    bool has_mode, is_left_out;
    enum mode mode;
    enum mode modes[WEIR_MAX_RULES];
};

static void turn_to(struct check *check, size_t i, const struct asked_policy *asked)
{
    check->policy = check->room->policies[i];
    check->has_mode = asked->has_mode;
    check->mode = asked->mode;
    check->plan = asked->plan;
}

APART weir_err add_policy(const struct engine *e, const struct override_index *o,
                          struct check *check, const struct attribute *attributes, size_t n,
                          struct asked_policy *asked, bool *is_exempt, weir_diag *diag)
{
    bool ignored = false;
    weir_err err;

    if (o)
        override_apply_mode(e, o, check);
    if (is_off(check)) {
        asked->is_left_out = true;
        return WEIR_OK;
    }
    if (policies_exempt(check->policies, check->policy, attributes, n)) {
        asked->is_left_out = *is_exempt = true;
        return WEIR_OK;
    }
    if (o)
        override_apply_plan(e, o, check, attributes, n);
    err = add_live(e, check, attributes, n, asked->modes, &ignored, diag);
    asked->has_mode = check->has_mode;
    asked->mode = check->mode;
    asked->plan = check->plan;
    return err;
}

/* What decides if the store fails: one that denies is enough, then one that decides here. */
static enum on_error strictest(const struct check *check)
{
    enum on_error strict = check->live > 0 ? ON_ERROR_ALLOW : ON_ERROR_LOCAL;

    for (size_t i = 0; i < check->live; i++) {
        const enum on_error on_error = check->rules[i]->policy->on_error;

        if (on_error == ON_ERROR_DENY || strict == ON_ERROR_ALLOW)
            strict = on_error;
    }
    return strict;
}

APART weir_err add_several(const struct engine *e, const struct override_index *o,
                           struct check *check, weir_diag *diag)
{
    struct asked_policy asked[WEIR_MAX_RULES];
    struct attribute attributes[WEIR_MAX_ATTRIBUTES];
    const size_t count = check->policy_count;
    bool is_exempt = check->request->exempt;
    size_t n = 0;
    weir_err err = read_attributes(check, o, attributes, &n, diag);

    charges_make_room(check);
    check->plan = check->request->plan;
    if (err)
        return err;
    if (e->proxy_count > 0)
        find_client(e, attributes, n);
    if (is_exempt || !policies_enabled(check->policies)) {
        charges_are_none(check, is_exempt ? WEIR_FROM_EXEMPT : WEIR_FROM_OFF);
        return WEIR_OK;
    }
    for (size_t i = 0; i < count && !err; i++) {
        asked[i].plan = check->request->plan;
        asked[i].has_mode = asked[i].is_left_out = false;
        asked[i].mode = MODE_ENFORCE;
        turn_to(check, i, &asked[i]);
        err = add_policy(e, o, check, attributes, n, &asked[i], &is_exempt, diag);
    }
    for (size_t i = 0; i < count && !err; i++) {
        turn_to(check, i, &asked[i]);
        if (!asked[i].is_left_out)
            err = add_shadows(e, check, attributes, n, asked[i].modes, diag);
    }
    check->policy = check->room->policies[0];
    check->plan = check->request->plan;
    if (err)
        return err;
    if (check->live + check->shadow == 0)
        charges_are_none(check, is_exempt ? WEIR_FROM_EXEMPT : WEIR_FROM_OFF);
    else if (o)
        err = override_apply_charges(e, o, check, attributes, n, diag);
    check->on_error = strictest(check);
    return err;
}

/* --------------------------------------------------------------------------------------- */

APART weir_err refuse_numbers(const weir_request *r, weir_diag *diag)
{
    if (r->name)
        return diag_fail(diag, WEIR_EREQUEST,
                         "a name needs a limit in the request: leave out the name, or the policy");
    if (r->on_error)
        return diag_fail(diag, WEIR_EREQUEST,
                         "on_error is set by the policy: leave out on_error, or the policy");
    return diag_fail(diag, WEIR_EREQUEST,
                     "the request names a policy and has a limit: leave out limit, window, burst, "
                     "precision, algorithm, start and block_for, or the policy");
}

weir_err charges_of_policies(struct engine *e, struct check *check, weir_diag *diag)
{
    const weir_request *r = check->request;
    const bool is_several = r->policy_count > 0;
    weir_err err = WEIR_OK;

    if (is_several)
        err = find_policies(check, diag);
    else if (check->like && check->like->policy && check->like->request->policy == r->policy)
        check->policy = check->like->policy;
    else
        err = find_policy(check, r->policy, &check->policy, diag);
    if (!is_several)
        check->policy_count = 1;
    if (!err && (r->cost_count > 0 || r->cost != 0))
        err = amounts_are_counted(check, diag);
    if (err)
        return err;
    if (r->limit || r->window_ms || r->burst || r->precision_ms || r->algorithm || r->name ||
        r->on_error || r->start || r->block_for_ms)
        return refuse_numbers(r, diag);
    return is_several ? charges_with_overrides(e, check, add_several, diag)
                      : ask_one(e, check, diag);
}
