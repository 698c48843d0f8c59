/* observer.c - what one loop has decided, counted as it happens.
 *
 * An answer that allows costs a look at the series that was found last, and a load and a store; one
 * that refuses, an uncontended lock and the top list as well. observer_run.c has those that are
 * counted together. */
#include "server/metrics/observer.h"

#include <stdlib.h>
#include <string.h>

#include "engine/tag.h"
#include "server/log/event_log.h"
#include "server/metrics/observer_internal.h"
#include "server/session.h"

const char *const reservation_event_names[RESERVATION_EVENT_COUNT] = {
#define X(name, text) [RESERVATION_##name] = (text),
    RESERVATION_EVENTS(X)
#undef X
};

struct observer *observer_new(const struct engine *engine, struct event_log *log)
{
    struct observer *o = calloc(1, sizeof *o);

    if (!o)
        return NULL;
    o->checks = decision_counts_new(series_checks);
    o->rules = decision_counts_new("default");
    o->reservations = decision_counts_new(reservation_event_names[0]);
    o->shadow_stats = shadow_stats_new();
    if (!o->checks || !o->rules || !o->reservations || !o->shadow_stats) {
        shadow_stats_free(o->shadow_stats);
        decision_counts_free(o->reservations);
        decision_counts_free(o->rules);
        decision_counts_free(o->checks);
        free(o);
        return NULL;
    }
    o->engine = engine;
    o->lines.log = log;
    o->lines.has_first_hits = log && event_log_wants(log, LOG_DEBUG);
    histogram_init(&o->decision, &histogram_times);
    histogram_init(&o->commit, &histogram_times);
    histogram_init(&o->batch, &histogram_sizes);
    top_init(&o->top);
    pthread_mutex_init(&o->lock, NULL);
    return o;
}

void observer_free(struct observer *o)
{
    if (!o)
        return;
    decision_log_done(&o->lines);
    pthread_mutex_destroy(&o->lock);
    decision_counts_free(o->reservations);
    decision_counts_free(o->rules);
    decision_counts_free(o->checks);
    shadow_stats_free(o->shadow_stats);
    free(o);
}

/* ---- answers -------------------------------------------------------------------------- */

static void count(struct decision_counts_table *t, const weir_answer *a, const char *policy,
                  const char *rule, enum outcome outcome)
{
    count_up(&decision_counts_find(t, policy, rule)->counts[outcome][a->source], 1);
}

/* Limits of Envoy may be called by what they are asked for: each name once. */
static void count_called(struct observer *o, const weir_answer *a, enum outcome outcome)
{
    for (size_t i = 0; i < a->rule_count; i++) {
        size_t before = 0;

        while (a->rules[before].policy != a->rules[i].policy)
            before++;
        if (before == i)
            count(o->checks, a, a->rules[i].policy, series_checks, outcome);
    }
}

/* One that asks several policies is one of each of them, and ends for all alike. */
static void count_check(struct observer *o, const struct check *check)
{
    const weir_answer *a = check->answer;
    const enum outcome outcome = outcome_of(a);

    if (check->lists_charges && a->rule_count > 0) {
        count_called(o, a, outcome);
        return;
    }
    if (check->policy_count <= 1)
        count(o->checks, a, a->policy, series_checks, outcome);
    for (size_t i = 0; check->policy_count > 1 && i < check->policy_count; i++)
        count(o->checks, a, check->room->policies[i]->name, series_checks, outcome);
}

static void count_rule(struct observer *o, const weir_answer *a, const weir_rule_answer *r)
{
    if (a->allowed)
        count(o->rules, a, r->policy, r->rule,
              r->shadow_denied ? OUTCOME_SHADOW_DENIED : OUTCOME_ALLOWED);
    else if (!r->allowed && !r->shadow)
        count(o->rules, a, r->policy, r->rule, OUTCOME_DENIED);
}

