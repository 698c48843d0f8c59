/* table_bulk.c - a table as a whole: exported to a snapshot, and restored from files.
 *
 * A snapshot has keys in the order that a shard keeps them in. So an empty shard is filled by
 * writing cells one behind the other, without searching. All other keys are inserted as a
 * decision does it. */
#include <string.h>

#include "store/memory/table_internal.h"

enum {
    SLICE = 256, /* keys copied under one lock: decisions wait so long */
    AHEAD = 8,   /* cells */
};

/* Where the keys behind this one begin. */
static uint32_t behind(const struct shard *s, struct key key)
{
    const uint32_t at = shard_find(s, key);

    return at + shard_has(s, at, key);
}

/* Records of reservations lie anywhere in memory. */
static void prefetch_record(const struct cell *c, const struct cell *end, enum walked walked)
{
    if (c < end && c->algorithm == ALGORITHM_RESERVATION &&
        (walked == WALK_ALL || c->state.kept.is_open))
        kept_prefetch(c->state.kept.block);
}

static bool is_walked(const struct cell *c, enum walked walked)
{
    return walked == WALK_ALL || (c->algorithm == ALGORITHM_RESERVATION && c->state.kept.is_open);
}

/* Keys are in order. So after the lock was released it goes on behind the last key, wherever
 * cells have moved to since. */
void table_walk(struct table *t, size_t shard, enum walked walked, cell_visit *visit, void *ctx)
{
    struct shard *s = &t->shards[shard];
    struct key last = { 0 };
    bool is_over;

    do {
        const struct cell *c, *end;
        uint32_t left = SLICE;

        lock_take(&s->lock);
        end = s->cells + shard_cells(s->homes);
        c = s->cells + (last.high | last.low ? behind(s, last) : 0);
        for (; c < end && left > 0; c++) {
            prefetch_record(c + AHEAD, end, walked);
            if (cell_is_empty(c))
                continue;
            left--;
            last = c->key;
            if (is_walked(c, walked))
                visit(ctx, c);
        }
        is_over = c >= end;
        lock_drop(&s->lock);
    } while (!is_over);
}

struct exporting {
    int64_t dropped; /* what has expired by then */
    table_each *each;
    void *ctx;
};

static void export_cell(void *exporting, const struct cell *c)
{
    const struct exporting *to = exporting;
    const struct holds *holds = state_holds(&c->state, c->algorithm);
    struct record r;

    if ((int64_t)c->expires <= to->dropped)
        return;
    table_record(c, &r);
    to->each(to->ctx, &r, state_is_log(c->algorithm) ? &c->state.sliding_window : NULL,
             c->algorithm == ALGORITHM_RESERVATION ? c->state.kept.block : NULL);
    r.is_hold = 1;
    for (uint32_t i = 0; i < holds_count(holds); i++) {
        const struct hold *h = holds_at(holds, i);

        r.packed = (struct packed){ { h->expires, (int64_t)h->id, h->amount } };
        to->each(to->ctx, &r, NULL, NULL);
    }
}

void table_export(struct table *t, size_t shard, int64_t now, table_each *each, void *ctx)
{
    struct exporting to = { t->drop_by_time ? now - t->clock_slip : INT64_MIN, each, ctx };

    table_walk(t, shard, WALK_ALL, export_cell, &to);
}

/* Logs and records take less in files than in memory: half of it, at the least. */
uint64_t table_bytes(const struct table *t)
{
    const int64_t keys = atomic_load_explicit(&t->keys, memory_order_relaxed),
                  beside = atomic_load_explicit(&t->beside, memory_order_relaxed);

    return (uint64_t)keys * sizeof(struct record) + (uint64_t)beside / 2;
}

void table_expect(struct table *t, int64_t keys)
{
    growth_expect(&t->growth, keys);
}

static bool is_sound(const struct record *r)
{
    return (r->key.high != 0 || r->key.low != 0) && r->class < LIMIT_CLASSES &&
           (r->algorithm <= ALGORITHM_COUNT || r->algorithm == ALGORITHM_CELL ||
            r->algorithm == ALGORITHM_RESERVATION);
}

