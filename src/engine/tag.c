/* tag.c - what identities are called outside: in logs, top lists, answers, and by operators. */
#include "engine/tag.h"

struct key rule_tag(const struct engine *e, const struct policy_rule *rule, struct span identity)
{
    const struct tag_key *key = rule ? &rule->tag_key : &engine_keys(e)->called;

    return engine_key(e, &key->hash_key, key->shared_key, identity);
}

struct key check_tag(const struct engine *e, const struct check *check, size_t i)
{
    const struct whose *w = &check->whose[i];
    struct key tag;

    if (w->len != WHOSE_TAG)
        return rule_tag(e, check->rules[i], (struct span){ w->bytes, w->len });
    memcpy(&tag, w->bytes, sizeof tag);
    return tag;
}

/* The charge of a rule, or -1. Live charges come first: that of a shadow limit is behind its rule's
 * own. */
static int charge_of(const struct check *check, const char *policy, const char *rule)
{
    for (size_t i = 0; i < check->live + check->shadow; i++)
        if (!check->rules[i] ||
            (check->rules[i]->name == rule && check->rules[i]->policy->name == policy))
            return (int)i;
    return -1;
}

/* A limit may have been asked for several identities: the one that was denied has decided. */
static int denied_charge(const struct check *check)
{
    const weir_answer *a = check->answer;

    for (size_t i = 0; i < a->rule_count; i++)
        if (!a->rules[i].shadow && !a->rules[i].allowed && a->rules[i].policy == a->policy &&
            a->rules[i].rule == a->rule)
            return (int)i;
    return -1;
}

int check_deciding(const struct check *check)
{
    if (check->lists_charges && !check->answer->allowed && check->answer->rule_count > 0)
        return denied_charge(check);
    return charge_of(check, check->answer->policy, check->answer->rule);
}

static struct key tag_or_none(const struct engine *e, const struct check *check, int charge)
{
    return charge < 0 ? (struct key){ 0, 0 } : check_tag(e, check, (size_t)charge);
}

void check_note_tags(const struct engine *e, struct check *check)
{
    struct key *tags = check->room->tags;

    tags[0] = tag_or_none(e, check, check_deciding(check));
    for (size_t i = 0; i < check->answer->rule_count; i++) {
        const weir_rule_answer *r = &check->answer->rules[i];

        tags[1 + i] = tag_or_none(e, check, charge_of(check, r->policy, r->rule));
    }
}

void note_tag(const struct engine *e, const struct policy_rule *rule, struct span identity,
              struct whose *out)
{
    const struct key tag = rule_tag(e, rule, identity);

    out->len = WHOSE_TAG;
    memcpy(out->bytes, &tag, sizeof tag);
}
