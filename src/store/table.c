/* table.c - the states of many keys in memory, decided on in place.
 *
 * A key's upper bits choose its shard, the rest its place there. There are so many shards
 * that one never holds more than a few thousand cells, so the longest pause is the rebuilding
 * of one shard. The address space of all shards is reserved at once for max_keys, and memory
 * comes page by page as keys do: a shard grows where it is.
 *
 * LOCK ORDER: shards by ascending index; nothing else is locked while a shard is.
 *
 * RULES (test_table.c has a test by each name)
 *   T1  A refused question, a peek and a cost of 0 change nothing.
 *   T2  A question of several charges is charged whole or not at all, even out of memory.
 *   T3  No more than max_keys keys are held.
 *   T4  A key with nothing remaining is evicted only when all others are like it. */
#include "store/table.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#include "base/diag.h"
#include "store/shard.h"

enum {
    SHARD_KEYS = 4096,       /* a shard's share of max_keys is at most this */
    LEAST_MAX_KEYS = 64,     /* more than one question can have */
    MOST_CHARGES = 2 * WEIR_MAX_RULES,
    BESIDE_PER_KEY = 512,    /* bytes for larger states: 61 buckets of a sliding window */
    SWEEP_PARTS = 100,
    CLOCK_SLIP = 1000,       /* expired cells stay this long, for clocks that are set back a bit */
};
#define MOST_MAX_KEYS ((int64_t)1 << 34)
#define LEAST_BESIDE ((int64_t)64 << 20)

struct table {
    weir_allocator allocator;
    struct shard *shards;
    uint32_t shard_bits;
    uint32_t most_homes; /* of a shard */
    int64_t max_keys, max_beside;
    bool drop_by_time;
    void *memory; /* the shards' cells, then the shards */
    size_t memory_size;
    size_t swept; /* the shard that the next sweep begins with */
    char apart[64]; /* what follows is written, what is above is only read */
    _Atomic int64_t keys, beside;
};

weir_err table_new(struct table **out, const struct store_options *options, weir_diag *diag)
{
    struct table *t;
    uint32_t bits = 0;
    int64_t share;
    size_t slice, shards, size;
    void *memory;

    if (options->max_keys < LEAST_MAX_KEYS || options->max_keys > MOST_MAX_KEYS)
        return diag_fail(diag, WEIR_EOPTION, "max_keys must be from %d to %" PRId64 ", not %" PRId64,
                         LEAST_MAX_KEYS, MOST_MAX_KEYS, options->max_keys);
    while (options->max_keys >> bits > SHARD_KEYS)
        bits++;
    shards = (size_t)1 << bits;
    share = div_up(options->max_keys, (int64_t)shards);
    if (bits > 0) /* keys do not spread evenly to the last one */
        share += share / 4 + 64;

    share = share * 4 / 3 + 16;
    slice = ((size_t)share + SHARD_SLACK + 1 + 63) / 64 * 64; /* whole pages */
    size = shards * (slice * sizeof(struct cell) + sizeof(struct shard));

    t = alloc_zeroed(&options->allocator, sizeof *t);
    if (!t)
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                  -1, 0);
    if (memory == MAP_FAILED) {
        alloc_free(&options->allocator, t);
        return diag_fail(diag, WEIR_ENOMEM,
                         "cannot reserve %zu MB of address space for %" PRId64
                         " keys: %s: lower max_keys",
                         size >> 20, options->max_keys, strerror(errno));
    }
    madvise(memory, size, MADV_NOHUGEPAGE); /* a huge page would make its untouched parts resident */
    t->allocator = options->allocator;
    t->shard_bits = bits;
    t->most_homes = (uint32_t)share;
    t->max_keys = options->max_keys;
    t->max_beside = options->max_keys * BESIDE_PER_KEY;
    if (t->max_beside < LEAST_BESIDE)
        t->max_beside = LEAST_BESIDE;
    t->drop_by_time = !options->callers_bring_now;
    t->memory = memory;
    t->memory_size = size;
    t->shards = (struct shard *)(void *)((struct cell *)memory + shards * slice);
    for (size_t i = 0; i < shards; i++)
        shard_init(&t->shards[i], (struct cell *)memory + i * slice, bits);
    *out = t;
    return WEIR_OK;
}

