/* table_settle.c - what becomes of a reservation: settled, grown or extended.
 *
 * What was not used is given back to where it lies, by the marks in the record, newest part first.
 * What was used beyond is charged, whatever the limits say. */
#include "store/memory/record_short.h"
#include "store/memory/table_reservation.h"

int64_t cell_over(const struct cell *cell, const struct rule *rule, int64_t now)
{
    const struct ask ask = { .now = now, .peek = true, .forced = true };
    struct step step;

    if (!cell)
        return 0;
    state_take(&cell->state, rule, &ask, &step);
    return step.decision.remaining < 0 ? -step.decision.remaining : 0;
}

static void tell_how_it_stands(struct deciding *d)
{
    const struct ask peek = { .now = d->now, .peek = true };

    for (size_t i = 0; i < d->q->count; i++) {
        d->charges[i].cost = 0;
        if (!(d->stands >> i & 1))
            table_take(d->cells[i], &d->charges[i], &peek);
    }
    d->q->allowed = true;
}

/* The state of a charge was changed, and its step says how it stands. */
static void stamp(struct deciding *d, size_t i)
{
    table_stamp(d->homes[i], d->cells[i], &d->charges[i]);
    d->stands |= UINT64_C(1) << i;
}

static void stamp_as_it_stands(struct deciding *d, size_t i)
{
    const struct ask peek = { .now = d->now, .peek = true };

    table_take(d->cells[i], &d->charges[i], &peek);
    stamp(d, i);
}

/* ---- settle -------------------------------------------------------------------------------- */

/* Parts that were added last come back first. */
static void give_back(struct deciding *d, const struct kept_reservation *r, size_t i)
{
    const struct reserved_part *parts = kept_parts(r);
    struct cell *cell = d->cells[i];
    const uint32_t born = state_born(&cell->state, cell->algorithm);
    int64_t back = r->charges[i].held - d->used[i];

    for (size_t p = r->part_count; p > 0 && back > 0; p--) {
        const struct reserved_part *part = &parts[p - 1];
        const int64_t amount = part->amount < back ? part->amount : back;

        if (part->charge != i)
            continue;
        back -= amount;
        if (part->born == born)
            state_give_back(&cell->state, d->charges[i].rule, d->now, part->mark, amount);
    }
    stamp_as_it_stands(d, i);
    deciding_log_cell(d, cell);
    for (size_t p = 0; p < r->part_count && state_is_log(cell->algorithm); p++)
        if (parts[p].charge == i)
            deciding_log_part(d, cell, parts[p].mark, 0,
                              log_count(&cell->state.sliding_window, parts[p].mark));
}

static bool is_held(const struct deciding *d, size_t i, int64_t expires, bool gives_back)
{
    const struct hold hold = deciding_hold(d, i, expires, gives_back);
    const struct cell *cell = d->cells[i];

    return cell && state_hold_is_open(&cell->state, d->charges[i].rule->algorithm, d->now, &hold);
}

/* What was used beyond what was held, or of a hold that is over, is charged: also to a key that is
 * locked out. */
static weir_err prepare_excess(struct deciding *d, const struct kept_reservation *r,
                               int64_t expires)
{
    weir_err err = WEIR_OK;

    for (size_t i = 0; i < d->q->count && !err; i++) {
        struct charge *c = &d->charges[i];
        const int64_t excess = d->used[i] - (r->is_released ? 0 : r->charges[i].held);
        struct cell *cell = d->cells[i];
        const struct ask ask = { .now = d->now, .cost = excess, .forced = true };

        c->cost = 0;
        if (cell && cell->is_locked)
            table_unlock(d->t, cell, d->now);
        if (excess <= 0 || algorithm_counts_slots(c->rule->algorithm) || c->rule->limit == 0 ||
            is_held(d, i, expires, r->gives_back))
            continue;
        c->cost = excess;
        table_take(cell, c, &ask);
        err = deciding_prepare(d, i);
    }
    return err;
}

