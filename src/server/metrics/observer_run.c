/* observer_run.c - answers that are alike, counted together. */
#include "server/metrics/observer_internal.h"

static void count_checks(struct observer *o, const struct observer_run *run, enum outcome outcome)
{
    struct decision_counts *s = decision_counts_find(o->checks, run->policy, series_checks);

    count_up(&s->counts[outcome][run->source], run->checks);
}

static struct decision_counts *count_rule(struct observer *o, const struct observer_run *run,
                                          size_t i, enum outcome outcome)
{
    const struct policy_rule *rule = run->rules[i].rule;
    struct decision_counts *s = decision_counts_find(o->rules, run->policy,
                                                     rule ? rule->name : NULL);

    count_up(&s->counts[outcome][run->source], run->checks);
    return s;
}

static void count_event(struct observer *o, const struct observer_run *run,
                        enum reservation_event event)
{
    struct decision_counts *s = decision_counts_find(o->reservations, run->policy,
                                                     reservation_event_names[event]);

    count_up(&s->counts[OUTCOME_ALLOWED][run->source], run->checks);
}

static void end_passed(struct observer *o, struct observer_run *run)
{
    if (run->reserves)
        count_event(o, run, RESERVATION_RESERVED);
    count_checks(o, run, OUTCOME_ALLOWED);
    for (size_t i = 0; i < run->rule_count; i++) {
        const struct policy_rule *rule = run->rules[i].rule;
        struct decision_counts *s = count_rule(o, run, i, OUTCOME_ALLOWED);

        count_up(&s->used, run->checks * (uint64_t)run->rules[i].cost);
        if (rule && decision_counts_unit(s) != rule->counts)
            decision_counts_set_unit(s, rule->counts);
    }
}

static void end_denied(struct observer *o, struct observer_run *run)
{
    const struct policy_rule *rule = run->rules[0].rule;

    count_checks(o, run, OUTCOME_DENIED);
    count_rule(o, run, 0, OUTCOME_DENIED);
    pthread_mutex_lock(&o->lock);
    top_count_many(&o->top, run->policy, rule ? rule->name : NULL, run->denied, run->checks,
                   run->now);
    o->lines.left_out += run->checks;
    pthread_mutex_unlock(&o->lock);
}

static void end_committed(struct observer *o, struct observer_run *run)
{
    count_event(o, run, RESERVATION_COMMITTED);
}

static void end_run(struct observer *o, struct observer_run *run,
                    void (*end)(struct observer *, struct observer_run *))
{
    if (run->checks > 0)
        end(o, run);
    run->pattern = run->checks = 0;
}

void observer_end_runs(struct observer *o, struct observer_runs *runs)
{
    end_run(o, &runs->denied, end_denied);
    end_run(o, &runs->passed, end_passed);
    end_run(o, &runs->committed, end_committed);
}

/* It is counted, or the first of the run. */
static void begin(struct observer_run *run, const struct check *check, uint64_t checks, int64_t now)
{
    run->pattern = check->pattern;
    run->source = check->answer->source;
    run->checks = checks;
    run->policy = check->answer->policy;
    run->reserves = verb_reserves(check->verb);
    run->rule_count = check->live;
    for (size_t i = 0; i < check->live; i++) {
        run->rules[i].rule = check->rules[i];
        run->rules[i].cost = check->charges[i].cost;
    }
    run->denied = check->charges->key;
    run->now = now;
}

static bool is_stored(const struct check *check)
{
    return check->answer->source == WEIR_FROM_STORE || check->answer->source == WEIR_FROM_LEASE;
}

void observer_begin_run(struct observer *o, struct observer_runs *runs, const struct check *check,
                        const struct traceparent *trace, int64_t now)
{
    const bool allowed = check->answer->allowed, can_run = check->is_plain && is_stored(check);

    if (!allowed) /* the order of denials is that of the top list */
        end_run(o, &runs->denied, end_denied);
    if (observer_is_committed(check) && is_stored(check) && check->answer->policy) {
        end_run(o, &runs->committed, end_committed);
        begin(&runs->committed, check, 1, now);
    } else if (allowed && !o->lines.has_first_hits &&
               (can_run || (observer_is_made(check) && !check->peek && is_stored(check)))) {
        end_run(o, &runs->passed, end_passed);
        begin(&runs->passed, check, 1, now);
    } else if (observer_answer(o, check, trace, now) && can_run && check->live == 1) {
        begin(&runs->denied, check, 0, now);
    }
}
