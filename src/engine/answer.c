/* answer.c - from decided charges to the answer of a check.
 *
 * The rule that decides: of those that refuse, the one with the longest wait (never is
 * longest; with `retry_after: soonest` the shortest); if all allow, the one with the least
 * remaining; the first of the file on a tie. Shadowed rules decide only how a check looks
 * that has no other. */
#include "engine/answer.h"

#include <string.h>

#include "engine/amounts.h"
#include "limit/calendar.h"

enum { FALLBACK_RETRY_MS = 1000 }; /* nothing is known of the wait: ask again soon */

static const char *policy_name(const struct check *check)
{
    return check->policy ? check->policy->name : NULL;
}

static inline void begin_as(weir_answer *a, weir_source source, const char *policy,
                            int64_t override_id)
{
    a->err = WEIR_OK;
    a->allowed = true;
    a->shadow = false;
    a->source = source;
    a->policy = policy;
    a->rule = "default";
    a->limit = a->remaining = a->retry_after_ms = a->reset_after_ms = a->delay_ms = 0;
    a->used = a->over = 0;
    a->rule_count = 0;
    a->override_id = override_id;
    a->reservation[0] = '\0';
    a->expires_in_ms = 0;
    a->repeated = a->expired = false;
}

static void begin(struct check *check, weir_source source)
{
    begin_as(check->answer, source, policy_name(check), check->override_id);
}

static struct span plan_of(const struct check *check)
{
    return check->plan ? span_of(check->plan) : (struct span){ 0 };
}

void answer_uncounted(struct check *check, weir_source source)
{
    weir_answer *a = check->answer;
    const struct rule *r = &check->unnamed;

    begin(check, source);
    if (check->policy) {
        r = &policy_rule_under(&check->policy->rules[0], plan_of(check))->rule;
        a->rule = check->policy->rules[0].name;
    }
    a->limit = r->limit;
    a->remaining = r->burst;
}

void answer_blocked(struct check *check, const struct policy_rule *rule, int64_t limit,
                    int64_t until, int64_t now)
{
    weir_answer *a = check->answer;

    begin(check, WEIR_FROM_BLOCKED);
    a->allowed = false;
    a->policy = rule->policy->name;
    a->rule = rule->name;
    a->limit = limit;
    a->retry_after_ms = until > 0 ? until - now : WEIR_NEVER;
    a->reset_after_ms = until > 0 ? until - now : 0;
}

static bool waits_longer(int64_t a, int64_t b)
{
    return b != WEIR_NEVER && (a == WEIR_NEVER || a > b);
}

/* Does `r` say more about the check than `best` does? */
static bool decides_over(const weir_rule_answer *r, const weir_rule_answer *best, enum retry retry)
{
    if (r->shadow != best->shadow)
        return best->shadow;
    if (r->allowed != best->allowed)
        return best->allowed;
    if (r->allowed)
        return r->remaining - r->over < best->remaining - best->over;
    return retry == RETRY_LONGEST ? waits_longer(r->retry_after_ms, best->retry_after_ms)
                                  : waits_longer(best->retry_after_ms, r->retry_after_ms);
}

/* What has happened is counted beyond the limit: what remains is below 0 then. */
static void tell_used(const struct rule *r, weir_rule_answer *row)
{
    const int64_t used = r->burst - row->remaining;

    row->used = used < AMOUNT_MOST ? used : AMOUNT_MOST;
    row->over = row->used > r->burst ? row->used - r->burst : 0;
    row->remaining = row->remaining > 0 ? row->remaining : 0;
}

/* How long the window is; one of the calendar: that of now. */
static int64_t window_of(const struct check *check, const struct rule *r)
{
    struct calendar_bounds bounds;

    if (r->start != START_CALENDAR)
        return r->window;
    calendar_bounds(r->calendar, check->ask.now, &bounds);
    return bounds.at[2] - bounds.at[1];
}

/* It has been charged: was it too much? Then the decision of the charge is a denial, too. */
static void judge_row(const struct check *check, size_t i, weir_rule_answer *row)
{
    row->allowed = check->has_no_limit ? row->used == 0 : row->over == 0;
    check->charges[i].step.decision.allowed = row->allowed;
    row->retry_after_ms = row->allowed ? 0 : row->reset_after_ms;
    if (check->has_no_limit)
        row->limit = row->remaining = 0;
}

/* What is known of a row before it is decided. */
static void name_row(const struct check *check, size_t i, weir_rule_answer *row)
{
    row->policy = check->lists_charges      ? check->room->called[i]
                  : check->policy_count > 1 ? check->rules[i]->policy->name
                                            : check->answer->policy;
    row->rule = check->rules[i] ? check->rules[i]->name : "default";
    row->limit = check->charges[i].rule->limit;
    row->window_ms = window_of(check, check->charges[i].rule);
    row->used = row->over = 0;
    row->shadow = i >= check->live;
    row->shadow_denied = false;
}

