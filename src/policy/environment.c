/* environment.c - overrides for operators who have nothing but the environment.
 *
 * A variable that has no effect is a problem, not a shrug: it was set in an emergency. One
 * that is set but empty counts as not set. */
#include <stdio.h>

#include "base/printable.h"
#include "base/suggest.h"
#include "base/truth.h"
#include "policy/loader.h"
#include "policy/rate.h"

#define PREFIX "WEIR_POLICY_"
#define SUFFIX "_LIMIT"

enum { LONGEST = sizeof PREFIX + WEIR_MAX_NAME + 1 + WEIR_MAX_NAME + sizeof SUFFIX };

/* WEIR_POLICY_<middle>_LIMIT, as it is set. */
struct variable {
    const char *name;
    struct span middle;
    const char *value;
    const char *policy, *rule; /* which it is for, once a rule asked */
    struct variable *next;
};

/* What could have been set, for "did you mean". */
struct parsed_request {
    const char *middle, *policy;
    struct parsed_request *next;
};

struct environment {
    const char *enabled, *enabled_policies; /* values, or NULL */
    struct variable *variables;
    struct parsed_request *asked, **last_asked;
    size_t asked_count;
};

void environment_complain(struct loader *l, const char *variable, const char *format, ...)
{
    weir_diag text;
    va_list args;

    va_start(args, format);
    vsnprintf(text.text, sizeof text.text, format, args);
    va_end(args);
    problems_add(l->reader.problems, "environment", 0, 0, "%s: %s", variable, text.text);
}

static void *take(struct loader *l, size_t size)
{
    void *taken = arena_take(&l->scratch, size);

    l->out_of_memory |= !taken;
    return taken;
}

static bool set_is(const char *set, const char *name, const char **value)
{
    size_t len = strlen(name);

    if (strncmp(set, name, len) != 0 || set[len] != '=')
        return false;
    if (!*value && set[len + 1] != '\0')
        *value = set + len + 1;
    return true;
}

static void add_variable(struct loader *l, const char *set)
{
    const char *equals = strchr(set, '=');
    const size_t fixed = strlen(PREFIX SUFFIX);
    struct variable *v, **link = &l->environment->variables;
    size_t len;

    if (!equals || equals[1] == '\0')
        return;
    len = (size_t)(equals - set);
    if (len < fixed - 1 || strncmp(set, PREFIX, strlen(PREFIX)) != 0 ||
        strncmp(equals - strlen(SUFFIX), SUFFIX, strlen(SUFFIX)) != 0)
        return;
    for (; *link; link = &(*link)->next)
        if (span_is((struct span){ set, len }, (*link)->name))
            return; /* the first counts, as in getenv() */
    v = take(l, sizeof *v);
    if (!v)
        return;
    v->name = arena_text(&l->scratch, (struct span){ set, len });
    v->value = equals + 1;
    if (!v->name) {
        l->out_of_memory = true;
        return;
    }
    if (len >= fixed)
        v->middle = (struct span){ v->name + strlen(PREFIX), len - fixed };
    *link = v;
}

void environment_open(struct loader *l)
{
    struct environment *e = take(l, sizeof *e);

    l->environment = e;
    if (!e)
        return;
    e->last_asked = &e->asked;
    if (!l->source->environment)
        return;
    for (const char *const *set = l->source->environment; *set; set++)
        if (!set_is(*set, "WEIR_ENABLED", &e->enabled) &&
            !set_is(*set, "WEIR_ENABLED_POLICIES", &e->enabled_policies))
            add_variable(l, *set);
}

