/* lone_check.c - a check of one rule by a key, asked by itself.
 *
 * The store is in this process, so it is done when its commit returns, and nothing has to outlive that:
 * there is no struct check, only a question and its charge. The key is hashed first, and its place in
 * memory is fetched while the rest is written. */
#include "engine/lone_check.h"

#include "engine/answer.h"
#include "engine/fallback.h"
#include "engine/lone_question.h"
#include "engine/short_identity.h"

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

bool lone_check(struct engine *e, const struct policies *policies, const struct pattern *p,
                struct span key, weir_answer *answer)
{
    struct store *store = e->store;
    struct short_identity identity;
    struct question q;
    struct charge c;

    if (!p->is_asked_alone || !short_identity_fits(p, key))
        return false;
    short_identity_write(key, &identity);
    c.key = pattern_key(p, pattern_hashed(p, &identity, identity.len));
    store->ops->prefetch(store, c.key, PREFETCH_PLACE);
    c.rule = p->charges[0].numbers;
    c.cost = p->charges[0].cost;
    c.class = p->charges[0].class;
    lone_question_put(p->verb, e->clock(e->clock_ctx),
                      p->on_error == ON_ERROR_LOCAL && !fallback_is_exhausted(e, policies), &c, 1,
                      &q);
    answer_name_lone(p->policy->name, p->charges[0].rule->name, c.rule, answer);
    lone_question_ask(e, &q);
    if (q.err)
        answer_failed(e, policies, p, key, q.err, answer);
    else
        answer_lone(&c.step.decision, q.is_unkept, answer);
    return true;
}