static void update_row(const struct decision *d, weir_rule_answer *row)
{
    row->remaining = d->remaining;
    row->retry_after_ms = d->retry_after;
    row->reset_after_ms = d->reset_after;
    row->delay_ms = d->delay;
    row->allowed = d->allowed;
}

static void fill_row(const struct check *check, size_t i, weir_rule_answer *row)
{
    name_row(check, i, row);
    update_row(&check->charges[i].step.decision, row);
    if (verb_forces(check->verb))
        tell_used(check->charges[i].rule, row);
    if (check->is_judged)
        judge_row(check, i, row);
    row->shadow_denied = row->shadow && !row->allowed;
}

/* Does `a` stand before `b`: in an earlier policy of the request, or earlier in the same? */
static bool stands_before(const struct check *check, const struct policy_rule *a,
                          const struct policy_rule *b)
{
    if (a->policy == b->policy)
        return a < b;
    for (size_t i = 0; i < check->policy_count; i++)
        if (check->room->policies[i] == a->policy || check->room->policies[i] == b->policy)
            return check->room->policies[i] == a->policy;
    return false;
}

/* The rules in their order. A shadow limit is no row of its own: it marks its rule's. */
static void list_rules(struct check *check)
{
    weir_answer *a = check->answer;
    size_t live = 0, shadow = check->live;

    while (live < check->live || shadow < check->live + check->shadow) {
        const struct policy_rule *rule = live < check->live ? check->rules[live] : NULL;
        bool next_is_shadow = live == check->live ||
                              (shadow < check->live + check->shadow &&
                               stands_before(check, check->rules[shadow], rule));
        size_t i = next_is_shadow ? shadow++ : live++;
        weir_rule_answer *row = &a->rules[a->rule_count];
        bool shadow_denied = false;

        if (!next_is_shadow && shadow < check->live + check->shadow && check->rules[shadow] == rule)
            shadow_denied = !check->charges[shadow++].step.decision.allowed;
        if (!(check->unknown >> i & 1)) {
            fill_row(check, i, row);
            row->shadow_denied = row->shadow_denied || shadow_denied;
            a->rule_count++;
        }
        a->shadow = a->shadow || shadow_denied || (next_is_shadow && row->shadow_denied);
    }
}

static void list_charges(struct check *check)
{
    weir_answer *a = check->answer;

    for (; a->rule_count < check->live + check->shadow; a->rule_count++) {
        fill_row(check, a->rule_count, &a->rules[a->rule_count]);
        a->shadow |= a->rules[a->rule_count].shadow_denied;
    }
}

/* The first rule that does not let it pass all the same, or the first. */
static size_t failing_rule(const struct check *check)
{
    for (size_t i = 0; i < check->live && check->policy_count > 1; i++)
        if (check->rules[i]->policy->on_error == check->on_error)
            return i;
    return 0;
}

/* The store failed: what the policy says then. The numbers are not known. */
static void answer_by_fallback(struct check *check)
{
    weir_answer *a = check->answer;
    const size_t at = failing_rule(check);
    const struct policy_rule *rule = check->rules[at];

    begin(check, WEIR_FROM_FALLBACK);
    a->policy = rule ? rule->policy->name : NULL;
    a->rule = rule ? rule->name : "default";
    a->limit = check->charges[at].rule->limit;
    if (check->on_error == ON_ERROR_ALLOW)
        return;
    /* A store in this process is as local as can be: if it cannot count, nothing can. */
    a->allowed = false;
    a->retry_after_ms = FALLBACK_RETRY_MS;
}

/* A shadow that the store could not count has refused nothing. Was there one? */
static bool excuse_shadows(struct check *check)
{
    bool excused = false;

    for (size_t i = 0; i < check->shadow && !verb_reserves(check->verb); i++)
        if (check->questions[(check->live > 0) + i].err) {
            check->charges[check->live + i].step.decision = (struct decision){ .allowed = true };
            excused = true;
        }
    return excused;
}

static void decide_by(const weir_rule_answer *best, weir_answer *a)
{
    a->allowed = best->allowed || best->shadow;
    a->policy = best->policy;
    a->rule = best->rule;
    a->limit = best->limit;
    a->remaining = best->remaining;
    a->used = best->used;
    a->over = best->over;
    a->retry_after_ms = a->allowed ? 0 : best->retry_after_ms;
    a->reset_after_ms = best->reset_after_ms;
}

/* What is admitted waits for the longest of its queues. */
static void delay_by_longest(weir_answer *a)
{
    for (size_t i = 0; i < a->rule_count && a->allowed; i++)
        if (!a->rules[i].shadow && a->rules[i].delay_ms > a->delay_ms)
            a->delay_ms = a->rules[i].delay_ms;
}

