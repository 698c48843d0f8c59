/* table.c - a hash table of the states of keys, in memory, where questions are decided.
 *
 * The upper bits of a key choose its shard, the other bits its place there. There are so many
 * shards that each has at most a few thousand cells. The longest pause is to move one shard to
 * more memory (growth.c).
 *
 * LOCK ORDER: the growth's lock, then shards by ascending index.
 *
 * RULES (test_table.c has a test by each name)
 *   T1  A refused question, a peek and a cost of 0 change nothing, but that the refusal by a rule
 *       with a block_for locks that rule's key out.
 *   T2  A question of several charges is charged whole or not at all, even out of memory.
 *   T3  No more than max_keys keys are held.
 *   T4  A key with nothing remaining is evicted only when all others that could be are like it;
 *       which these are, eviction.c says.
 *   T5  Every call ends, whatever the keys are: no loop in the table's files and in growth.c
 *       waits for something to become true. Each loop runs once for each charge, cell or try, or
 *       drops a key of a locked shard each time; those in shard.c end by S2. A new key takes at
 *       most one place from another, and moves its shard at most once.
 *   T6  If more is admitted than a limit allows, the key was evicted meanwhile, and counted as
 *       evicted. */
#include "store/memory/table.h"

#include <inttypes.h>
#include <string.h>

#include "base/diag.h"
#include "store/memory/table_internal.h"

enum {
    SHARD_KEYS = 8192,    /* a shard's share of max_keys is at most this */
    LEAST_MAX_KEYS = 64,  /* more than one question can have */
    BESIDE_PER_KEY = 512, /* bytes for larger states: 61 buckets of a sliding window */
    SWEEP_PARTS = 100,
    FEW_BUCKETS = 64,
};
#define MOST_MAX_KEYS ((int64_t)1 << 34)
#define LEAST_BESIDE ((int64_t)64 << 20)

weir_err table_new(struct table **out, const struct store_options *options, weir_diag *diag)
{
    struct table *t;
    uint32_t bits = 0;

    if (options->max_keys < LEAST_MAX_KEYS || options->max_keys > MOST_MAX_KEYS)
        return diag_fail(diag, WEIR_EOPTION,
                         "max_keys must be from %d to %" PRId64 ", not %" PRId64, LEAST_MAX_KEYS,
                         MOST_MAX_KEYS, options->max_keys);
    while (options->max_keys >> bits > SHARD_KEYS)
        bits++;
    t = alloc_zeroed(&options->allocator, sizeof *t);
    if (!t)
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    t->allocator = options->allocator;
    t->shard_bits = bits;
    t->max_keys = options->max_keys;
    t->max_beside = options->max_keys * BESIDE_PER_KEY;
    if (t->max_beside < LEAST_BESIDE)
        t->max_beside = LEAST_BESIDE;
    t->drop_by_time = !options->callers_bring_now;
    t->clock_slip = options->clock_slip ? options->clock_slip : CLOCK_SLIP;
    t->wake = options->wake;
    t->wake_ctx = options->wake_ctx;
    t->shards_block = alloc_resize(&options->allocator, NULL,
                                   (sizeof(struct shard) << bits) + alignof(struct shard));
    if (t->shards_block) {
        uintptr_t start = (uintptr_t)t->shards_block + alignof(struct shard) - 1;

        t->shards = (struct shard *)(start / alignof(struct shard) * alignof(struct shard));
    }
    t->terms = terms_set_new(&options->allocator);
    if (!t->shards || !t->terms || !growth_init(&t->growth, t->shards, bits, options->max_keys)) {
        terms_set_free(t->terms);
        alloc_free(&options->allocator, t->shards_block);
        alloc_free(&options->allocator, t);
        return diag_fail(diag, WEIR_ENOMEM,
                         "not enough memory for a table of %" PRId64 " keys: lower max_keys",
                         options->max_keys);
    }
    *out = t;
    return WEIR_OK;
}

size_t table_shards(const struct table *t)
{
    return (size_t)1 << t->shard_bits;
}

void table_keep_log(struct table *t, struct table_log *log)
{
    t->log = log;
}

void table_free(struct table *t)
{
    weir_allocator allocator;

    if (!t)
        return;
    for (size_t i = 0; i < table_shards(t); i++)
        shard_done(&t->shards[i], &t->allocator);
    pool_done(&t->records);
    terms_set_free(t->terms);
    growth_done(&t->growth);
    allocator = t->allocator;
    alloc_free(&allocator, t->shards_block);
    alloc_free(&allocator, t);
}

