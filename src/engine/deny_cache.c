/* deny_cache.c - refusals that are known to hold, so that a shared store need not be asked again.
 *
 * Sets of a few places, a lock for every so many sets. Forgetting everything is a moment: what was
 * asked before it counts no more. */
#include "engine/deny_cache.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

struct place {
    struct key key; /* zero: free */
    int64_t limit, window, burst, precision, block_for, cost;
    int64_t asked;
    int64_t until;    /* it is refused before this, */
    int64_t retry_at; /* let in at this at the latest; NEVER */
    int64_t reset_at;
    int64_t remaining;
    bool is_lockout; /* of any cost, whatever the numbers are */
};

struct lock {
    pthread_mutex_t mutex;
    int64_t forgot_at; /* a key of these sets */
    char apart[64];
};

struct deny_cache {
    weir_allocator allocator;
    _Atomic int64_t forgot_all_at;
    _Atomic int64_t certain_until;
    _Atomic int64_t hits;
    struct lock *locks;
    struct place (*sets)[DENIAL_WAYS];
};

#define NEVER INT64_MAX

struct deny_cache *deny_cache_new(const weir_allocator *allocator)
{
    struct deny_cache *c = alloc_zeroed(allocator, sizeof *c);

    if (!c)
        return NULL;
    c->allocator = *allocator;
    atomic_store(&c->forgot_all_at, -1);
    c->sets = alloc_zeroed(allocator, DENIAL_SETS * sizeof *c->sets);
    c->locks = alloc_zeroed(allocator, DENIAL_LOCKS * sizeof *c->locks);
    if (!c->sets || !c->locks) {
        alloc_free(allocator, c->sets);
        alloc_free(allocator, c->locks);
        alloc_free(allocator, c);
        return NULL;
    }
    for (size_t i = 0; i < DENIAL_LOCKS; i++) {
        pthread_mutex_init(&c->locks[i].mutex, NULL);
        c->locks[i].forgot_at = -1;
    }
    return c;
}

void deny_cache_free(struct deny_cache *c)
{
    weir_allocator allocator;

    if (!c)
        return;
    allocator = c->allocator;
    for (size_t i = 0; i < DENIAL_LOCKS; i++)
        pthread_mutex_destroy(&c->locks[i].mutex);
    alloc_free(&allocator, c->locks);
    alloc_free(&allocator, c->sets);
    alloc_free(&allocator, c);
}

/* Keys are hashes: any of their bits will do. */
static size_t set_of(struct key key)
{
    return key.low % DENIAL_SETS;
}

static struct lock *enter(struct deny_cache *c, struct key key)
{
    struct lock *lock = &c->locks[set_of(key) % DENIAL_LOCKS];

    pthread_mutex_lock(&lock->mutex);
    return lock;
}

static void leave(struct lock *lock)
{
    pthread_mutex_unlock(&lock->mutex);
}

static bool is_key(const struct place *p, struct key key)
{
    return p->key.high == key.high && p->key.low == key.low;
}

static bool has_numbers(const struct place *p, const struct rule *r)
{
    return p->limit == r->limit && p->window == r->window && p->burst == r->burst &&
           p->precision == r->precision && p->block_for == r->block_for;
}

static bool holds(const struct deny_cache *c, const struct place *p, int64_t now)
{
    return now < p->until && p->asked > atomic_load(&c->forgot_all_at);
}

/* ---- refusing ------------------------------------------------------------------------------- */

/* More than this is never let in. */
static int64_t capacity(const struct rule *r)
{
    return algorithm_has_burst(r->algorithm) ? r->burst : r->limit;
}

static bool applies(const struct place *p, const struct denial *d, int64_t now)
{
    const bool is_frozen = d->is_alone && !d->is_varied && d->cost == 1 && p->cost == 1;

    if (p->is_lockout)
        return d->rule->limit > 0;
    if (!has_numbers(p, d->rule))
        return false;
    if (is_frozen)
        return true;
    /* A cell's greater costs have waits that nothing here can tell. */
    return now < p->asked + DENIAL_FRESH_MS &&
           (d->cost == p->cost || (d->cost > p->cost && d->rule->algorithm != ALGORITHM_CELL));
}

static void decide(const struct place *p, const struct denial *d, int64_t now, struct decision *out)
{
    const bool is_too_much = !p->is_lockout && d->cost > p->cost && d->cost > capacity(d->rule);

    *out = (struct decision){
        .remaining = p->remaining,
        .retry_after = p->retry_at == NEVER || is_too_much ? WEIR_NEVER : p->retry_at - now,
        .reset_after = p->reset_at > now ? p->reset_at - now : 0,
    };
}

bool deny_cache_is_certain(const struct deny_cache *c, int64_t now)
{
    return now < atomic_load_explicit(&c->certain_until, memory_order_acquire);
}

