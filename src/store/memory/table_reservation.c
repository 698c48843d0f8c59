/* table_reservation.c - reservations: charges that are held, and the record that settles them.
 *
 * The record of a reservation is a cell like others, under a hash of its id. Its block has all
 * that is needed to settle it. A question locks the shards of all its keys and of the record, in
 * ascending order. To settle, the record is found first, and says which keys there are: their
 * shards are then locked if that needs no waiting. If it does, all are let go, locked in order,
 * and the record is looked at again.
 *
 * What is changed is appended to the log as one: the new values of the keys, what became of the
 * holds, and the record. */
#include <string.h>

#include "store/memory/record_short.h"
#include "store/memory/table_reservation.h"

enum { TRIES = 4 };

static const struct state untouched;
static const struct rule record_rule = { .algorithm = ALGORITHM_RESERVATION };

struct hold deciding_hold(const struct deciding *d, size_t i, int64_t expires, bool gives_back)
{
    return reservation_hold(d->of, d->charges[i].rule->algorithm, expires, gives_back);
}

/* ---- finding ------------------------------------------------------------------------------- */

/* Keys that are side by side are searched once. */
static void find_all(struct deciding *d)
{
    struct cell *first = NULL;

    for (size_t i = 0; i < d->q->count; i++) {
        const struct key key = d->charges[i].key;
        struct cell *cell;

        if (key.high == 0)
            cell = shard_cell(d->homes[i], key);
        else if (i > 0 && key.high == d->charges[i - 1].key.high)
            cell = shard_beside(first, key);
        else
            cell = shard_beside(first = shard_first(d->homes[i], key), key);
        d->cells[i] = cell;
        if (cell)
            state_prefetch(&cell->state, cell->algorithm);
    }
}

static void find_charges_again(struct deciding *d, const struct shard *s)
{
    for (size_t i = 0; i < d->q->count; i++)
        if (d->homes[i] == s)
            d->cells[i] = shard_cell(s, d->charges[i].key);
}

void deciding_find_again(struct deciding *d, const struct shard *s)
{
    find_charges_again(d, s);
    if (deciding_home_of_record(d) == s)
        d->cells[d->q->count] = shard_cell(s, d->of->key);
}

/* R2 */
static bool is_known(const struct cell *cell, int64_t now)
{
    return cell && cell->algorithm == ALGORITHM_RESERVATION &&
           now < cell->state.kept.expires + RESERVATION_KNOWN_MS;
}

static struct cell *find_record(const struct deciding *d, const struct shard *s)
{
    struct cell *cell = shard_cell(s, d->of->key);

    return is_known(cell, d->now) ? cell : NULL;
}

/* ---- locks --------------------------------------------------------------------------------- */

/* Most have one key. */
static void list_two(struct deciding *d, struct shard *key, struct shard *record)
{
    d->homes[0] = key;
    d->homes[1] = record;
    d->shards[0] = key < record ? key : record;
    d->shards[1] = key < record ? record : key;
    d->shard_count = key == record ? 1 : 2;
}

__attribute__((noinline)) static void list_several(struct deciding *d, struct shard *record)
{
    size_t n = 1;

    d->homes[d->q->count] = d->shards[0] = record;
    for (size_t i = 0; i < d->q->count; i++) {
        d->homes[i] = table_shard(d->t, d->charges[i].key);
        n = table_order_shard(d->homes[i], n, d->shards);
    }
    d->shard_count = n;
}

static void list_shards(struct deciding *d, struct shard *record)
{
    if (d->q->count == 1)
        list_two(d, table_shard(d->t, d->charges[0].key), record);
    else
        list_several(d, record);
}

static void lock_all(struct deciding *d)
{
    for (size_t i = 0; i < d->shard_count; i++)
        lock_take(&d->shards[i]->lock);
}

static void unlock_some(struct deciding *d, size_t n, const struct shard *but)
{
    for (; n > 0; n--)
        if (d->shards[n - 1] != but)
            lock_drop(&d->shards[n - 1]->lock);
}

static void unlock_all(struct deciding *d)
{
    unlock_some(d, d->shard_count, NULL);
}

/* One shard is locked already: the others, without waiting for one that comes before it. False:
 * none of them is locked. */
static bool lock_others(struct deciding *d, const struct shard *locked)
{
    for (size_t i = 0; i < d->shard_count; i++) {
        struct lock *lock = &d->shards[i]->lock;

        if (d->shards[i] > locked) {
            lock_take(lock);
        } else if (d->shards[i] < locked && !lock_try(lock)) {
            unlock_some(d, i, locked);
            return false;
        }
    }
    return true;
}

/* ---- the log ------------------------------------------------------------------------------- */

