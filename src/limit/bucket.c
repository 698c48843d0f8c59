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
#include "limit/bucket.h"

static struct bucket_step at_now(struct bucket s, const struct rule *r, int64_t now)
{
    struct bucket_step step = { .now = now > s.at ? now : s.at };

    step.next.at = step.now;
    if (step.now - s.at < div_up(s.used, r->limit)) /* else drained; the product might overflow */
        step.next.used = s.used - (step.now - s.at) * r->limit;
    return step;
}

static void report(struct bucket_step *step, const struct rule *r)
{
    int64_t left = r->burst * r->window - step->next.used;

    step->decision.remaining = left > 0 ? left / r->window : 0;
    step->decision.reset_after = div_up(step->next.used, r->limit);
}

struct bucket_step bucket_take(struct bucket s, const struct rule *r, const struct ask *ask)
{
    struct bucket_step step = at_now(s, r, ask->now);
    int64_t over;

    if (ask->cost > r->burst) {
        step.decision.retry_after = WEIR_NEVER;
    } else if (over = step.next.used + (ask->cost - r->burst) * r->window,
               over > 0 && ask->cost > 0) {
        step.decision.retry_after = div_up(over, r->limit);
    } else {
        step.decision.allowed = true;
        if (r->algorithm == WEIR_LEAKY_BUCKET)
            step.decision.delay = div_up(step.next.used, r->limit);
        if (!ask->peek)
            step.next.used += ask->cost * r->window;
    }
    report(&step, r);
    return step;
}

struct bucket_step bucket_refund(struct bucket s, const struct rule *r, const struct ask *ask)
{
    struct bucket_step step = at_now(s, r, ask->now);
    int64_t most = div_up(step.next.used, r->window);
    int64_t back = (ask->cost < most ? ask->cost : most) * r->window;

    step.decision.allowed = true;
    step.next.used -= back < step.next.used ? back : step.next.used;
    report(&step, r);
    return step;
}