static void prefetch_beside(const struct cell *cell)
{
    if (cell->algorithm == ALGORITHM_RESERVATION)
        kept_prefetch(cell->state.kept.block);
    else
        state_prefetch(&cell->state, cell->algorithm);
}

/* Apart, so that the others need no stack. */
__attribute__((noinline)) static void prefetch_beside_cells(struct shard *s, struct key key)
{
    if (!lock_try(&s->lock))
        return;
    for (const struct cell *c = shard_first(s, key); c->key.high == key.high && !cell_is_empty(c);
         c++)
        prefetch_beside(c);
    lock_drop(&s->lock);
}

void table_prefetch(struct table *t, struct key key, enum prefetch what)
{
    const size_t shard = shard_index(t, key);
    struct shard *s = &t->shards[shard];

    if (what == PREFETCH_BESIDE) {
        prefetch_beside_cells(s, key);
        return;
    }
    __builtin_prefetch(s, 1);
    if (what == PREFETCH_PLACE)
        cell_prefetch(growth_home(&t->growth, shard, t->shard_bits, key));
}

/* ---- deciding ------------------------------------------------------------------------ */

static const struct state untouched;

static struct shard *shard_of(struct table *t, const struct charge *c)
{
    return table_shard(t, c->key);
}

/* Where the charges of a question are counted. */
struct places {
    bool are_beside; /* all are in one shard, and their keys have the same upper half */
    struct shard *shards[MOST_CHARGES];
    struct cell *cells[MOST_CHARGES]; /* NULL: there is none */
};

/* Apart from those that are locked out, or may be: most are not. */
void table_take(const struct cell *cell, struct charge *c, const struct ask *ask)
{
    if (cell && !cell->is_locked && c->rule->block_for == 0) {
        c->step.locks = false;
        state_take(&cell->state, c->rule, ask, &c->step);
        return;
    }
    lockout_take(cell ? cell_locked_until(cell) : 0, cell ? &cell->state : &untouched, c->rule, ask,
                 &c->step);
}

/* Make the state an untouched one; what the store has noted beside it stays. */
static void forget_state(struct table *t, struct cell *cell)
{
    const size_t beside = state_heap_bytes(&cell->state, cell->algorithm);

    if (beside > 0)
        atomic_fetch_sub_explicit(&t->beside, (int64_t)beside, memory_order_relaxed);
    state_done(&cell->state, cell->algorithm, &t->allocator);
    if (!state_is_log(cell->algorithm))
        memset(cell->state.words, 0, sizeof cell->state.words);
}

/* A charge passes: a lockout that the cell has is over, or goes on if the charge is forced. */
void table_unlock(struct table *t, struct cell *cell, int64_t now)
{
    if (!cell || !cell->is_locked || cell_locked_until(cell) > now)
        return;
    forget_state(t, cell);
    cell->is_locked = 0;
}

/* Only what counts can refuse and lock, so there is a cell. */
struct cell *table_lock_out(struct table *t, struct shard *s, const struct charge *c)
{
    struct cell *cell = shard_cell(s, c->key);

    forget_state(t, cell);
    table_stamp(s, cell, c);
    cell->is_locked = 1;
    return cell;
}

/* ---- logging ------------------------------------------------------------------------- */

void table_pack(const struct cell *cell, struct packed *out)
{
    if (cell->algorithm == ALGORITHM_RESERVATION)
        *out = (struct packed){ { 0, cell->state.kept.expires, cell->state.kept.is_open } };
    else
        state_pack(&cell->state, cell->algorithm, out);
}

static inline void find_cells(const struct question *q, struct places *at)
{
    struct cell *first = at->are_beside ? shard_first(at->shards[0], q->charges->key) : NULL;

    for (size_t i = 0; i < q->count; i++)
        at->cells[i] = at->are_beside ? shard_beside(first, q->charges[i].key)
                                      : shard_cell(at->shards[i], q->charges[i].key);
}