static size_t shard_count(const struct table *t)
{
    return (size_t)1 << t->shard_bits;
}

static size_t shard_index(const struct table *t, struct key key)
{
    return t->shard_bits ? key.high >> (64 - t->shard_bits) : 0;
}

void table_free(struct table *t)
{
    weir_allocator allocator;

    if (!t)
        return;
    for (size_t i = 0; i < shard_count(t); i++)
        shard_done(&t->shards[i], &t->allocator);
    munmap(t->memory, t->memory_size);
    allocator = t->allocator;
    alloc_free(&allocator, t);
}

void table_prefetch(struct table *t, struct key key)
{
    shard_prefetch(&t->shards[shard_index(t, key)], key);
}

/* ---- making room --------------------------------------------------------------------- */

static void forget(struct table *t, struct shard_dropped dropped)
{
    if (dropped.keys > 0)
        atomic_fetch_sub_explicit(&t->keys, dropped.keys, memory_order_relaxed);
    if (dropped.beside > 0)
        atomic_fetch_sub_explicit(&t->beside, (int64_t)dropped.beside, memory_order_relaxed);
}

static void erase(struct table *t, struct shard *s, uint32_t at)
{
    forget(t, (struct shard_dropped){ 1, shard_erase(s, at, &t->allocator) });
}

/* Give up one cell of the shard that the question does not need. */
static bool evict(struct table *t, struct shard *s, const struct question *q, bool beside)
{
    struct key spared[MOST_CHARGES];
    uint32_t victim;

    for (size_t i = 0; i < q->count; i++)
        spared[i] = q->charges[i].key;
    victim = shard_victim(s, q->ask.now, beside, spared, q->count);
    if (victim == SHARD_NO_VICTIM)
        return false;
    if ((int64_t)s->cells[victim].expires <= q->ask.now)
        s->expired++;
    else
        s->evicted++;
    erase(t, s, victim);
    return true;
}

static bool is_crowded(const struct shard *s)
{
    return (uint64_t)(s->count + 1) * 4 > (uint64_t)s->homes * 3;
}

static void grow(struct table *t, struct shard *s, int64_t now)
{
    const uint32_t homes = s->homes, more = homes + homes / 8 + 16;
    const int64_t horizon = t->drop_by_time ? now - CLOCK_SLIP : INT64_MIN;

    if (horizon >= s->soonest) { /* perhaps enough have expired */
        forget(t, shard_rebuild(s, homes, t->most_homes, horizon, &t->allocator));
        if (s->count < homes / 8 * 5)
            return;
    }
    forget(t, shard_rebuild(s, more < t->most_homes ? more : t->most_homes, t->most_homes, horizon,
                            &t->allocator));
}

/* The cell of this key, made if there is none. NULL: no room could be made. */
static struct cell *ensure(struct table *t, struct shard *s, const struct charge *c,
                           const struct question *q)
{
    uint32_t at = shard_find(s, c->key);

    if (shard_has(s, at, c->key))
        return &s->cells[at];
    while (atomic_fetch_add_explicit(&t->keys, 1, memory_order_relaxed) >= t->max_keys) {
        atomic_fetch_sub_explicit(&t->keys, 1, memory_order_relaxed);
        if (!evict(t, s, q, false))
            return NULL;
    }
    for (;;) {
        if (is_crowded(s) && s->homes < t->most_homes)
            grow(t, s, q->ask.now);
        at = shard_find(s, c->key);
        if (!is_crowded(s) && shard_insert(s, at, c->key, c->rule->algorithm))
            return &s->cells[at];
        if (s->homes < t->most_homes) /* pushed against the end */
            grow(t, s, q->ask.now);
        else if (!evict(t, s, q, false))
            break;
    }
    atomic_fetch_sub_explicit(&t->keys, 1, memory_order_relaxed);
    return NULL;
}

/* ---- deciding ------------------------------------------------------------------------ */

static const struct state untouched;

static struct shard *shard_of(struct table *t, const struct charge *c)
{
    return &t->shards[shard_index(t, c->key)];
}

