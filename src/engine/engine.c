/* engine.c - the sentence: request → rules → store → answer. */
#include "engine/engine.h"

#include "base/clock.h"
#include "engine/answer.h"
#include "engine/charges.h"
#include "engine/deny_lookup.h"
#include "engine/fallback.h"
#include "engine/leases.h"
#include "engine/override_index.h"
#include "engine/reserve.h"

static struct engine_keys keys_of(const struct secret *secret)
{
    const char *const key = "key";

    return (struct engine_keys){
        .secret = *secret,
        .unnamed = hash_key_of(secret, span_of(unnamed_scope)),
        .cell = hash_key_of(secret, span_of("cl.throttle")),
        .counter = hash_key_of(secret, span_of("counter")),
        .reservation = hash_key_of(secret, span_of("reservations")),
        .called = { .hash_key = tag_hash_key(secret, &key, 1) },
        .place = hash_key_of(secret, span_of("tags")),
    };
}

void engine_take_secret(struct engine *e, const struct secret *secret)
{
    e->second = keys_of(secret);
    atomic_store_explicit(&e->keys, &e->second, memory_order_release);
}

void engine_init(struct engine *e, struct store *store, struct store *local,
                 const struct secret *secret, bool trusts_now)
{
    *e = (struct engine){
        .store = store,
        .local = local,
        .first = keys_of(secret),
        .trusts_now = trusts_now,
    };
    for (size_t i = 0; i < sizeof e->id_key.bytes; i += sizeof(uint64_t)) {
        const uint64_t salt = hash_salt();

        memcpy(e->id_key.bytes + i, &salt, sizeof salt);
    }
    atomic_init(&e->keys, &e->first);
    settle_later_init(&e->later);
    published_init(&e->overrides, NULL);
}

void engine_done(struct engine *e)
{
    override_index_free((struct override_index *)published_replace(&e->overrides, NULL));
    published_done(&e->overrides);
    settle_later_done(&e->later);
}

/* One place is enough for keys that are side by side. */
void engine_prefetch_charges(const struct engine *e, const struct check *check, enum prefetch what)
{
    for (size_t i = 0; i < check->live + check->shadow; i++)
        if (i == 0 || check->charges[i].key.high != check->charges[i - 1].key.high)
            e->store->ops->prefetch(e->store, check->charges[i].key, what);
}

void engine_prefetch_all(struct engine *e, const struct check *check, enum prefetch what)
{
    if (check->is_answered || !e->store->ops->prefetch)
        return;
    if (verb_reserves(check->verb)) {
        if (what != PREFETCH_BESIDE || !verb_makes_reservation(check->verb)) /* no record yet */
            e->store->ops->prefetch(e->store, check->reserving.of.key, what);
        if (what != PREFETCH_BESIDE)
            return; /* the charges came while its id was hashed */
    }
    engine_prefetch_charges(e, check, what);
}

int64_t pending_steady(const struct pending *pending)
{
    return pending->steady ? pending->steady : clock_steady_ms();
}

/* ---- asking --------------------------------------------------------------------------- */

static void fall_back(struct check *check, struct question *q)
{
    if (!q->err)
        fallback_learn(check->engine, check, q);
    else if (verb_settles(q->verb))
        check->is_settled_later = settle_later_add(&check->engine->later, q);
    else if (check->on_error == ON_ERROR_LOCAL &&
             !fallback_is_exhausted(check->engine, check->policies))
        fallback_decide(check->engine, check, q);
}

static void settle(struct check *check)
{
    if (--check->waiting > 0)
        return;
    if (verb_reserves(check->verb))
        answer_from_reservation(check);
    else
        answer_from_charges(check);
    if (check->done)
        check->done(check);
}

static void question_done(struct question *q)
{
    struct check *check = q->ctx;

    engine_count_error(check->engine, q);
    if (check->engine->denials)
        deny_lookup_learn(check, q);
    if (check->wants_lease)
        leases_learn(check, q);
    if (check->engine->local)
        fall_back(check, q);
    settle(check);
}

static void plain_done(struct question *q)
{
    struct check *check = q->ctx;

    engine_count_error(check->engine, q);
    check->waiting = 0;
    if (q->err) {
        check->made_by = 0;
        answer_from_charges(check);
    } else {
        answer_plain(check);
    }
    if (check->done)
        check->done(check);
}

/* It was asked of the store in this process. */
static void local_done(struct question *q)
{
    q->is_unkept = true;
    settle(q->ctx);
}

/* May the store decide it if it cannot keep it? */
static inline bool may_decide_anyway(const struct check *check)
{
    return check->on_error == ON_ERROR_LOCAL &&
           !fallback_is_exhausted(check->engine, check->policies);
}