/* Append the new values of the keys of a question, which are in these cells. */
__attribute__((noinline)) static void keep(struct table *t, struct question *q,
                                           const struct places *at)
{
    struct record records[MOST_CHARGES];
    size_t n = 0;

    for (size_t i = 0; i < q->count; i++) {
        if (verb_adds(q->verb) && q->charges[i].cost == 0)
            continue;
        table_overtake(t, at->shards[i], at->cells[i], NULL);
        if (at->cells[i])
            table_record(at->cells[i], &records[n++]);
        else
            records[n++] = (struct record){ .key = q->charges[i].key };
    }
    q->mark = t->log->append(t->log, records, n);
}

/* Apart, so that the other needs no stack. */
__attribute__((noinline)) static uint64_t append_one(struct table *t, const struct shard *s,
                                                     struct cell *cell)
{
    struct record r;

    table_overtake(t, s, cell, NULL);
    table_record(cell, &r);
    return t->log->append(t->log, &r, 1);
}

static uint64_t put_one(struct table *t, const struct shard *s, struct cell *cell,
                        struct write_buffer *write_buffer)
{
    const bool is_in = cell_tag(cell) == write_buffer_ticket(write_buffer);

    if (!is_in)
        table_overtake(t, s, cell, write_buffer);
    table_record(cell, write_buffer_next(write_buffer));
    write_buffer_put(write_buffer, is_in);
    return MARK_IN_BUFFER;
}

/* Append the new value of one key, or put it into the write buffer. */
static void keep_one(struct table *t, const struct shard *s, struct cell *cell, struct question *q,
                     struct write_buffer *write_buffer)
{
    q->mark = write_buffer ? put_one(t, s, cell, write_buffer) : append_one(t, s, cell);
}

/* ---- judging ------------------------------------------------------------------------- */

/* Most questions have one rule. */
static void judge_one(struct table *t, struct shard *s, struct question *q,
                      struct write_buffer *write_buffer)
{
    struct charge *c = q->charges;
    uint32_t at = shard_find(s, c->key);
    struct cell *cell = shard_has(s, at, c->key) ? &s->cells[at] : NULL;
    const struct ask ask = charge_ask(q, c);

    table_take(cell, c, &ask);
    q->allowed = c->step.decision.allowed;
    if (c->step.locks) {
        table_lock_out(t, s, c);
        if (t->log)
            keep_one(t, s, cell, q, write_buffer);
    }
    if (!q->allowed || c->cost == 0 || ask.peek)
        return;
    table_unlock(t, cell, q->ask.now);
    if (!cell)
        table_purge_if_due(t, s, q->ask.now);
    if (!cell ||
        (state_is_log(c->rule->algorithm) && !state_has_room(&cell->state, c->rule, &c->step))) {
        q->err = table_prepare(t, s, c, q, &cell);
        if (q->err)
            return;
    }
    state_apply(&cell->state, c->rule, &c->step);
    table_stamp(s, cell, c);
    if (t->log)
        keep_one(t, s, cell, q, write_buffer);
}

/* Those that would have passed are as they stand; those that lock their keys do so. */
__attribute__((noinline)) static void refuse_several(struct table *t, struct question *q,
                                                     const struct places *at)
{
    struct record records[MOST_CHARGES];
    size_t n = 0;

    for (size_t i = 0; i < q->count; i++) {
        struct charge *c = &q->charges[i];

        if (c->step.decision.allowed) {
            table_take(at->cells[i], c,
                       &(struct ask){ .now = q->ask.now, .cost = c->cost, .peek = true });
        } else if (c->step.locks) {
            struct cell *cell = table_lock_out(t, at->shards[i], c);

            if (t->log) {
                table_overtake(t, at->shards[i], cell, NULL);
                table_record(cell, &records[n++]);
            }
        }
    }
    if (n > 0)
        q->mark = t->log->append(t->log, records, n);
}

/* Can it be charged where it stands, with nothing that could fail or move another cell? */
static bool is_ready(const struct cell *cell, const struct charge *c)
{
    if (c->cost == 0)
        return true;
    if (!cell || cell->is_locked)
        return false;
    return !state_is_log(c->rule->algorithm) || state_has_room(&cell->state, c->rule, &c->step);
}

/* Make all of them ready, wherever that moves them. */
__attribute__((noinline)) static weir_err prepare_several(struct table *t, struct question *q,
                                                          struct places *at)
{
    weir_err err = WEIR_OK;
    struct cell *cell;

    for (size_t i = 0; i < q->count; i++)
        if (q->charges[i].cost != 0)
            table_unlock(t, at->cells[i], q->ask.now);
    for (size_t i = 0; i < q->count && !err; i++)
        if (q->charges[i].cost != 0)
            err = table_prepare(t, at->shards[i], &q->charges[i], q, &cell);
    find_cells(q, at);
    return err;
}

