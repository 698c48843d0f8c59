/* tag.c - what identities are called outside: in logs, top lists, answers, and by operators. */
#include "engine/tag.h"

static struct key tag_of(const struct engine *e, const struct policy_rule *rule,
                         struct span identity)
{
    const struct tag_key *key = rule ? &rule->tag_key : &engine_keys(e)->called;

    return engine_key(e, &key->hash_key, key->shared_key, identity);
}

struct key check_tag(const struct engine *e, const struct check *check, size_t i)
{
    const struct whose *w = &check->whose[i];
    struct key tag;

    if (w->len != WHOSE_TAG)
        return tag_of(e, check->rules[i], (struct span){ w->bytes, w->len });
    memcpy(&tag, w->bytes, sizeof tag);
    return tag;
}

int check_deciding(const struct check *check)
{
    for (size_t i = 0; i < check->live + check->shadow; i++)
        if (!check->rules[i] || (check->rules[i]->name == check->answer->rule &&
                                 check->rules[i]->policy->name == check->answer->policy))
            return (int)i;
    return -1;
}

void note_tag(const struct engine *e, const struct policy_rule *rule, struct span identity,
              struct whose *out)
{
    const struct key tag = tag_of(e, rule, identity);

    out->len = WHOSE_TAG;
    memcpy(out->bytes, &tag, sizeof tag);
}