void deciding_log_cell(struct deciding *d, struct cell *cell)
{
    if (d->t->log)
        table_log_cell(d->t, cell, &d->logged[d->logged_count++]);
}

void deciding_log_part(struct deciding *d, const struct cell *cell, int64_t first, int64_t second,
                       int64_t third)
{
    if (d->t->log)
        table_log_part(cell, first, second, third, &d->logged[d->logged_count++]);
}

/* What the hold is now; 0, if it is none any more. */
void deciding_log_hold(struct deciding *d, const struct cell *cell, const struct hold *hold)
{
    if (d->t->log)
        deciding_log_part(
            d, cell, hold->expires, (int64_t)hold->id,
            holds_find(state_holds(&cell->state, cell->algorithm), hold->expires, hold->id));
}

_Static_assert(RESERVATION_MOST_PACKED < 1024 * sizeof(struct record), "there is room for it");

size_t table_log_reservation(struct table *t, struct cell *record, bool is_new, struct record *to)
{
    const struct kept_state *kept = &record->state.kept;
    size_t size, room;

    table_overtake(t, table_shard(t, record->key), record, NULL);
    size = kept_pack(reservation_in(record), to + 1);
    to->key = record->key;
    to->stamp = record->stamp;
    to->is_locked = is_new;
    to->packed = (struct packed){
        { (int64_t)size, kept->expires, kept->is_open | RECORD_PACKED },
    };
    room = record_more(to) * sizeof *to;
    memset((char *)(to + 1) + size, 0, room - size); /* the last need not be full */
    return 1 + record_more(to);
}

/* The records of its keys stand before it, and nothing behind it. */
static void log_new_record(struct deciding *d)
{
    struct cell *record = deciding_record(d);

    if (!d->t->log)
        return;
    if (!short_may_be_lean(reservation_in(record))) {
        deciding_log_record(d, true);
        return;
    }
    table_overtake(d->t, deciding_home_of_record(d), record, NULL);
    d->lean = &d->logged[d->logged_count];
    d->logged_count += short_write_lean(record, d->lean);
}

void deciding_log_record(struct deciding *d, bool is_new)
{
    if (d->t->log)
        d->logged_count += table_log_reservation(d->t, deciding_record(d), is_new,
                                                 &d->logged[d->logged_count]);
}

void table_log_change(struct table *t, struct cell *record, enum record_change change,
                      int64_t amount, struct record *to)
{
    table_overtake(t, table_shard(t, record->key), record, NULL);
    table_log_part(record, record->state.kept.expires, (int64_t)change, amount, to);
}

void deciding_log_change(struct deciding *d, enum record_change change, int64_t amount)
{
    if (d->t->log)
        table_log_change(d->t, deciding_record(d), change, amount, &d->logged[d->logged_count++]);
}

void deciding_append(struct deciding *d)
{
    struct table_log *log = d->t->log;

    if (!log || d->logged_count == 0)
        return;
    d->q->mark = d->lean ? log->append_lean(log, d->logged, d->logged_count, d->lean,
                                            reservation_in(deciding_record(d)))
                         : log->append(log, d->logged, d->logged_count);
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

        table_take(d->cells[i], c, &ask);
    }
}

/* Those that would have passed are told as they stand; the others may lock their keys out. */
static void refuse(struct deciding *d)
{
    for (size_t i = 0; i < d->q->count; i++) {
        struct charge *c = &d->charges[i];
        const struct ask peek = { .now = d->now, .cost = c->cost, .peek = true };

        if (c->step.decision.allowed)
            table_take(d->cells[i], c, &peek);
        else if (c->step.locks)
            deciding_log_cell(d, table_lock_out(d->t, d->homes[i], c));
    }
}

bool deciding_take_all(struct deciding *d, int64_t expires, bool gives_back)
{
    bool allowed = true;

    for (size_t i = 0; i < d->q->count; i++) {
        struct charge *c = &d->charges[i];
        const struct cell *cell = d->cells[i];
        const struct ask ask = { .now = d->now, .cost = c->cost };

        table_take(cell, c, &ask);
        if (expires > 0 && takes(c)) {
            const struct hold hold = deciding_hold(d, i, expires, gives_back);

            state_hold(cell && !cell->is_locked ? &cell->state : &untouched, c->rule, &ask, &hold,
                       &c->step);
        }
        allowed = allowed && (c->step.decision.allowed || deciding_is_shadow(d, i));
    }
    if (!allowed)
        refuse(d);
    for (size_t i = 0; i < d->q->count && allowed; i++)
        if (takes(&d->charges[i]))
            table_unlock(d->t, d->cells[i], d->now);
    d->q->allowed = allowed;
    return allowed;
}

