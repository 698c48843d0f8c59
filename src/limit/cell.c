/* cell.c - GCRA as redis-cell has it, to the nanosecond and to its rounding.
 *
 * A rule has an emission interval (`window`, in ns) and a capacity (`limit`). The state is the
 * theoretical arrival time: each unit moves it one interval on, and what would move it further
 * ahead of now than the capacity's intervals is refused. Numbers are not part of the key: a call
 * may bring others than the last one did, and both judge the same arrival time.
 *
 *     next = max(now, at) + interval * quantity
 *     refused if now < next - interval * capacity
 *     until full = (refused ? max(now, at) : next) - now
 *     remaining = (interval * capacity - until full) / interval, each in whole us first;
 *                 0 if that is not above -1 interval
 *
 * retry_after and reset_after are whole ms, truncated: redis-cell rounds seconds up only if there
 * is a whole ms above them. So a refusal may say 0. `precision` ns are added to reset_after, for
 * THROTTLE, which means something else by it.
 *
 * Bounds: interval > 0; interval * capacity and interval * quantity fit in 63 bits (cell_rule(),
 * cell_check_quantity()), and ms since the epoch in 62: no sum of ns fills 128. */
#include <inttypes.h>

#include "base/diag.h"
#include "limit/algorithms.h"

enum { NS_PER_MS = 1000000, NS_PER_S = 1000000000, NS_PER_US = 1000 };

__extension__ typedef __int128 wide;

/* Most numbers fit into 64 bits, where a division costs a tenth. */
static wide divided(wide number, int64_t divisor)
{
    return number == (int64_t)number ? (int64_t)number / divisor : number / divisor;
}

/* As a conversion of a quotient of floats does: an interval below 1 us makes it infinite. */
static int64_t whole_intervals(wide ns, int64_t interval)
{
    const wide us = divided(ns, NS_PER_US);
    const int64_t divisor = interval / NS_PER_US;

    if (divisor == 0)
        return us > 0 ? INT64_MAX : us < 0 ? INT64_MIN : 0;
    return (int64_t)divided(us, divisor);
}

static void take_any(const struct arrival *s, const struct rule *r, const struct ask *ask,
                     struct step *out)
{
    const wide now = (wide)ask->now * NS_PER_MS, due = (wide)s->ms * NS_PER_MS + s->ns;
    const wide at = due > now ? due : now;
    const wide increment = (wide)r->window * ask->cost, most = (wide)r->window * r->limit;
    const wide ahead = at + increment - most - now; /* above 0: too far */
    const wide then = ahead > 0 || ask->peek ? at : at + increment, until_full = then - now;
    const int64_t ms = then > 0 ? (int64_t)divided(then, NS_PER_MS) : 0;
    const int64_t ns = then > 0 ? (int64_t)(then - (wide)ms * NS_PER_MS) : 0;
    struct decision *d = &out->decision;

    *d = (struct decision){ .allowed = ahead <= 0 };
    if (!d->allowed)
        d->retry_after = increment <= most ? (int64_t)divided(ahead, NS_PER_MS) : WEIR_NEVER;
    if (most - until_full > -(wide)r->window)
        d->remaining = whole_intervals(most - until_full, r->window);
    d->reset_after = (int64_t)divided(until_full + r->precision, NS_PER_MS);

    out->next.arrival = d->allowed && !ask->peek ? (struct arrival){ ms, ns } : *s;
    /* A state is kept until `now` + reset_after. What is told is truncated, what is kept is not. */
    out->now = (then > now ? ms + (ns > 0) : ask->now) - d->reset_after;
}

/* The same sums, where all that is in them is below this: 64 bits are enough then, and only one of the
 * divisions is by a number that the compiler does not know. */
#define USUAL_NS (INT64_C(1) << 60)
#define USUAL_MS (USUAL_NS / NS_PER_MS)

static inline bool is_usual(int64_t number, int64_t most)
{
    return number >= 0 && number < most;
}

/* False: it may not be enough. All times but the arrival's are counted from now on. */
static inline bool take_usual(const struct arrival *s, const struct rule *r, const struct ask *ask,
                              struct step *out)
{
    const int64_t due_ms = ask->now < s->ms ? s->ms - ask->now : 0;
    int64_t increment, most, ahead, then, at = 0;
    struct decision *d = &out->decision;

    if (!is_usual(ask->now, INT64_MAX) || !is_usual(due_ms, USUAL_MS) ||
        __builtin_mul_overflow(r->window, ask->cost, &increment) ||
        __builtin_mul_overflow(r->window, r->limit, &most) || !is_usual(increment, USUAL_NS) ||
        !is_usual(most, USUAL_NS) || r->precision != 0)
        return false;
    if (s->ms >= ask->now)
        at = due_ms * NS_PER_MS + s->ns;
    ahead = at + increment - most;
    then = ahead > 0 || ask->peek ? at : at + increment;

    *d = (struct decision){ .allowed = ahead <= 0, .reset_after = then / NS_PER_MS };
    if (!d->allowed)
        d->retry_after = increment <= most ? ahead / NS_PER_MS : WEIR_NEVER;
    if (most - then > -r->window && r->window >= NS_PER_US)
        d->remaining = (most - then) / NS_PER_US / (r->window / NS_PER_US);
    else if (most - then > -r->window)
        d->remaining = whole_intervals(most - then, r->window);

    out->next.arrival = *s;
    if (d->allowed && !ask->peek)
        out->next.arrival = (struct arrival){ ask->now + then / NS_PER_MS, then % NS_PER_MS };
    out->now = ask->now + (then % NS_PER_MS > 0);
    return true;
}

void cell_take(const struct arrival *s, const struct rule *r, const struct ask *ask,
               struct step *out)
{
    if (!take_usual(s, r, ask, out))
        take_any(s, r, ask, out);
}

weir_err cell_rule(int64_t capacity, int64_t count, int64_t period, struct rule *out,
                   weir_diag *diag)
{
    const wide interval = count == 0 ? 0 : divided((wide)period * NS_PER_S, count);
    int64_t most;

    if (interval == 0)
        return diag_fail(diag, WEIR_EREQUEST, "Zero rates are not supported");
    if (interval < 0)
        return diag_fail(diag, WEIR_EREQUEST, "Negative rates are not supported");
    if (interval > INT64_MAX || __builtin_mul_overflow((int64_t)interval, capacity, &most))
        return diag_fail(diag, WEIR_EREQUEST,
                         "Room for %" PRId64 " at %" PRId64 " per %" PRId64
                         " s takes longer to fill than 292 years",
                         capacity, count, period);
    *out = (struct rule){
        .algorithm = ALGORITHM_CELL,
        .limit = capacity,
        .window = (int64_t)interval,
        /* Tells the table how much is used, roughly: any that it can reckon with will do. */
        .burst = capacity < 1                 ? 1
                 : capacity < WEIR_MAX_AMOUNT ? capacity
                                              : WEIR_MAX_AMOUNT,
    };
    return WEIR_OK;
}

weir_err cell_check_quantity(const struct rule *r, int64_t quantity, weir_diag *diag)
{
    int64_t increment;

    if (__builtin_mul_overflow(r->window, quantity, &increment))
        return diag_fail(diag, WEIR_EREQUEST,
                         "A quantity of %" PRId64 " at this rate takes longer than 292 years",
                         quantity);
    return WEIR_OK;
}
