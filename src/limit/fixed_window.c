/* fixed_window.c - the fixed window, as arithmetic.
 *
 * Windows are aligned to the epoch, so that every instance agrees on them. Or a window begins with
 * the first thing that is counted in it, and before that there is none; or it is one of the
 * calendar. Then the state has its end, too. A time before the window that the state records is
 * taken as that window's start: a clock that steps back must not open an old window again.
 *
 * A window whose end is moved by charges keeps its start, which is what holds are found by. */
#include "limit/algorithms.h"
#include "limit/calendar.h"

static struct fixed_window window_at(struct calendar *c, int64_t now)
{
    struct calendar_bounds bounds;

    calendar_bounds(c, now, &bounds);
    return (struct fixed_window){ .start = bounds.at[1], .end = bounds.at[2] };
}

/* The state as it stands at the time of the ask, not charged. */
static void bring_up(const struct fixed_window *s, const struct rule *r, int64_t now,
                     struct step *out)
{
    struct fixed_window *next = &out->next.fixed_window;

    out->decision = (struct decision){ 0 };
    out->now = now > s->start ? now : s->start;
    switch (r->start) {
    case START_EPOCH:
        next->start = out->now - out->now % r->window;
        next->count = s->start == next->start ? s->count : 0;
        next->end = 0;
        break;
    case START_FIRST:
    case START_EACH:
    case START_OVER:
    case START_BACKOFF:
        *next = out->now < s->end ? *s : (struct fixed_window){ 0 };
        break;
    case START_CALENDAR: /* one that is in force keeps its bounds, whatever zone data say now */
        *next = out->now < s->end ? *s : window_at(r->calendar, out->now);
        break;
    }
}

static int64_t until_end(const struct rule *r, const struct step *step)
{
    const struct fixed_window *s = &step->next.fixed_window;

    if (r->start == START_EPOCH)
        return s->start + r->window - step->now;
    return s->end > 0 ? s->end - step->now : 0;
}

/* Doubled so many times, at most AMOUNT_MOST. */
static int64_t doubled(int64_t window, int64_t times)
{
    return times < 53 && window <= AMOUNT_MOST >> times ? window << times : AMOUNT_MOST;
}

/* Of what is counted now: does it begin a window, or move the end of one? */
static bool moves_end(const struct rule *r, const struct fixed_window *s)
{
    return s->end == 0 || r->start == START_EACH || (r->start > START_EACH && s->count > r->limit);
}

static void count(const struct rule *r, int64_t cost, struct step *out)
{
    struct fixed_window *next = &out->next.fixed_window;
    const bool is_first = next->end == 0;

    next->count += cost;
    if (r->start == START_EPOCH || cost == 0 || !moves_end(r, next))
        return;
    if (is_first)
        next->start = out->now;
    next->end = out->now + (r->start == START_BACKOFF && next->count > r->limit
                                ? doubled(r->window, next->count - r->limit - 1)
                                : r->window);
}

static void report(const struct rule *r, bool forced, struct step *out)
{
    int64_t left = r->limit -
                   out->next.fixed_window.count; /* below 0 after the limit was lowered */

    out->decision.remaining = left > 0 || forced ? left : 0;
    out->decision.reset_after = until_end(r, out);
}

void fixed_window_take(const struct fixed_window *s, const struct rule *r, const struct ask *ask,
                       struct step *out)
{
    struct fixed_window *next = &out->next.fixed_window;

    bring_up(s, r, ask->now, out);
    if (ask->forced) {
        out->decision.allowed = true;
        count(r, add_amount(next->count, ask->cost, AMOUNT_MOST) - next->count, out);
    } else if (ask->cost > r->limit) {
        out->decision.retry_after = WEIR_NEVER;
    } else if (ask->cost > 0 && next->count + ask->cost > r->limit) {
        out->decision.retry_after = until_end(r, out);
    } else {
        out->decision.allowed = true;
        if (!ask->peek)
            count(r, ask->cost, out);
    }
    report(r, ask->forced, out);
}

void fixed_window_refund(const struct fixed_window *s, const struct rule *r, const struct ask *ask,
                         struct step *out)
{
    struct fixed_window *next = &out->next.fixed_window;

    bring_up(s, r, ask->now, out);
    out->decision.allowed = true;
    next->count -= ask->cost < next->count ? ask->cost : next->count;
    report(r, ask->forced, out);
}

void fixed_window_give_back(struct fixed_window *s, int64_t mark, int64_t amount)
{
    if (s->start == mark)
        s->count -= amount < s->count ? amount : s->count;
}