weir_err deciding_prepare(struct deciding *d, size_t i)
{
    const struct charge *c = &d->charges[i];
    struct shard *s = d->homes[i];
    struct cell *cell = d->cells[i];
    weir_err err;

    if (cell && state_has_room(&cell->state, c->rule, &c->step))
        return WEIR_OK;
    err = table_prepare(d->t, s, c, d->q, &cell);
    deciding_find_again(d, s);
    return err;
}

weir_err deciding_prepare_all(struct deciding *d)
{
    weir_err err = WEIR_OK;

    for (size_t i = 0; i < d->q->count && !err; i++)
        if (takes(&d->charges[i]))
            err = deciding_prepare(d, i);
    return err;
}

static void apply(struct deciding *d, size_t i)
{
    struct charge *c = &d->charges[i];
    struct cell *cell = d->cells[i];

    state_apply(&cell->state, c->rule, &c->step);
    table_stamp(d->homes[i], cell, c);
    deciding_log_cell(d, cell);
}

static struct reserved_part part_of(const struct deciding *d, size_t i)
{
    const struct charge *c = &d->charges[i];

    return (struct reserved_part){
        .amount = c->cost,
        .mark = state_mark(c->rule, &c->step),
        .charge = (uint32_t)i,
        .born = state_born(&d->cells[i]->state, c->rule->algorithm),
    };
}

void deciding_apply_more(struct deciding *d, struct kept_reservation *r)
{
    for (size_t i = 0; i < d->q->count; i++)
        if (takes(&d->charges[i])) {
            const struct hold *hold = &d->charges[i].step.hold;
            struct reserved_part part;

            apply(d, i);
            if (hold->amount > 0 && state_has_holds(d->cells[i]->algorithm))
                deciding_log_hold(d, d->cells[i], hold);
            part = part_of(d, i);
            kept_add(r, i, &part);
        }
}

/* A new record has its parts already: they are filled in. What is held follows from them. */
static void apply_all(struct deciding *d, struct kept_reservation *r)
{
    struct reserved_part *part = kept_parts(r);

    for (size_t i = 0; i < d->q->count; i++)
        if (takes(&d->charges[i])) {
            apply(d, i);
            r->charges[i].held = d->charges[i].cost;
            *part++ = part_of(d, i);
        }
}

static size_t count_parts(const struct deciding *d)
{
    size_t n = 0;

    for (size_t i = 0; i < d->q->count; i++)
        n += takes(&d->charges[i]);
    return n;
}

/* ---- the record ---------------------------------------------------------------------------- */

void deciding_stamp_record(struct deciding *d)
{
    struct cell *record = deciding_record(d);
    const struct kept_state *kept = &record->state.kept;

    shard_stamp(deciding_home_of_record(d), record, kept->expires + RESERVATION_KNOWN_MS,
                kept->is_open ? SHARD_LEVELS - 1 : RECORD_LEVEL,
                d->q->count > 0 ? d->charges[0].class : 0);
}

static void erase_record(struct deciding *d)
{
    struct shard *s = deciding_home_of_record(d);
    const struct cell *cell = shard_cell(s, d->of->key);

    table_erase(d->t, s, (uint32_t)(cell - s->cells));
    deciding_find_again(d, s);
}

/* A cell with this block. On failure the block is freed. */
static weir_err make_record(struct deciding *d, struct kept_reservation *r)
{
    struct table *t = d->t;
    struct shard *s = deciding_home_of_record(d);
    struct charge of;
    struct cell *cell;
    uint32_t count;

    of.key = d->of->key;
    of.rule = &record_rule;
    if (deciding_record(d)) /* one that is not known any more */
        erase_record(d);
    cell = table_ensure(t, s, &of, d->q);
    if (!cell) {
        pool_free(&s->records, r, &t->allocator);
        deciding_find_again(d, s);
        return WEIR_EFULL;
    }
    cell->state.kept.block = &r->block;
    cell->state.kept.expires = d->now + d->of->ttl;
    cell->state.kept.is_open = !d->of->is_used;
    d->cells[d->q->count] = cell;
    count = s->count;
    if (!table_allow_beside(t, s, d->q, (int64_t)r->block.size)) {
        erase_record(d);
        return WEIR_EFULL;
    }
    find_charges_again(d, s); /* cells of the shard may have moved */
    if (s->count != count)
        d->cells[d->q->count] = shard_cell(s, d->of->key);
    return WEIR_OK;
}

/* ---- reserve ------------------------------------------------------------------------------- */

static void repeat(struct deciding *d, const struct cell *record)
{
    for (size_t i = 0; i < d->q->count; i++)
        d->charges[i].cost = 0;
    find_all(d);
    deciding_look_at_all(d);
    d->of->is_repeated = true;
    d->of->expires_in = record->state.kept.expires - d->now;
    d->q->allowed = true;
}