bool deny_cache_refuses(struct deny_cache *c, const struct denial *d, int64_t now,
                        struct decision *out)
{
    struct place *set = c->sets[set_of(d->key)];
    bool is_refused = false;
    struct lock *lock;

    if (!deny_cache_is_certain(c, now))
        return false;
    lock = enter(c, d->key);
    for (size_t i = 0; i < DENIAL_WAYS && !is_refused; i++)
        if (is_key(&set[i], d->key) && holds(c, &set[i], now) && applies(&set[i], d, now)) {
            decide(&set[i], d, now, out);
            is_refused = true;
        }
    leave(lock);
    if (is_refused)
        atomic_fetch_add_explicit(&c->hits, 1, memory_order_relaxed);
    return is_refused;
}

/* ---- learning and forgetting ---------------------------------------------------------------- */

/* Its own, a free one, or that of the refusal that ends first. */
static struct place *find_place(const struct deny_cache *c, struct place *set,
                                const struct denial *d, int64_t now)
{
    struct place *best = &set[0];

    for (size_t i = 0; i < DENIAL_WAYS; i++) {
        if (is_key(&set[i], d->key) && set[i].cost == d->cost && has_numbers(&set[i], d->rule))
            return &set[i];
        if (!holds(c, &set[i], now))
            set[i].until = 0;
        if (set[i].until < best->until)
            best = &set[i];
    }
    return best;
}

void deny_cache_learn(struct deny_cache *c, const struct denial *d, const struct decision *said,
                      int64_t asked, int64_t answered)
{
    const bool is_never = said->retry_after == WEIR_NEVER;
    struct place *set = c->sets[set_of(d->key)];
    const struct place learnt = {
        .key = d->key,
        .limit = d->rule->limit,
        .window = d->rule->window,
        .burst = d->rule->burst,
        .precision = d->rule->precision,
        .block_for = d->rule->block_for,
        .cost = d->cost,
        .asked = asked,
        /* Clocks in whole ms: the store's may have been about to turn, or ours. */
        .until = is_never ? asked + DENIAL_FRESH_MS : asked + said->retry_after - 1,
        .retry_at = is_never ? NEVER : answered + said->retry_after + 1,
        .reset_at = answered + said->reset_after + (said->reset_after > 0),
        .remaining = said->remaining,
        .is_lockout = d->rule->block_for > 0,
    };
    struct lock *lock;

    /* The refusal of a peek locks nothing, and -1 does not: a check may be about to. */
    if (learnt.is_lockout && (d->is_peek || is_never))
        return;
    if ((d->is_varied && !learnt.is_lockout && algorithm_has_burst(d->rule->algorithm)) ||
        learnt.until <= answered)
        return;
    lock = enter(c, d->key);
    if (asked > lock->forgot_at && asked > atomic_load(&c->forgot_all_at))
        *find_place(c, set, d, answered) = learnt;
    leave(lock);
}

void deny_cache_forget(struct deny_cache *c, struct key key, int64_t now)
{
    struct place *set = c->sets[set_of(key)];
    struct lock *lock = enter(c, key);

    lock->forgot_at = now;
    for (size_t i = 0; i < DENIAL_WAYS; i++)
        if (is_key(&set[i], key))
            set[i] = (struct place){ 0 };
    leave(lock);
}

void deny_cache_forget_all(struct deny_cache *c, int64_t now)
{
    atomic_store(&c->forgot_all_at, now);
}

void deny_cache_hear(struct deny_cache *c, const struct store_event *event, int64_t now)
{
    switch (event->kind) {
    case STORE_EVENT_KEY:
    case STORE_EVENT_BACK:
        deny_cache_forget(c, event->key, now);
        break;
    case STORE_EVENT_ALL:
        atomic_store(&c->certain_until, 0);
        deny_cache_forget_all(c, now);
        break;
    case STORE_EVENT_LEDGER:
        deny_cache_forget_all(c, now);
        break;
    case STORE_EVENT_UP_TO:
        atomic_store_explicit(&c->certain_until, event->at + DENIAL_LEASE_MS, memory_order_release);
        break;
    }
}

void deny_cache_get_stats(struct deny_cache *c, int64_t now, struct deny_cache_stats *out)
{
    *out = (struct deny_cache_stats){ .hits = atomic_load(&c->hits) };
    for (size_t set = 0; set < DENIAL_SETS; set++) {
        struct lock *lock = &c->locks[set % DENIAL_LOCKS];

        pthread_mutex_lock(&lock->mutex);
        for (size_t i = 0; i < DENIAL_WAYS; i++)
            out->entries += holds(c, &c->sets[set][i], now);
        leave(lock);
    }
}