/* All look before one is charged; all have room before one is changed. */
__attribute__((noinline)) static void judge_several(struct table *t, struct question *q,
                                                    struct places *at)
{
    const bool charges = question_charges(q);
    struct ask ask = { .now = q->ask.now, .peek = q->ask.peek, .forced = verb_forces(q->verb) };
    bool allowed = true, are_ready = true;

    for (size_t i = 0; i < (at->are_beside ? 1 : q->count) && charges; i++)
        table_purge_if_due(t, at->shards[i], q->ask.now);
    find_cells(q, at);
    for (size_t i = 0; i < q->count; i++) {
        struct charge *c = &q->charges[i];
        struct cell *cell = at->cells[i];

        ask.cost = c->cost;
        table_take(cell, c, &ask);
        allowed &= c->step.decision.allowed;
        are_ready &= is_ready(cell, c);
    }
    q->allowed = allowed;
    if (!allowed) {
        refuse_several(t, q, at);
        return;
    }
    if (!charges)
        return;
    if (!are_ready)
        q->err = prepare_several(t, q, at);
    if (q->err)
        return;
    for (size_t i = 0; i < q->count; i++) {
        struct charge *c = &q->charges[i];

        if (c->cost == 0)
            continue;
        state_apply(&at->cells[i]->state, c->rule, &c->step);
        table_stamp(at->shards[i], at->cells[i], c);
    }
    if (t->log)
        keep(t, q, at);
}

__attribute__((noinline)) static void refund_or_reset(struct table *t, struct question *q,
                                                      struct places *places)
{
    const struct ask look_only = { .now = q->ask.now, .peek = true };

    for (size_t i = 0; i < q->count; i++) {
        struct charge *c = &q->charges[i];
        struct shard *s = places->shards[i];
        uint32_t at = shard_find(s, c->key);

        state_take(&untouched, c->rule, &look_only, &c->step);
        if (!shard_has(s, at, c->key))
            continue;
        switch (q->verb) {
        case VERB_REFUND:
            if (s->cells[at].is_locked) { /* what is forgotten is not given back */
                table_take(&s->cells[at], c, &look_only);
            } else if (c->rule->limit > 0) {
                const struct ask back = charge_ask(q, c);

                state_refund(&s->cells[at].state, c->rule, &back, &c->step);
                table_stamp(s, &s->cells[at], c);
            }
            break;
        case VERB_RESET:
            table_erase(t, s, at);
            break;
        case VERB_CHECK: /* judge_one(), judge_several() */
        case VERB_CHARGE:
        case VERB_RESERVE: /* table_judge_reservation() */
        case VERB_SETTLE:
        case VERB_GROW:
        case VERB_EXTEND:
        case VERB_UNDO: /* only Redis charges what must be undone */
            break;
        }
    }
    q->allowed = true;
    find_cells(q, places);
    if (t->log)
        keep(t, q, places);
}

void table_grow_if_due(struct table *t)
{
    const int64_t keys = atomic_load_explicit(&t->keys, memory_order_relaxed);

    if (!growth_due(&t->growth, keys))
        return;
    if (t->wake && !growth_urgent(&t->growth, keys))
        t->wake(t->wake_ctx);
    else
        growth_step(&t->growth, atomic_load_explicit(&t->beside, memory_order_relaxed));
}

void table_judge_in(struct table *t, struct question *q, struct write_buffer *write_buffer)
{
    struct shard *s = shard_of(t, q->charges);

    q->err = WEIR_OK;
    q->mark = 0;
    lock_take(&s->lock);
    judge_one(t, s, q, write_buffer);
    lock_drop(&s->lock);
    table_grow_if_due(t);
}

/* H4: what became of a sliding window since this was its record. */
static uint64_t keep_log_again(struct table *t, const struct cell *cell, const struct packed *since)
{
    const struct sliding_window *log = &cell->state.sliding_window;
    const uint32_t first = log_changed(log, since), n = log_length(log) - first + 1;
    struct record few[FEW_BUCKETS], *records = few;
    uint64_t mark = MARK_LOST;

    if (n > FEW_BUCKETS)
        records = alloc_resize(&t->allocator, NULL, n * sizeof *records);
    for (uint32_t i = 0; i < n && records; i++) {
        records[i].key = cell->key;
        records[i].stamp = cell->stamp;
        log_pack(log, first + i, &records[i].packed);
    }
    if (records)
        mark = t->log->append(t->log, records, n);
    if (records != few)
        alloc_free(&t->allocator, records);
    return mark;
}