static void settle_at_once(struct kept_reservation *r)
{
    r->is_settled = 1;
    for (size_t i = 0; i < r->charge_count; i++)
        r->charges[i].used = r->charges[i].held;
}

static weir_err make_reservation(struct deciding *d)
{
    struct pool_source source = table_pool(d->t, deciding_home_of_record(d));
    const weir_allocator pool = pool_allocator(&source);
    struct kept_reservation *r = kept_new(d->t->terms, d->of, d->charges, d->q->count,
                                          count_parts(d), &pool);
    weir_err err = r ? make_record(d, r) : WEIR_ENOMEM;

    if (!err) {
        err = deciding_prepare_all(d);
        if (err)
            erase_record(d);
    }
    if (err)
        return err;
    apply_all(d, r);
    if (d->of->is_used)
        settle_at_once(r);
    deciding_stamp_record(d);
    table_expect_release(deciding_home_of_record(d), deciding_record(d));
    if (d->of->is_used)
        deciding_log_record(d, false);
    else
        log_new_record(d);
    d->of->expires_in = d->of->ttl;
    return WEIR_OK;
}

static void reserve(struct deciding *d)
{
    const struct cell *record;

    list_shards(d, table_shard(d->t, d->of->key));
    lock_all(d);
    for (size_t i = 0; i < d->shard_count; i++)
        table_purge_if_due(d->t, d->shards[i], d->now);
    d->cells[d->q->count] = shard_cell(deciding_home_of_record(d), d->of->key);
    record = is_known(deciding_record(d), d->now) ? deciding_record(d) : NULL;
    if (record && reservation_in(record)->fingerprint != d->of->fingerprint) {
        d->of->refusal = WEIR_EREUSED;
    } else if (record) {
        repeat(d, record);
    } else {
        find_all(d);
        if (deciding_take_all(d, d->of->is_used ? 0 : d->now + d->of->ttl, d->of->gives_back))
            d->q->err = make_reservation(d);
        if (!d->q->err)
            deciding_append(d);
    }
    unlock_all(d);
}

/* ---- all others ---------------------------------------------------------------------------- */

/* The record, with its shard locked; what it says of its keys is read. NULL: there is none, and
 * nothing is locked. */
static struct cell *lock_record(struct deciding *d, struct shard *s)
{
    struct cell *record;

    lock_take(&s->lock);
    record = find_record(d, s);
    if (!record) {
        lock_drop(&s->lock);
        return NULL;
    }
    d->q->count = reservation_in(record)->charge_count;
    kept_read(reservation_in(record), d->of, d->charges);
    list_shards(d, s);
    return record;
}

/* The record, with all shards locked. */
static struct cell *lock_all_of_record(struct deciding *d)
{
    struct shard *own = table_shard(d->t, d->of->key);
    struct cell *record = NULL;

    for (int tries = 0; tries < TRIES && !record; tries++) {
        uint64_t fingerprint;

        record = lock_record(d, own);
        if (!record) {
            d->of->refusal = WEIR_ENORESERVATION;
            return NULL;
        }
        if (lock_others(d, own))
            return record;
        fingerprint = reservation_in(record)->fingerprint;
        lock_drop(&own->lock);
        lock_all(d);
        record = find_record(d, own);
        if (record && (reservation_in(record)->fingerprint != fingerprint ||
                       reservation_in(record)->charge_count != d->q->count))
            record = NULL;
        if (record) /* it may lie elsewhere now */
            kept_read(reservation_in(record), d->of, d->charges);
        else
            unlock_all(d);
    }
    if (!record)
        d->q->err = WEIR_EIO;
    return record;
}

static void change_found(struct deciding *d)
{
    struct cell *record = lock_all_of_record(d);

    if (!record)
        return;
    find_all(d);
    d->cells[d->q->count] = record;
    deciding_change(d);
    unlock_all(d);
}

__attribute__((noinline)) static void judge(struct table *t, struct question *q)
{
    struct deciding d;

    d.t = t;
    d.q = q;
    d.of = q->reserving;
    d.now = q->ask.now;
    if (d.of->charges)
        q->charges = d.of->charges;
    d.charges = q->charges;
    d.stands = 0;
    d.logged_count = 0;
    d.lean = NULL;
    if (verb_makes_reservation(q->verb))
        reserve(&d);
    else
        change_found(&d);
}

void table_judge_reservation(struct table *t, struct question *q)
{
    struct reserving *of = q->reserving;

    q->err = WEIR_OK;
    q->mark = 0;
    q->allowed = false;
    of->refusal = WEIR_OK;
    of->is_repeated = of->has_expired = false;
    of->over = of->expires_in = 0;
    if (!table_judge_plainly(t, q))
        judge(t, q);
    table_grow_if_due(t);
}
