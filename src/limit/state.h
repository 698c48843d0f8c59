/* state.h - the state of one key under one rule, whatever its algorithm: at most 40 bytes.
 *
 * The way through: state_take() looks and changes nothing; if all rules of a check agree,
 * state_reserve() gets what memory is needed, and state_apply() makes the step real. */
#ifndef WEIR_LIMIT_STATE_H
#define WEIR_LIMIT_STATE_H

#include "limit/bucket.h"
#include "limit/fixed_window.h"
#include "limit/sliding_counter.h"
#include "limit/sliding_window.h"

struct state {
    union {
        struct fixed_window fixed_window;
        struct sliding_window sliding_window;
        struct sliding_counter sliding_counter;
        struct bucket bucket;
    };
};

struct step {
    struct decision decision;
    int64_t now; /* the time that was used: never before what the state records */
    union {
        struct fixed_window fixed_window;
        struct sliding_counter sliding_counter;
        struct bucket bucket;
        struct sliding_window_step sliding_window;
    } next;
};

struct step state_take(const struct state *s, const struct rule *r, const struct ask *ask);
bool state_reserve(struct state *s, const struct rule *r, const struct step *step,
                   const weir_allocator *allocator); /* false: out of memory */
void state_apply(struct state *s, const struct rule *r, const struct step *step);

/* Give `ask->cost` back. The decision says how things stand then; it is always "allowed". */
struct step state_refund(struct state *s, const struct rule *r, const struct ask *ask);

/* Memory beside the state, for an algorithm that has some. */
size_t state_beside(const struct state *s, weir_algorithm algorithm);
void state_done(struct state *s, weir_algorithm algorithm, const weir_allocator *allocator);

#endif
