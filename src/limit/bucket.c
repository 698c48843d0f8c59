/* bucket.c - the token bucket and the leaky bucket, as arithmetic.
 *
 * They are one function: a level that every request raises by its cost and that drains by
 * `limit` per `window`, up to `burst`. Seen from the other side the room above the level is
 * tokens; seen as a queue the level is the backlog, and what an admitted request finds before
 * it is its delay. (GCRA is the same function again.)
 *
 * The level is kept in units of request x ms: a request is `window` units, and every ms
 * drains `limit` units. Both are integers, so there is no drift at any rate. Keeping what was
 * used rather than what is left means that a raised burst gives its room at once. */
#include "limit/algorithms.h"

/* The state as it stands at the time of the ask, not charged. */
static void bring_up(const struct bucket *s, const struct rule *r, int64_t now, struct step *out)
{
    struct bucket *next = &out->next.bucket;
    int64_t drained;

    out->decision = (struct decision){ 0 };
    out->now = now > s->at ? now : s->at; /* a clock that stepped back must not mint tokens */
    next->at = out->now;
    if (__builtin_mul_overflow(out->now - s->at, r->limit, &drained) || drained >= s->used)
        next->used = 0;
    else
        next->used = s->used - drained;
}

static void report(const struct rule *r, bool forced, struct step *out)
{
    int64_t left = r->burst * r->window - out->next.bucket.used;

    out->decision.remaining = left > 0 ? left / r->window : 0;
    if (forced) /* rounded down, also below 0 */
        out->decision.remaining = r->burst - div_up(out->next.bucket.used, r->window);
    out->decision.reset_after = div_up(out->next.bucket.used, r->limit);
}

void bucket_take(const struct bucket *s, const struct rule *r, const struct ask *ask,
                 struct step *out)
{
    struct bucket *next = &out->next.bucket;
    int64_t over;

    bring_up(s, r, ask->now, out);
    if (ask->forced) {
        const int64_t most = AMOUNT_MOST / r->window + 1; /* its product cannot overflow */

        out->decision.allowed = true;
        next->used = add_amount(next->used, (ask->cost < most ? ask->cost : most) * r->window,
                                AMOUNT_MOST);
        report(r, true, out);
        return;
    }
    if (ask->cost > r->burst) {
        out->decision.retry_after = WEIR_NEVER;
        report(r, false, out);
        return;
    }
    over = next->used + (ask->cost - r->burst) * r->window;
    if (over > 0 && ask->cost > 0) {
        out->decision.retry_after = div_up(over, r->limit);
    } else {
        out->decision.allowed = true;
        if (r->algorithm == WEIR_LEAKY_BUCKET)
            out->decision.delay = div_up(next->used, r->limit);
        if (!ask->peek)
            next->used += ask->cost * r->window;
    }
    report(r, false, out);
}

void bucket_refund(const struct bucket *s, const struct rule *r, const struct ask *ask,
                   struct step *out)
{
    struct bucket *next = &out->next.bucket;
    int64_t most, back;

    bring_up(s, r, ask->now, out);
    out->decision.allowed = true;
    most = div_up(next->used, r->window);
    back = (ask->cost < most ? ask->cost : most) * r->window;
    next->used -= back < next->used ? back : next->used;
    report(r, false, out);
}
