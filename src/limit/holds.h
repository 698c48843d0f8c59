/* holds.h - the open holds of one key, in the order of their expiry.
 *
 * A hold is what a reservation has of a key until it is settled or expires. The list is one block
 * of memory. Most holds are put at its end and leave at its start; the others move the shorter
 * side of it. */
#ifndef WEIR_LIMIT_HOLDS_H
#define WEIR_LIMIT_HOLDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"

struct hold {
    int64_t expires;
    uint64_t id;    /* of its reservation */
    int64_t amount; /* 0: no hold */
};

/* What one key can have open at once. */
enum { HOLDS_MOST = 1 << 16 };

/* NULL: there are none. */
struct holds {
    int64_t sum; /* of all amounts */
    uint32_t first, count, room;
    struct hold at[];
};

static inline uint32_t holds_count(const struct holds *h)
{
    return h ? h->count : 0;
}

static inline int64_t holds_sum(const struct holds *h)
{
    return h ? h->sum : 0;
}

static inline const struct hold *holds_at(const struct holds *h, uint32_t i)
{
    return &h->at[h->first + i];
}

/* Expiry; 0: there are none. */
static inline int64_t holds_last(const struct holds *h)
{
    return holds_count(h) > 0 ? holds_at(h, h->count - 1)->expires : 0;
}

/* How many expire at `now` or before: mostly none. */
uint32_t holds_count_expired(const struct holds *h, int64_t now);
static inline uint32_t holds_expired(const struct holds *h, int64_t now)
{
    if (holds_count(h) == 0 || holds_at(h, 0)->expires > now)
        return 0;
    return holds_count_expired(h, now);
}

bool holds_has_room(const struct holds *h); /* for one more */

/* Room for one more, which may make the block. False: out of memory. */
bool holds_reserve(struct holds **h, const weir_allocator *allocator);

/* Add to the hold with this expiry and id, or put it. There is room. */
void holds_add(struct holds *h, const struct hold *hold);

/* The amount of this hold; 0: there is none. */
int64_t holds_find(const struct holds *h, int64_t expires, uint64_t id);
int64_t holds_remove(struct holds *h, int64_t expires, uint64_t id);

void holds_drop(struct holds *h, uint32_t n); /* the first n */

size_t holds_bytes(const struct holds *h);
void holds_done(struct holds **h, const weir_allocator *allocator);

#endif
