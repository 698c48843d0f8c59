/* lookup.c - whom a value stands for, in every policy that counts by it.
 *
 * The policies are left before the store is asked, so that a reload need not wait for a slow store. A
 * policy that has gone meanwhile is left out. */
#include "engine/lookup.h"

#include "base/diag.h"
#include "engine/tag.h"
#include "policy/identity.h"

/* ---- which policies ------------------------------------------------------------------------- */

static const weir_attribute *given(const weir_request *r, const char *name)
{
    for (size_t i = 0; i < r->attribute_count; i++)
        if (strcmp(r->attributes[i].name, name) == 0)
            return &r->attributes[i];
    return NULL;
}

static bool counts_by(const struct lookup_policy *p, const char *name)
{
    for (size_t i = 0; i < p->attribute_count; i++)
        if (strcmp(p->attributes[i].name, name) == 0)
            return true;
    return false;
}

static struct lookup_policy *add(struct lookup *l)
{
    if (l->count == l->room) {
        const size_t room = l->room ? 2 * l->room : 16;
        struct lookup_policy *more = alloc_resize(&l->allocator, l->policies, room * sizeof *more);

        if (!more)
            return NULL;
        l->policies = more;
        l->room = room;
    }
    memset(&l->policies[l->count], 0, sizeof *l->policies);
    return &l->policies[l->count++];
}

/* What the policy counts by, with the values that were given. */
static void take_attribute(const weir_request *r, const struct policy *policy, const char *name,
                           struct lookup_policy *p)
{
    const weir_attribute *found = given(r, name);
    weir_attribute *a = &p->attributes[p->attribute_count];

    if (counts_by(p, name) || p->attribute_count == WEIR_MAX_ATTRIBUTES)
        return;
    *a = (weir_attribute){ .name = name };
    if (r->key && policy->sole_attribute) {
        a->value = r->key;
        a->value_len = r->key_len;
    } else if (found) {
        a->value = found->value;
        a->value_len = found->value_len;
    } else if (!p->missing) {
        p->missing = name;
    }
    p->attribute_count++;
}

static weir_err tag_rule(const weir *w, const struct policy *policy, const struct policy_rule *rule,
                         struct lookup_policy *p, weir_diag *diag)
{
    struct lookup_rule *out = &p->rules[p->rule_count++];
    struct attribute attributes[WEIR_MAX_ATTRIBUTES];
    struct identity identity;
    weir_err err;

    out->name = rule->name;
    out->counts = rule->counts ? rule->counts : COUNTS_REQUESTS;
    for (size_t i = 0; i < rule->by_count; i++)
        out->by[out->by_count++] = rule->by[i];
    for (size_t i = 0; i < p->attribute_count; i++) {
        const weir_attribute *a = &p->attributes[i];

        attributes[i] = (struct attribute){
            span_of(a->name), { a->value, a->value_len ? a->value_len : strlen(a->value) }
        };
    }
    err = identity_of(policy->name, rule, attributes, p->attribute_count, &identity, diag);
    if (!err)
        out->tag = rule_tag(&w->engine, rule, (struct span){ identity.bytes, identity.len });
    return err;
}

static weir_err take_policy(const weir *w, const weir_request *r, const struct policy *policy,
                            struct lookup *l, weir_diag *diag)
{
    struct lookup_policy *p = add(l);
    weir_err err = WEIR_OK;

    if (!p)
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    p->name = policy->name;
    for (size_t i = 0; i < policy->rule_count; i++)
        for (size_t k = 0; k < policy->rules[i].by_count; k++)
            take_attribute(r, policy, policy->rules[i].by[k], p);
    for (size_t i = 0; i < policy->rule_count && !err && !p->missing; i++)
        err = tag_rule(w, policy, &policy->rules[i], p, diag);
    if (err || p->attribute_count == 0) /* it is no value, or none is counted by */
        l->count--;
    else
        l->found += !p->missing;
    return err == WEIR_ENOMEM ? err : WEIR_OK;
}

static weir_err take_policies(weir *w, const weir_request *r, struct lookup *l, weir_diag *diag)
{
    struct published_visit visit = published_enter(&w->policies);
    const struct policies *set = visit.current;
    const size_t n = set ? policies_count(set) : 0;
    weir_err err = WEIR_OK;

    for (size_t i = 0; i < n && !err; i++)
        if (l->count < LOOKUP_POLICIES)
            err = take_policy(w, r, policies_at(set, i), l, diag);
        else
            l->left_out++;
    published_leave(&w->policies, visit);
    return err;
}

/* ---- how it stands -------------------------------------------------------------------------- */

static weir_err count(weir *w, const struct lookup_policy *p, struct usage *out, weir_diag *diag)
{
    const weir_request r = { .policy = p->name,
                             .attributes = p->attributes,
                             .attribute_count = p->attribute_count };

    return p->missing ? WEIR_OK : usage_counted(w, &r, out, diag);
}

static weir_err count_all(weir *w, struct lookup *l, weir_diag *diag)
{
    weir_err err = WEIR_OK;
    size_t kept = 0;

    l->usages = alloc_zeroed(&l->allocator, (l->count + 1) * sizeof *l->usages);
    if (!l->usages)
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    for (size_t i = 0; i < l->count && !err; i++) {
        err = count(w, &l->policies[i], &l->usages[kept], diag);
        if (err == WEIR_ENOPOLICY)
            err = WEIR_OK;
        else
            l->policies[kept++] = l->policies[i];
    }
    l->count = kept;
    return err;
}

weir_err lookup_read(weir *w, const weir_request *r, struct lookup *out, weir_diag *diag)
{
    weir_err err;

    *out = (struct lookup){ .allocator = w->allocator };
    if (!r->key && r->attribute_count == 0)
        return diag_fail(diag, WEIR_EREQUEST, "whom? Give a key, or attributes");
    diag->text[0] = '\0';
    err = take_policies(w, r, out, diag);
    if (!err && out->found == 0 && diag->text[0])
        err = WEIR_EATTRIBUTE;
    if (!err)
        err = count_all(w, out, diag);
    return err ? err : usage_held(w, handle_now(w), out->usages, out->count, diag);
}

void lookup_done(struct lookup *l)
{
    alloc_free(&l->allocator, l->usages);
    alloc_free(&l->allocator, l->policies);
}

weir_err lookup_policy(weir *w, const weir_request *r, struct lookup_policy *out, weir_diag *diag)
{
    struct lookup l = { .allocator = w->allocator };
    struct published_visit visit = published_enter(&w->policies);
    const struct policy *policy = visit.current ? policies_find(visit.current, span_of(r->policy))
                                                : NULL;
    weir_err err = policy ? WEIR_OK : diag_fail(diag, WEIR_ENOPOLICY, "there is no such policy");

    *out = (struct lookup_policy){ .name = policy ? policy->name : NULL };
    diag->text[0] = err ? diag->text[0] : '\0';
    if (policy)
        err = take_policy(w, r, policy, &l, diag);
    published_leave(&w->policies, visit);
    if (!err && l.count == 0 && diag->text[0])
        err = WEIR_EATTRIBUTE;
    else if (!err && l.count > 0 && l.policies[0].missing)
        err = diag_fail(diag, WEIR_EATTRIBUTE, "policy '%s' counts by '%s', which was not given",
                        out->name, l.policies[0].missing);
    else if (!err && l.count > 0)
        *out = l.policies[0];
    lookup_done(&l);
    return err;
}