static void count_charge(struct observer *o, const struct check *check)
{
    const weir_answer *a = check->answer;

    if (check->policy_count <= 1)
        count_up(&decision_counts_find(o->checks, a->policy, series_checks)->charges[a->source], 1);
    for (size_t i = 0; check->policy_count > 1 && i < check->policy_count; i++)
        count_up(&decision_counts_find(o->checks, check->room->policies[i]->name, series_checks)
                      ->charges[a->source],
                 1);
}

static bool is_stored(const weir_answer *a)
{
    return a->source == WEIR_FROM_STORE || a->source == WEIR_FROM_LEASE;
}

static bool is_counted(const struct check *check)
{
    return is_stored(check->answer) ||
           (check->answer->source == WEIR_FROM_FALLBACK && check->on_error == ON_ERROR_LOCAL);
}

/* What rules were charged, if they were. Those in shadow hold up nothing: they are left out. */
static void count_used(struct observer *o, const struct check *check)
{
    const weir_answer *a = check->answer;

    for (size_t i = 0; i < check->live; i++) {
        const struct policy_rule *rule = check->rules[i];
        struct decision_counts *s;

        if (check->charges[i].cost <= 0)
            continue;
        s = decision_counts_find(o->rules,
                                 check->lists_charges      ? check->room->called[i]
                                 : check->policy_count > 1 ? rule->policy->name
                                                           : a->policy,
                                 rule ? rule->name : NULL);
        count_up(&s->used, (uint64_t)check->charges[i].cost);
        if (rule && decision_counts_unit(s) != rule->counts)
            decision_counts_set_unit(s, rule->counts);
    }
}

/* When the window of a denial at `now` is over. The numbers of a limit that came with its request
 * are not all bounded: one of 0 may have any window, and a cell's is that of one unit, in ns. */
static int64_t window_end(const struct rule *r, int64_t now)
{
    const int64_t window = r->algorithm == ALGORITHM_CELL
                               ? r->window / 1000000 * (r->limit > 0 ? r->limit : 1)
                               : r->window;

    return window < INT64_MAX - now ? now + window : INT64_MAX;
}

/* Is it the first of this identity for as long as its window? */
static bool count_denial(struct observer *o, const struct check *check, size_t i, int64_t now,
                         struct key *tag, bool *is_logged)
{
    const char *policy = check->answer->policy, *rule = policy ? check->answer->rule : NULL;
    const struct charge *charge = &check->charges[i];
    struct top_entry *e;
    bool is_first;

    pthread_mutex_lock(&o->lock);
    e = top_count(&o->top, policy, rule, charge->key, now);
    if (e->tag.high == 0 && e->tag.low == 0)
        e->tag = check_tag(o->engine, check, i);
    *tag = e->tag;
    is_first = e->logged_until <= now;
    *is_logged = decision_log_admit(&o->lines, is_first ? LINE_FIRST_DENIAL : LINE_DENIAL, now);
    if (is_first && *is_logged)
        e->logged_until = window_end(charge->rule, now);
    pthread_mutex_unlock(&o->lock);
    return is_first;
}

static void log_line(struct observer *o, enum log_line line, const struct check *check,
                     struct key tag, const struct traceparent *trace, int64_t now)
{
    char text[TAG_HEX + 1];

    tag_write(tag, text);
    decision_log_write(&o->lines, line, check->answer, text, trace, now);
}

/* Would the next denial of the same identity at the same time be like it: not the first, and not
 * logged? */
static bool refused(struct observer *o, const struct check *check, const struct traceparent *trace,
                    int64_t now)
{
    const int i = check_deciding(check);
    bool is_first = false, is_logged;
    struct key tag;

    if (i >= 0 && check->answer->source != WEIR_FROM_FALLBACK) {
        is_first = count_denial(o, check, (size_t)i, now, &tag, &is_logged);
        if (is_logged)
            log_line(o, is_first ? LINE_FIRST_DENIAL : LINE_DENIAL, check, tag, trace, now);
        return !is_first && !is_logged;
    }
    /* That the store failed says nothing about who asked. */
    if (!decision_log_admit(&o->lines, LINE_DENIAL, now))
        return false;
    if (i >= 0)
        log_line(o, LINE_DENIAL, check, check_tag(o->engine, check, (size_t)i), trace, now);
    else
        decision_log_write(&o->lines, LINE_DENIAL, check->answer, NULL, trace, now);
    return false;
}

