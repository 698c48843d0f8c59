/* state.c - the state of one key under one rule, whatever its algorithm. */
#include "limit/algorithms.h"

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
    case WEIR_SLIDING_WINDOW:
    case WEIR_DEFAULT_ALGORITHM:
        sliding_window_take(&s->sliding_window, r, ask, out);
        break;
    }
}

void lockout_take(int64_t until, const struct state *s, const struct rule *r, const struct ask *ask,
                  struct step *out)
{
    static const struct state untouched;

    out->locks = false;
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
    return !state_is_log(r->algorithm) ||
           sliding_window_reserve(&s->sliding_window, &step->next.sliding_window, allocator);
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
        s->bucket = step->next.bucket;
        break;
    case WEIR_SLIDING_WINDOW:
    case WEIR_DEFAULT_ALGORITHM:
        sliding_window_apply(&s->sliding_window, &step->next.sliding_window);
        break;
    }
}

void state_refund(struct state *s, const struct rule *r, const struct ask *ask, struct step *out)
{
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
    case WEIR_SLIDING_WINDOW:
    case WEIR_DEFAULT_ALGORITHM:
        sliding_window_refund(&s->sliding_window, r, ask, out);
        break;
    }
    state_apply(s, r, out); /* a log was changed already, and its change adds nothing */
}

size_t state_heap_bytes(const struct state *s, weir_algorithm algorithm)
{
    return state_is_log(algorithm) ? sliding_window_beside(&s->sliding_window) : 0;
}

void state_done(struct state *s, weir_algorithm algorithm, const weir_allocator *allocator)
{
    if (state_is_log(algorithm))
        sliding_window_done(&s->sliding_window, allocator);
}
