/* state.c - the state of one key under one rule, whatever its algorithm. */
#include "limit/algorithms.h"
#include "limit/pack.h"

/* A limit of 0 holds nothing: it has no state, and waiting does not help. */
static void take_none(int64_t now, int64_t cost, struct step *out)
{
    *out = (struct step){ .now = now };
    out->decision.allowed = cost == 0;
    out->decision.retry_after = cost == 0 ? 0 : WEIR_NEVER;
}

void state_take(const struct state *s, const struct rule *r, const struct ask *ask,
                struct step *out)
{
    out->hold.amount = 0;
    if (r->algorithm == ALGORITHM_CELL) {
        cell_take(&s->arrival, r, ask, out);
        return;
    }
    if (r->limit == 0) {
        take_none(ask->now, ask->cost, out);
        return;
    }
    switch (r->algorithm) {
    case WEIR_FIXED_WINDOW:
        fixed_window_take(&s->fixed_window, r, ask, out);
        break;
    case WEIR_SLIDING_COUNTER:
        sliding_counter_take(&s->sliding_counter, r, ask, out);
        break;
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
        bucket_take(&s->bucket, r, ask, out);
        break;
    case WEIR_CONCURRENCY:
        slots_take(&s->slots, r, ask, out);
        break;
    case WEIR_SLIDING_WINDOW:
    case WEIR_DEFAULT_ALGORITHM:
        sliding_window_take(&s->sliding_window, r, ask, out);
        break;
    }
}

/* What locks its key out, or is of one that was. */
void lockout_take_any(int64_t until, const struct state *s, const struct rule *r,
                      const struct ask *ask, struct step *out)
{
    static const struct state untouched;

    if (until > ask->now && r->limit > 0 && ask->forced) { /* counted, and forgotten at the end */
        state_take(s, r, ask, out);
        out->now = ask->now;
        out->decision = (struct decision){
            .allowed = true,
            .remaining = out->decision.remaining < 0 ? out->decision.remaining : 0,
            .reset_after = until - ask->now,
        };
        return;
    }
    if (until > ask->now && r->limit > 0) {
        out->now = ask->now;
        out->decision = (struct decision){ .allowed = ask->cost == 0,
                                           .retry_after = ask->cost == 0 ? 0 : until - ask->now,
                                           .reset_after = until - ask->now };
        return;
    }
    state_take(until > 0 ? &untouched : s, r, ask, out);
    if (r->block_for == 0 || out->decision.allowed || ask->peek ||
        out->decision.retry_after == WEIR_NEVER)
        return;
    out->locks = true;
    out->now = ask->now;
    out->decision = (struct decision){ .retry_after = r->block_for, .reset_after = r->block_for };
}

bool state_reserve(struct state *s, const struct rule *r, const struct step *step,
                   const weir_allocator *allocator)
{
    if (state_is_log(r->algorithm))
        return sliding_window_reserve(&s->sliding_window, &step->next.sliding_window, allocator) &&
               (step->hold.amount == 0 || sliding_window_make_far(&s->sliding_window, allocator));
    return step->hold.amount == 0 || !state_has_holds(r->algorithm) ||
           holds_reserve(&s->bucket.holds, allocator);
}

bool state_has_room_anyhow(const struct state *s, const struct rule *r, const struct step *step)
{
    if (state_is_log(r->algorithm))
        return step->hold.amount == 0 &&
               sliding_window_has_room(&s->sliding_window, &step->next.sliding_window);
    return step->hold.amount == 0 || !state_has_holds(r->algorithm) ||
           holds_has_room(s->bucket.holds);
}

static void apply_to_bucket(struct bucket *s, const struct step *step)
{
    const struct bucket_change *next = &step->next.bucket;

    s->used = next->used;
    s->at = next->at;
    s->known = next->known;
    if (s->holds)
        holds_drop(s->holds, next->drop);
    if (step->hold.amount > 0)
        holds_add(s->holds, &step->hold);
    else if (s->known != 0 && s->known == s->used && holds_count(s->holds) == 0)
        s->known = 0; /* nothing is left to tell apart */
}

