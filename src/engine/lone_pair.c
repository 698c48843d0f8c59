/* lone_pair.c - a reservation of a policy by a key, and its commit, each asked by itself.
 *
 * As in lone_check.c there is no struct check: what is asked outlives nothing but the call, so amounts
 * are where the request has them. What is not usual, or wrong, goes the long way from its beginning:
 * nothing has been asked by then. What was asked, and has an unusual answer, gets it from there. */
#include "engine/lone_pair.h"

#include "engine/amounts.h"
#include "engine/answer.h"
#include "engine/charges.h"
#include "engine/fallback.h"
#include "engine/lone_question.h"
#include "engine/short_identity.h"

/* When it is asked. 0: the request says it, and must not, or not so. */
static inline int64_t time_of(const struct engine *e, const weir_request *r)
{
    if (r->now == 0)
        return e->clock(e->clock_ctx);
    return e->trusts_now && r->now > 0 && r->now < (int64_t)1 << 48 ? r->now : 0;
}

/* Denied, failed, or of rules that are not all enforced. */
__attribute__((noinline)) static void answer_otherwise(struct engine *e, const struct pattern *p,
                                                       const struct policies *policies,
                                                       struct question *q,
                                                       const struct check_reserving *to,
                                                       weir_answer *answer)
{
    const struct policy_rule *rules[PATTERN_MOST_CHARGES] = { NULL };
    struct check check = { .verb = q->verb, .answer = answer, .engine = e, .policies = policies };

    charges_begin(&check);
    check.questions = q;
    check.charges = q->charges;
    check.rules = rules;
    check.ask = (struct ask){ .now = q->ask.now, .peek = false };
    memcpy(check.reserving.id, to->id, sizeof to->id);
    if (p) {
        check.policy = p->policy;
        check.policy_count = 1;
        check.on_error = p->on_error;
        check.live = p->count;
        for (size_t i = 0; i < p->count; i++)
            rules[i] = p->charges[i].rule;
    }
    answer_from_reservation(&check);
}

/* ---- reserve ------------------------------------------------------------------------------- */

/* Of requests, where the request does not name them: one. */
static int64_t cost_of_requests(const weir_request *r)
{
    for (size_t i = 0; i < r->cost_count; i++)
        if (amount_is(r->costs[i].name, COUNTS_REQUESTS))
            return r->costs[i].amount;
    return r->cost ? r->cost : 1;
}

/* What each charge costs. False: the request has an amount that none of these rules counts. */
static bool put_costs(const struct pattern *p, const weir_request *r, struct charge *charges)
{
    const int64_t requests = cost_of_requests(r);
    bool has_requests = false;
    unsigned counted = 0;

    for (size_t i = 0; i < p->count; i++) {
        const char *counts = p->charges[i].rule->counts;

        charges[i].cost = counts ? 0 : requests;
        has_requests |= !counts;
        for (size_t k = 0; counts && k < r->cost_count; k++)
            if (amount_is(r->costs[k].name, counts)) {
                charges[i].cost = r->costs[k].amount;
                counted |= 1u << k;
                break;
            }
    }
    for (size_t k = 0; k < r->cost_count; k++) /* everything is so many requests */
        if (!(counted >> k & 1) && !amount_is(r->costs[k].name, COUNTS_REQUESTS))
            return false;
    return r->cost == 0 || has_requests;
}

/* Whose they are, and by which numbers. What the store will look at comes while the rest is written. */
static void put_charges(const struct engine *e, const struct pattern *p, struct span key,
                        struct charge *charges)
{
    struct short_identity identity;
    struct key keys[PATTERN_MOST_CHARGES];

    short_identity_write(key, &identity);
    pattern_keys(p, pattern_hashed(p, &identity, identity.len), keys);
    for (size_t i = 0; i < p->count; i++) {
        if (i < p->hashes)
            e->store->ops->prefetch(e->store, keys[i], PREFETCH_PLACE);
        charges[i].key = keys[i];
        charges[i].rule = p->charges[i].numbers;
        charges[i].class = p->charges[i].class;
    }
}

static void put_labels(const struct pattern *p, struct reserving *of)
{
    if (p->count == 1)
        of->labels = &of->label; /* close to all else */
    for (size_t i = 0; i < p->count; i++) {
        const struct policy_rule *rule = p->charges[i].rule;
        struct charge_label *label = &of->labels[i];

        label->policy = p->policy->name;
        label->rule = rule->name;
        label->counts = rule->counts ? rule->counts : COUNTS_REQUESTS;
        label->is_shadow = false;
        label->is_kept = true;
    }
}

