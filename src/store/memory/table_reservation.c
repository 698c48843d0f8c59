/* table_reservation.c - reservations: charges that are held, and the record that settles them.
 *
 * The record of a reservation is a cell like others, under a hash of its id. Its block has all
 * that is needed to settle it. A question locks the shards of all its keys and of the record, in
 * ascending order. To settle, the keys are first read from the record; then all are locked, and
 * the record is looked at again.
 *
 * What is changed is appended to the log as one: the new values of the keys, what became of the
 * holds, and the record. */
#include <string.h>

#include "store/memory/table_reservation.h"

enum {
    RECORD_LEVEL = 8, /* of one that is settled: it goes before keys that are nearly used up */
    TRIES = 4,
};

static const struct state untouched;
static const struct rule record_rule = { .algorithm = ALGORITHM_RESERVATION };

struct hold deciding_hold(const struct deciding *d, int64_t expires)
{
    return (struct hold){ .expires = expires, .id = d->of->key.low ? d->of->key.low : 1 };
}

const struct state *deciding_look(const struct deciding *d, struct key key)
{
    const struct cell *cell = table_cell(d->t, key);

    return cell ? &cell->state : &untouched;
}

/* R2 */
static struct cell *find_record(struct table *t, struct key key, int64_t now)
{
    struct cell *cell = table_cell(t, key);

    return cell && cell->algorithm == ALGORITHM_RESERVATION &&
                   now < cell->state.kept.expires + RESERVATION_KNOWN_MS
               ? cell
               : NULL;
}

/* ---- locks --------------------------------------------------------------------------------- */

static void lock_all(struct deciding *d, size_t n)
{
    d->all = *d->q;
    d->all.charges = d->charges;
    d->all.count = n + 1;
    d->charges[n].key = d->of->key;
    d->charges[n].rule = &record_rule;
    d->shard_count = table_shards_of(d->t, &d->all, d->shards);
    for (size_t i = 0; i < d->shard_count; i++)
        pthread_mutex_lock(&d->t->shards[d->shards[i]].lock);
}

static void unlock_all(struct deciding *d)
{
    for (size_t i = d->shard_count; i > 0; i--)
        pthread_mutex_unlock(&d->t->shards[d->shards[i - 1]].lock);
}

/* ---- the log ------------------------------------------------------------------------------- */

void deciding_log_cell(struct deciding *d, const struct cell *cell)
{
    if (!d->t->log)
        return;
    table_overtake(d->t, cell->key);
    table_record(cell, &d->logged[d->logged_count++]);
}

void deciding_log_part(struct deciding *d, const struct cell *cell, int64_t first, int64_t second,
                       int64_t third)
{
    struct record *r;

    if (!d->t->log)
        return;
    r = &d->logged[d->logged_count++];
    r->key = cell->key;
    r->stamp = cell->stamp;
    r->is_hold = 1;
    r->packed = (struct packed){ { first, second, third } };
}

/* What the hold is now; 0, if it is none any more. */
void deciding_log_hold(struct deciding *d, const struct cell *cell, const struct hold *hold)
{
    deciding_log_part(
        d, cell, hold->expires, (int64_t)hold->id,
        holds_find(state_holds(&cell->state, cell->algorithm), hold->expires, hold->id));
}

void deciding_log_record(struct deciding *d, const struct cell *record)
{
    const struct kept_block *block = record->state.kept.block;
    struct record *r = &d->logged[d->logged_count];

    if (!d->t->log)
        return;
    table_overtake(d->t, record->key);
    table_record(record, r);
    memset(r + record_more(r), 0, sizeof *r); /* the last need not be full */
    memcpy(r + 1, block, block->size);
    d->logged_count += 1 + record_more(r);
}

void deciding_append(struct deciding *d)
{
    if (d->t->log && d->logged_count > 0)
        d->q->mark = d->t->log->append(d->t->log, d->logged, d->logged_count);
}

/* ---- charging ------------------------------------------------------------------------------ */

static bool takes(const struct charge *c)
{
    return c->cost > 0 && c->step.decision.allowed;
}

void deciding_look_at_all(struct deciding *d)
{
    for (size_t i = 0; i < d->q->count; i++) {
        struct charge *c = &d->charges[i];
        const struct ask ask = { .now = d->now, .cost = c->cost, .peek = true };

        table_take(table_cell(d->t, c->key), c, &ask);
    }
}

