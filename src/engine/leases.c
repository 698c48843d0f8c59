/* leases.c - leased quotas: chunks of limits, taken from a shared store and given back to it. */
#include "engine/leases.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/fallback.h"

/* A request for a chunk, under way. All that it points at is its own: policies may be replaced. */
struct lease_request {
    struct lease_lane *lane;
    struct question question;
    struct reserving reserving;
    struct charge charge;
    struct charge_label label;
    struct rule rule;
    struct calendar calendar;
    char zone[WEIR_MAX_NAME + 1];
    int64_t asked;
};

/* A settlement, under way. The store is not asked how things stand: there are no charges. */
struct lease_settlement {
    struct lease_lane *lane;
    struct question question;
    struct reserving reserving;
    struct amount spent;
    int64_t left; /* units that are given back */
};

struct leases *leases_new(const weir_allocator *allocator)
{
    struct leases *l = alloc_zeroed(allocator, sizeof *l);

    if (!l)
        return NULL;
    l->table = lease_table_new(allocator);
    if (l->table)
        return l;
    alloc_free(allocator, l);
    return NULL;
}

void leases_free(struct leases *l, const weir_allocator *allocator)
{
    if (!l)
        return;
    lease_table_free(l->table);
    alloc_free(allocator, l);
}

/* ---- giving back ---------------------------------------------------------------------------- */

static void question_ended(struct lease_lane *l)
{
    if (--l->under_way == 0 && l->is_ending && l->ended)
        l->ended(l->ctx);
}

static void settlement_done(struct question *q)
{
    struct lease_settlement *s = q->ctx;
    struct lease_lane *l = s->lane;

    /* One that was not taken is not sent again: what is not settled is spent. */
    if (q->err || s->reserving.refusal || s->reserving.has_expired)
        lease_table_came_late(l->engine->leases->table, s->left);
    free(s);
    question_ended(l);
}

static void give_back(struct lease_lane *l, struct pending *pending, const struct lease_end *end)
{
    struct lease_settlement *s = calloc(1, sizeof *s);
    struct engine *e = l->engine;

    if (!s)
        return;
    s->lane = l;
    s->left = end->amount - end->spent;
    s->spent = (struct amount){ span_of(end->counts), end->spent };
    s->reserving = (struct reserving){
        .key = end->id,
        .tag = end->tag,
        .forgets = true,
        .amounts = &s->spent,
        .amount_count = 1,
    };
    s->question = (struct question){
        .verb = VERB_SETTLE,
        .reserving = &s->reserving,
        .done = settlement_done,
        .ctx = s,
    };
    l->under_way++;
    atomic_fetch_add_explicit(&e->leases->ended, 1, memory_order_relaxed);
    e->store->ops->submit(e->store, pending, &s->question);
}

static void give_back_ended(struct lease_lane *l, bool all)
{
    struct engine *e = l->engine;
    struct pending pending = { .lane = l->lane };
    struct lease_end ends[LEASES_TOGETHER];
    size_t n;

    do {
        n = lease_table_take_ended(e->leases->table, clock_steady_ms(), all, ends, LEASES_TOGETHER);
        for (size_t i = 0; i < n; i++)
            give_back(l, &pending, &ends[i]);
        e->store->ops->commit(e->store, &pending);
    } while (n == LEASES_TOGETHER);
}

/* ---- lanes ---------------------------------------------------------------------------------- */

static void set_timer(struct lease_lane *l)
{
    if (l->is_set || l->is_ending || lease_table_is_empty(l->engine->leases->table))
        return;
    l->is_set = true;
    l->reactor->set(l->timer, LEASES_LOOK_MS);
}

static void look(void *lane)
{
    struct lease_lane *l = lane;

    l->is_set = false;
    give_back_ended(l, false);
    set_timer(l);
}

void lease_lane_begin(struct lease_lane *l, struct engine *e, struct lane *lane,
                      struct reactor *reactor)
{
    *l = (struct lease_lane){ .engine = e, .reactor = reactor };
    if (!e->leases)
        return;
    l->timer = reactor->timer(reactor, look, l);
    if (l->timer)
        l->lane = lane;
}

bool lease_lane_end(struct lease_lane *l, void (*ended)(void *ctx), void *ctx)
{
    if (!l->lane || l->is_ending)
        return l->under_way == 0;
    l->is_ending = true;
    give_back_ended(l, true);
    l->ended = ended;
    l->ctx = ctx;
    return l->under_way == 0;
}

