/* answer_held.c - the answer about a reservation as most are: of rules that are all enforced, with names
 * that are kept, and done. It says what answer.c would say. */
#include <string.h>

#include "engine/answer.h"
#include "limit/calendar.h"

/* Rules of a calendar that are held now: the window of now. A record knows that of its own. */
__attribute__((noinline)) static void tell_windows(const struct question *q, weir_answer *a)
{
    struct calendar_bounds bounds;

    for (size_t i = 0; i < a->rule_count; i++)
        if (q->charges[i].rule->start == START_CALENDAR) {
            calendar_bounds(q->charges[i].rule->calendar, q->ask.now, &bounds);
            a->rules[i].window_ms = bounds.at[2] - bounds.at[1];
        }
}

/* False: the rule is not enforced, or of no policy, or its name is not kept, or it refuses. */
static inline bool fill_held(const struct charge_label *label, const struct charge *c,
                             weir_rule_answer *row)
{
    const struct decision *d = &c->step.decision;

    row->policy = label->policy;
    row->rule = label->rule;
    row->limit = c->rule->limit;
    row->window_ms = c->rule->window;
    row->remaining = d->remaining;
    row->retry_after_ms = d->retry_after;
    row->reset_after_ms = d->reset_after;
    row->delay_ms = d->delay;
    row->allowed = d->allowed;
    row->used = row->over = 0;
    row->shadow = row->shadow_denied = false;
    return d->allowed && label->is_kept && !label->is_shadow && label->policy[0];
}

static inline void tell_held(const struct question *q, const char id[WEIR_MAX_ID + 1],
                             int64_t override_id, const weir_rule_answer *best, weir_answer *a)
{
    const struct reserving *of = q->reserving;

    a->err = WEIR_OK;
    a->allowed = true;
    a->shadow = false;
    a->source = q->is_unkept ? WEIR_FROM_FALLBACK : WEIR_FROM_STORE;
    a->policy = best->policy;
    a->rule = best->rule;
    a->limit = best->limit;
    a->remaining = best->remaining;
    a->retry_after_ms = 0;
    a->reset_after_ms = best->reset_after_ms;
    a->used = 0;
    a->over = of->over;
    a->override_id = override_id;
    memcpy(a->reservation, id, sizeof a->reservation);
    a->expires_in_ms = of->expires_in > 0 ? of->expires_in : 0;
    a->repeated = of->is_repeated;
    a->expired = of->has_expired;
    a->rule_count = q->count;
}

bool answer_held(const struct question *q, const char id[WEIR_MAX_ID + 1], int64_t override_id,
                 weir_answer *a)
{
    const struct charge_label *labels = q->reserving->labels;
    const struct charge *charges = q->charges;
    const size_t n = q->count;
    const weir_rule_answer *best = &a->rules[0];
    bool has_calendar;
    int64_t delay;

    if (!q->allowed || q->err || q->reserving->refusal || n == 0 || n > WEIR_MAX_RULES ||
        !fill_held(labels, charges, &a->rules[0]))
        return false;
    has_calendar = charges->rule->start == START_CALENDAR;
    delay = a->rules[0].delay_ms;
    for (size_t i = 1; i < n; i++) {
        weir_rule_answer *row = &a->rules[i];

        if (!fill_held(&labels[i], &charges[i], row))
            return false;
        has_calendar |= charges[i].rule->start == START_CALENDAR;
        delay = row->delay_ms > delay ? row->delay_ms : delay;
        best = row->remaining < best->remaining ? row : best;
    }
    tell_held(q, id, override_id, best, a);
    a->delay_ms = 0; /* where it runs already */
    if (!verb_makes_reservation(q->verb))
        return true;
    a->delay_ms = delay;
    if (has_calendar)
        tell_windows(q, a);
    return true;
}