/* Those that would have passed are told as they stand; the others may lock their keys out. */
static void refuse(struct deciding *d)
{
    for (size_t i = 0; i < d->q->count; i++) {
        struct charge *c = &d->charges[i];
        const struct ask peek = { .now = d->now, .cost = c->cost, .peek = true };

        if (c->step.decision.allowed)
            table_take(table_cell(d->t, c->key), c, &peek);
        else if (c->step.locks)
            deciding_log_cell(d, table_lock_out(d->t, deciding_shard(d, c->key), c));
    }
}

bool deciding_take_all(struct deciding *d, const struct hold *hold)
{
    bool allowed = true;

    for (size_t i = 0; i < d->q->count; i++) {
        struct charge *c = &d->charges[i];
        const struct cell *cell = table_cell(d->t, c->key);
        const struct ask ask = { .now = d->now, .cost = c->cost };

        table_take(cell, c, &ask);
        if (hold)
            state_hold(cell && !cell->is_locked ? &cell->state : &untouched, c->rule, &ask, hold,
                       &c->step);
        allowed = allowed && (c->step.decision.allowed || deciding_is_shadow(d, i));
    }
    if (!allowed)
        refuse(d);
    for (size_t i = 0; i < d->q->count && allowed; i++)
        if (takes(&d->charges[i]))
            table_unlock(d->t, table_cell(d->t, d->charges[i].key), d->now);
    d->q->allowed = allowed;
    return allowed;
}

weir_err deciding_prepare_all(struct deciding *d)
{
    weir_err err = WEIR_OK;
    struct cell *cell;

    for (size_t i = 0; i < d->q->count && !err; i++)
        if (takes(&d->charges[i]))
            err = table_prepare(d->t, deciding_shard(d, d->charges[i].key), &d->charges[i], &d->all,
                                &cell);
    return err;
}

static void apply(struct deciding *d, size_t i)
{
    struct charge *c = &d->charges[i];
    struct cell *cell = table_cell(d->t, c->key);

    state_apply(&cell->state, c->rule, &c->step);
    table_stamp(deciding_shard(d, c->key), cell, c);
    deciding_log_cell(d, cell);
    if (c->step.hold.amount > 0)
        deciding_log_hold(d, cell, &c->step.hold);
}

void deciding_apply_all(struct deciding *d, struct reservation *r)
{
    for (size_t i = 0; i < d->q->count; i++)
        if (takes(&d->charges[i])) {
            apply(d, i);
            reservation_add(r, i, d->charges[i].cost,
                            state_mark(d->charges[i].rule, &d->charges[i].step));
        }
}

/* ---- the record ---------------------------------------------------------------------------- */

void deciding_stamp_record(struct deciding *d, struct cell *record)
{
    const struct kept_state *kept = &record->state.kept;

    shard_stamp(deciding_shard(d, record->key), record, kept->expires + RESERVATION_KNOWN_MS,
                kept->is_open ? SHARD_LEVELS - 1 : RECORD_LEVEL,
                d->q->count > 0 ? d->charges[0].class : 0);
}

/* A cell with this block. On failure the block is freed. */
static weir_err make_record(struct deciding *d, struct reservation *r)
{
    struct table *t = d->t;
    struct shard *s = deciding_shard(d, d->of->key);
    struct cell *cell = table_cell(t, d->of->key);

    if (cell) /* one that is not known any more */
        table_erase(t, s, (uint32_t)(cell - s->cells));
    cell = table_ensure(t, s, &d->charges[d->q->count], &d->all);
    if (!cell) {
        alloc_free(&t->allocator, r);
        return WEIR_EFULL;
    }
    cell->state.kept.block = &r->block;
    cell->state.kept.expires = d->now + d->of->ttl;
    cell->state.kept.is_open = !d->of->is_used;
    if (table_allow_beside(t, s, &d->all, (int64_t)r->block.size))
        return WEIR_OK;
    cell = table_cell(t, d->of->key);
    table_erase(t, s, (uint32_t)(cell - s->cells));
    return WEIR_EFULL;
}

void deciding_note_growth(struct deciding *d, uint64_t before, const struct reservation *r)
{
    atomic_fetch_add_explicit(&d->t->beside, (int64_t)(r->block.size - before),
                              memory_order_relaxed);
}

/* ---- reserve ------------------------------------------------------------------------------- */

