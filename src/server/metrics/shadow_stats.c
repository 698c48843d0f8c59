/* shadow_stats.c - what limits on trial would have refused, beside what was refused. */
#include "server/metrics/shadow_stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/pages.h"

struct shadow_stats *shadow_stats_new(void)
{
    return pages_map(sizeof(struct shadow_stats));
}

void shadow_stats_free(struct shadow_stats *t)
{
    pages_unmap(t, sizeof *t);
}

/* ---- counting ------------------------------------------------------------------------------- */

static const struct rule *numbers_of(const struct policy_rule *rule, enum trial_kind kind)
{
    return kind == TRIAL_SHADOW_LIMIT ? &rule->shadow_limit->rule : &rule->counted.rule;
}

static bool is_of(const struct shadow_stat *t, const char *policy, const struct policy_rule *rule,
                  enum trial_kind kind, bool is_named)
{
    return t->policy == policy && t->rule == rule->name && t->kind == kind &&
           t->is_named == is_named;
}

static bool has_changed(const struct shadow_stat *t, const struct policy_rule *rule)
{
    const struct rule *r = numbers_of(rule, t->kind);

    return !rule_is_same(&t->numbers, r) || t->rollout != rule->rollout;
}

static void clear_side(struct shadow_side *s)
{
    atomic_store(&s->requests, 0);
    atomic_store(&s->refused, 0);
    hyperloglog_clear(&s->identities);
    hyperloglog_clear(&s->denied_identities);
}

static void begin(struct shadow_stat *t, const struct policy_rule *rule, int64_t now)
{
    t->numbers = *numbers_of(rule, t->kind);
    t->rollout = rule->rollout;
    clear_side(&t->tried);
    clear_side(&t->live);
    atomic_store(&t->both, 0);
    atomic_store(&t->since, now);
}

/* NULL: there are too many. */
static struct shadow_stat *find(struct shadow_stats *all, const struct policy_rule *rule,
                                enum trial_kind kind, bool is_named, int64_t now)
{
    const size_t count = atomic_load_explicit(&all->count, memory_order_relaxed);
    const char *policy = rule->policy->name;
    struct shadow_stat *t;
    size_t others = 0; /* of the same name, with other numbers */

    for (t = all->all; t < all->all + count; t++) {
        if (!is_of(t, policy, rule, kind, is_named))
            continue;
        if (!is_named || !has_changed(t, rule))
            break;
        others++;
    }
    if (t == all->all + count) {
        if (count == SHADOW_STATS_MOST || others == NAMED_NUMBERS)
            return NULL;
        t->policy = policy;
        t->rule = rule->name;
        t->kind = kind;
        t->is_named = is_named;
        begin(t, rule, now);
        atomic_store_explicit(&all->count, count + 1, memory_order_release);
    } else if (has_changed(t, rule)) {
        begin(t, rule, now);
    }
    return t;
}

static void count(struct shadow_side *s, struct key key, bool is_refused)
{
    count_up(&s->requests, 1);
    hyperloglog_add(&s->identities, key);
    if (!is_refused)
        return;
    count_up(&s->refused, 1);
    hyperloglog_add(&s->denied_identities, key);
}

/* The live charge of the same rule; NULL: it has none, or nothing is known of it. */
static const struct charge *live_charge(const struct check *check, const struct policy_rule *rule)
{
    for (size_t i = 0; i < check->live; i++)
        if (check->rules[i] == rule)
            return check->unknown >> i & 1 ? NULL : &check->charges[i];
    return NULL;
}

static void observe_shadow(struct shadow_stats *all, const struct check *check, size_t i,
                           int64_t now)
{
    const struct policy_rule *rule = check->rules[i];
    const struct charge *charge = &check->charges[i], *live = live_charge(check, rule);
    const bool is_limit = rule->shadow_limit && charge->rule == &rule->shadow_limit->rule;
    const enum mode mode = policy_rule_mode(rule, check->has_mode ? &check->mode : NULL);
    const bool is_rollout = !is_limit && mode == MODE_ENFORCE && rule->rollout < SHARE_ALL;
    const bool would = !charge->step.decision.allowed;
    const bool did = is_limit ? live && !live->step.decision.allowed : !check->answer->allowed;
    struct shadow_stat *t;

    if (check->questions[(check->live > 0) + i - check->live].err || (is_limit && !live))
        return;
    t = find(all, rule,
             is_limit     ? TRIAL_SHADOW_LIMIT
             : is_rollout ? TRIAL_ROLLOUT
                          : TRIAL_MODE,
             check->is_named, now);
    if (!t)
        return;
    count(&t->tried, charge->key, would);
    if (is_rollout)
        return;
    count(&t->live, is_limit ? live->key : charge->key, did);
    if (would && did)
        count_up(&t->both, 1);
}