/* The key of its record, which is fetched. */
static void put_key(const struct engine *e, struct check_reserving *to)
{
    to->of.key = hash_id(&engine_keys(e)->reservation, (struct span){ to->id, to->id_len });
    e->store->ops->prefetch(e->store, to->of.key, PREFETCH_PLACE);
}

bool lone_reserve(struct engine *e, const struct policies *policies, const struct pattern *p,
                  const weir_request *r, weir_answer *answer)
{
    const struct span key = request_key(r);
    const int64_t ttl = r->ttl_ms ? r->ttl_ms : p->reserve.usual_ttl;
    struct charge charges[PATTERN_MOST_CHARGES];
    struct reserving_room room;
    struct check_reserving to;
    struct question q;
    int64_t now;

    if (!p->is_held_alone || !short_identity_fits(p, key) || ttl < 1 || ttl > p->reserve.most_ttl ||
        !amounts_are_usual(r) || !put_costs(p, r, charges))
        return false;
    if (r->id && (!reserve_put_id(reserve_id_of(r->id), &to) || reserve_is_local(to.id)))
        return false;
    now = time_of(e, r);
    if (now == 0)
        return false;
    put_charges(e, p, key, charges);
    if (!r->id) {
        memset(to.id, 0, sizeof to.id);
        reserve_make_id(e, &to);
    }
    reserve_begin(&to.of, &room);
    put_key(e, &to);
    to.of.ttl = ttl;
    to.of.most_ttl = p->reserve.most_ttl;
    to.of.gives_back = p->reserve.gives_back;
    put_labels(p, &to.of);
    to.of.fingerprint = reserve_print_like(&p->reserve, key, to.of.labels, charges, p->count);
    lone_question_put(VERB_RESERVE, now,
                      p->on_error == ON_ERROR_LOCAL && !fallback_is_exhausted(e, policies), charges,
                      p->count, &q);
    q.reserving = &to.of;
    lone_question_ask(e, &q);
    if (!answer_held(&q, to.id, 0, answer))
        answer_otherwise(e, p, policies, &q, &to, answer);
    return true;
}

/* ---- settle -------------------------------------------------------------------------------- */

/* A store in this process alone, which fails none of late: else what the policies say has a part. */
static inline bool is_asked_alone(const struct engine *e)
{
    return !e->local && !e->denials && !e->leases && e->store->ops->reserves &&
           !e->store->ops->is_shared && e->store->ops->prefetch &&
           atomic_load_explicit(&e->errors_in_a_row, memory_order_relaxed) == 0;
}

static inline bool brings_amounts_alone(const weir_request *r)
{
    return r->reservation && !r->policy && !r->key && !r->id && !r->plan &&
           (r->policy_count | r->attribute_count) == 0 && (r->limit | r->ttl_ms) == 0;
}

/* False: a name is too long for one. */
static bool put_amounts(const weir_request *r, struct reserving_room *room, struct reserving *of)
{
    struct amount *to = room->amounts;

    if (r->cost != 0)
        *to++ = (struct amount){ span_of(COUNTS_REQUESTS), r->cost };
    for (size_t i = 0; i < r->cost_count; i++, to++) {
        to->name = span_of(r->costs[i].name);
        to->amount = r->costs[i].amount;
        if (to->name.len > WEIR_MAX_NAME)
            return false;
    }
    of->amount_count = (size_t)(to - room->amounts);
    return true;
}

bool lone_settle(struct engine *e, const weir_request *r, bool is_release, weir_answer *answer)
{
    struct charge charges[RESERVATION_MOST_CHARGES];
    struct reserving_room room;
    struct check_reserving to;
    struct question q;
    int64_t now;

    if (!is_asked_alone(e) || !brings_amounts_alone(r) || !amounts_are_usual(r) ||
        !reserve_put_id(reserve_id_of(r->reservation), &to))
        return false;
    reserve_begin(&to.of, &room);
    now = time_of(e, r);
    if (now == 0 || !put_amounts(r, &room, &to.of))
        return false;
    put_key(e, &to);
    to.of.is_release = is_release;
    lone_question_put(VERB_SETTLE, now, true, charges, 0, &q);
    q.reserving = &to.of;
    lone_question_ask(e, &q);
    if (!answer_held(&q, to.id, 0, answer))
        answer_otherwise(e, NULL, NULL, &q, &to, answer);
    return true;
}
