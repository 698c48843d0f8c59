/* slots.c - concurrency, as arithmetic: at most `limit` are held at once.
 *
 * A slot is a hold. It is free again when its reservation is settled, or at the instant at which
 * it expires. So the wait for a slot is exact: until so many holds have expired. */
#include "limit/algorithms.h"

/* How long until enough holds have expired, from the first live one on. */
static int64_t wait_for(const struct holds *h, uint32_t from, int64_t excess, int64_t now)
{
    int64_t expires = now;

    for (uint32_t i = from; i < holds_count(h) && excess > 0; i++) {
        expires = holds_at(h, i)->expires;
        excess -= holds_at(h, i)->amount;
    }
    return expires - now;
}

void slots_take(const struct slots *s, const struct rule *r, const struct ask *ask,
                struct step *out)
{
    struct slots_change *change = &out->next.slots;
    int64_t live = holds_sum(s->holds), left;

    out->decision = (struct decision){ 0 };
    out->now = ask->now > s->at ? ask->now : s->at;
    *change = (struct slots_change){ .at = out->now, .drop = holds_expired(s->holds, out->now) };
    for (uint32_t i = 0; i < change->drop; i++)
        live -= holds_at(s->holds, i)->amount;
    if (change->drop < holds_count(s->holds))
        out->decision.reset_after = holds_last(s->holds) - out->now;
    if (ask->cost > r->limit) {
        out->decision.retry_after = WEIR_NEVER;
    } else if (ask->cost > 0 && live + ask->cost > r->limit) {
        out->decision.retry_after = wait_for(s->holds, change->drop, live + ask->cost - r->limit,
                                             out->now);
    } else {
        out->decision.allowed = true;
        live += ask->peek ? 0 : ask->cost;
    }
    left = r->limit - live;
    out->decision.remaining = left > 0 ? left : 0;
}

void slots_hold(const struct hold *hold, struct step *out)
{
    out->hold = *hold;
    if (hold->expires - out->now > out->decision.reset_after)
        out->decision.reset_after = hold->expires - out->now;
}

bool slots_settle(struct slots *s, const struct rule *r, int64_t now, const struct hold *hold,
                  struct step *out)
{
    const struct ask peek = { .now = now > s->at ? now : s->at, .peek = true };

    if (hold->expires <= peek.now || holds_remove(s->holds, hold->expires, hold->id) == 0)
        return false;
    holds_drop(s->holds, holds_expired(s->holds, peek.now));
    s->at = peek.now;
    slots_take(s, r, &peek, out);
    return true;
}
