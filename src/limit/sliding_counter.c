/* sliding_counter.c - the sliding counter, as arithmetic.
 *
 * The load is previous * (window - elapsed) / window + current. Everything is multiplied by
 * the window, so that nothing is rounded before it is compared. Each count is at most a limit
 * that was in force, so a product with the window is below 2^53 and a sum of three below 2^55. */
#include "limit/sliding_counter.h"

static struct sliding_counter_step at_now(struct sliding_counter s, const struct rule *r,
                                          int64_t now)
{
    struct sliding_counter_step step = { .now = now > s.start ? now : s.start };
    int64_t start = step.now - step.now % r->window;

    step.next.start = start;
    if (s.start == start) {
        step.next = s;
    } else if (s.start == start - r->window) {
        step.next.previous = s.current;
    }
    return step;
}

static int64_t elapsed(const struct sliding_counter_step *step)
{
    return step->now - step->next.start;
}

/* What is left of the limit, times the window; below 0 if it is exceeded. */
static int64_t room(const struct sliding_counter_step *step, const struct rule *r)
{
    const struct sliding_counter *s = &step->next;

    return (r->limit - s->current) * r->window - s->previous * (r->window - elapsed(step));
}

static void report(struct sliding_counter_step *step, const struct rule *r)
{
    int64_t left = room(step, r), to_end = r->window - elapsed(step);

    step->decision.remaining = left > 0 ? left / r->window : 0;
    if (step->next.current > 0)
        step->decision.reset_after = to_end + r->window;
    else if (step->next.previous > 0)
        step->decision.reset_after = to_end;
}

/* The least wait for a cost that the limit can hold but that does not pass now. While this
 * window lasts only the previous one fades; after it, this one does. */
static int64_t wait_for(const struct sliding_counter_step *step, const struct rule *r, int64_t cost)
{
    const struct sliding_counter *s = &step->next;
    int64_t to_end = r->window - elapsed(step), free = r->limit - s->current - cost;

    if (free >= 0)
        return to_end - free * r->window / s->previous;
    return to_end + r->window - (r->limit - cost) * r->window / s->current;
}

struct sliding_counter_step sliding_counter_take(struct sliding_counter s, const struct rule *r,
                                                 const struct ask *ask)
{
    struct sliding_counter_step step = at_now(s, r, ask->now);

    if (ask->cost > r->limit) {
        step.decision.retry_after = WEIR_NEVER;
    } else if (ask->cost > 0 && ask->cost * r->window > room(&step, r)) {
        step.decision.retry_after = wait_for(&step, r, ask->cost);
    } else {
        step.decision.allowed = true;
        if (!ask->peek)
            step.next.current += ask->cost;
    }
    report(&step, r);
    return step;
}

struct sliding_counter_step sliding_counter_refund(struct sliding_counter s, const struct rule *r,
                                                   const struct ask *ask)
{
    struct sliding_counter_step step = at_now(s, r, ask->now);
    int64_t cost = ask->cost, newest = cost < step.next.current ? cost : step.next.current;

    step.decision.allowed = true;
    step.next.current -= newest;
    cost -= newest;
    step.next.previous -= cost < step.next.previous ? cost : step.next.previous;
    report(&step, r);
    return step;
}