static void settle_charge(struct deciding *d, const struct kept_reservation *r, size_t i,
                          int64_t expires)
{
    struct hold hold = deciding_hold(d, i, expires, r->gives_back);
    struct charge *c = &d->charges[i];
    struct cell *cell = d->cells[i];

    hold.amount = r->charges[i].held;
    if (c->cost > 0) {
        state_apply(&cell->state, c->rule, &c->step);
        stamp_as_it_stands(d, i);
        deciding_log_cell(d, cell);
        return;
    }
    if (!cell || cell->is_locked || cell->algorithm != c->rule->algorithm)
        return;
    if (state_has_holds(c->rule->algorithm)) {
        if (!state_settle(&cell->state, c->rule, d->now, &hold, d->used[i], &c->step))
            return;
        stamp(d, i);
        deciding_log_cell(d, cell);
        deciding_log_part(d, cell, hold.expires, (int64_t)hold.id, 0); /* it is none any more */
    } else if (!r->is_released && (!d->of->has_expired || r->gives_back) &&
               r->charges[i].held > d->used[i]) {
        give_back(d, r, i);
    }
}

/* It may be committed still: that adds. */
static void note_released(struct deciding *d, struct kept_reservation *r)
{
    r->is_released = 1;
    deciding_record(d)->state.kept.is_open = 0;
    deciding_stamp_record(d);
    deciding_log_change(d, RECORD_RELEASED, 0);
}

/* If the last that is logged is the end of a hold: when it would have expired, and the record of the
 * reservation says it instead. 0: it is not. */
static int64_t take_ended_hold(struct deciding *d)
{
    const size_t n = d->logged_count;

    if (n == 0 || !d->logged[n - 1].is_hold || !state_has_holds(d->logged[n - 1].algorithm))
        return 0;
    d->logged_count--;
    return d->logged[n - 1].packed.words[0];
}

static void log_settled(struct deciding *d, int64_t ended_hold)
{
    deciding_log_change(d, RECORD_SETTLED, 0);
    if (ended_hold > 0)
        short_write_settled(deciding_record(d), ended_hold, &d->logged[d->logged_count - 1]);
}

static void note_settled(struct deciding *d, struct kept_reservation *r)
{
    const int64_t ended_hold = take_ended_hold(d);

    for (size_t i = 0; i < d->q->count; i++) {
        r->charges[i].used = d->used[i];
        if (d->used[i] != r->charges[i].held)
            deciding_log_change(d, (enum record_change)(RECORD_USED + i), d->used[i]);
    }
    r->is_settled = 1;
    deciding_record(d)->state.kept.is_open = 0;
    deciding_stamp_record(d);
    log_settled(d, ended_hold);
}

static weir_err settle_open(struct deciding *d)
{
    const int64_t expires = deciding_record(d)->state.kept.expires;
    struct kept_reservation *r = reservation_in(deciding_record(d));
    weir_err err;

    d->of->has_expired = d->now >= expires;
    err = prepare_excess(d, r, expires);
    if (err)
        return err;
    for (size_t i = 0; i < d->q->count; i++)
        settle_charge(d, r, i, expires);
    if (d->of->is_expiry)
        note_released(d, r);
    else
        note_settled(d, r);
    tell_how_it_stands(d);
    for (size_t i = 0; i < d->q->count; i++) {
        d->charges[i].cost = d->used[i] - r->charges[i].held;
        if (!deciding_is_shadow(d, i) && d->charges[i].step.decision.remaining == 0) {
            const int64_t more = cell_over(d->cells[i], d->charges[i].rule, d->now);

            d->of->over = more > d->of->over ? more : d->of->over;
        }
    }
    return WEIR_OK;
}

static void repeat(struct deciding *d)
{
    d->of->is_repeated = true;
    tell_how_it_stands(d);
}

static void settle(struct deciding *d)
{
    const struct kept_reservation *r = reservation_in(deciding_record(d));
    bool is_same = true;

    for (size_t i = 0; i < d->q->count; i++) {
        d->used[i] = reservation_used(d->of, i, r->charges[i].held);
        is_same = is_same && d->used[i] == r->charges[i].used;
    }
    if (r->is_settled && !is_same)
        d->of->refusal = WEIR_ESETTLED;
    else if (!r->is_settled)
        d->q->err = settle_open(d);
    else
        repeat(d);
}