/* Of those whom a rollout has reached. */
static void observe_live(struct shadow_stats *all, const struct check *check, size_t i, int64_t now)
{
    const struct policy_rule *rule = check->rules[i];
    struct shadow_stat *t;

    if (rule->rollout == SHARE_ALL || check->unknown >> i & 1)
        return;
    t = find(all, rule, TRIAL_ROLLOUT, false, now);
    if (t)
        count(&t->live, check->charges[i].key, !check->charges[i].step.decision.allowed);
}

void shadow_stats_observe(struct shadow_stats *t, const struct check *check, int64_t now)
{
    if (!check->policy || check->is_answered || check->answer->source == WEIR_FROM_FALLBACK)
        return;
    for (size_t i = 0; i < check->live; i++)
        observe_live(t, check, i, now);
    for (size_t i = check->live; i < check->live + check->shadow; i++)
        observe_shadow(t, check, i, now);
}

/* ---- telling -------------------------------------------------------------------------------- */

static void merge_side(struct shadow_side *into, const struct shadow_side *from)
{
    count_up(&into->requests, count_of(&from->requests));
    count_up(&into->refused, count_of(&from->refused));
    hyperloglog_merge(&into->identities, &from->identities);
    hyperloglog_merge(&into->denied_identities, &from->denied_identities);
}

/* Over all loops; `sum` is a trial that no loop has. */
static void add_up(struct shadow_stats *const *all, size_t n, const char *policy,
                   const struct policy_rule *rule, struct shadow_stat *sum)
{
    for (size_t i = 0; i < n; i++) {
        const size_t count = atomic_load_explicit(&all[i]->count, memory_order_acquire);

        for (const struct shadow_stat *t = all[i]->all; t < all[i]->all + count; t++) {
            const int64_t since = atomic_load(&t->since), before = atomic_load(&sum->since);

            if (!is_of(t, policy, rule, sum->kind, sum->is_named) || has_changed(t, rule))
                continue;
            atomic_store(&sum->since, before == 0 || since < before ? since : before);
            merge_side(&sum->tried, &t->tried);
            merge_side(&sum->live, &t->live);
            count_up(&sum->both, count_of(&t->both));
        }
    }
}

/* In percent, with two digits after the point. */
static void put_share(struct json *j, const char *name, int64_t part, int64_t whole)
{
    const int64_t hundredths = whole > 0 ? (part * 10000 + whole / 2) / whole : 0;
    char text[48];
    const int len = snprintf(text, sizeof text, "%lld.%02lld", (long long)(hundredths / 100),
                             (long long)(hundredths % 100));

    json_raw(j, name, (struct span){ text, (size_t)len });
}

static void put_side(struct json *j, const char *name, const struct shadow_side *s)
{
    const int64_t requests = (int64_t)count_of(&s->requests);
    const int64_t refused = (int64_t)count_of(&s->refused);
    const int64_t seen = hyperloglog_count(&s->identities),
                  some = hyperloglog_count(&s->denied_identities);
    const int64_t identities = seen > some ? seen : some;

    json_open(j, name, '{');
    json_int(j, "checks", requests);
    json_int(j, "denied", refused);
    put_share(j, "denied_percent", refused, requests);
    json_int(j, "identities", identities);
    json_int(j, "denied_identities", some);
    put_share(j, "denied_identities_percent", some, identities);
    json_close(j, '}');
}

static void put_trial(struct json *j, const struct policy_rule *rule, const struct shadow_stat *t,
                      bool is_by_operator)
{
    static const char *const kinds[] = { "mode", "rollout", "shadow_limit" };
    const struct rule *numbers = numbers_of(rule, t->kind);
    char share[16];

    json_open(j, NULL, '{');
    json_text(j, "policy", t->policy);
    json_text(j, "rule", t->rule);
    json_text(j, "kind", kinds[t->kind]);
    json_text(j, "from", is_by_operator ? "operator" : "file");
    if (t->is_named)
        json_text(j, "line", NULL);
    else
        json_int(j, "line", rule->line);
    json_int(j, "limit", numbers->limit);
    json_int(j, "window_ms", numbers->window);
    share_write(rule->rollout, share);
    json_text(j, "rollout", t->kind == TRIAL_ROLLOUT ? share : NULL);
    json_int(j, "since_ms", atomic_load(&t->since));
    put_side(j, "shadow", &t->tried);
    put_side(j, "enforced", &t->live);
    if (t->kind != TRIAL_ROLLOUT) {
        json_int(j, "denied_by_both", (int64_t)count_of(&t->both));
        json_int(j, "denied_by_shadow_only",
                 (int64_t)(count_of(&t->tried.refused) - count_of(&t->both)));
        json_int(j, "denied_by_enforced_only",
                 (int64_t)(count_of(&t->live.refused) - count_of(&t->both)));
    }
    json_close(j, '}');
}

