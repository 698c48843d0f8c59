/* lone_check.c - a check of one rule by a key, asked by itself.
 *
 * The store is in this process, so it is done when its commit returns, and nothing has to outlive that:
 * there is no struct check, only a question and its charge. The key is hashed first, and its place in
 * memory is fetched while the rest is written. */
#include "engine/lone_check.h"

#include "engine/answer.h"
#include "engine/fallback.h"
#include "engine/short_identity.h"

/* What came of it is read when the commit has returned. */
static void is_done(struct question *q)
{
    (void)q;
}

/* The store could not decide: the policy says what then. */
__attribute__((noinline)) static void answer_failed(struct engine *e,
                                                    const struct policies *policies,
                                                    const struct pattern *p, struct span key,
                                                    weir_err why, weir_answer *answer)
{
    const struct pattern_words words = { .key = key };
    struct check check = { .verb = p->verb, .answer = answer, .policies = policies };

    if (engine_prepare_like(e, &check, p, &words, NULL, NULL))
        return;
    check.questions[0].err = why;
    answer_from_charges(&check);
}

/* Field by field: else all would be zeroed first. What only a shared store looks at is not set. */
static inline void put_question(struct engine *e, const struct policies *policies,
                                const struct pattern *p, struct charge *c, struct question *q)
{
    q->verb = p->verb;
    q->ask = (struct asked){ e->clock(e->clock_ctx), false };
    q->charges = c;
    q->count = 1;
    q->reserving = NULL;
    q->decide_anyway = p->on_error == ON_ERROR_LOCAL && !fallback_is_exhausted(e, policies);
    q->is_unkept = q->allowed = q->is_retried = false;
    q->err = WEIR_OK;
    q->mark = 0;
    q->deadline = 0;
    q->most_ms = 0;
    q->done = is_done;
    q->ctx = NULL;
    q->next = NULL;
}

bool lone_check(struct engine *e, const struct policies *policies, const struct pattern *p,
                struct span key, weir_answer *answer)
{
    struct store *store = e->store;
    struct pending pending = { 0 };
    struct short_identity identity;
    struct question q;
    struct charge c;

    if (!p->is_asked_alone || !short_identity_fits(p, key))
        return false;
    short_identity_write(key, &identity);
    c.key = hash_identity_from(&p->start, pattern_hashed(p, &identity, identity.len));
    store->ops->prefetch(store, c.key, PREFETCH_PLACE);
    c.rule = p->charges[0].numbers;
    c.cost = p->charges[0].cost;
    c.class = p->charges[0].class;
    put_question(e, policies, p, &c, &q);
    answer_name_lone(p->policy->name, p->charges[0].rule->name, c.rule, answer);
    store->ops->submit(store, &pending, &q);
    store->ops->commit(store, &pending);
    engine_count_error(e, &q);
    if (q.err)
        answer_failed(e, policies, p, key, q.err, answer);
    else
        answer_lone(&c.step.decision, q.is_unkept, answer);
    return true;
}
