/* bucket.c - the token bucket and the leaky bucket, as arithmetic.
 *
 * They are one function: a level that every request raises by its cost and that drains by
 * `limit` per `window`, up to `burst`. Seen from the other side the room above the level is
 * tokens; seen as a queue the level is the backlog, and what an admitted request finds before
 * it is its delay. (GCRA is the same function again.)
 *
 * The level is kept in units of request x ms: a request is `window` units, and every ms
 * drains `limit` units. Both are integers, so there is no drift at any rate. Keeping what was
 * used rather than what is left means that a raised burst gives its room at once.
 *
 * HOLDS. What is reserved is in `used` from the start and drains with it. If less was used in the
 * end, not all of the difference may be given back: what had drained meanwhile was let in by
 * others already. So a key with holds keeps what is known to be used as well, each amount dated
 * when it became known: a check at once, a hold when it is settled or expires. It drains alike.
 * A settlement brings `used` down to what is known and what is still held, and no further. So no
 * burst of what was really used exceeds `burst`. */
#include "limit/algorithms.h"

/* No sum of two of these overflows. */
#define MOST_UNITS ((int64_t)1 << 61)

static int64_t units(int64_t amount, const struct rule *r)
{
    int64_t product;

    return __builtin_mul_overflow(amount, r->window, &product) || product > MOST_UNITS ? MOST_UNITS
                                                                                       : product;
}

static int64_t sum_of(int64_t a, int64_t b)
{
    return a + b < MOST_UNITS ? a + b : MOST_UNITS;
}

static int64_t drained(int64_t level, int64_t ms, const struct rule *r)
{
    int64_t out;

    return __builtin_mul_overflow(ms, r->limit, &out) || out >= level ? 0 : level - out;
}

/* Is what is known kept apart? Without holds and debts of holds it is what is used. */
static bool is_tracked(const struct bucket *s)
{
    return s->known != 0 || holds_count(s->holds) > 0;
}

static int64_t known_of(const struct bucket *s)
{
    return is_tracked(s) ? s->known : s->used;
}

/* Holds that expire on the way become known one after the other, each at its instant. */
static void bring_up_known(const struct bucket *s, const struct rule *r, struct step *out)
{
    struct bucket_change *next = &out->next.bucket;
    int64_t at = s->at, known = known_of(s);

    next->drop = holds_expired(s->holds, out->now);
    for (uint32_t i = 0; i < next->drop; i++) {
        const struct hold *h = holds_at(s->holds, i);

        if (h->expires > at) {
            known = drained(known, h->expires - at, r);
            at = h->expires;
        }
        known = sum_of(known, units(h->amount, r));
    }
    next->known = drained(known, out->now - at, r);
}

/* The state as it stands at the time of the ask, not charged. */
static inline __attribute__((always_inline)) void bring_up(const struct bucket *s,
                                                           const struct rule *r, int64_t now,
                                                           struct step *out)
{
    struct bucket_change *next = &out->next.bucket;

    out->decision = (struct decision){ 0 };
    out->now = now > s->at ? now : s->at; /* a clock that stepped back must not mint tokens */
    next->at = out->now;
    next->used = drained(s->used, out->now - s->at, r);
    next->known = 0;
    next->drop = 0;
    if (is_tracked(s))
        bring_up_known(s, r, out);
}

/* Until so much has drained. Mostly it is little, and to divide takes long. */
static int64_t time_of(int64_t level, const struct rule *r)
{
    return level <= r->limit ? level > 0 : div_up(level, r->limit);
}

static void report(const struct rule *r, bool forced, struct step *out)
{
    int64_t left = r->burst * r->window - out->next.bucket.used;

    out->decision.remaining = left > 0 ? left / r->window : 0;
    if (forced) /* rounded down, also below 0 */
        out->decision.remaining = r->burst - div_up(out->next.bucket.used, r->window);
    out->decision.reset_after = time_of(out->next.bucket.used, r);
}

static void admit(const struct rule *r, struct step *out)
{
    out->decision.allowed = true;
    if (r->algorithm == WEIR_LEAKY_BUCKET)
        out->decision.delay = time_of(out->next.bucket.used, r);
}

/* A key without holds has no need to know. */
static void count(const struct bucket *s, const struct rule *r, int64_t cost, struct step *out)
{
    struct bucket_change *next = &out->next.bucket;

    if (is_tracked(s))
        next->known = sum_of(next->known, units(cost, r));
    next->used = sum_of(next->used, units(cost, r));
}

void bucket_take(const struct bucket *s, const struct rule *r, const struct ask *ask,
                 struct step *out)
{
    struct bucket_change *next = &out->next.bucket;
    int64_t over;

    bring_up(s, r, ask->now, out);
    if (ask->forced) {
        const int64_t most = AMOUNT_MOST / r->window + 1; /* its product cannot overflow */

        const int64_t cost = (ask->cost < most ? ask->cost : most) * r->window;

        out->decision.allowed = true;
        next->used = add_amount(next->used, cost, AMOUNT_MOST);
        if (is_tracked(s))
            next->known = sum_of(next->known, cost);
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
        admit(r, out);
        if (!ask->peek)
            count(s, r, ask->cost, out);
    }
    report(r, false, out);
}

void bucket_refund(const struct bucket *s, const struct rule *r, const struct ask *ask,
                   struct step *out)
{
    struct bucket_change *next = &out->next.bucket;
    int64_t most, back;

    bring_up(s, r, ask->now, out);
    out->decision.allowed = true;
    most = div_up(next->used, r->window);
    back = (ask->cost < most ? ask->cost : most) * r->window;
    next->used -= back < next->used ? back : next->used;
    report(r, false, out);
}

void bucket_hold(const struct bucket *s, const struct rule *r, const struct hold *hold,
                 struct step *out)
{
    struct bucket_change *next = &out->next.bucket;
    const int64_t all = is_tracked(s) ? next->known : next->used;
    const int64_t held = units(hold->amount, r);

    if (holds_count(s->holds) >= HOLDS_MOST)
        return; /* known at once: nothing of it will be given back */
    out->hold = *hold;
    next->known = all > held ? all - held : 0;
}

bool bucket_settle(struct bucket *s, const struct rule *r, int64_t now, const struct hold *hold,
                   int64_t used, struct step *out)
{
    struct bucket_change *next = &out->next.bucket;
    int64_t held, forgotten, most;

    bring_up(s, r, now, out);
    held = hold->expires > out->now ? holds_remove(s->holds, hold->expires, hold->id) : 0;
    if (held == 0)
        return false;
    forgotten = hold->amount - held;
    used = used > forgotten ? used - forgotten : 0;
    holds_drop(s->holds, next->drop); /* those stood before it */
    next->known = sum_of(next->known, units(used, r));
    if (used > held)
        next->used = sum_of(next->used, units(used - held, r));
    most = sum_of(next->known, units(holds_sum(s->holds), r));
    next->used = next->used < most ? next->used : most;
    s->used = next->used;
    s->at = next->at;
    s->known = next->known;
    admit(r, out);
    report(r, false, out);
    return true;
}

/* At the latest: when all holds have expired, and all of them has drained. */
int64_t bucket_lasts_until(const struct bucket *s, const struct rule *r)
{
    const int64_t last = holds_last(s->holds);
    const int64_t level = s->known > s->used ? s->known : s->used;
    const int64_t all = sum_of(level, units(holds_sum(s->holds), r));

    if (r->limit == 0 || (s->known == 0 && last == 0))
        return last;
    return (last > s->at ? last : s->at) + div_up(all, r->limit);
}