/* Field by field: else all would be zeroed first, by an instruction that is slow to begin. */
static inline void put_question(struct check *check, struct question *q, struct charge *charges,
                                size_t n)
{
    q->verb = check->verb;
    q->ask = (struct asked){ check->ask.now, check->ask.peek };
    q->charges = charges;
    q->count = n;
    q->reserving = NULL;
    q->decide_anyway = may_decide_anyway(check);
    q->is_unkept = q->allowed = q->is_retried = false;
    q->err = WEIR_OK;
    q->mark = 0;
    q->deadline = 0;
    q->most_ms = check->most_ms;
    q->done = question_done;
    q->ctx = check;
    q->next = NULL;
}

/* A shared store has a clock of its own, for all who bring no time. */
static void leave_time_to_store(struct check *check, size_t n)
{
    for (size_t i = 0; i < n; i++)
        check->questions[i].ask.now = 0;
}

/* A limit of 0 holds nothing, nor a debt. Overrides and plans have had their say by now. */
static void spare_limits_of_none(struct check *check)
{
    for (size_t i = 0; i < check->live + check->shadow; i++)
        if (check->charges[i].rule->limit == 0)
            check->charges[i].cost = 0;
}

static void ask_local(struct engine *e, struct question *q)
{
    struct pending local = { 0 };

    q->done = local_done;
    e->local->ops->submit(e->local, &local, q);
    e->local->ops->commit(e->local, &local);
}

static void ask_about_reservation(struct engine *e, struct pending *pending, struct check *check,
                                  bool brings_now)
{
    struct question *q = &check->questions[0];

    if (e->local && !verb_makes_reservation(check->verb) && reserve_is_local(check->reserving.id)) {
        ask_local(e, q);
        return;
    }
    if (!brings_now && e->store->ops->is_shared)
        leave_time_to_store(check, 1);
    if (e->denials)
        check->asked_at = pending_steady(pending);
    e->store->ops->submit(e->store, pending, q);
}

/* Is it answered without the store, from what was taken there before? */
static bool is_leased(struct engine *e, struct pending *pending, struct check *check)
{
    if (verb_gives_back(check->verb)) {
        leases_recall(e, check);
        return false;
    }
    if (!leases_spend(e, pending, check))
        return false;
    check->waiting = 0;
    check->is_plain = check->is_lone;
    if (check->is_lone)
        answer_plain(check);
    else
        answer_from_charges(check);
    if (check->done)
        check->done(check);
    return true;
}

/* What is the same for all checks of a pattern is there, but for the first one. */
static void ask_plain(struct engine *e, struct pending *pending, struct check *check, int64_t now)
{
    struct question *q = check->questions;

    check->ask.now = now;
    check->waiting = 1;
    if (check->told_by != check->made_by) {
        check->engine = e;
        check->remembered = check->unknown = 0;
        check->wants_lease = check->is_leased = false;
        put_question(check, q, check->charges, check->live);
        q->done = plain_done;
        answer_in_common(check);
    } else {
        q->ask.now = now;
        q->decide_anyway = may_decide_anyway(check);
        q->is_unkept = false;
    }
    e->store->ops->submit(e->store, pending, q);
}

void engine_ask(struct engine *e, struct pending *pending, struct check *check, int64_t now)
{
    const bool brings_now = check->ask.now != 0;
    size_t n = 0;

    if (check->is_plain) {
        ask_plain(e, pending, check, now);
        return;
    }
    if (check->is_answered) {
        if (check->done)
            check->done(check);
        return;
    }
    if (!brings_now)
        check->ask.now = now;
    check->engine = e;
    check->remembered = check->unknown = 0;
    check->wants_lease = check->is_leased = false;
    if (settle_later_has_some(&e->later))
        settle_later_send(&e->later, e->store, pending);
    if (verb_reserves(check->verb)) {
        put_question(check, &check->questions[n++], check->charges, check->live + check->shadow);
        check->questions[0].reserving = &check->reserving.of;
        check->waiting = n;
        check->is_settled_later = false;
        ask_about_reservation(e, pending, check, brings_now);
        return;
    }
    if (e->leases && !brings_now && is_leased(e, pending, check))
        return;
    if (pending->leases)
        leases_end_run(e, pending);
    if (check->live > 0)
        put_question(check, &check->questions[n++], check->charges, check->live);
    for (size_t i = 0; i < check->shadow; i++)
        put_question(check, &check->questions[n++], &check->charges[check->live + i], 1);
    if (!brings_now && e->store->ops->is_shared)
        leave_time_to_store(check, n);
    if (verb_forces(check->verb))
        spare_limits_of_none(check);
    check->waiting = n;
    if (e->denials)
        check->asked_at = pending_steady(pending);
    for (size_t i = 0; i < n; i++) {
        if (e->denials && deny_lookup_refuses(check, i))
            settle(check);
        else
            e->store->ops->submit(e->store, pending, &check->questions[i]);
    }
}

void engine_commit(struct engine *e, struct pending *pending)
{
    if (pending->leases)
        leases_end_run(e, pending);
    e->store->ops->commit(e->store, pending);
}