static bool is_on_trial(const struct policy_rule *rule, enum mode mode, enum trial_kind kind)
{
    switch (kind) {
    case TRIAL_MODE:
        return mode == MODE_SHADOW;
    case TRIAL_ROLLOUT:
        return mode == MODE_ENFORCE && rule->rollout < SHARE_ALL;
    case TRIAL_SHADOW_LIMIT:
        return mode == MODE_ENFORCE && rule->shadow_limit;
    }
    return false;
}

/* All that was seen of it, over all loops. */
static void write_trial(struct shadow_stats *const *all, size_t n, const char *policy,
                        const struct policy_rule *rule, enum trial_kind kind, bool is_named,
                        bool is_by_operator, struct json *j)
{
    struct shadow_stat *sum = calloc(1, sizeof *sum);

    if (!sum) {
        j->to->failed = true;
        return;
    }
    sum->policy = policy;
    sum->rule = rule->name;
    sum->kind = kind;
    sum->is_named = is_named;
    add_up(all, n, policy, rule, sum);
    put_trial(j, rule, sum, is_by_operator);
    free(sum);
}

static void write_rule(struct shadow_stats *const *all, size_t n, const struct policy *p,
                       const struct policy_rule *rule, const enum mode *live, struct json *j)
{
    const enum mode mode = policy_rule_mode(rule, live);

    for (enum trial_kind kind = TRIAL_MODE; kind <= TRIAL_SHADOW_LIMIT; kind++)
        if (is_on_trial(rule, mode, kind))
            write_trial(all, n, p->name, rule, kind, false, mode != rule->mode, j);
}

/* The mode that an operator has set; NULL: none. */
static const enum mode *live_mode(const struct shadow_stats_view *view, const char *policy)
{
    const struct overridden *o = view->overrides ? override_index_of(view->overrides, policy)
                                                 : NULL;

    return o && o->has_mode && (o->mode_expires == 0 || view->now < o->mode_expires) ? &o->mode
                                                                                     : NULL;
}

static bool is_asked_for(const struct shadow_stats_view *view, const char *policy)
{
    return !view->policy || strcmp(view->policy, policy) == 0;
}

/* Do the first `n` loops have it? */
static bool is_among(struct shadow_stats *const *all, size_t n, const struct shadow_stat *named,
                     const struct policy_rule *rule)
{
    for (size_t i = 0; i < n; i++) {
        const size_t count = atomic_load_explicit(&all[i]->count, memory_order_acquire);

        for (const struct shadow_stat *t = all[i]->all; t < all[i]->all + count; t++)
            if (is_of(t, named->policy, rule, named->kind, true) && !has_changed(t, rule))
                return true;
    }
    return false;
}

/* Those that came with requests, and whose names have not become policies since. */
static void write_named(struct shadow_stats *const *all, size_t n,
                        const struct shadow_stats_view *view, struct json *j)
{
    for (size_t i = 0; i < n; i++) {
        const size_t count = atomic_load_explicit(&all[i]->count, memory_order_acquire);

        for (const struct shadow_stat *t = all[i]->all; t < all[i]->all + count; t++) {
            const enum mode *mode = t->is_named ? live_mode(view, t->policy) : NULL;
            struct policy_rule rule;

            if (!mode || *mode != MODE_SHADOW || !is_asked_for(view, t->policy) ||
                (view->set && policies_find(view->set, span_of(t->policy))))
                continue;
            rule = (struct policy_rule){
                .name = t->rule,
                .counted.rule = t->numbers,
                .rollout = SHARE_ALL,
            };
            if (!is_among(all, i, t, &rule))
                write_trial(all, n, t->policy, &rule, t->kind, true, true, j);
        }
    }
}

void shadow_stats_write(struct shadow_stats *const *all, size_t n,
                        const struct shadow_stats_view *view, struct json *j)
{
    const struct policies *set = view->set;

    json_open(j, "limits", '[');
    for (size_t i = 0; set && i < policies_count(set); i++) {
        const struct policy *p = policies_at(set, i);

        for (size_t k = 0; is_asked_for(view, p->name) && k < p->rule_count; k++)
            write_rule(all, n, p, &p->rules[k], live_mode(view, p->name), j);
    }
    write_named(all, n, view, j);
    json_close(j, ']');
}