/* "password-reset" is PASSWORD_RESET. */
static size_t write_name(const char *name, char *out)
{
    size_t len = 0;

    for (; name[len]; len++) {
        char c = name[len];

        if (c >= 'a' && c <= 'z')
            c = (char)(c - ('a' - 'A'));
        else if (!(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9'))
            c = '_';
        out[len] = c;
    }
    return len;
}

static void remember_asked(struct loader *l, struct span middle, const char *policy)
{
    struct parsed_request *asked = take(l, sizeof *asked);

    if (!asked)
        return;
    asked->middle = arena_text(&l->scratch, middle);
    asked->policy = policy;
    if (!asked->middle) {
        l->out_of_memory = true;
        return;
    }
    *l->environment->last_asked = asked;
    l->environment->last_asked = &asked->next;
    l->environment->asked_count++;
}

bool environment_limit(struct loader *l, const char *policy, const char *rule, struct rule *numbers,
                       const char **variable)
{
    char text[LONGEST];
    struct span middle = { text, 0 };
    struct variable *v;
    weir_diag diag;

    if (!l->environment || !l->environment->variables || !*policy)
        return false;
    middle.len = write_name(policy, text);
    if (rule) {
        text[middle.len++] = '_';
        middle.len += write_name(rule, text + middle.len);
    }
    remember_asked(l, middle, policy);
    for (v = l->environment->variables; v && !span_equal(v->middle, middle);)
        v = v->next;
    if (!v)
        return false;
    if (v->policy) {
        environment_complain(l, v->name, "this could mean %s%s%s or %s%s%s: rename one of them",
                             v->policy, v->rule ? "'s rule " : "", v->rule ? v->rule : "", policy,
                             rule ? "'s rule " : "", rule ? rule : "");
        return false;
    }
    v->policy = policy;
    v->rule = rule;
    if (!calendar_read_limit(l, span_of(v->value), numbers) &&
        rate_read(span_of(v->value), &numbers->limit, &numbers->window, &diag)) {
        environment_complain(l, v->name, "%s", diag.text);
        return false;
    }
    *variable = v->name;
    return true;
}

static void complain_of_unasked(struct loader *l, const struct variable *v)
{
    const struct environment *e = l->environment;
    const char **middles = take(l, (e->asked_count + 1) * sizeof *middles), *meant;
    const struct printable given = printable(span_of(v->name)); /* it may be anything */
    size_t n = 0;

    if (!middles)
        return;
    for (const struct parsed_request *a = e->asked; a; a = a->next) {
        char policy[LONGEST];
        struct span name = { policy, write_name(a->policy, policy) };

        if (span_equal(name, v->middle)) {
            environment_complain(
                l, given.text, "policy '%s' has rules: name one of them, as in " PREFIX "%s" SUFFIX,
                a->policy, a->middle);
            return;
        }
        middles[n++] = a->middle;
    }
    meant = suggest(v->middle, middles, n);
    if (meant)
        environment_complain(
            l, given.text, "no policy has this name: did you mean " PREFIX "%s" SUFFIX "?", meant);
    else
        environment_complain(l, given.text,
                             "no policy has this name: it would be " PREFIX "<POLICY>" SUFFIX
                             ", or " PREFIX "<POLICY>_<RULE>" SUFFIX " for one with rules");
}

static void apply_enabled(struct loader *l, const char *value)
{
    if (!truth_read(value, &l->set->enabled))
        environment_complain(l, "WEIR_ENABLED", "'%s' is neither " TRUTH_WORDS,
                             printable(span_of(value)).text);
}

static void turn_off(struct policy *p)
{
    /* The loader made them, and no other code has seen them yet. */
    struct policy_rule *rules = (struct policy_rule *)p->rules;

    p->mode = MODE_OFF;
    for (size_t i = 0; i < p->rule_count; i++)
        rules[i].mode = rules[i].own_mode = MODE_OFF;
}

static void apply_enabled_policies(struct loader *l, const char *list)
{
    const char *const variable = "WEIR_ENABLED_POLICIES";
    bool *named = take(l, l->set->count + 1);

    if (!named)
        return;
    while (*list) {
        struct span name = { list, strcspn(list, ",") };
        const struct policy *p;

        list += name.len + (list[name.len] == ',');
        for (; name.len > 0 && *name.at == ' '; name.len--)
            name.at++;
        while (name.len > 0 && name.at[name.len - 1] == ' ')
            name.len--;
        if (name.len == 0)
            continue;
        p = policies_find(l->set, name);
        if (p) {
            named[p - l->set->all] = true;
        } else {
            const char *meant = policies_suggest(l->set, name);

            environment_complain(l, variable, "there is no policy '%s'%s%s%s", printable(name).text,
                                 meant ? ": did you mean '" : "", meant ? meant : "",
                                 meant ? "'?" : "");
        }
    }
    for (size_t i = 0; i < l->set->count; i++)
        if (!named[i])
            turn_off(&l->set->all[i]);
}

void environment_apply(struct loader *l)
{
    const struct environment *e = l->environment;

    if (!e)
        return;
    if (e->enabled)
        apply_enabled(l, e->enabled);
    if (!l->source->file && !l->source->text) /* no policies, so none to override */
        return;
    if (e->enabled_policies)
        apply_enabled_policies(l, e->enabled_policies);
    for (const struct variable *v = e->variables; v; v = v->next)
        if (!v->policy)
            complain_of_unasked(l, v);
}