/* Nothing was counted before it. What remains may be as much as a number holds; a burst is not, and
 * no cost is below 0. */
static bool is_first_hit(const struct check *check)
{
    const struct charge *c = &check->charges[0];

    return c->step.decision.remaining == c->rule->burst - c->cost &&
           check->answer->source == WEIR_FROM_STORE;
}

static void first_hit(struct observer *o, const struct check *check,
                      const struct traceparent *trace, int64_t now)
{
    if (decision_log_admit(&o->lines, LINE_FIRST_HIT, now))
        log_line(o, LINE_FIRST_HIT, check, check_tag(o->engine, check, 0), trace, now);
}

/* ---- reservations ----------------------------------------------------------------------- */

/* Not the pointer that decision_counts_find() knows: limits without a name have series by event. */
static const char unnamed[] = DECISION_COUNTS_UNNAMED;

/* Each policy of the answer once. */
static void count_event(struct observer *o, const weir_answer *a, enum reservation_event event)
{
    for (size_t i = 0; i < a->rule_count; i++) {
        size_t before = 0;

        while (before < i && a->rules[before].policy != a->rules[i].policy)
            before++;
        if (before == i)
            count(o->reservations, a, a->rules[i].policy ? a->rules[i].policy : unnamed,
                  reservation_event_names[event], OUTCOME_ALLOWED);
    }
}

/* The series of a rule that the answer tells of; NULL: it does not. */
static struct decision_counts *series_of(struct observer *o, const weir_answer *a,
                                         const struct charge_label *label)
{
    for (size_t i = 0; i < a->rule_count; i++) {
        const weir_rule_answer *r = &a->rules[i];

        if (strcmp(r->rule, label->rule) == 0 &&
            strcmp(r->policy ? r->policy : "", label->policy) == 0)
            return decision_counts_find(o->rules, r->policy, r->rule);
    }
    return NULL;
}

static void name_unit(const struct observer *o, struct decision_counts *s, const char *counts)
{
    const char *unit = decision_counts_unit(s), *kept;

    if (strcmp(unit ? unit : COUNTS_REQUESTS, counts) == 0)
        return;
    kept = intern_keep(o->engine->names, span_of(counts)); /* a record's own is not kept */
    if (kept)
        decision_counts_set_unit(s, kept);
}

/* What a commit adds to the costs that were counted when it was reserved, and what it gives back;
 * and what a reservation was grown by. Slots are taken and free again: nothing of them is used. */
static void count_used_later(struct observer *o, const struct check *check)
{
    const struct question *q = &check->questions[0];
    const bool settles = verb_settles(check->verb);

    if (check->is_answered || check->is_settled_later)
        return;
    for (size_t i = 0; i < q->count; i++) {
        const struct charge_label *label = &q->reserving->labels[i];
        const int64_t more = q->charges[i].cost;
        struct decision_counts *s = NULL;

        if (!label->is_shadow && more != 0 &&
            !algorithm_counts_slots(q->charges[i].rule->algorithm))
            s = series_of(o, check->answer, label);
        if (!s)
            continue;
        if (!label->is_kept) /* else it was named when it was reserved */
            name_unit(o, s, label->counts);
        if (more > 0)
            count_up(&s->used, (uint64_t)more);
        else if (!check->answer->expired)
            count_up(&s->given_back, (uint64_t)-more);
        if (settles && more > 0)
            count_up(&s->overrun, (uint64_t)more);
    }
}

