/* terms.h - what reservations of a policy have in common, which a table keeps once.
 *
 * The terms of a reservation are all that it shares with others of the same policy: limits, names,
 * the longest time. Most policies have the same terms until they are changed, so a table has few of
 * them, and reservations point at them.
 *
 * RULES (test_terms.c has a test by each name)
 *   M1  Shared terms never change, and stay as long as the table: to read them needs no lock, and
 *       equal terms are at the same place.
 *   M2  At most TERMS_SHARED are shared. The numbers of limits that come with requests are the
 *       clients', so these are not. A reservation of other terms has them behind its charges. */
#ifndef WEIR_STORE_MEMORY_TERMS_H
#define WEIR_STORE_MEMORY_TERMS_H

#include <stdatomic.h>

#include "store/reservation.h"
#include "store/store.h"

enum { TERMS_SHARED = 2048 };

struct term {
    struct rule rule; /* without a calendar: what it had is in the reservation */
    uint8_t class;
};

struct terms {
    uint64_t hash;
    int64_t most_ttl;
    uint16_t count;
    bool is_shared,
        keeps_names; /* names stay as long as the handle, or are text behind the labels */
    struct charge_label *labels; /* behind the terms */
    struct term of[];
};

/* What they are made of. */
struct terms_source {
    int64_t most_ttl;
    const struct charge_label *labels;
    const struct charge *charges; /* rules and classes are read */
    size_t count;
};

enum { TERMS_LATEST = 64 };

/* Of all that are shared, where those of one rule were found last: most are looked for there. */
struct terms_latest {
    _Atomic(const struct terms *) at[TERMS_LATEST];
};

struct terms_set;

struct terms_set *terms_set_new(const weir_allocator *allocator); /* NULL: out of memory */
void terms_set_free(struct terms_set *s);

/* The shared terms that are so, made if there are none. NULL: they are not shared. Any thread. */
const struct terms *terms_share(struct terms_set *s, const struct terms_source *from);

static inline struct terms_latest *terms_latest(struct terms_set *s)
{
    return (struct terms_latest *)s;
}

/* The same of one rule, where callers are in a hurry. */
static inline const struct terms *terms_share_one(struct terms_set *s, int64_t most_ttl,
                                                  const struct charge_label *label,
                                                  const struct charge *c)
{
    const struct rule *rule = c->rule;
    _Atomic(const struct terms *) *slot =
        &terms_latest(s)->at[((uintptr_t)label->rule >> 3 ^ (uintptr_t)rule->limit) % TERMS_LATEST];
    const struct terms *t = atomic_load_explicit(slot, memory_order_acquire);

    if (t && t->labels->rule == label->rule && t->labels->policy == label->policy &&
        t->labels->counts == label->counts && t->most_ttl == most_ttl &&
        t->of->rule.limit == rule->limit && t->of->rule.window == rule->window &&
        t->of->rule.burst == rule->burst && t->of->rule.precision == rule->precision &&
        t->of->rule.block_for == rule->block_for && t->of->rule.algorithm == rule->algorithm &&
        t->of->rule.start == rule->start && t->of->class == c->class)
        return t;
    t = terms_share(s, &(struct terms_source){ most_ttl, label, c, 1 });
    if (t && t->keeps_names && !label->is_shadow)
        atomic_store_explicit(slot, t, memory_order_release);
    return t;
}

/* Terms of one's own, in terms_size() bytes; and after these were moved. */
size_t terms_size(const struct terms_source *from);
void terms_put(struct terms *to, const struct terms_source *from);
void terms_moved(struct terms *t);

#endif