/* A check is as its live rules' question is; without any, as the shadows are together. */
static weir_source source_of(const struct check *check, bool has_excused)
{
    const uint32_t shadows = (UINT32_C(1) << check->shadow) - 1;

    if (check->is_leased)
        return WEIR_FROM_LEASE;
    if (check->questions[0].is_unkept || (has_excused && check->live == 0))
        return WEIR_FROM_FALLBACK;
    if (check->live > 0 ? check->remembered & 1 : check->remembered == shadows)
        return WEIR_FROM_CACHE;
    return WEIR_FROM_STORE;
}

/* Where the policies differ, the longest wait is told: it is the one that is sure to help. */
static enum retry retry_of(const struct check *check)
{
    for (size_t i = 0; i < check->policy_count && check->policy_count > 1; i++)
        if (check->room->policies[i]->retry == RETRY_LONGEST)
            return RETRY_LONGEST;
    return check->policy ? check->policy->retry : RETRY_LONGEST;
}

void answer_from_charges(struct check *check)
{
    weir_answer *a = check->answer;
    const weir_rule_answer *best = &a->rules[0];

    if (check->live > 0 && !check->is_leased && check->questions[0].err) {
        answer_by_fallback(check);
        return;
    }
    begin(check, source_of(check, excuse_shadows(check)));
    if (check->live == 1 && check->shadow == 0) { /* the way of most checks */
        fill_row(check, 0, &a->rules[0]);
        a->rule_count = 1;
    } else {
        const enum retry retry = retry_of(check);

        if (check->lists_charges)
            list_charges(check);
        else
            list_rules(check);
        for (size_t i = 1; i < a->rule_count; i++)
            if (decides_over(&a->rules[i], best, retry))
                best = &a->rules[i];
    }
    decide_by(best, a);
    delay_by_longest(a);
}

/* The window of a calendar is not the same in all of them. */
void answer_in_common(struct check *check)
{
    weir_answer *a = check->answer;

    begin(check, WEIR_FROM_STORE);
    check->told_by = check->made_by;
    a->rule_count = check->live;
    for (size_t i = 0; i < check->live; i++) {
        if (check->charges[i].rule->start == START_CALENDAR)
            check->told_by = 0;
        name_row(check, i, &a->rules[i]);
    }
    a->rule = a->rules[0].rule;
    a->limit = a->rules[0].limit;
}

/* The one that decides, as decides_over() says, of rules that are all live and count no more than
 * they allow. */
static const weir_rule_answer *best_of_live(const weir_answer *a, bool allowed, enum retry retry)
{
    const weir_rule_answer *best = &a->rules[0];

    for (const weir_rule_answer *r = best + 1; r < a->rules + a->rule_count; r++)
        if (allowed ? r->remaining < best->remaining : decides_over(r, best, retry))
            best = r;
    return best;
}

__attribute__((noinline)) static void answer_several(struct check *check)
{
    const bool allowed = check->questions->allowed;
    weir_answer *a = check->answer;
    const weir_rule_answer *best;
    int64_t delay = 0;

    for (size_t i = 0; i < check->live; i++) {
        const struct decision *d = &check->charges[i].step.decision;

        update_row(d, &a->rules[i]);
        delay = d->delay > delay ? d->delay : delay;
    }
    best = best_of_live(a, allowed, check->policy->retry);
    a->allowed = allowed;
    a->rule = best->rule;
    a->limit = best->limit;
    a->remaining = best->remaining;
    a->retry_after_ms = allowed ? 0 : best->retry_after_ms;
    a->reset_after_ms = best->reset_after_ms;
    a->delay_ms = allowed ? delay : 0;
}

/* An answer of one row. */
static inline void answer_one(const struct decision *d, weir_answer *a)
{
    update_row(d, &a->rules[0]);
    a->allowed = d->allowed;
    a->remaining = d->remaining;
    a->retry_after_ms = d->allowed ? 0 : d->retry_after;
    a->reset_after_ms = d->reset_after;
    a->delay_ms = d->allowed && d->delay > 0 ? d->delay : 0;
}

void answer_name_lone(const char *policy, const char *rule, const struct rule *numbers,
                      weir_answer *a)
{
    weir_rule_answer *row = &a->rules[0];

    begin_as(a, WEIR_FROM_STORE, policy, 0);
    a->rule_count = 1;
    row->policy = policy;
    row->rule = a->rule = rule;
    row->limit = a->limit = numbers->limit;
    row->window_ms = numbers->window;
    row->used = row->over = 0;
    row->shadow = row->shadow_denied = false;
}

void answer_lone(const struct decision *d, bool is_unkept, weir_answer *a)
{
    if (is_unkept)
        a->source = WEIR_FROM_FALLBACK;
    answer_one(d, a);
}

