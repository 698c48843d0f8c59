/* lease_table.c - the chunks of limits that this process has leased from a shared store.
 *
 * Sets of a few places, a lock for every so many sets. A place has at most two chunks: the one that
 * is spent, and the next, which was asked for before the first is used up. The places that have
 * chunks are in a list of their lock, so that looking for those that are over is cheap. */
#include "engine/lease_table.h"

#include <stdatomic.h>

#include "base/lock.h"

enum { CHUNKS = 2 };

struct chunk {
    struct key id;
    int64_t amount, spent; /* an amount of 0: there is none */
    int64_t began;         /* when it was asked for */
    int64_t until;         /* it may be spent before this */
    int64_t lost_at;       /* the store takes it for spent from about this on */
    int64_t reset_at;
    int64_t runs_at; /* of a leaky bucket: when its first unit has its turn in the queue */
    uint16_t tag;
    const char *counts;
};

struct place {
    struct key key; /* zero: free */
    int64_t limit, burst;
    int64_t since, asked; /* units that were asked for since then */
    int64_t remaining;    /* the store's last word, */
    int64_t reset_at;     /* and when that is over */
    int64_t used_at;      /* the last time that something was spent */
    int64_t last;         /* the amount of the last chunk */
    int64_t hold;         /* how long a chunk is held */
    int64_t recalled_at;
    int64_t queued,
        queued_at; /* of a leaky bucket: what waits here, in units x ms, and since when */
    struct chunk chunks[CHUNKS];
    struct place *next; /* of those with chunks */
    bool is_listed;
    bool is_asked_for; /* a request is under way */
};

/* The sets that have a lock together. */
struct part {
    struct lock lock;
    struct place *first;
    struct lease_stats stats; /* but for the chunks */
    char apart[64];
};

struct lease_table {
    weir_allocator allocator;
    _Atomic int64_t recalled_all_at;
    _Atomic int64_t chunks;
    struct part *parts;
    struct place (*sets)[LEASE_WAYS];
};

struct lease_table *lease_table_new(const weir_allocator *allocator)
{
    struct lease_table *t = alloc_zeroed(allocator, sizeof *t);

    if (!t)
        return NULL;
    t->allocator = *allocator;
    atomic_store(&t->recalled_all_at, -1);
    t->sets = alloc_zeroed(allocator, LEASE_SETS * sizeof *t->sets);
    t->parts = alloc_zeroed(allocator, LEASE_LOCKS * sizeof *t->parts);
    if (!t->sets || !t->parts) {
        alloc_free(allocator, t->sets);
        alloc_free(allocator, t->parts);
        alloc_free(allocator, t);
        return NULL;
    }
    return t;
}

void lease_table_free(struct lease_table *t)
{
    weir_allocator allocator;

    if (!t)
        return;
    allocator = t->allocator;
    alloc_free(&allocator, t->parts);
    alloc_free(&allocator, t->sets);
    alloc_free(&allocator, t);
}

/* Keys are hashes: any of their bits will do. */
static size_t set_of(struct key key)
{
    return key.low % LEASE_SETS;
}

static struct part *enter(struct lease_table *t, struct key key)
{
    struct part *part = &t->parts[set_of(key) % LEASE_LOCKS];

    lock_take(&part->lock);
    return part;
}

static void leave(struct part *part)
{
    lock_drop(&part->lock);
}

