/* fallback.h - the limiter in this process that decides while the shared store cannot.
 *
 * It counts what the store admits here, so that it is warm when it is needed, and each limit is
 * divided by the number of instances that share it, so that all of them together stay within it.
 * After an outage nothing of it is carried over: the store is the truth again. */
#ifndef WEIR_ENGINE_FALLBACK_H
#define WEIR_ENGINE_FALLBACK_H

#include "engine/engine.h"

/* The store has decided this question: remember what it admitted, gave back or forgot. */
void fallback_learn(struct engine *e, const struct check *check, const struct question *q);

/* Checks of one charge that were admitted at one time, alike and one after the other: they are learnt
 * together. One thread's; what is in it points at the policies of its turn. */
struct fallback_run {
    const struct rule *rule; /* NULL: there is none */
    const struct policies *policies;
    struct key key;
    uint8_t class;
    int64_t now, cost;
    int64_t count;
};
void fallback_run_add(struct engine *e, struct fallback_run *run, const struct check *check);
void fallback_run_end(struct engine *e, struct fallback_run *run);

/* Has the store failed so often in a row that nothing is let through any more? */
bool fallback_has_exhausted(const struct engine *e, const struct policies *set);
static inline bool fallback_is_exhausted(const struct engine *e, const struct policies *set)
{
    return atomic_load_explicit(&e->errors_in_a_row, memory_order_relaxed) > 0 &&
           fallback_has_exhausted(e, set);
}

/* The store has failed: decide it here. */
void fallback_decide(struct engine *e, struct check *check, struct question *q);

#endif