static void count_reservation(struct observer *o, const struct check *check)
{
    const weir_answer *a = check->answer;

    if (a->repeated) {
        count_event(o, a, RESERVATION_REPEATED);
        return;
    }
    if (a->expired)
        count_event(o, a, RESERVATION_LATE);
    switch (check->verb) {
    case VERB_RESERVE:
        if (a->reservation[0] && a->expires_in_ms > 0) /* not one that is used at once */
            count_event(o, a, RESERVATION_RESERVED);
        break;
    case VERB_GROW:
        count_event(o, a, a->allowed ? RESERVATION_GROWN : RESERVATION_NOT_GROWN);
        if (a->allowed)
            count_used_later(o, check);
        break;
    case VERB_EXTEND:
        count_event(o, a, RESERVATION_EXTENDED);
        break;
    case VERB_SETTLE:
        count_event(o, a, check->is_release ? RESERVATION_RELEASED : RESERVATION_COMMITTED);
        if (a->over > 0)
            count_event(o, a, RESERVATION_EXCEEDED);
        count_used_later(o, check);
        break;
    case VERB_CHECK:
    case VERB_REFUND:
    case VERB_RESET:
    case VERB_UNDO:
    case VERB_CHARGE:
        break;
    }
}

uint64_t observers_made(struct observer *const *all, size_t n)
{
    uint64_t made = 0;

    for (size_t i = 0; i < n; i++) {
        const struct decision_counts_table *t = all[i]->reservations;
        const size_t count = atomic_load_explicit(&t->count, memory_order_acquire);

        for (size_t k = 0; k < count; k++)
            for (int source = 0; source < DECISION_COUNTS_SOURCES; source++)
                made += count_of(&t->all[k].counts[OUTCOME_ALLOWED][source]);
    }
    return made;
}

/* ---- all of them ------------------------------------------------------------------------ */

bool observer_answer(struct observer *o, const struct check *check, const struct traceparent *trace,
                     int64_t now)
{
    const weir_answer *a = check->answer;

    if (check->peek || a->err)
        return false;
    if (verb_reserves(check->verb))
        count_reservation(o, check);
    if (a->repeated)
        return false;
    if (verb_forces(check->verb) && !check->is_judged)
        count_charge(o, check);
    if ((a->allowed || check->is_judged) && verb_adds(check->verb) && is_counted(check))
        count_used(o, check);
    if (!verb_decides(check->verb) && !check->is_judged)
        return false;
    count_check(o, check);
    for (size_t i = 0; i < a->rule_count; i++)
        count_rule(o, a, &a->rules[i]);
    shadow_stats_observe(o->shadow_stats, check, now);
    if (!a->allowed)
        return refused(o, check, trace, now);
    if (o->lines.has_first_hits && check->live > 0 && is_first_hit(check))
        first_hit(o, check, trace, now);
    return false;
}

void observer_unanswered(struct observer *o, enum asked_by by, enum problem problem,
                         const char *text, int64_t now)
{
    uint64_t left_out;
    bool is_logged;

    pthread_mutex_lock(&o->lock);
    is_logged = unanswered_count(&o->unanswered, by, problem, text, now, &left_out);
    pthread_mutex_unlock(&o->lock);
    if (is_logged)
        decision_log_write_unanswered(&o->lines, by, problem, text, left_out);
}

/* ---- the rest ------------------------------------------------------------------------- */

void observer_time(struct observer *o, uint64_t ns, size_t n)
{
    if (n > 0)
        histogram_add(&o->decision, ns, n);
}

void observer_commit(struct observer *o, uint64_t ns, size_t batch)
{
    histogram_add(&o->commit, ns, 1);
    histogram_add(&o->batch, batch, 1);
}

void observer_request(struct observer *o, int protocol, int status)
{
    if (protocol == PROTOCOL_RESP)
        count_up(&o->resp[status != 0], 1);
    else if (protocol == PROTOCOL_HTTP && status >= 0 && status < OBSERVED_STATUSES)
        count_up(&o->http[status], 1);
    else if (protocol == PROTOCOL_GRPC && status >= 0 && status < GRPC_STATUS_COUNT)
        count_up(&o->grpc[status], 1);
}
