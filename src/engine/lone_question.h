/* lone_question.h - the question of a caller who waits for its answer, by a store in this process. */
#ifndef WEIR_ENGINE_LONE_QUESTION_H
#define WEIR_ENGINE_LONE_QUESTION_H

#include "engine/engine.h"

/* What came of it is read when the commit has returned. */
static inline void lone_question_done(struct question *q)
{
    (void)q;
}

/* Field by field: else all would be zeroed first. What only a shared store looks at is not set. */
static inline void lone_question_put(enum verb verb, int64_t now, bool decide_anyway,
                                     struct charge *charges, size_t n, struct question *q)
{
    q->verb = verb;
    q->ask = (struct asked){ now, false };
    q->charges = charges;
    q->count = n;
    q->reserving = NULL;
    q->decide_anyway = decide_anyway;
    q->is_unkept = q->allowed = q->is_retried = false;
    q->err = WEIR_OK;
    q->mark = 0;
    q->deadline = 0;
    q->most_ms = 0;
    q->done = lone_question_done;
    q->ctx = NULL;
    q->next = NULL;
}

/* When this returns it is answered. */
static inline void lone_question_ask(struct engine *e, struct question *q)
{
    struct pending pending = { 0 };

    e->store->ops->submit(e->store, &pending, q);
    e->store->ops->commit(e->store, &pending);
    engine_count_error(e, q);
}

#endif
