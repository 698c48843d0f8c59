/* fallback.c - the limiter in this process that decides while the shared store cannot. */
#include "engine/fallback.h"

#include "engine/reserve.h"

/* A question to the local store: the same keys, under this instance's share of the limits. */
struct local {
    struct question question;
    struct charge charges[WEIR_MAX_RULES];
    struct rule shares[WEIR_MAX_RULES];
    struct reserving reserving; /* of a reservation that is held here */
    struct charge_label labels[WEIR_MAX_RULES];
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
    if (share_of->algorithm != ALGORITHM_CELL && share_of->limit < AMOUNT_MOST) {
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

/* Does it go to the local store? Shadows of a reservation do not; slots only if they are held. */
static bool is_wanted(const struct check *check, const struct question *q, const struct charge *c,
                      bool holds)
{
    const size_t i = (size_t)(c - check->charges);

    if (q->reserving &&
        (i >= check->live || (!holds && algorithm_counts_slots(c->rule->algorithm))))
        return false;
    return is_local(check, c);
}

static void add_wanted(const struct check *check, const struct question *q, struct local *local,
                       bool holds)
{
    const int64_t instances = policies_fallback(check->policies).instances;

    for (size_t i = 0; i < q->count; i++)
        if (is_wanted(check, q, &q->charges[i], holds)) {
            if (holds)
                local->labels[local->question.count] = q->reserving->labels[i];
            add_share(local, &q->charges[i], instances);
        }
}

static void submit(struct engine *e, struct local *local)
{
    struct pending pending = { 0 };

    e->local->ops->submit(e->local, &pending, &local->question);
    e->local->ops->commit(e->local, &pending);
}

/* False: there is nothing in it to decide here. */
static bool ask(struct engine *e, const struct check *check, const struct question *q,
                struct local *local)
{
    local->question = (struct question){
        .verb = q->reserving ? VERB_CHECK
                             : q->verb, /* what is held in the store is learnt as used */
        .ask = { check->ask.now, q->ask.peek },
        .charges = local->charges,
        .done = ignore,
    };
    add_wanted(check, q, local, false);
    if (local->question.count > 0)
        submit(e, local);
    return local->question.count > 0;
}

/* Held by this process, which settles it too. */
static bool reserve(struct engine *e, struct check *check, struct question *q, struct local *local)
{
    local->reserving = *q->reserving;
    local->reserving.labels = local->labels;
    local->question = (struct question){
        .verb = q->verb,
        .ask = { check->ask.now, false },
        .charges = local->charges,
        .reserving = &local->reserving,
        .done = ignore,
    };
    add_wanted(check, q, local, true);
    if (local->question.count == 0)
        return false;
    reserve_make_local(e, check, &local->reserving.key);
    submit(e, local);
    q->reserving->refusal = local->reserving.refusal;
    q->reserving->is_repeated = local->reserving.is_repeated;
    q->reserving->expires_in = local->reserving.expires_in;
    return true;
}

bool fallback_has_exhausted(const struct engine *e, const struct policies *set)
{
    const int64_t errors = atomic_load_explicit(&e->errors_in_a_row, memory_order_relaxed);

    return policies_fallback(set).deny_after_errors > 0 &&
           errors > policies_fallback(set).deny_after_errors;
}

void fallback_learn(struct engine *e, const struct check *check, const struct question *q)
{
    struct local local;

    if (q->reserving && (!verb_makes_reservation(q->verb) || q->reserving->is_repeated))
        return;
    if (verb_decides(q->verb) && (!q->allowed || !question_charges(q)))
        return;
    (void)ask(e, check, q, &local);
}

/* ---- what is learnt together -------------------------------------------------------------- */

/* As if they had come one by one: of those that do not fit, those that do are learnt. */
static void learn_run(struct engine *e, const struct fallback_run *run)
{
    const struct charge c = { .rule = run->rule, .key = run->key, .class = run->class };
    int64_t count = run->count;
    struct local local;

    for (int round = 0; round < 2 && count > 0; round++) {
        local.question = (struct question){
            .verb = VERB_CHECK,
            .ask = { run->now, false },
            .charges = local.charges,
            .done = ignore,
        };
        add_share(&local, &c, policies_fallback(run->policies).instances);
        local.charges[0].cost = count * run->cost;
        submit(e, &local);
        if (local.question.allowed || local.question.err)
            return;
        count = local.charges[0].step.decision.remaining / run->cost;
    }
}

void fallback_run_end(struct engine *e, struct fallback_run *run)
{
    if (!run->rule)
        return;
    learn_run(e, run);
    run->rule = NULL;
}

void fallback_run_add(struct engine *e, struct fallback_run *run, const struct check *check)
{
    const struct charge *c = &check->one.charges[0];

    if (run->rule == c->rule && run->key.low == c->key.low && run->key.high == c->key.high &&
        run->cost == c->cost && run->now == check->ask.now &&
        run->count < AMOUNT_MOST / c->cost - 1) {
        run->count++;
        return;
    }
    fallback_run_end(e, run);
    if (!is_local(check, c))
        return;
    *run = (struct fallback_run){
        .rule = c->rule,
        .policies = check->policies,
        .key = c->key,
        .class = c->class,
        .now = check->ask.now,
        .cost = c->cost,
        .count = 1,
    };
}

void fallback_decide(struct engine *e, struct check *check, struct question *q)
{
    struct local local;
    size_t next = 0;

    if (q->reserving && !verb_makes_reservation(q->verb))
        return; /* of one that is in the store */
    if (!(q->reserving ? reserve(e, check, q, &local) : ask(e, check, q, &local)) ||
        local.question.err)
        return;
    for (size_t i = 0; i < q->count; i++) {
        struct charge *c = &q->charges[i];

        if (is_wanted(check, q, c, true)) {
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
