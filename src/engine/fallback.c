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

/* Does this process decide the charge while the store cannot? Policies that are asked together may
 * differ in that. */
static bool is_local(const struct check *check, const struct charge *c)
{
    const struct policy_rule *rule = check->rules[c - check->charges];

    return (rule ? rule->policy->on_error : check->on_error) == ON_ERROR_LOCAL;
}

static void add_share(struct local *local, const struct charge *c, int64_t instances)
{
    struct rule *share_of = &local->shares[local->question.count];

    *share_of = *c->rule;
    if (share_of->algorithm != ALGORITHM_CELL) {
        share_of->limit = share(share_of->limit, instances);
        share_of->burst = share(share_of->burst, instances);
    }
    local->charges[local->question.count++] = (struct charge){
        .rule = share_of,
        .key = c->key,
        .cost = c->cost,
        .class = c->class,
    };
}

/* False: there is nothing in it to decide here. */
static bool ask(struct engine *e, const struct check *check, const struct question *q,
                struct local *local)
{
    const int64_t instances = policies_fallback(check->policies).instances;
    struct pending pending = { 0 };

    local->question = (struct question){
        .verb = q->verb,
        .ask = { check->ask.now, q->ask.peek },
        .charges = local->charges,
        .done = ignore,
    };
    for (size_t i = 0; i < q->count; i++)
        if (is_local(check, &q->charges[i]))
            add_share(local, &q->charges[i], instances);
    if (local->question.count == 0)
        return false;
    e->local->ops->submit(e->local, &pending, &local->question);
    e->local->ops->commit(e->local, &pending);
    return true;
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

    if (verb_decides(q->verb) && (!q->allowed || !question_charges(q)))
        return;
    (void)ask(e, check, q, &local);
}

void fallback_decide(struct engine *e, struct check *check, struct question *q)
{
    struct local local;
    size_t next = 0;

    if (!ask(e, check, q, &local) || local.question.err)
        return;
    for (size_t i = 0; i < q->count; i++) {
        struct charge *c = &q->charges[i];

        if (is_local(check, c)) {
            const struct charge *decided = &local.charges[next++];

            c->step.decision = decided->step.decision;
            /* What is exceeded is the whole limit, not this instance's share. */
            if (verb_forces(q->verb))
                c->step.decision.remaining += c->rule->burst - decided->rule->burst;
        } else
            check->unknown |= UINT32_C(1) << (c - check->charges);
    }
    q->allowed = local.question.allowed;
    q->err = WEIR_OK;
    q->is_unkept = true;
}