static void apply_to_slots(struct slots *s, const struct step *step)
{
    s->at = step->next.slots.at;
    if (s->holds)
        holds_drop(s->holds, step->next.slots.drop);
    if (step->hold.amount > 0)
        holds_add(s->holds, &step->hold);
}

uint32_t state_born(const struct state *s, weir_algorithm algorithm)
{
    if (state_is_log(algorithm))
        return log_born(&s->sliding_window);
    return state_has_holds(algorithm) ? 0 : (uint32_t)s->words[3];
}

bool state_bear(struct state *s, weir_algorithm algorithm, uint32_t born,
                const weir_allocator *allocator)
{
    if (state_is_log(algorithm)) {
        if (born != 0 && !sliding_window_make_far(&s->sliding_window, allocator))
            return false;
        sliding_window_bear(&s->sliding_window, born);
    } else if (!state_has_holds(algorithm)) {
        s->words[3] = born;
    }
    return true;
}

/* By the first that holds something of it. */
static void bear(struct state *s, weir_algorithm algorithm, const struct hold *by)
{
    const uint64_t mixed = (by->id ^ (uint64_t)by->expires) * UINT64_C(0x9e3779b97f4a7c15);
    const uint32_t born = (uint32_t)(mixed >> 32);

    if (state_is_log(algorithm))
        sliding_window_bear(&s->sliding_window, born ? born : 1);
    else if (!state_has_holds(algorithm))
        s->words[3] = born ? born : 1;
}

void state_apply(struct state *s, const struct rule *r, const struct step *step)
{
    if (r->algorithm == ALGORITHM_CELL) {
        s->arrival = step->next.arrival;
        return;
    }
    switch (r->algorithm) {
    case WEIR_FIXED_WINDOW:
        s->fixed_window = step->next.fixed_window;
        break;
    case WEIR_SLIDING_COUNTER:
        s->sliding_counter = step->next.sliding_counter;
        break;
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
        apply_to_bucket(&s->bucket, step);
        break;
    case WEIR_CONCURRENCY:
        apply_to_slots(&s->slots, step);
        break;
    case WEIR_SLIDING_WINDOW:
    case WEIR_DEFAULT_ALGORITHM:
        sliding_window_apply(&s->sliding_window, &step->next.sliding_window);
        break;
    }
    if (step->hold.amount > 0 && state_born(s, r->algorithm) == 0)
        bear(s, r->algorithm, &step->hold);
}

void state_refund(struct state *s, const struct rule *r, const struct ask *ask, struct step *out)
{
    out->hold.amount = 0;
    if (r->algorithm == ALGORITHM_CELL) { /* to give back is to take less than nothing */
        const struct ask less = { .now = ask->now, .cost = -ask->cost, .peek = ask->peek };

        cell_take(&s->arrival, r, &less, out);
        state_apply(s, r, out);
        return;
    }
    if (r->limit == 0) {
        take_none(ask->now, 0, out);
        return;
    }
    switch (r->algorithm) {
    case WEIR_FIXED_WINDOW:
        fixed_window_refund(&s->fixed_window, r, ask, out);
        break;
    case WEIR_SLIDING_COUNTER:
        sliding_counter_refund(&s->sliding_counter, r, ask, out);
        break;
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
        bucket_refund(&s->bucket, r, ask, out);
        break;
    case WEIR_CONCURRENCY: /* a slot is given back by its reservation alone */
        slots_take(&s->slots, r, &(struct ask){ .now = ask->now, .peek = true }, out);
        break;
    case WEIR_SLIDING_WINDOW:
    case WEIR_DEFAULT_ALGORITHM:
        sliding_window_refund(&s->sliding_window, r, ask, out);
        break;
    }
    state_apply(s, r, out); /* a log was changed already, and its change adds nothing */
}

size_t state_heap_bytes(const struct state *s, weir_algorithm algorithm)
{
    if (algorithm == ALGORITHM_RESERVATION)
        return s->kept.block ? s->kept.block->size : 0;
    return state_is_log(algorithm) ? sliding_window_beside(&s->sliding_window)
                                   : holds_bytes(state_holds(s, algorithm));
}

