/* fixed_window.c - the fixed window, as arithmetic.
 *
 * Windows are aligned to the epoch, so that every instance agrees on them. A time before the
 * window that the state records is taken as that window's start: a clock that steps back
 * must not open an old window again. */
#include "limit/algorithms.h"

/* The state as it stands at the time of the ask, not charged. */
static void bring_up(const struct fixed_window *s, const struct rule *r, int64_t now,
                     struct step *out)
{
    struct fixed_window *next = &out->next.fixed_window;

    out->decision = (struct decision){ 0 };
    out->now = now > s->start ? now : s->start;
    next->start = out->now - out->now % r->window;
    next->count = s->start == next->start ? s->count : 0;
}

static void report(const struct rule *r, struct step *out)
{
    int64_t left = r->limit -
                   out->next.fixed_window.count; /* below 0 after the limit was lowered */

    out->decision.remaining = left > 0 ? left : 0;
    out->decision.reset_after = out->next.fixed_window.start + r->window - out->now;
}

void fixed_window_take(const struct fixed_window *s, const struct rule *r, const struct ask *ask,
                       struct step *out)
{
    struct fixed_window *next = &out->next.fixed_window;

    bring_up(s, r, ask->now, out);
    if (ask->cost > r->limit) {
        out->decision.retry_after = WEIR_NEVER;
    } else if (ask->cost > 0 && next->count + ask->cost > r->limit) {
        out->decision.retry_after = next->start + r->window - out->now;
    } else {
        out->decision.allowed = true;
        if (!ask->peek)
            next->count += ask->cost;
    }
    report(r, out);
}

void fixed_window_refund(const struct fixed_window *s, const struct rule *r, const struct ask *ask,
                         struct step *out)
{
    struct fixed_window *next = &out->next.fixed_window;

    bring_up(s, r, ask->now, out);
    out->decision.allowed = true;
    next->count -= ask->cost < next->count ? ask->cost : next->count;
    report(r, out);
}