/* ---- grow, extend -------------------------------------------------------------------------- */

static bool is_over(struct deciding *d)
{
    const struct cell *record = deciding_record(d);

    if (reservation_in(record)->is_settled)
        d->of->refusal = WEIR_ESETTLED;
    else if (d->now >= record->state.kept.expires)
        d->of->refusal = WEIR_EEXPIRED;
    return d->of->refusal != WEIR_OK;
}

static void grow(struct deciding *d)
{
    struct cell *record = deciding_record(d);
    const int64_t expires = record->state.kept.expires;
    struct pool_source source = table_pool(d->t, deciding_home_of_record(d));
    const weir_allocator pool = pool_allocator(&source);
    struct kept_reservation *r = reservation_in(record);
    uint64_t before;

    for (size_t i = 0; i < d->q->count; i++)
        d->charges[i].cost = reservation_named(d->of, i);
    d->of->expires_in = expires - d->now;
    if (!deciding_take_all(d, expires, r->gives_back))
        return;
    if (!kept_make_room(&r, &pool)) {
        d->q->err = WEIR_ENOMEM;
        return;
    }
    record->state.kept.block = &r->block;
    d->q->err = deciding_prepare_all(d);
    if (d->q->err)
        return;
    before = r->block.size;
    deciding_apply_more(d, r);
    atomic_fetch_add_explicit(&d->t->beside, (int64_t)(r->block.size - before),
                              memory_order_relaxed);
    deciding_log_record(d, false);
}

static void extend_hold(struct deciding *d, size_t i, int64_t expires, int64_t later)
{
    const bool gives_back = reservation_in(deciding_record(d))->gives_back;
    const struct hold was = deciding_hold(d, i, expires, gives_back),
                      is = deciding_hold(d, i, later, gives_back);
    struct cell *cell = d->cells[i];

    if (!cell || cell->is_locked || !state_has_holds(cell->algorithm) ||
        cell->algorithm != d->charges[i].rule->algorithm ||
        !state_extend(&cell->state, cell->algorithm, &was, is.expires))
        return;
    stamp_as_it_stands(d, i);
    deciding_log_cell(d, cell);
    deciding_log_hold(d, cell, &was);
    deciding_log_hold(d, cell, &is);
}

static void extend(struct deciding *d)
{
    struct kept_state *kept = &deciding_record(d)->state.kept;
    const int64_t was = kept->expires, asked = d->now + d->of->ttl;

    if (d->of->ttl > reservation_in(deciding_record(d))->terms->most_ttl) {
        d->of->refusal = WEIR_ETTL;
        return;
    }
    if (asked > was)
        kept->expires = asked;
    d->of->expires_in = kept->expires - d->now;
    for (size_t i = 0; i < d->q->count && kept->expires > was; i++)
        extend_hold(d, i, was, kept->expires);
    deciding_stamp_record(d);
    deciding_log_change(d, RECORD_EXTENDED, 0);
    tell_how_it_stands(d);
}

/* An amount that it does not count. */
static bool counts_all(const struct deciding *d)
{
    for (size_t a = 0; a < d->of->amount_count; a++) {
        size_t i = 0;

        if (span_is(d->of->amounts[a].name, "requests")) /* everything is so many */
            continue;
        while (i < d->q->count && !span_is(d->of->amounts[a].name, d->of->labels[i].counts))
            i++;
        if (i == d->q->count)
            return false;
    }
    return true;
}

void deciding_change(struct deciding *d)
{
    if (!counts_all(d)) {
        d->of->refusal = WEIR_ECOST;
        return;
    }
    switch (d->q->verb) {
    case VERB_SETTLE:
        settle(d);
        break;
    case VERB_GROW:
        if (!is_over(d))
            grow(d);
        break;
    case VERB_EXTEND:
        if (!is_over(d))
            extend(d);
        break;
    case VERB_CHECK: /* of no reservation that there is */
    case VERB_REFUND:
    case VERB_RESET:
    case VERB_UNDO:
    case VERB_CHARGE:
    case VERB_RESERVE:
        break;
    }
    if (!d->q->err)
        deciding_append(d);
}
