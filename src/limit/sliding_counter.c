/* sliding_counter.c - the sliding counter, as arithmetic.
 *
 * The load is previous * (window - elapsed) / window + current. Everything is multiplied by
 * the window, so that nothing is rounded before it is compared. A count times the window is below
 * 2^53, also one that was charged beyond its limit, and so a sum of three below 2^55. */
#include "limit/algorithms.h"

/* The state as it stands at the time of the ask, not charged. */
static void bring_up(const struct sliding_counter *s, const struct rule *r, int64_t now,
                     struct step *out)
{
    struct sliding_counter *next = &out->next.sliding_counter;

    out->decision = (struct decision){ 0 };
    out->now = now > s->start ? now : s->start;
    next->start = out->now - out->now % r->window;
    next->current = next->previous = 0;
    if (s->start == next->start) {
        next->current = s->current;
        next->previous = s->previous;
    } else if (s->start == next->start - r->window) {
        next->previous = s->current;
    }
}

static int64_t until_end(const struct rule *r, const struct step *step)
{
    return step->next.sliding_counter.start + r->window - step->now;
}

/* What is left of the limit, times the window; below 0 if it is exceeded. */
static int64_t room(const struct rule *r, const struct step *step)
{
    const struct sliding_counter *s = &step->next.sliding_counter;

    return (r->limit - s->current) * r->window - s->previous * until_end(r, step);
}

static void report(const struct rule *r, bool forced, struct step *out)
{
    const struct sliding_counter *s = &out->next.sliding_counter;
    int64_t left = room(r, out);

    out->decision.remaining = left > 0 ? left / r->window : 0;
    if (forced) /* rounded down, also below 0 */
        out->decision.remaining = r->limit - s->current -
                                  div_up(s->previous * until_end(r, out), r->window);
    if (out->next.sliding_counter.current > 0)
        out->decision.reset_after = until_end(r, out) + r->window;
    else if (out->next.sliding_counter.previous > 0)
        out->decision.reset_after = until_end(r, out);
}

/* The least wait for a cost that the limit can hold but that does not pass now. While this
 * window lasts only the previous one fades; after it, this one does. */
static int64_t wait_for(const struct rule *r, const struct step *step, int64_t cost)
{
    const struct sliding_counter *s = &step->next.sliding_counter;
    int64_t free = r->limit - s->current - cost;

    if (free >= 0)
        return until_end(r, step) - free * r->window / s->previous;
    return until_end(r, step) + r->window - (r->limit - cost) * r->window / s->current;
}

void sliding_counter_take(const struct sliding_counter *s, const struct rule *r,
                          const struct ask *ask, struct step *out)
{
    bring_up(s, r, ask->now, out);
    if (ask->forced) {
        out->decision.allowed = true;
        out->next.sliding_counter.current = add_amount(out->next.sliding_counter.current, ask->cost,
                                                       AMOUNT_MOST / r->window);
    } else if (ask->cost > r->limit) {
        out->decision.retry_after = WEIR_NEVER;
    } else if (ask->cost > 0 && ask->cost * r->window > room(r, out)) {
        out->decision.retry_after = wait_for(r, out, ask->cost);
    } else {
        out->decision.allowed = true;
        if (!ask->peek)
            out->next.sliding_counter.current += ask->cost;
    }
    report(r, ask->forced, out);
}

void sliding_counter_refund(const struct sliding_counter *s, const struct rule *r,
                            const struct ask *ask, struct step *out)
{
    struct sliding_counter *next = &out->next.sliding_counter;
    int64_t newest, rest;

    bring_up(s, r, ask->now, out);
    out->decision.allowed = true;
    newest = ask->cost < next->current ? ask->cost : next->current;
    rest = ask->cost - newest;
    next->current -= newest;
    next->previous -= rest < next->previous ? rest : next->previous;
    report(r, ask->forced, out);
}

void sliding_counter_give_back(struct sliding_counter *s, const struct rule *r, int64_t mark,
                               int64_t amount)
{
    if (mark == s->start)
        s->current -= amount < s->current ? amount : s->current;
    else if (mark == s->start - r->window)
        s->previous -= amount < s->previous ? amount : s->previous;
}
