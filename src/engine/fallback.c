/* fallback.c - the limiter in this process that decides while the shared store cannot. */
#include "engine/fallback.h"

/* A question to the local store: the same keys, under this instance's share of the limits. */
struct local {
    struct question question;
    struct charge charges[WEIR_MAX_RULES];
    struct rule shares[WEIR_MAX_RULES];
};

/* No share is less than one: a limit of 1 for three instances may admit three, not none. */
static int64_t share(int64_t amount, int64_t instances)
{
    return amount > 0 && amount < instances ? 1 : amount / instances;
}

static void ignore(struct question *q)
{
    (void)q;
}

static void ask(struct engine *e, const struct check *check, const struct question *q,
                struct local *local)
{
    const int64_t instances = policies_fallback(check->policies).instances;
    struct turn turn = { 0 };

    local->question = (struct question){
        .verb = q->verb,
        .ask = { check->ask.now, q->ask.cost, q->ask.peek },
        .charges = local->charges,
        .count = q->count,
        .done = ignore,
    };
    for (size_t i = 0; i < q->count; i++) {
        local->shares[i] = *q->charges[i].rule;
        if (local->shares[i].algorithm != ALGORITHM_CELL) {
            local->shares[i].limit = share(local->shares[i].limit, instances);
            local->shares[i].burst = share(local->shares[i].burst, instances);
        }
        local->charges[i] = (struct charge){
            .rule = &local->shares[i],
            .key = q->charges[i].key,
            .class = q->charges[i].class,
        };
    }
    e->local->ops->submit(e->local, &turn, &local->question);
    e->local->ops->commit(e->local, &turn);
}

bool fallback_is_exhausted(const struct engine *e, const struct policies *set)
{
    const int64_t errors = atomic_load_explicit(&e->errors_in_a_row, memory_order_relaxed);

    return errors > 0 && policies_fallback(set).deny_after_errors > 0 &&
           errors > policies_fallback(set).deny_after_errors;
}

void fallback_learn(struct engine *e, const struct check *check, const struct question *q)
{
    struct local local;

    if (q->verb == VERB_CHECK && (!q->allowed || q->ask.peek || q->ask.cost == 0))
        return;
    ask(e, check, q, &local);
}

void fallback_decide(struct engine *e, struct check *check, struct question *q)
{
    struct local local;

    ask(e, check, q, &local);
    if (local.question.err)
        return;
    for (size_t i = 0; i < q->count; i++)
        q->charges[i].step.decision = local.charges[i].step.decision;
    q->allowed = local.question.allowed;
    q->err = WEIR_OK;
    q->is_unkept = true;
}