void lease_lane_done(struct lease_lane *l)
{
    if (!l->lane)
        return;
    l->is_ending = true;
    l->ended = NULL;
    l->reactor->unwatch(l->timer);
    l->lane = NULL;
}

/* ---- asking for chunks ---------------------------------------------------------------------- */

static struct lease_wish wish_of(const struct lease_request *r)
{
    return (struct lease_wish){ .key = r->charge.key, .rule = &r->rule };
}

static void request_done(struct question *q)
{
    struct lease_request *r = q->ctx;
    struct lease_lane *l = r->lane;
    struct leases *leases = l->engine->leases;
    const struct decision *said = &r->charge.step.decision;
    const struct lease_wish wish = wish_of(r);
    const struct lease_grant grant = {
        .id = r->reserving.key,
        .amount = r->charge.cost,
        .ttl = r->reserving.ttl,
        .asked = r->asked,
        .answered = clock_steady_ms(),
        .remaining = said->remaining,
        .reset_after = said->reset_after,
        .delay = said->delay,
        .tag = r->reserving.tag,
        .counts = r->label.counts,
    };

    if (q->err || r->reserving.refusal) {
        lease_table_refused(leases->table, r->charge.key, -1);
    } else if (!q->allowed) {
        lease_table_refused(leases->table, r->charge.key, said->remaining);
    } else if (!lease_table_granted(leases->table, &wish, &grant)) {
        struct pending pending = { .lane = l->lane };

        give_back(l, &pending,
                  &(struct lease_end){ grant.id, grant.tag, grant.counts, grant.amount, 0 });
        l->engine->store->ops->commit(l->engine->store, &pending);
    }
    free(r);
    if (l->is_ending && l->lane)
        give_back_ended(l, true);
    set_timer(l);
    question_ended(l);
}

/* Around now; beyond the last boundary windows go on as long as the last. */
static void keep_calendar(struct lease_request *r)
{
    struct calendar *from = r->rule.calendar;
    struct calendar_bounds bounds;

    if (r->rule.start != START_CALENDAR)
        return;
    calendar_bounds(from, clock_wall_ms(), &bounds);
    r->calendar.period = from->period;
    r->calendar.month_day = from->month_day;
    strncpy(r->zone, from->zone_name, sizeof r->zone - 1);
    r->calendar.zone_name = r->zone;
    calendar_given(&r->calendar, bounds.at);
    r->rule.calendar = &r->calendar;
}

/* 128 bits that no caller can guess, and that no id of a reservation leads to. */
static struct key new_id(struct engine *e)
{
    const uint64_t numbers[2] = { atomic_fetch_add_explicit(&e->ids_made, 1, memory_order_relaxed),
                                  UINT64_MAX };

    return hash_identity(&e->id_key, (struct span){ (const char *)numbers, sizeof numbers });
}

static void ask_for_chunk(struct engine *e, struct pending *pending, const struct check *check,
                          size_t i, int64_t amount, int64_t now)
{
    const struct charge *c = &check->charges[i];
    const struct policy_rule *rule = check->rules[i];
    struct lease_request *r = calloc(1, sizeof *r);

    if (!r) {
        lease_table_refused(e->leases->table, c->key, -1);
        return;
    }
    r->lane = pending->leases;
    r->asked = now;
    r->rule = *c->rule;
    keep_calendar(r);
    r->charge = (struct charge){
        .rule = &r->rule,
        .key = c->key,
        .cost = amount,
        .class = c->class,
        .name = c->name,
    };
    r->label = (struct charge_label){
        .policy = rule->policy->name,
        .rule = rule->name,
        .counts = rule->counts ? rule->counts : COUNTS_REQUESTS,
        .is_kept = true,
    };
    r->reserving = (struct reserving){
        .key = new_id(e),
        .tag = c->name.tag,
        .ttl = rule->lease.ttl,
        .most_ttl = rule->lease.ttl,
        .labels = &r->label,
    };
    r->question = (struct question){
        .verb = VERB_RESERVE,
        .charges = &r->charge,
        .count = 1,
        .reserving = &r->reserving,
        .done = request_done,
        .ctx = r,
    };
    r->lane->under_way++;
    atomic_fetch_add_explicit(&e->leases->requests, 1, memory_order_relaxed);
    e->store->ops->submit(e->store, pending, &r->question);
}

/* ---- spending ------------------------------------------------------------------------------- */