uint64_t table_keep_again(struct table *t, const struct record *r)
{
    struct shard *s = table_shard(t, r->key);
    struct record again = { .key = r->key };
    struct cell *cell;
    uint64_t mark;

    lock_take(&s->lock);
    cell = shard_cell(s, r->key);
    table_overtake(t, s, cell, NULL);
    if (cell && state_is_log(cell->algorithm)) {
        mark = keep_log_again(t, cell, &r->packed);
    } else {
        if (cell)
            table_record(cell, &again);
        mark = t->log->append(t->log, &again, 1);
    }
    lock_drop(&s->lock);
    return mark;
}

static void judge_at(struct table *t, struct question *q, struct places *at)
{
    if (verb_adds(q->verb))
        judge_several(t, q, at);
    else
        refund_or_reset(t, q, at);
}

/* What a policy counts of one identity. */
static void judge_beside(struct table *t, struct question *q)
{
    struct shard *s = shard_of(t, q->charges);
    struct places at;

    at.are_beside = true;
    for (size_t i = 0; i < q->count; i++)
        at.shards[i] = s;
    lock_take(&s->lock);
    judge_at(t, q, &at);
    lock_drop(&s->lock);
}

static void judge_apart(struct table *t, struct question *q)
{
    struct shard *shards[MOST_KEYS];
    struct places at;
    size_t n = 0;

    at.are_beside = false;
    for (size_t i = 0; i < q->count; i++) {
        at.shards[i] = shard_of(t, &q->charges[i]);
        n = table_order_shard(at.shards[i], n, shards);
    }
    for (size_t i = 0; i < n; i++)
        lock_take(&shards[i]->lock);
    judge_at(t, q, &at);
    for (size_t i = n; i > 0; i--)
        lock_drop(&shards[i - 1]->lock);
}

/* See shard_beside(). */
static bool are_beside(const struct question *q)
{
    for (size_t i = 1; i < q->count; i++)
        if (q->charges[i].key.high != q->charges[0].key.high)
            return false;
    return q->count > 0 && q->charges[0].key.high != 0;
}

static void judge_all(struct table *t, struct question *q)
{
    q->err = WEIR_OK;
    q->mark = 0;
    if (are_beside(q))
        judge_beside(t, q);
    else
        judge_apart(t, q);
    table_grow_if_due(t);
}

void table_judge_any(struct table *t, struct question *q)
{
    if (verb_reserves(q->verb)) {
        table_judge_reservation(t, q);
        if (t->wake && pool_begins_to_want(&t->records))
            t->wake(t->wake_ctx);
    } else {
        judge_all(t, q);
    }
}

/* ---- looking after ------------------------------------------------------------------- */

void table_sweep(struct table *t, int64_t now)
{
    const size_t shards = table_shards(t), part = shards / SWEEP_PARTS + 1;

    pool_make_spare(&t->records);
    if (t->drop_by_time)
        table_release_due(t, now);
    for (size_t i = 0; i < part && t->drop_by_time; i++) {
        struct shard *s = &t->shards[t->swept];

        t->swept = (t->swept + 1) % shards;
        lock_take(&s->lock);
        table_purge(t, s, now);
        lock_drop(&s->lock);
    }
    growth_run(&t->growth, atomic_load_explicit(&t->keys, memory_order_relaxed),
               atomic_load_explicit(&t->beside, memory_order_relaxed), part);
}

void table_stats(struct table *t, weir_stats *stats)
{
    *stats = (weir_stats){
        .keys = atomic_load_explicit(&t->keys, memory_order_relaxed),
        .max_keys = t->max_keys,
        .memory_bytes = atomic_load_explicit(&t->beside, memory_order_relaxed),
    };
    for (size_t i = 0; i < table_shards(t); i++) {
        struct shard *s = &t->shards[i];

        lock_take(&s->lock);
        stats->evicted_keys += s->evicted;
        stats->expired_keys += s->expired;
        if (s->count > 0)
            stats->memory_bytes += (int64_t)(s->homes * sizeof(struct cell));
        lock_drop(&s->lock);
    }
}