static void repeat(struct deciding *d, const struct cell *record)
{
    for (size_t i = 0; i < d->q->count; i++)
        d->charges[i].cost = 0;
    deciding_look_at_all(d);
    d->of->is_repeated = true;
    d->of->expires_in = record->state.kept.expires - d->now;
    d->q->allowed = true;
}

static void settle_at_once(struct reservation *r)
{
    r->is_settled = 1;
    for (size_t i = 0; i < r->charge_count; i++)
        r->charges[i].used = r->charges[i].held;
}

static weir_err make_reservation(struct deciding *d)
{
    struct reservation *r = reservation_new(d->of, d->charges, d->q->count, &d->t->allocator);
    struct cell *record;
    weir_err err = r ? make_record(d, r) : WEIR_ENOMEM;
    uint64_t before;

    if (!err) {
        err = deciding_prepare_all(d);
        record = table_cell(d->t, d->of->key);
        if (err)
            table_erase(d->t, deciding_shard(d, d->of->key),
                        (uint32_t)(record - deciding_shard(d, d->of->key)->cells));
    }
    if (err)
        return err;
    before = r->block.size;
    deciding_apply_all(d, r);
    deciding_note_growth(d, before, r);
    if (d->of->is_used)
        settle_at_once(r);
    record = table_cell(d->t, d->of->key);
    deciding_stamp_record(d, record);
    deciding_log_record(d, record);
    d->of->expires_in = d->of->ttl;
    return WEIR_OK;
}

static void reserve(struct deciding *d)
{
    const struct hold hold = deciding_hold(d, d->now + d->of->ttl);
    const struct cell *record;

    memcpy(d->charges, d->q->charges, d->q->count * sizeof *d->charges);
    lock_all(d, d->q->count);
    record = find_record(d->t, d->of->key, d->now);
    if (record && reservation_in(record)->fingerprint != d->of->fingerprint) {
        d->of->refusal = WEIR_EREUSED;
    } else if (record) {
        repeat(d, record);
    } else {
        for (size_t i = 0; i < d->all.count; i++)
            table_purge_if_due(d->t, deciding_shard(d, d->charges[i].key), d->now);
        if (deciding_take_all(d, d->of->is_used ? NULL : &hold))
            d->q->err = make_reservation(d);
        if (!d->q->err)
            deciding_append(d);
    }
    unlock_all(d);
    memcpy(d->q->charges, d->charges, d->q->count * sizeof *d->charges);
}

/* What the record says of its keys: read, to know what to lock. False: there is no record. */
static bool read_record(struct deciding *d, uint64_t *fingerprint)
{
    struct shard *s = deciding_shard(d, d->of->key);
    const struct cell *record;

    pthread_mutex_lock(&s->lock);
    record = find_record(d->t, d->of->key, d->now);
    if (record) {
        const struct reservation *r = reservation_in(record);

        *fingerprint = r->fingerprint;
        d->q->count = r->charge_count;
        reservation_read(r, d->of, d->charges);
    }
    pthread_mutex_unlock(&s->lock);
    return record != NULL;
}

static void change_found(struct deciding *d)
{
    for (int tries = 0; tries < TRIES; tries++) {
        uint64_t fingerprint;
        struct cell *record;
        bool is_same;

        if (!read_record(d, &fingerprint)) {
            d->of->refusal = WEIR_ENORESERVATION;
            return;
        }
        lock_all(d, d->q->count);
        record = find_record(d->t, d->of->key, d->now);
        is_same = record && reservation_in(record)->fingerprint == fingerprint &&
                  reservation_in(record)->charge_count == d->q->count;
        if (is_same)
            deciding_change(d, record);
        unlock_all(d);
        if (is_same) {
            memcpy(d->q->charges, d->charges, d->q->count * sizeof *d->charges);
            return;
        }
    }
    d->q->err = WEIR_EIO;
}

void table_judge_reservation(struct table *t, struct question *q)
{
    struct deciding d;

    d.t = t;
    d.q = q;
    d.of = q->reserving;
    d.now = q->ask.now;
    d.logged_count = 0;
    q->err = WEIR_OK;
    q->mark = 0;
    q->allowed = false;
    d.of->refusal = WEIR_OK;
    d.of->is_repeated = d.of->has_expired = false;
    d.of->over = d.of->expires_in = 0;
    if (verb_makes_reservation(q->verb))
        reserve(&d);
    else
        change_found(&d);
    table_grow_if_due(t);
}
