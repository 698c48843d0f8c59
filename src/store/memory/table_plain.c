/* table_plain.c - the way of most reservations: of one rule, made once and settled as it was held.
 *
 * Here this is done in a straight line. What is not so plain goes the way of all others, from its
 * beginning: an id that is known, a key that is a log, locked out or about to be, a table without
 * room. Nothing has been charged by then, so the same question has the same answer either way. */
#include "store/memory/record_short.h"
#include "store/memory/table_reservation.h"

enum { COUNTED = KEPT_COUNTS * KEPT_OF_ONE }; /* bytes, of each record */

/* ---- locks --------------------------------------------------------------------------------- */

static void lock_both(struct shard *a, struct shard *b)
{
    lock_take(a < b ? &a->lock : &b->lock);
    if (a != b)
        lock_take(a < b ? &b->lock : &a->lock);
}

/* One is locked already. False: that would be to wait for one that comes before it. */
static bool lock_other(struct shard *locked, struct shard *other)
{
    if (other < locked)
        return lock_try(&other->lock);
    if (other > locked)
        lock_take(&other->lock);
    return true;
}

static void unlock_both(struct shard *a, struct shard *b)
{
    lock_drop(&a->lock);
    if (a != b)
        lock_drop(&b->lock);
}

/* ---- reserve ------------------------------------------------------------------------------- */

/* The cell of a record, and its block. NULL: there is not room for both, or not at once. */
static struct cell *add_record(struct table *t, struct shard *s, uint32_t at, struct key key)
{
    struct pool_source source = table_pool(t, s);
    const int64_t keys = atomic_fetch_add_explicit(&t->keys, 1, memory_order_relaxed);
    const int64_t beside = atomic_fetch_add_explicit(&t->beside, COUNTED, memory_order_relaxed);
    const bool has_room = keys < t->max_keys && beside < t->max_beside - COUNTED;
    struct kept_reservation *r = has_room ? pool_take(&source, KEPT_OF_ONE) : NULL;

    if (r && shard_insert(s, at, key, ALGORITHM_RESERVATION)) {
        s->cells[at].state.kept.block = &r->block;
        return &s->cells[at];
    }
    pool_free(&s->records, r, &t->allocator);
    atomic_fetch_sub_explicit(&t->beside, COUNTED, memory_order_relaxed);
    atomic_fetch_sub_explicit(&t->keys, 1, memory_order_relaxed);
    return NULL;
}

/* Short: all else that a reader needs is in the record of the key. */
static void log_reserved(struct table *t, struct question *q, const struct shard *home,
                         struct cell *cell, const struct shard *own, struct cell *record)
{
    struct record logged[1 + LEAN_MOST];

    table_overtake(t, home, cell, NULL);
    table_overtake(t, own, record, NULL);
    state_pack(&cell->state, cell->algorithm, &logged[0].packed);
    logged[0].key = cell->key;
    logged[0].stamp = cell->stamp;
    q->mark = t->log->append_lean(t->log, logged, 1 + short_write_lean(record, &logged[1]),
                                  &logged[1], reservation_in(record));
}

/* A cell for a key that is new, or memory for its first holds. Cells may move. NULL: there is none. */
__attribute__((noinline)) static struct cell *prepare_cell(struct table *t, struct question *q,
                                                           struct shard *home)
{
    struct cell *cell;

    return table_prepare(t, home, q->charges, q, &cell) == WEIR_OK ? cell : NULL;
}

/* Both shards are locked, and the record belongs at `at`. `cell` may be NULL. */
static bool reserve(struct table *t, struct question *q, struct shard *home, struct shard *own,
                    struct cell *cell, uint32_t at)
{
    static const struct state untouched;
    const struct state *state = cell ? &cell->state : &untouched;
    struct reserving *of = q->reserving;
    struct charge *c = q->charges;
    const struct terms *terms = terms_share_one(t->terms, of->most_ttl, of->labels, c);
    const struct ask ask = { .now = q->ask.now, .cost = c->cost };
    const int64_t expires = ask.now + of->ttl;
    const struct hold hold = reservation_hold(of, c->rule->algorithm, expires, of->gives_back);
    struct cell *record;

    if (!terms)
        return false;
    c->step.locks = false;
    state_take(state, c->rule, &ask, &c->step);
    if (!c->step.decision.allowed)
        return true; /* it is answered */
    state_hold(state, c->rule, &ask, &hold, &c->step);
    if (!cell || !state_has_room(state, c->rule, &c->step)) {
        cell = prepare_cell(t, q, home);
        if (!cell)
            return false;
        at = shard_find(own, of->key);
    }
    record = add_record(t, own, at, of->key);
    if (!record) {
        if (state == &untouched)
            home->soonest = home->look_soonest = 0; /* the next sweep drops a cell that is so */
        return false;
    }
    if (home == own) /* it may have moved */
        cell = shard_cell(home, c->key);
    state_apply(&cell->state, c->rule, &c->step);
    table_stamp(home, cell, c);
    kept_put_one(reservation_in(record), terms, of, c, state_born(&cell->state, cell->algorithm));
    record->state.kept.expires = expires;
    record->state.kept.is_open = true;
    shard_stamp(own, record, expires + RESERVATION_KNOWN_MS, SHARD_LEVELS - 1, c->class);
    if (of->gives_back)
        table_expect_release(own, record);
    if (t->log)
        log_reserved(t, q, home, cell, own, record);
    of->expires_in = of->ttl;
    q->allowed = true;
    return true;
}