static const struct state *look(const struct shard *s, struct key key)
{
    uint32_t at = shard_find(s, key);

    return shard_has(s, at, key) ? &s->cells[at].state : &untouched;
}

static void stamp(struct shard *s, struct cell *cell, const struct rule *r, const struct step *step)
{
    const struct decision *d = &step->decision;
    const int64_t expires = step->now + d->reset_after, used = r->burst - d->remaining;
    const int64_t level = d->remaining == 0 ? SHARD_LEVELS - 1 : used * (SHARD_LEVELS - 1) / r->burst;

    if (expires < (int64_t)cell->expires || cell->expires == 0)
        s->soonest = expires < s->soonest ? expires : s->soonest;
    shard_stamp(s, cell, expires, level > 0 ? (uint32_t)level : 0);
}

/* Everything that can fail in charging: a cell, and room in it. */
static weir_err try_prepare(struct table *t, struct shard *s, const struct charge *c,
                        const struct question *q, const struct step *step, struct cell **out)
{
    struct cell *cell = ensure(t, s, c, q);
    size_t before;
    int64_t more;

    *out = cell;
    if (!cell)
        return WEIR_EFULL;
    before = state_beside(&cell->state, c->rule->algorithm);
    if (!state_reserve(&cell->state, c->rule, step, &t->allocator))
        return WEIR_ENOMEM;
    more = (int64_t)(state_beside(&cell->state, c->rule->algorithm) - before);
    if (more == 0)
        return WEIR_OK;
    atomic_fetch_add_explicit(&t->beside, more, memory_order_relaxed);
    while (atomic_load_explicit(&t->beside, memory_order_relaxed) > t->max_beside)
        if (!evict(t, s, q, true))
            return WEIR_EFULL;
    *out = &s->cells[shard_find(s, c->key)]; /* evicting may have moved it */
    return WEIR_OK;
}

/* A cell that was made in vain is untouched: the next sweep drops it as expired. */
static weir_err prepare(struct table *t, struct shard *s, const struct charge *c,
                        const struct question *q, const struct step *step, struct cell **out)
{
    weir_err err = try_prepare(t, s, c, q, step, out);

    if (err)
        s->soonest = 0;
    return err;
}

static bool charges_something(const struct question *q)
{
    return q->ask.cost > 0 && !q->ask.peek;
}

/* The way of most questions: one rule. */
static void judge_one(struct table *t, struct question *q)
{
    struct charge *c = q->charges;
    struct shard *s = shard_of(t, c);
    uint32_t at = shard_find(s, c->key);
    struct cell *cell = shard_has(s, at, c->key) ? &s->cells[at] : NULL;
    struct step step = state_take(cell ? &cell->state : &untouched, c->rule, &q->ask);

    q->allowed = step.decision.allowed;
    c->decision = step.decision;
    if (!q->allowed || !charges_something(q))
        return;
    if (!cell || c->rule->algorithm == WEIR_SLIDING_WINDOW) {
        q->err = prepare(t, s, c, q, &step, &cell);
        if (q->err)
            return;
    }
    state_apply(&cell->state, c->rule, &step);
    stamp(s, cell, c->rule, &step);
}

/* All look before one is charged; all have room before one is changed. */
static void judge_several(struct table *t, struct question *q)
{
    struct step steps[MOST_CHARGES];
    struct cell *cell;

    q->allowed = true;
    for (size_t i = 0; i < q->count; i++) {
        struct charge *c = &q->charges[i];

        steps[i] = state_take(look(shard_of(t, c), c->key), c->rule, &q->ask);
        c->decision = steps[i].decision;
        q->allowed = q->allowed && c->decision.allowed;
    }
    if (!q->allowed) {
        const struct ask peek = { q->ask.now, q->ask.cost, true };

        for (size_t i = 0; i < q->count; i++) {
            struct charge *c = &q->charges[i];

            c->decision = state_take(look(shard_of(t, c), c->key), c->rule, &peek).decision;
        }
        return;
    }
    if (!charges_something(q))
        return;
    for (size_t i = 0; i < q->count && !q->err; i++)
        q->err = prepare(t, shard_of(t, &q->charges[i]), &q->charges[i], q, &steps[i], &cell);
    for (size_t i = 0; i < q->count && !q->err; i++) {
        struct charge *c = &q->charges[i];
        struct shard *s = shard_of(t, c);

        cell = &s->cells[shard_find(s, c->key)];
        state_apply(&cell->state, c->rule, &steps[i]);
        stamp(s, cell, c->rule, &steps[i]);
    }
}