/* Make a cell the reservation whose bytes follow the record. */
static bool set_reservation(struct table *t, struct shard *s, struct cell *cell,
                            const struct record *r)
{
    struct pool_source source = table_pool(t, s);
    const weir_allocator pool = pool_allocator(&source);
    uint64_t unpacked[RESERVATION_MOST_BYTES / sizeof(uint64_t) + 1];
    const void *bytes = r + 1;
    size_t size = (size_t)r->packed.words[0];
    struct kept_state *kept = &cell->state.kept;
    struct kept_reservation *of;

    if (r->packed.words[2] & RECORD_PACKED) {
        size = reservation_unpack((struct span){ bytes, size }, (void *)unpacked);
        bytes = unpacked;
    }
    if (!reservation_is_sound(bytes, size))
        return false;
    of = kept_of(t->terms, bytes, &pool);
    if (!of)
        return false;
    pool_free(&s->records, kept->block, &t->allocator);
    *kept = (struct kept_state){ r->packed.words[1], r->packed.words[2] & RECORD_OPEN, 0,
                                 &of->block };
    return true;
}

/* What became of a reservation. One that is not there has been forgotten since. */
static void change_reservation(struct cell *cell, const struct record *r)
{
    const int64_t change = r->packed.words[1], amount = r->packed.words[2];
    struct kept_reservation *of = (struct kept_reservation *)(void *)cell->state.kept.block;

    if (!of)
        return;
    cell->state.kept.expires = r->packed.words[0];
    if (change >= RECORD_USED && change - RECORD_USED < of->charge_count && amount >= 0)
        of->charges[change - RECORD_USED].used = amount;
    if (change == RECORD_SETTLED || change == RECORD_RELEASED)
        cell->state.kept.is_open = 0;
    if (change == RECORD_RELEASED)
        of->is_released = 1;
    if (change != RECORD_SETTLED)
        return;
    of->is_settled = 1;
    for (size_t i = 0; i < of->charge_count; i++)
        if (of->charges[i].used == RESERVED_OPEN)
            of->charges[i].used = of->charges[i].held;
}

/* Make a new or an old cell what a record says. The caller has the shard locked. */
static bool set_cell(struct table *t, struct shard *s, struct cell *cell, const struct record *r,
                     const struct log_entry *entries, size_t n)
{
    const size_t before = state_heap_bytes(&cell->state, r->algorithm);
    bool is_set = true;
    size_t after;

    if (r->algorithm == ALGORITHM_RESERVATION && r->is_hold) {
        change_reservation(cell, r);
    } else if (r->algorithm == ALGORITHM_RESERVATION) {
        is_set = set_reservation(t, s, cell, r);
        if (is_set)
            table_expect_release(s, cell);
    } else if (r->is_hold) {
        is_set = state_unpack_hold(&cell->state, r->algorithm, &r->packed, &t->allocator);
    } else if (entries) {
        for (size_t i = 0; i < n && is_set; i++)
            is_set = log_push(&cell->state.sliding_window, entries[i], &t->allocator);
        is_set = is_set && state_bear(&cell->state, r->algorithm, (uint32_t)r->packed.words[1],
                                      &t->allocator);
    } else {
        if (r->is_locked && state_has_holds(r->algorithm)) /* a lockout has forgotten them */
            holds_done(&cell->state.bucket.holds, &t->allocator);
        is_set = state_unpack(&cell->state, r->algorithm, &r->packed, &t->allocator);
    }
    after = state_heap_bytes(&cell->state, r->algorithm);
    if (after != before)
        atomic_fetch_add_explicit(&t->beside, (int64_t)(after - before), memory_order_relaxed);
    shard_stamp(s, cell, (int64_t)r->expires, r->level, r->class);
    cell->is_locked = r->is_locked;
    return is_set;
}