static bool is_plain(const struct question *q)
{
    const struct charge_label *label = q->reserving->labels;
    const struct rule *rule = q->charges->rule;

    return q->count == 1 && q->charges->cost > 0 && label->is_kept && !label->is_shadow &&
           !q->reserving->is_used && !state_is_log(rule->algorithm) &&
           rule->start != START_CALENDAR && rule->block_for == 0;
}

static bool reserve_plainly(struct table *t, struct question *q)
{
    const struct key key = q->charges->key, id = q->reserving->key;
    struct shard *home = table_shard(t, key), *own = table_shard(t, id);
    struct cell *cell;
    uint32_t at;
    bool done;

    if (!is_plain(q))
        return false;
    lock_both(home, own);
    table_purge_if_due(t, own, q->ask.now); /* which gets one more */
    cell = shard_cell(home, key);
    if (cell)
        state_prefetch(&cell->state, cell->algorithm);
    else
        table_purge_if_due(t, home, q->ask.now); /* which gets one more, too */
    at = shard_find(own, id);
    done = !(cell && cell->is_locked) && !shard_has(own, at, id) &&
           reserve(t, q, home, own, cell, at);
    unlock_both(home, own);
    return done;
}

/* ---- settle -------------------------------------------------------------------------------- */

/* Open, of one rule, and of shared terms? */
static bool is_open_and_plain(const struct cell *record, int64_t now)
{
    const struct kept_reservation *r;
    const struct terms *terms;

    if (!record || record->algorithm != ALGORITHM_RESERVATION || !record->state.kept.is_open ||
        record->state.kept.expires <= now)
        return false;
    r = reservation_in(record);
    terms = r->terms;
    return terms->is_shared && r->charge_count == 1 && !r->is_settled &&
           !terms->labels->is_shadow && terms->of->rule.start != START_CALENDAR &&
           !state_is_log(terms->of->rule.algorithm);
}

static void log_settled(struct table *t, struct question *q, const struct shard *home,
                        struct cell *cell, const struct shard *own, struct cell *record,
                        const struct hold *hold)
{
    const struct kept_charge *of = reservation_in(record)->charges;
    struct record logged[3];
    size_t n = 0;

    table_overtake(t, own, record, NULL);
    if (of->used != of->held)
        table_log_part(record, record->state.kept.expires, RECORD_USED, of->used, &logged[n++]);
    if (state_has_holds(cell->algorithm)) {
        table_overtake(t, home, cell, NULL);
        state_pack(&cell->state, cell->algorithm, &logged[n].packed);
        logged[n].key = cell->key;
        logged[n++].stamp = cell->stamp;
        short_write_settled(record, hold->expires, &logged[n++]);
    } else {
        table_log_part(record, record->state.kept.expires, RECORD_SETTLED, 0, &logged[n++]);
    }
    q->mark = t->log->append(t->log, logged, n);
}

/* Both shards are locked. What is held in a window, and used so, stays there as it is. */
static bool settle(struct table *t, struct question *q, struct shard *home, struct shard *own,
                   struct cell *cell, struct cell *record)
{
    struct reserving *of = q->reserving;
    struct kept_reservation *r = reservation_in(record);
    struct charge *c = q->charges;
    const int64_t held = r->charges[0].held, used = of->is_release ? 0 : held;
    struct hold hold = reservation_hold(of, cell->algorithm, record->state.kept.expires,
                                        r->gives_back);

    if (!state_has_holds(cell->algorithm) && used != held)
        return false;
    hold.amount = held;
    c->rule = &r->terms->of->rule; /* shared: it stays */
    c->key = r->charges->key;
    c->class = r->terms->of->class;
    of->labels = r->terms->labels;
    if (!state_has_holds(cell->algorithm)) {
        table_take(cell, c, &(struct ask){ .now = q->ask.now, .peek = true });
    } else {
        if (!state_settle(&cell->state, c->rule, q->ask.now, &hold, used, &c->step))
            return false;
        table_stamp(home, cell, c);
    }
    r->charges[0].used = used;
    r->is_settled = 1;
    record->state.kept.is_open = false;
    shard_relevel(own, record, RECORD_LEVEL);
    if (t->log)
        log_settled(t, q, home, cell, own, record, &hold);
    c->cost = used - held;
    if (c->step.decision.remaining == 0)
        of->over = cell_over(cell, c->rule, q->ask.now);
    q->count = 1;
    q->allowed = true;
    return true;
}

static bool settle_plainly(struct table *t, struct question *q)
{
    struct shard *own = table_shard(t, q->reserving->key), *home = own;
    struct cell *record, *cell;
    bool done = false;

    if (q->reserving->amount_count > 0 || q->reserving->is_expiry)
        return false;
    lock_take(&own->lock);
    record = shard_cell(own, q->reserving->key);
    if (is_open_and_plain(record, q->ask.now)) {
        const struct kept_charge *of = reservation_in(record)->charges;

        home = table_shard(t, of->key);
        if (lock_other(own, home)) {
            cell = shard_cell(home, of->key);
            done = cell && !cell->is_locked &&
                   cell->algorithm == reservation_in(record)->terms->of->rule.algorithm &&
                   settle(t, q, home, own, cell, record);
        } else {
            home = own;
        }
    }
    unlock_both(own, home);
    return done;
}

bool table_judge_plainly(struct table *t, struct question *q)
{
    if (verb_makes_reservation(q->verb))
        return reserve_plainly(t, q);
    return verb_settles(q->verb) && settle_plainly(t, q);
}
