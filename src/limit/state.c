/* state.c - the state of one key under one rule, whatever its algorithm. */
#include "limit/state.h"

#define TAKE(kind, call)                                                                           \
    do {                                                                                           \
        const struct kind##_step taken = call;                                                     \
        step.decision = taken.decision;                                                            \
        step.now = taken.now;                                                                      \
        step.next.kind = taken.next;                                                               \
    } while (0)

/* A limit of 0 holds nothing: it has no state, and waiting does not help. */
static struct step take_none(const struct ask *ask)
{
    struct step step = { .now = ask->now };

    step.decision.allowed = ask->cost == 0;
    step.decision.retry_after = ask->cost == 0 ? 0 : WEIR_NEVER;
    return step;
}

struct step state_take(const struct state *s, const struct rule *r, const struct ask *ask)
{
    struct step step;

    if (r->limit == 0)
        return take_none(ask);
    switch (r->algorithm) {
    case WEIR_FIXED_WINDOW:
        TAKE(fixed_window, fixed_window_take(s->fixed_window, r, ask));
        break;
    case WEIR_SLIDING_COUNTER:
        TAKE(sliding_counter, sliding_counter_take(s->sliding_counter, r, ask));
        break;
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
        TAKE(bucket, bucket_take(s->bucket, r, ask));
        break;
    case WEIR_SLIDING_WINDOW:
    case WEIR_DEFAULT_ALGORITHM:
        step.next.sliding_window = sliding_window_take(&s->sliding_window, r, ask);
        step.decision = step.next.sliding_window.decision;
        step.now = step.next.sliding_window.now;
        break;
    }
    return step;
}

bool state_reserve(struct state *s, const struct rule *r, const struct step *step,
                   const weir_allocator *allocator)
{
    return r->algorithm != WEIR_SLIDING_WINDOW ||
           sliding_window_reserve(&s->sliding_window, &step->next.sliding_window, allocator);
}

void state_apply(struct state *s, const struct rule *r, const struct step *step)
{
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

struct step state_refund(struct state *s, const struct rule *r, const struct ask *ask)
{
    struct step step;

    if (r->limit == 0)
        return take_none(&(struct ask){ .now = ask->now });
    switch (r->algorithm) {
    case WEIR_FIXED_WINDOW:
        TAKE(fixed_window, fixed_window_refund(s->fixed_window, r, ask));
        break;
    case WEIR_SLIDING_COUNTER:
        TAKE(sliding_counter, sliding_counter_refund(s->sliding_counter, r, ask));
        break;
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
        TAKE(bucket, bucket_refund(s->bucket, r, ask));
        break;
    case WEIR_SLIDING_WINDOW:
    case WEIR_DEFAULT_ALGORITHM:
        step.next.sliding_window = sliding_window_refund(&s->sliding_window, r, ask);
        step.decision = step.next.sliding_window.decision;
        step.now = step.next.sliding_window.now;
        return step;
    }
    state_apply(s, r, &step);
    return step;
}

size_t state_beside(const struct state *s, weir_algorithm algorithm)
{
    return algorithm == WEIR_SLIDING_WINDOW ? sliding_window_beside(&s->sliding_window) : 0;
}

void state_done(struct state *s, weir_algorithm algorithm, const weir_allocator *allocator)
{
    if (algorithm == WEIR_SLIDING_WINDOW)
        sliding_window_done(&s->sliding_window, allocator);
}