static void refund_or_reset(struct table *t, struct question *q)
{
    const struct ask look_only = { q->ask.now, 0, true };

    for (size_t i = 0; i < q->count; i++) {
        struct charge *c = &q->charges[i];
        struct shard *s = shard_of(t, c);
        uint32_t at = shard_find(s, c->key);

        if (shard_has(s, at, c->key) && q->verb == VERB_REFUND && c->rule->limit > 0) {
            struct cell *cell = &s->cells[at];
            struct step step = state_refund(&cell->state, c->rule, &q->ask);

            stamp(s, cell, c->rule, &step);
            c->decision = step.decision;
            continue;
        }
        if (shard_has(s, at, c->key) && q->verb == VERB_RESET)
            erase(t, s, at);
        c->decision = state_take(&untouched, c->rule, &look_only).decision;
    }
    q->allowed = true;
}

static void judge(struct table *t, struct question *q)
{
    q->err = WEIR_OK;
    if (q->verb != VERB_CHECK)
        refund_or_reset(t, q);
    else if (q->count == 1)
        judge_one(t, q);
    else
        judge_several(t, q);
}

/* The shards of a question, ascending, each once. */
static size_t shards_of(const struct table *t, const struct question *q, size_t *out)
{
    size_t n = 0;

    for (size_t i = 0; i < q->count; i++) {
        size_t shard = shard_index(t, q->charges[i].key), place = n;

        while (place > 0 && out[place - 1] >= shard)
            place--;
        if (place < n && out[place] == shard)
            continue;
        memmove(out + place + 1, out + place, sizeof *out * (n - place));
        out[place] = shard;
        n++;
    }
    return n;
}

void table_judge(struct table *t, struct question *q)
{
    size_t shards[MOST_CHARGES], n;

    if (q->count == 1) {
        struct shard *s = shard_of(t, q->charges);

        pthread_mutex_lock(&s->lock);
        judge(t, q);
        pthread_mutex_unlock(&s->lock);
        return;
    }
    n = shards_of(t, q, shards);
    for (size_t i = 0; i < n; i++)
        pthread_mutex_lock(&t->shards[shards[i]].lock);
    judge(t, q);
    for (size_t i = n; i > 0; i--)
        pthread_mutex_unlock(&t->shards[shards[i - 1]].lock);
}

/* ---- looking after ------------------------------------------------------------------- */

void table_sweep(struct table *t, int64_t now)
{
    const size_t shards = shard_count(t), part = shards / SWEEP_PARTS + 1;

    for (size_t i = 0; i < part && t->drop_by_time; i++) {
        struct shard *s = &t->shards[t->swept];

        t->swept = (t->swept + 1) % shards;
        pthread_mutex_lock(&s->lock);
        if (now - CLOCK_SLIP >= s->soonest) {
            forget(t, shard_rebuild(s, s->homes, t->most_homes, now - CLOCK_SLIP, &t->allocator));
            if (s->count < s->homes / 4)
                forget(t, shard_rebuild(s, s->count / 5 * 8, t->most_homes, INT64_MIN, &t->allocator));
        }
        pthread_mutex_unlock(&s->lock);
    }
}

void table_stats(struct table *t, weir_stats *stats)
{
    *stats = (weir_stats){
        .keys = atomic_load_explicit(&t->keys, memory_order_relaxed),
        .max_keys = t->max_keys,
        .memory_bytes = atomic_load_explicit(&t->beside, memory_order_relaxed),
    };
    for (size_t i = 0; i < shard_count(t); i++) {
        struct shard *s = &t->shards[i];

        pthread_mutex_lock(&s->lock);
        stats->evicted_keys += s->evicted;
        stats->expired_keys += s->expired;
        if (s->count > 0)
            stats->memory_bytes += (int64_t)(s->homes * sizeof(struct cell));
        pthread_mutex_unlock(&s->lock);
    }
}