void state_prefetch(const struct state *s, weir_algorithm algorithm)
{
    if (state_has_holds(algorithm))
        __builtin_prefetch(s->bucket.holds, 1);
    else if (state_is_log(algorithm) && s->sliding_window.is_far)
        __builtin_prefetch(s->sliding_window.far, 1); /* its head is what most decisions read */
}

void state_done(struct state *s, weir_algorithm algorithm, const weir_allocator *allocator)
{
    if (state_is_log(algorithm))
        sliding_window_done(&s->sliding_window, allocator);
    else if (state_has_holds(algorithm) && s->bucket.holds)
        holds_done(&s->bucket.holds, allocator);
}

/* ---- holds ------------------------------------------------------------------------------- */

void state_hold(const struct state *s, const struct rule *r, const struct ask *ask,
                const struct hold *by, struct step *out)
{
    const struct hold hold = { by->expires, by->id, ask->cost };

    if (!out->decision.allowed || ask->peek || ask->cost == 0)
        return;
    if (algorithm_counts_slots(r->algorithm))
        slots_hold(&hold, out);
    else if (state_has_holds(r->algorithm))
        bucket_hold(&s->bucket, r, &hold, out);
    else
        out->hold = hold;
}

int64_t state_mark(const struct rule *r, const struct step *step)
{
    switch (r->algorithm) {
    case WEIR_FIXED_WINDOW:
        return step->next.fixed_window.start;
    case WEIR_SLIDING_COUNTER:
        return step->next.sliding_counter.start;
    case WEIR_SLIDING_WINDOW:
        return step->next.sliding_window.start;
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
    case WEIR_CONCURRENCY:
    case WEIR_DEFAULT_ALGORITHM:
        break;
    }
    return 0;
}

void state_give_back(struct state *s, const struct rule *r, int64_t now, int64_t mark,
                     int64_t amount)
{
    struct step step;

    state_take(s, r, &(struct ask){ .now = now, .peek = true }, &step);
    if (r->limit == 0)
        return;
    switch (r->algorithm) {
    case WEIR_FIXED_WINDOW:
        fixed_window_give_back(&step.next.fixed_window, mark, amount);
        break;
    case WEIR_SLIDING_COUNTER:
        sliding_counter_give_back(&step.next.sliding_counter, r, mark, amount);
        break;
    case WEIR_SLIDING_WINDOW:
        sliding_window_give_back(&s->sliding_window, mark, amount);
        return;
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
    case WEIR_CONCURRENCY:
    case WEIR_DEFAULT_ALGORITHM:
        return;
    }
    state_apply(s, r, &step);
}

bool state_hold_is_open(const struct state *s, weir_algorithm algorithm, int64_t now,
                        const struct hold *hold)
{
    const int64_t at = algorithm_counts_slots(algorithm) ? s->slots.at : s->bucket.at;

    return state_has_holds(algorithm) && hold->expires > (now > at ? now : at) &&
           holds_find(s->bucket.holds, hold->expires, hold->id) > 0;
}

bool state_settle(struct state *s, const struct rule *r, int64_t now, const struct hold *hold,
                  int64_t used, struct step *out)
{
    if (r->limit == 0)
        return false;
    return algorithm_counts_slots(r->algorithm)
               ? slots_settle(&s->slots, r, now, hold, out)
               : bucket_settle(&s->bucket, r, now, hold, used, out);
}

bool state_extend(struct state *s, weir_algorithm algorithm, const struct hold *hold,
                  int64_t expires)
{
    struct holds *h = state_has_holds(algorithm) ? s->bucket.holds : NULL;
    const int64_t amount = h ? holds_remove(h, hold->expires, hold->id) : 0;

    if (amount == 0)
        return false;
    holds_add(h, &(struct hold){ expires, hold->id, amount });
    return true;
}

int64_t state_holds_last_until(const struct state *s, const struct rule *r)
{
    return algorithm_counts_slots(r->algorithm) ? holds_last(s->slots.holds)
                                                : bucket_lasts_until(&s->bucket, r);
}
