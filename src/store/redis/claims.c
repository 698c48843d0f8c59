/* claims.c - which questions of one thread wait for which, where they share keys. */
#include "store/redis/claims.h"

#define COST_MOST (INT64_C(1) << 40) /* a question that costs more always waits */

struct claimed_key {
    struct key key;
    int64_t cost; /* of all that claim it */
    struct claim *first, *last;
    struct claimed_key *next; /* of the same bucket */
};

static bool is_same(struct key a, struct key b)
{
    return a.low == b.low && a.high == b.high;
}

static struct claimed_key **find(struct claims *c, struct key key)
{
    struct claimed_key **at = &c->buckets[key.low % CLAIMS_BUCKETS];

    while (*at && !is_same((*at)->key, key))
        at = &(*at)->next;
    return at;
}

/* What it adds to the sum of a key, which cannot overflow. */
static int64_t weight_of(const struct charge *c)
{
    return c->cost < 0 ? 0 : c->cost < COST_MOST ? c->cost : COST_MOST;
}

static bool has_plenty(const struct claims *c, const struct claimed_key *k, int64_t cost)
{
    const size_t i = k->key.low % CLAIMS_NOTES;

    return is_same(c->notes[i].key, k->key) && cost < COST_MOST &&
           c->notes[i].left >= CLAIMS_PLENTY + k->cost + cost;
}

bool claims_concern(struct claims *c, const struct question *q)
{
    for (size_t i = 0; c->open > 0 && i < q->count; i++) {
        const struct claimed_key *k = *find(c, q->charges[i].key);

        if (k && !has_plenty(c, k, weight_of(&q->charges[i])))
            return true;
    }
    return false;
}

static bool add_claim(struct claims *c, struct claimant *by, struct key key, int64_t cost)
{
    struct claimed_key **at = find(c, key), *k = *at;
    struct claim *claim = &by->claims[by->count];

    if (!k) {
        k = alloc_zeroed(&c->allocator, sizeof *k);
        if (!k)
            return false;
        k->key = key;
        *at = k;
    }
    *claim = (struct claim){ .of = k, .by = by, .cost = cost, .previous = k->last };
    claim->waits = k->last && !has_plenty(c, k, cost);
    by->waits_for += claim->waits;
    if (k->last)
        k->last->next = claim;
    else
        k->first = claim;
    k->last = claim;
    k->cost += cost;
    by->count++;
    c->open++;
    return true;
}

bool claims_take(struct claims *c, struct claimant *by, const struct question *q)
{
    by->count = by->waits_for = 0;
    for (size_t i = 0; i < q->count; i++)
        if (!add_claim(c, by, q->charges[i].key, weight_of(&q->charges[i]))) {
            claims_release(c, by, NULL); /* all that came before it are still there */
            return false;
        }
    return true;
}

static void drop_key(struct claims *c, struct claimed_key *k)
{
    struct claimed_key **at = find(c, k->key);

    *at = k->next;
    alloc_free(&c->allocator, k);
}

/* The claim behind it waits for the one before it, if there is one. */
static struct claim *release_one(struct claims *c, struct claim *claim)
{
    struct claimed_key *k = claim->of;
    struct claim *next = claim->next;

    *(claim->previous ? &claim->previous->next : &k->first) = next;
    *(next ? &next->previous : &k->last) = claim->previous;
    k->cost -= claim->cost;
    claim->of = NULL;
    c->open--;
    if (!k->first) {
        drop_key(c, k);
        return NULL;
    }
    return next && next->waits && !next->previous ? next : NULL;
}

struct claimant *claims_release(struct claims *c, struct claimant *by, struct claimant *ready)
{
    for (size_t i = 0; i < by->count; i++) {
        struct claim *freed = release_one(c, &by->claims[i]);

        if (!freed)
            continue;
        freed->waits = false;
        if (--freed->by->waits_for > 0)
            continue;
        freed->by->next = ready;
        ready = freed->by;
    }
    by->count = 0;
    return ready;
}

void claims_note(struct claims *c, const struct charge *charges, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct key key = charges[i].key;

        c->notes[key.low % CLAIMS_NOTES].key = key;
        c->notes[key.low % CLAIMS_NOTES].left = charges[i].step.decision.remaining;
    }
}