void answer_plain(struct check *check)
{
    weir_answer *a = check->answer;

    if (check->told_by == 0 || check->told_by != check->made_by)
        answer_in_common(check);
    a->source = check->is_leased              ? WEIR_FROM_LEASE
                : check->questions->is_unkept ? WEIR_FROM_FALLBACK
                                              : WEIR_FROM_STORE;
    if (check->live > 1) {
        answer_several(check);
        return;
    }
    answer_one(&check->charges->step.decision, a);
}

/* ---- reservations ------------------------------------------------------------------------- */

static const char *kept_name(const struct check *check, const struct charge_label *of,
                             const char *name)
{
    const char *kept;

    if (of->is_kept)
        return name;
    kept = intern_keep(check->engine->names, span_of(name));
    return kept ? kept : "";
}

/* Has a row of this rule been filled? Then this is its shadow limit, which stands behind all others. */
static bool has_row(const weir_answer *a, const struct charge_label *of)
{
    for (size_t i = 0; i < a->rule_count && of->is_shadow; i++)
        if (strcmp(a->rules[i].rule, of->rule) == 0 &&
            strcmp(a->rules[i].policy ? a->rules[i].policy : "", of->policy) == 0)
            return true;
    return false;
}

/* By what the record says: the policies may be others by now. */
static void list_reserved(struct check *check, const struct question *q)
{
    const struct charge_label *labels = q->reserving->labels;
    weir_answer *a = check->answer;

    for (size_t i = 0; i < q->count && a->rule_count < WEIR_MAX_RULES; i++) {
        const struct decision *d = &q->charges[i].step.decision;
        weir_rule_answer *row = &a->rules[a->rule_count];

        if (has_row(a, &labels[i]))
            continue;
        row->policy = labels[i].policy[0] ? kept_name(check, &labels[i], labels[i].policy) : NULL;
        row->rule = kept_name(check, &labels[i], labels[i].rule);
        row->limit = q->charges[i].rule->limit;
        row->window_ms = q->charges[i].rule->window;
        row->remaining = d->remaining;
        row->retry_after_ms = d->retry_after;
        row->reset_after_ms = d->reset_after;
        row->used = row->over = 0;
        row->delay_ms = d->delay;
        row->allowed = d->allowed;
        row->shadow = labels[i].is_shadow;
        row->shadow_denied = labels[i].is_shadow && !d->allowed;
        a->rule_count++;
    }
}

static void answer_known(struct check *check, const struct question *q)
{
    weir_answer *a = check->answer;
    const weir_rule_answer *best = &a->rules[0];

    begin(check, q->is_unkept ? WEIR_FROM_FALLBACK : WEIR_FROM_STORE);
    list_reserved(check, q);
    for (size_t i = 1; i < a->rule_count; i++)
        if (decides_over(&a->rules[i], best, RETRY_LONGEST))
            best = &a->rules[i];
    if (a->rule_count > 0) /* else the record does not say what they were */
        decide_by(best, a);
    a->allowed = a->allowed && q->allowed;
}

/* One that was refused, failed, waits, or is of rules that are not all enforced. */
__attribute__((noinline)) static void answer_otherwise(struct check *check)
{
    const struct question *q = &check->questions[0];
    const struct reserving *of = q->reserving;
    weir_answer *a = check->answer;

    if (check->is_settled_later) {
        begin(check, WEIR_FROM_FALLBACK);
        memcpy(a->reservation, check->reserving.id, sizeof a->reservation);
        return;
    }
    if (of->refusal || (q->err && !verb_makes_reservation(check->verb))) {
        a->err = of->refusal ? of->refusal : q->err;
        a->allowed = false;
        a->rule_count = 0;
        if (a->err == WEIR_ECOST && check->room)
            amounts_say_counted(q, check->room->reserving.why, sizeof check->room->reserving.why);
        return;
    }
    if (verb_makes_reservation(check->verb))
        answer_from_charges(check);
    else
        answer_known(check, q);
    if (q->err || !a->allowed)
        return;
    memcpy(a->reservation, check->reserving.id, sizeof a->reservation);
    a->expires_in_ms = of->expires_in > 0 ? of->expires_in : 0;
    a->over = of->over;
    a->repeated = of->is_repeated;
    a->expired = of->has_expired;
}

const char *answer_why(const struct check *check)
{
    const bool is_of_reservation = check->verb == VERB_SETTLE || check->verb == VERB_GROW;

    return is_of_reservation && check->answer->err == WEIR_ECOST ? check->room->reserving.why
                                                                 : NULL;
}

void answer_from_reservation(struct check *check)
{
    if (check->is_settled_later || check->lists_charges ||
        !answer_held(check->questions, check->reserving.id, check->override_id, check->answer))
        answer_otherwise(check);
}
