/* deny_cache.h - refusals that are known to hold, so that a shared store need not be asked again.
 *
 * A store that refuses says for how long. Until then nothing can let the same request in but a
 * refund, a reset, other numbers for the limit, or a clock that is set; and all of these are heard
 * of.
 *
 * RULES (test_deny_cache.c has tests of each)
 *   D1  A key is refused from memory only while the store would refuse it too. The time counts from
 *       when the store was asked, as it may have decided at any moment after that; the wait that is
 *       told counts from when it answered, so that who waits for so long is let in.
 *   D2  When a key is refunded or reset, what is remembered of it is forgotten, and what was asked
 *       before is not remembered any more.
 *   D3  Nothing is refused from memory for longer than DENIAL_LEASE_MS after it was certain that
 *       nothing had been missed, nor when something may have been.
 *   D4  Numbers that others may have changed since are at most DENIAL_FRESH_MS old. They are what
 *       the store would say if the request is of cost 1, has one rule, and all who count under its
 *       key do so with its numbers: then no check can have been allowed meanwhile.
 *   D5  Buckets that drain at several speeds are not remembered: a check that passes at a higher
 *       speed drains them for the others.
 *   D6  All memory is allocated at the start. In a full set, the denial that ends first makes room.
 *
 * Times are by clock_steady_ms(). Safe to use by several threads at once. */
#ifndef WEIR_ENGINE_DENY_CACHE_H
#define WEIR_ENGINE_DENY_CACHE_H

#include "store/store.h"

enum {
    DENIAL_LEASE_MS = 1000,
    DENIAL_FRESH_MS = 1000,
    DENIAL_WAYS = 4,
    DENIAL_SETS = 8192,
    DENIAL_LOCKS = 256,
};

struct deny_cache;

/* A request of this cost to this rule and key, among how many. */
struct denial {
    const struct rule *rule;
    struct key key;
    int64_t cost;
    bool is_peek;
    bool is_alone;  /* it is the only charge of its question */
    bool is_varied; /* others may count under this key with other numbers */
};

struct deny_cache *deny_cache_new(const weir_allocator *allocator); /* NULL: out of memory */
void deny_cache_free(struct deny_cache *c);                         /* NULL is fine */

/* Has nothing been missed of what others have changed? */
bool deny_cache_is_certain(const struct deny_cache *c, int64_t now);

/* Is it refused? Then `out` is the decision. */
bool deny_cache_refuses(struct deny_cache *c, const struct denial *d, int64_t now,
                        struct decision *out);

/* The store has refused it. */
void deny_cache_learn(struct deny_cache *c, const struct denial *d, const struct decision *said,
                      int64_t asked, int64_t answered);

void deny_cache_forget(struct deny_cache *c, struct key key, int64_t now);
void deny_cache_forget_all(struct deny_cache *c, int64_t now);
void deny_cache_hear(struct deny_cache *c, const struct store_event *event, int64_t now);

struct deny_cache_stats {
    int64_t hits;    /* decisions */
    int64_t entries; /* refusals that hold now */
};
void deny_cache_get_stats(struct deny_cache *c, int64_t now, struct deny_cache_stats *out);

#endif
