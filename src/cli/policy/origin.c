/* origin.c - where the settings of a policy were written: whose they are, and the line. */
#include "cli/policy/origin.h"

#include <stdio.h>
#include <stdlib.h>

bool outline_read(struct outline *o, struct span text)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    struct problems problems;
    struct yaml *root = NULL;
    bool good;

    arena_init(&o->arena, &usual);
    problems_init(&problems, &usual);
    good = yaml_read("", text, &o->arena, &problems, &root) == WEIR_OK;
    problems_done(&problems);
    o->root = root;
    return good;
}

void outline_done(struct outline *o)
{
    arena_done(&o->arena);
}

const struct yaml *outline_key(const struct yaml *mapping, const char *name)
{
    if (!mapping || mapping->kind != YAML_MAPPING)
        return NULL;
    for (const struct yaml *key = mapping->first; key; key = key->next)
        if (span_is(key->text, name))
            return key;
    return NULL;
}

static const struct yaml *value_of(const struct yaml *mapping, const char *name)
{
    const struct yaml *key = outline_key(mapping, name);

    return key ? key->value : NULL;
}

int outline_exemption_line(const struct outline *o, const char *policy, size_t i)
{
    const struct yaml *owner = o->root, *list, *item;

    if (policy)
        owner = value_of(value_of(o->root, "policies"), policy);
    list = value_of(owner, "exempt");
    item = list && list->kind == YAML_LIST ? list->first : NULL;
    for (; item && i > 0; i--)
        item = item->next;
    return item ? item->line : 0;
}

struct place place_of(const struct outline *o, const struct policy *p, const struct policy_rule *r)
{
    struct place place = {
        .defaults = value_of(o->root, "defaults"),
        .policy = value_of(value_of(o->root, "policies"), p->name),
    };

    if (r)
        place.rule = value_of(value_of(place.policy, "rules"), r->name);
    return place;
}

static struct origin written(const char *whose, const struct yaml *key)
{
    return (struct origin){ .whose = whose, .line = key->line, .value = key->value };
}

struct origin origin_of(const struct place *place, const char *setting)
{
    const struct yaml *key;

    if ((key = outline_key(place->rule, setting)))
        return written("rule", key);
    if ((key = outline_key(place->policy, setting)))
        return written("policy", key);
    if ((key = outline_key(place->defaults, setting)))
        return written("defaults", key);
    return (struct origin){ .whose = "built in" };
}

struct origin origin_within(const struct yaml *limit, const char *whose, const char *setting)
{
    const struct yaml *key = outline_key(limit, setting);

    if (key)
        return written(whose, key);
    if (limit && limit->kind == YAML_TEXT && strcmp(setting, "limit") == 0)
        return (struct origin){ .whose = whose, .line = limit->line, .value = limit };
    return (struct origin){ .whose = "built in" };
}

/* "password-reset" is PASSWORD_RESET in a variable. */
static size_t write_upper(char *out, const char *name)
{
    size_t i = 0;

    for (; name[i]; i++) {
        const char c = name[i];

        if (c >= 'a' && c <= 'z')
            out[i] = (char)(c - 'a' + 'A');
        else
            out[i] = (char)((c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ? c : '_');
    }
    return i;
}

void origin_overridden(struct origin *limit, const struct policy *p, const struct policy_rule *r)
{
    const bool is_short = strcmp(limit->whose, "policy") == 0;
    char name[sizeof limit->variable] = "WEIR_POLICY_";
    size_t len = strlen(name);
    const char *value;

    _Static_assert(sizeof name > sizeof "WEIR_POLICY__LIMIT" + 2 * WEIR_MAX_NAME + 1, "all fits");
    len += write_upper(name + len, p->name);
    if (!is_short) {
        name[len++] = '_';
        len += write_upper(name + len, r->name);
    }
    snprintf(name + len, sizeof name - len, "_LIMIT");
    value = getenv(name);
    if (!value || !*value)
        return;
    limit->whose = "environment";
    snprintf(limit->variable, sizeof limit->variable, "%s", name);
}