static bool is_same(struct key a, struct key b)
{
    return a.low == b.low && a.high == b.high;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t greatest(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* ---- places --------------------------------------------------------------------------------- */

static struct place *find(struct lease_table *t, struct key key)
{
    struct place *set = t->sets[set_of(key)];

    for (size_t i = 0; i < LEASE_WAYS; i++)
        if (is_same(set[i].key, key))
            return &set[i];
    return NULL;
}

static bool has_chunk(const struct place *p)
{
    return p->chunks[0].amount > 0;
}

/* Its own, or that of the key without a chunk that was counted from first; NULL: all have one. */
static struct place *find_or_take(struct lease_table *t, struct key key, int64_t now)
{
    struct place *p = find(t, key), *set = t->sets[set_of(key)];

    if (p)
        return p;
    for (size_t i = 0; i < LEASE_WAYS; i++)
        if (!set[i].is_listed && !set[i].is_asked_for && (!p || set[i].since < p->since))
            p = &set[i];
    if (p)
        *p = (struct place){ .key = key, .since = now, .remaining = -1, .recalled_at = -1 };
    return p;
}

/* ---- chunks --------------------------------------------------------------------------------- */

static bool is_recalled(const struct lease_table *t, const struct place *p, const struct chunk *c)
{
    return c->began <= p->recalled_at || c->began <= atomic_load(&t->recalled_all_at);
}

/* So many quarters of the time that a chunk is held for. */
static int64_t quarters_of(const struct place *p, const struct chunk *c, int64_t n)
{
    return c->began + least(c->until - c->began, p->hold) * n / 4;
}

static bool is_good(const struct lease_table *t, const struct place *p, const struct chunk *c,
                    int64_t now)
{
    return c->amount > 0 && now < quarters_of(p, c, 4) && !is_recalled(t, p, c);
}

static int64_t left_of(const struct chunk *c)
{
    return c->amount - c->spent;
}

static int64_t left_in(const struct lease_table *t, const struct place *p, int64_t now)
{
    int64_t left = 0;

    for (size_t i = 0; i < CHUNKS; i++)
        if (is_good(t, p, &p->chunks[i], now))
            left += left_of(&p->chunks[i]);
    return left;
}

/* How far a chunk may get before what is left of it is given back. */
static int64_t ripe_at(const struct place *p, const struct chunk *c)
{
    return quarters_of(p, c, 3);
}

static bool has_ended(const struct lease_table *t, const struct place *p, const struct chunk *c,
                      int64_t now)
{
    return left_of(c) == 0 || now >= ripe_at(p, c) || now >= p->used_at + p->hold / 4 ||
           is_recalled(t, p, c);
}

/* False: the store takes it for spent by now. */
static bool end(struct lease_table *t, struct part *part, struct place *p, size_t i, int64_t now,
                struct lease_end *out)
{
    const struct chunk c = p->chunks[i];
    const bool is_lost = now >= c.lost_at;

    part->stats.spent += c.spent; /* not before: it may have been put back */
    *(is_lost ? &part->stats.stranded : &part->stats.returned) += left_of(&c);
    *out = (struct lease_end){ c.id, c.tag, c.counts, c.amount, c.spent };
    for (; i + 1 < CHUNKS; i++)
        p->chunks[i] = p->chunks[i + 1];
    p->chunks[CHUNKS - 1] = (struct chunk){ 0 };
    atomic_fetch_sub(&t->chunks, 1);
    return !is_lost;
}

/* ---- asking for more ------------------------------------------------------------------------ */

/* What was asked for long ago is forgotten; before, it is taken to have come evenly. */
static void count(struct place *p, int64_t cost, int64_t now)
{
    const int64_t past = now - p->since;

    if (past >= p->hold) {
        const bool is_stale = past >= 2 * p->hold;

        p->asked = is_stale ? 0
                            : least(p->asked, WEIR_MAX_AMOUNT / LEASE_MOST_TTL_MS) * (p->hold / 2) /
                                  past;
        p->since = is_stale ? now : now - p->hold / 2;
    }
    p->asked += least(cost, WEIR_MAX_AMOUNT);
}

/* What is expected to be asked for while a chunk is held, or until the window ends. */
static int64_t expected(const struct place *p, const struct rule *r, int64_t now)
{
    const int64_t in = now > p->since ? now - p->since : 1;
    const bool has_end = !algorithm_ages(r->algorithm) && p->reset_at > now;
    const int64_t rest = has_end ? least(p->hold, p->reset_at - now) : p->hold;

    return p->asked < WEIR_MAX_AMOUNT / LEASE_MOST_TTL_MS ? p->asked * rest / in : p->asked;
}

/* All instances, with two chunks each, hold at most half of what remains. If they held more, the store
 * would have nothing left long before the limit is used, and one whose callers pause for a few ms
 * would keep much of it from the others. How many there are is seldom said, so some are assumed;
 * with more than these it must be, or they may hold more than half. */
static int64_t chunk_for(const struct place *p, const struct lease_wish *wish, int64_t now)
{
    const int64_t instances = greatest(wish->instances, LEASE_INSTANCES);
    int64_t amount = least(expected(p, wish->rule, now), p->remaining / (LEASE_PARTS * instances));

    amount = least(amount, p->last > 0 ? LEASE_GROWTH * p->last : LEASE_FIRST);
    if (wish->terms->most > 0)
        amount = least(amount, wish->terms->most);
    return amount < LEASE_LEAST || amount < wish->cost ? 0 : amount;
}

static bool is_used_up(const struct chunk *c)
{
    return c->amount > 0 && left_of(c) == 0;
}

/* Before it runs out, of units or of time. */
static bool wants_next(const struct lease_table *t, const struct place *p, int64_t now)
{
    const bool is_second = is_used_up(&p->chunks[0]) && p->chunks[1].amount > 0;
    const struct chunk *c = &p->chunks[is_second ? 1 : 0];

    if (p->is_asked_for || p->asked < LEASE_HOT || (!is_second && p->chunks[1].amount > 0))
        return false;
    return !is_good(t, p, c, now) || 2 * left_of(c) <= c->amount || now >= quarters_of(p, c, 2);
}

/* ---- spending ------------------------------------------------------------------------------- */

/* What is leased of a sliding window counts from its grant until a window after it is settled. So that
 * this takes little of the limit, it is held for a small part of the window. It lasts for longer: if it
 * comes back late, as a machine is busy, it is not lost. */
int64_t lease_hold(const struct rule *r, const struct policy_lease *terms)
{
    if (algorithm_leasing(r->algorithm) != LEASED_SLIDING)
        return terms->ttl;
    return least(terms->ttl, r->window / LEASE_SLIDING_PARTS);
}

/* How long a unit that is let in now waits: until its place in the queue, as that was when the chunk
 * was granted; and so that this process by itself never lets them run faster than the bucket drains. */
static int64_t queue_up(struct place *p, const struct chunk *c, const struct lease_wish *wish,
                        int64_t now)
{
    const struct rule *r = wish->rule;
    const int64_t turn = c->runs_at + c->spent * r->window / r->limit - now;
    int64_t wait;

    p->queued = now - p->queued_at > p->queued / r->limit
                    ? 0
                    : p->queued - (now - p->queued_at) * r->limit;
    p->queued_at = now;
    wait = div_up(p->queued, r->limit);
    p->queued += wish->cost * r->window;
    return turn > wait ? turn : wait;
}

static struct chunk *chunk_with(const struct lease_table *t, struct place *p, int64_t cost,
                                int64_t now)
{
    for (size_t i = 0; i < CHUNKS; i++)
        if (is_good(t, p, &p->chunks[i], now) && left_of(&p->chunks[i]) >= cost)
            return &p->chunks[i];
    return NULL;
}

static bool is_for(const struct place *p, const struct rule *r)
{
    return p->limit == r->limit && p->burst == r->burst;
}

/* With other numbers than before, what was learned of the key says nothing. */
static void count_under(struct place *p, const struct lease_wish *wish, int64_t now)
{
    if (!is_for(p, wish->rule) && !p->is_asked_for && !has_chunk(p)) {
        p->limit = wish->rule->limit;
        p->burst = wish->rule->burst;
        p->remaining = -1;
    }
    p->hold = lease_hold(wish->rule, wish->terms);
    count(p, wish->cost, now);
}

/* Is its first chunk to be given back now: with the request for the next; or, of one that ages only
 * from then on, as soon as it is used up? */
static bool is_due(const struct lease_table *t, const struct place *p,
                   const struct lease_wish *wish, bool asks, int64_t now)
{
    const struct chunk *c = &p->chunks[0];

    if (is_used_up(c))
        return asks || (wish->is_alone && algorithm_ages(wish->rule->algorithm));
    return asks && has_chunk(p) && !is_good(t, p, c, now);
}

bool lease_table_spend(struct lease_table *t, const struct lease_wish *wish, int64_t now,
                       struct lease_found *out)
{
    struct part *part = enter(t, wish->key);
    struct place *p = find_or_take(t, wish->key, now);
    struct chunk *c = NULL;

    out->chunk = out->ended.amount = 0;
    if (p)
        count_under(p, wish, now);
    if (p && is_for(p, wish->rule)) {
        c = chunk_with(t, p, wish->cost, now);
        if (c) {
            out->decision.delay = algorithm_leasing(wish->rule->algorithm) == LEASED_IN_QUEUE
                                      ? queue_up(p, c, wish, now)
                                      : 0;
            c->spent += wish->cost;
            part->stats.checks += wish->is_last;
            p->used_at = now;
            out->id = c->id;
            out->decision.allowed = true;
            out->decision.retry_after = 0;
            out->decision.remaining = left_in(t, p, now);
            out->decision.reset_after = c->reset_at > now ? c->reset_at - now : 0;
        }
        if (wants_next(t, p, now))
            out->chunk = chunk_for(p, wish, now);
        p->is_asked_for = p->is_asked_for || out->chunk > 0;
        if (is_due(t, p, wish, out->chunk > 0, now) && !end(t, part, p, 0, now, &out->ended))
            out->ended.amount = 0;
    }
    leave(part);
    return c;
}

void lease_table_unspend(struct lease_table *t, struct key key, struct key id, int64_t cost)
{
    struct part *part = enter(t, key);
    struct place *p = find(t, key);

    for (size_t i = 0; p && i < CHUNKS; i++)
        if (p->chunks[i].amount > 0 && is_same(p->chunks[i].id, id)) {
            p->chunks[i].spent -= cost;
            break;
        }
    leave(part);
}

void lease_table_learn(struct lease_table *t, struct key key, const struct decision *said,
                       int64_t now)
{
    struct part *part = enter(t, key);
    struct place *p = find(t, key);

    if (p) {
        p->remaining = said->remaining;
        p->reset_at = now + said->reset_after;
    }
    leave(part);
}

/* ---- coming and going ----------------------------------------------------------------------- */

/* L2. The store has decided at some moment after it was asked. */
static int64_t end_of(const struct lease_grant *g, const struct rule *r)
{
    const int64_t life = algorithm_ages(r->algorithm) ? g->ttl : least(g->ttl, g->reset_after);

    return g->asked + life - (life + 99) / 100 - 1;
}

static void list(struct part *part, struct place *p)
{
    if (p->is_listed)
        return;
    p->is_listed = true;
    p->next = part->first;
    part->first = p;
}

bool lease_table_granted(struct lease_table *t, const struct lease_wish *wish,
                         const struct lease_grant *g)
{
    struct part *part = enter(t, wish->key);
    struct place *p = find(t, wish->key);
    struct chunk c = {
        .id = g->id,
        .amount = g->amount,
        .began = g->asked,
        .until = end_of(g, wish->rule),
        .lost_at = g->asked + g->ttl,
        .reset_at = g->answered + g->reset_after,
        .runs_at = g->answered + g->delay,
        .tag = g->tag,
        .counts = g->counts,
    };
    bool is_taken = false;

    if (p) {
        p->is_asked_for = false;
        p->remaining = g->remaining;
        p->reset_at = c.reset_at;
        is_taken = is_for(p, wish->rule) && is_good(t, p, &c, g->answered) &&
                   c.until - g->answered >= LEASE_LEAST_LIFE_MS && p->chunks[1].amount == 0;
    }
    part->stats.granted += g->amount;
    if (is_taken) {
        p->last = g->amount;
        if (!has_chunk(p))
            p->used_at = g->answered;
        p->chunks[has_chunk(p) ? 1 : 0] = c;
        atomic_fetch_add(&t->chunks, 1);
        list(part, p);
    } else {
        part->stats.returned += g->amount;
    }
    leave(part);
    return is_taken;
}

void lease_table_refused(struct lease_table *t, struct key key, int64_t remaining)
{
    struct part *part = enter(t, key);
    struct place *p = find(t, key);

    if (p) {
        p->is_asked_for = false;
        p->remaining = remaining; /* below 0: no chunk before the store has said more */
        p->last = 0;
    }
    leave(part);
}

void lease_table_recall(struct lease_table *t, struct key key, int64_t now)
{
    struct part *part = enter(t, key);
    struct place *p = find(t, key);

    if (p)
        p->recalled_at = now;
    leave(part);
}

void lease_table_recall_all(struct lease_table *t, int64_t now)
{
    atomic_store(&t->recalled_all_at, now);
}

/* ---- the end -------------------------------------------------------------------------------- */

/* False: there is no room for more. */
static bool take_ended_of(struct lease_table *t, struct part *part, struct place *p, int64_t now,
                          bool all, struct lease_end *out, size_t most, size_t *n)
{
    for (size_t i = 0; i < CHUNKS && p->chunks[i].amount > 0;) {
        if (!all && !has_ended(t, p, &p->chunks[i], now))
            i++;
        else if (*n == most)
            return false;
        else if (end(t, part, p, i, now, &out[*n]))
            (*n)++;
    }
    return true;
}

size_t lease_table_take_ended(struct lease_table *t, int64_t now, bool all, struct lease_end *out,
                              size_t most)
{
    size_t n = 0;

    for (size_t i = 0; i < LEASE_LOCKS && n < most; i++) {
        struct part *part = &t->parts[i];
        struct place **at;

        lock_take(&part->lock);
        for (at = &part->first; *at && take_ended_of(t, part, *at, now, all, out, most, &n);) {
            struct place *p = *at;

            if (has_chunk(p)) {
                at = &p->next;
            } else {
                *at = p->next;
                p->is_listed = false;
            }
        }
        leave(part);
    }
    return n;
}

bool lease_table_is_empty(const struct lease_table *t)
{
    return atomic_load(&t->chunks) == 0;
}

void lease_table_came_late(struct lease_table *t, int64_t units)
{
    struct part *part = &t->parts[0]; /* any: they are summed up */

    lock_take(&part->lock);
    part->stats.returned -= units;
    part->stats.stranded += units;
    leave(part);
}

void lease_table_get_stats(struct lease_table *t, struct lease_stats *out)
{
    *out = (struct lease_stats){ .chunks = atomic_load(&t->chunks) };
    for (size_t i = 0; i < LEASE_LOCKS; i++) {
        struct part *part = &t->parts[i];

        lock_take(&part->lock);
        out->checks += part->stats.checks;
        out->granted += part->stats.granted;
        out->spent += part->stats.spent;
        out->returned += part->stats.returned;
        out->stranded += part->stats.stranded;
        leave(part);
    }
}