/* All of its charges are of rules that lease, and there is nothing beside them to ask. */
static bool may_spend(const struct check *check)
{
    if (!verb_decides(check->verb) || check->peek || check->shadow > 0 || check->is_named)
        return false;
    for (size_t i = 0; i < check->live; i++)
        if (!check->rules[i] || check->rules[i]->lease.ttl == 0 || check->charges[i].cost < 0 ||
            check->charges[i].rule->limit == 0 ||
            lease_hold(check->charges[i].rule, &check->rules[i]->lease) < LEASE_LEAST_MS)
            return false;
    return check->live > 0;
}

static bool spend_of(struct engine *e, struct pending *pending, const struct check *check, size_t i,
                     int64_t now, struct lease_found *found)
{
    struct charge *c = &check->charges[i];
    const struct lease_wish wish = {
        .key = c->key,
        .rule = c->rule,
        .terms = &check->rules[i]->lease,
        .instances = policies_fallback(check->policies).instances,
        .cost = c->cost,
        .is_alone = check->live == 1,
        .is_last = i + 1 == check->live,
    };
    const bool is_spent = lease_table_spend(e->leases->table, &wish, now, found);

    if (found->ended.amount > 0)
        give_back(pending->leases, pending, &found->ended);
    if (found->chunk > 0)
        ask_for_chunk(e, pending, check, i, found->chunk, now);
    if (is_spent)
        c->step.decision = found->decision;
    return is_spent;
}

/* What came before is learnt before anything else is decided. */
static void learn(struct engine *e, struct pending *pending, const struct check *check)
{
    if (!e->local)
        return;
    if (check->is_lone) {
        fallback_run_add(e, &pending->leases->run, check);
        return;
    }
    leases_end_run(e, pending);
    fallback_learn(e, check,
                   &(struct question){
                       .verb = check->verb,
                       .charges = check->charges,
                       .count = check->live,
                       .allowed = true,
                   });
}

void leases_end_run(struct engine *e, struct pending *pending)
{
    fallback_run_end(e, &pending->leases->run);
}

bool leases_spend(struct engine *e, struct pending *pending, struct check *check)
{
    struct lease_found found[CHECK_MOST_CHARGES];
    size_t spent = 0;
    int64_t now;

    check->wants_lease = may_spend(check);
    if (!check->wants_lease || !pending->leases || pending->leases->is_ending)
        return false;
    now = pending_steady(pending);
    if (!deny_cache_is_certain(e->denials, now)) /* a reset elsewhere may have been missed */
        return false;
    while (spent < check->live && spend_of(e, pending, check, spent, now, &found[spent]))
        spent++;
    if (spent == check->live) {
        check->is_leased = true;
        learn(e, pending, check);
        return true;
    }
    for (size_t i = 0; i < spent; i++)
        lease_table_unspend(e->leases->table, check->charges[i].key, found[i].id,
                            check->charges[i].cost);
    return false;
}

void leases_learn(const struct check *check, const struct question *q)
{
    const int64_t now = clock_steady_ms();

    if (q->err || q->is_unkept)
        return;
    for (size_t i = 0; i < q->count; i++)
        lease_table_learn(check->engine->leases->table, q->charges[i].key,
                          &q->charges[i].step.decision, now);
}

/* ---- changes -------------------------------------------------------------------------------- */

void leases_recall(struct engine *e, const struct check *check)
{
    for (size_t i = 0; i < check->live + check->shadow; i++)
        lease_table_recall(e->leases->table, check->charges[i].key, clock_steady_ms());
}

void leases_hear(struct leases *l, const struct store_event *event, int64_t now)
{
    switch (event->kind) {
    case STORE_EVENT_KEY:
        lease_table_recall(l->table, event->key, now);
        break;
    case STORE_EVENT_ALL:
    case STORE_EVENT_LEDGER:
        lease_table_recall_all(l->table, now);
        break;
    case STORE_EVENT_BACK:
    case STORE_EVENT_UP_TO:
        break;
    }
}

void leases_get_stats(struct leases *l, weir_stats *stats)
{
    struct lease_stats of;

    lease_table_get_stats(l->table, &of);
    stats->leases = of.chunks;
    stats->leases_granted = of.granted;
    stats->leases_spent = of.spent;
    stats->leases_returned = of.returned;
    stats->leases_stranded = of.stranded;
    stats->lease_checks = of.checks;
    stats->lease_requests = atomic_load(&l->requests);
}
