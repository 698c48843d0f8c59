/* deny_lookup.c - what a check need not ask, as it is known to be refused. */
#include "engine/deny_lookup.h"

#include "base/clock.h"

static struct denial denial_of(const struct check *check, const struct question *q, size_t i)
{
    const struct charge *c = &q->charges[i];
    const struct policy_rule *rule = check->rules[c - check->charges];
    const struct rule *altered = check->room->altered;
    const struct rule *brought = check->room->brought;
    const bool is_altered = (c->rule >= altered && c->rule < altered + WEIR_MAX_RULES) ||
                            (c->rule >= brought && c->rule < brought + WEIR_MAX_RULES);

    return (struct denial){
        .rule = c->rule,
        .key = c->key,
        .cost = c->cost,
        .is_peek = q->ask.peek,
        .is_alone = q->count == 1,
        .is_varied = !rule || check->is_named || rule->plan_count > 0 || is_altered,
    };
}

bool deny_lookup_refuses(struct check *check, size_t at)
{
    struct question *q = &check->questions[at];
    const size_t first = (size_t)(q->charges - check->charges);
    uint32_t unknown = 0;
    size_t refused = 0;
    bool may_lock = false;

    if (!verb_decides(q->verb) || q->ask.peek)
        return false;
    for (size_t i = 0; i < q->count; i++) {
        const struct denial d = denial_of(check, q, i);

        /* What costs nothing is never refused, full or not. */
        if (d.cost > 0 && deny_cache_refuses(check->engine->denials, &d, check->asked_at,
                                             &q->charges[i].step.decision))
            refused++;
        else
            unknown |= UINT32_C(1) << (first + i);
        may_lock |= (unknown >> (first + i) & 1) && d.cost > 0 && d.rule->block_for > 0;
    }
    if (refused == 0 || may_lock) /* what only the store can begin */
        return false;
    if (check->lists_charges && refused < q->count) /* each has a status */
        return false;
    check->remembered |= UINT32_C(1) << at;
    check->unknown |= unknown;
    return true;
}

/* The charges of a reservation that is settled are of its record: their rules may be gone. */
static bool is_of_record(const struct question *q)
{
    return q->reserving && !verb_makes_reservation(q->verb);
}

void deny_lookup_learn(const struct check *check, const struct question *q)
{
    struct deny_cache *denials = check->engine->denials;

    for (size_t i = 0; i < q->count && is_of_record(q); i++)
        deny_cache_forget(denials, q->charges[i].key, clock_steady_ms());
    for (size_t i = 0; i < q->count && !is_of_record(q); i++) {
        const struct denial d = denial_of(check, q, i);
        const struct decision *said = &q->charges[i].step.decision;

        if (algorithm_counts_slots(d.rule->algorithm)) /* one may be free at any time */
            continue;
        if (!verb_decides(q->verb) || d.cost < 0)
            deny_cache_forget(denials, d.key, clock_steady_ms());
        else if (!q->err && !said->allowed)
            deny_cache_learn(denials, &d, said, check->asked_at, clock_steady_ms());
    }
}
