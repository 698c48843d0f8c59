/* top.c - which identities are denied most: a Space-Saving sketch.
 *
 * Metwally, Agrawal, El Abbadi: Efficient Computation of Frequent and Top-k Elements in Data
 * Streams (2005). An identity without an entry takes over the least counted one, its count
 * included: that much the new count may be too high. */
#include "server/metrics/top.h"

#include <string.h>

enum { SLOTS = 2 * TOP_ENTRIES };

void top_init(struct top *t)
{
    memset(t, 0, sizeof *t);
}

/* ---- by key --------------------------------------------------------------------------- */

/* Keys are hashes already, of policy and rule as well. */
static size_t slot_of(struct key key)
{
    return (size_t)(key.low % SLOTS);
}

static bool is_of(const struct top_entry *e, const char *policy, const char *rule, struct key key)
{
    return e->key.low == key.low && e->key.high == key.high && e->policy == policy &&
           e->rule == rule;
}

/* Where it is, or where it would go. */
static size_t find_slot(const struct top *t, const char *policy, const char *rule, struct key key)
{
    size_t slot = slot_of(key);

    while (t->slots[slot] > 0 && !is_of(&t->entries[t->slots[slot] - 1], policy, rule, key))
        slot = (slot + 1) % SLOTS;
    return slot;
}

/* Move back what probed past the slot that becomes free. */
static void free_slot(struct top *t, size_t slot)
{
    for (size_t i = (slot + 1) % SLOTS; t->slots[i] > 0; i = (i + 1) % SLOTS) {
        const size_t home = slot_of(t->entries[t->slots[i] - 1].key);

        if ((i - home) % SLOTS >= (i - slot) % SLOTS) {
            t->slots[slot] = t->slots[i];
            slot = i;
        }
    }
    t->slots[slot] = 0;
}

const struct top_entry *top_find(const struct top *t, const char *policy, const char *rule,
                                 struct key key)
{
    const size_t slot = find_slot(t, policy, rule, key);

    return t->slots[slot] > 0 ? &t->entries[t->slots[slot] - 1] : NULL;
}

/* ---- by count ------------------------------------------------------------------------- */

static uint64_t count_at(const struct top *t, size_t place)
{
    return t->entries[t->heap[place]].count;
}

static void put_at(struct top *t, size_t place, uint16_t entry)
{
    t->heap[place] = entry;
    t->entries[entry].place = (uint16_t)place;
}

/* Its count has grown. */
static void sink(struct top *t, size_t place)
{
    const uint16_t entry = t->heap[place];

    for (;;) {
        size_t child = 2 * place + 1;

        if (child + 1 < t->count && count_at(t, child + 1) < count_at(t, child))
            child++;
        if (child >= t->count || count_at(t, child) >= t->entries[entry].count)
            break;
        put_at(t, place, t->heap[child]);
        place = child;
    }
    put_at(t, place, entry);
}

/* A new one, with the least count that there can be. */
static void rise(struct top *t, size_t place)
{
    const uint16_t entry = t->heap[place];

    while (place > 0 && count_at(t, (place - 1) / 2) > t->entries[entry].count) {
        put_at(t, place, t->heap[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    put_at(t, place, entry);
}

uint64_t top_least(const struct top *t)
{
    return t->count == TOP_ENTRIES ? count_at(t, 0) : 0;
}

/* ---- counting ------------------------------------------------------------------------- */

/* Halving keeps the order of counts, so the heap stays one. */
void top_forget(struct top *t, int64_t now)
{
    const int64_t period = now / TOP_HALVED_MS;
    int64_t halvings = period - t->period;

    if (halvings <= 0) /* or the clock has stepped back */
        return;
    t->period = period;
    if (halvings > 63)
        halvings = 63;
    for (size_t i = 0; i < t->count; i++) {
        t->entries[i].count >>= halvings;
        t->entries[i].error >>= halvings;
    }
}

static struct top_entry *take_over(struct top *t)
{
    struct top_entry *least = &t->entries[t->heap[0]];

    free_slot(t, find_slot(t, least->policy, least->rule, least->key));
    least->error = least->count;
    least->logged_until = 0;
    least->tag = (struct key){ 0, 0 };
    least->total = least->told = 0;
    return least;
}

static struct top_entry *add_entry(struct top *t)
{
    struct top_entry *e = &t->entries[t->count];

    *e = (struct top_entry){ 0 };
    put_at(t, t->count, (uint16_t)t->count);
    t->count++;
    rise(t, t->count - 1);
    return e;
}

struct top_entry *top_count(struct top *t, const char *policy, const char *rule, struct key key,
                            int64_t now)
{
    return top_count_many(t, policy, rule, key, 1, now);
}

struct top_entry *top_count_many(struct top *t, const char *policy, const char *rule,
                                 struct key key, uint64_t times, int64_t now)
{
    size_t slot;
    struct top_entry *e;

    top_forget(t, now);
    slot = find_slot(t, policy, rule, key);
    if (t->slots[slot] > 0) {
        e = &t->entries[t->slots[slot] - 1];
    } else {
        e = t->count < TOP_ENTRIES ? add_entry(t) : take_over(t);
        e->policy = policy;
        e->rule = rule;
        e->key = key;
        slot = find_slot(t, policy, rule, key); /* others may have moved */
        t->slots[slot] = (uint16_t)(e - t->entries + 1);
    }
    e->count += times;
    e->total += times;
    e->last = now;
    sink(t, e->place);
    return e;
}
