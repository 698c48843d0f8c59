/* fixed_window.c - the fixed window, as arithmetic.
 *
 * Windows are aligned to the epoch, so that every instance agrees on them. A time before the
 * window that the state records is taken as that window's start: a clock that steps back
 * must not open an old window again. */
#include "limit/fixed_window.h"

/* The state as it stands at the time of the ask, not charged. */
static struct fixed_window_step at_now(struct fixed_window s, const struct rule *r, int64_t now)
{
    struct fixed_window_step step = { .now = now > s.start ? now : s.start };
    int64_t start = step.now - step.now % r->window;

    step.next = (struct fixed_window){ start, s.start == start ? s.count : 0 };
    return step;
}

static void report(struct fixed_window_step *step, const struct rule *r)
{
    int64_t left = r->limit - step->next.count; /* below 0 after the limit was lowered */

    step->decision.remaining = left > 0 ? left : 0;
    step->decision.reset_after = step->next.start + r->window - step->now;
}

struct fixed_window_step fixed_window_take(struct fixed_window s, const struct rule *r,
                                           const struct ask *ask)
{
    struct fixed_window_step step = at_now(s, r, ask->now);

    if (ask->cost > r->limit)
        step.decision.retry_after = WEIR_NEVER;
    else if (step.next.count + ask->cost > r->limit && ask->cost > 0)
        step.decision.retry_after = step.next.start + r->window - step.now;
    else
        step.decision.allowed = true;
    if (step.decision.allowed && !ask->peek)
        step.next.count += ask->cost;
    report(&step, r);
    return step;
}

struct fixed_window_step fixed_window_refund(struct fixed_window s, const struct rule *r,
                                             const struct ask *ask)
{
    struct fixed_window_step step = at_now(s, r, ask->now);

    step.decision.allowed = true;
    step.next.count -= ask->cost < step.next.count ? ask->cost : step.next.count;
    report(&step, r);
    return step;
}