static bool set_key(struct table *t, struct shard *s, const struct record *r,
                    const struct log_entry *entries, size_t n, int64_t now)
{
    const struct rule rule = { .algorithm = r->algorithm };
    struct charge c = { .rule = &rule, .key = r->key };
    const struct question q = { .ask = { .now = t->drop_by_time ? now : 0 },
                                .charges = &c,
                                .count = 1 };
    struct cell *cell;

    if (r->algorithm == ALGORITHM_RESERVATION && r->is_hold && !table_cell(t, r->key))
        return true; /* evicted since */
    cell = table_ensure(t, s, &c, &q);
    if (cell &&
        cell->algorithm != r->algorithm) { /* no key changes its algorithm, but a file may say so */
        table_erase(t, s, (uint32_t)(cell - s->cells));
        cell = table_ensure(t, s, &c, &q);
    }
    return cell && set_cell(t, s, cell, r, entries, n);
}

bool table_restore(struct table *t, const struct record *r, int64_t now)
{
    struct shard *s = table_shard(t, r->key);
    bool is_restored = true;

    if (!is_sound(r))
        return false;
    lock_take(&s->lock);
    if (r->algorithm == WEIR_DEFAULT_ALGORITHM) {
        uint32_t at = shard_find(s, r->key);

        if (shard_has(s, at, r->key))
            table_erase(t, s, at);
    } else {
        is_restored = set_key(t, s, r, NULL, 0, now);
    }
    lock_drop(&s->lock);
    table_grow_if_due(t);
    return is_restored;
}

/* ---- filling it ---------------------------------------------------------------------------- */

void table_fill_begin(struct table_filling *f, struct table *t, uint32_t keys, int64_t now)
{
    *f = (struct table_filling){ .table = t, .now = now };
    if (atomic_fetch_add_explicit(&t->keys, keys, memory_order_relaxed) + keys <= t->max_keys)
        f->reserved = keys;
    else
        atomic_fetch_sub_explicit(&t->keys, keys, memory_order_relaxed);
}

static void enter_shard(struct table_filling *f, struct shard *s)
{
    if (f->shard)
        lock_drop(&f->shard->lock);
    f->shard = s;
    lock_take(&s->lock);
    f->appends = s->count == 0;
    f->next = 0;
    f->last = (struct key){ 0 };
}

static bool is_behind(struct key a, struct key b)
{
    return a.high != b.high ? a.high > b.high : a.low > b.low;
}

static void return_reserved(struct table_filling *f)
{
    if (f->reserved == 0)
        return;
    f->reserved--;
    atomic_fetch_sub_explicit(&f->table->keys, 1, memory_order_relaxed);
}

bool table_fill(struct table_filling *f, const struct record *r, const struct log_entry *entries,
                size_t n)
{
    struct shard *s = table_shard(f->table, r->key);

    if (!is_sound(r) || r->algorithm == WEIR_DEFAULT_ALGORITHM ||
        (state_is_log(r->algorithm) && !r->is_hold) != (entries != NULL))
        return false;
    if (s != f->shard)
        enter_shard(f, s);
    if (r->is_hold && table_cell(f->table, r->key)) { /* that of the last key, which has its cell */
        return_reserved(f);
        return set_cell(f->table, s, table_cell(f->table, r->key), r, NULL, 0);
    }
    if (f->appends && f->reserved > 0 && is_behind(r->key, f->last)) {
        struct cell *cell = shard_append(s, &f->next, r->key, r->algorithm);

        if (cell) {
            f->last = r->key;
            f->reserved--;
            return set_cell(f->table, s, cell, r, entries, n);
        }
    }
    f->appends = false;
    return_reserved(f); /* table_ensure() counts it */
    return set_key(f->table, s, r, entries, n, f->now);
}

void table_fill_end(struct table_filling *f)
{
    if (f->shard)
        lock_drop(&f->shard->lock);
    if (f->reserved > 0)
        atomic_fetch_sub_explicit(&f->table->keys, f->reserved, memory_order_relaxed);
    table_grow_if_due(f->table);
}
