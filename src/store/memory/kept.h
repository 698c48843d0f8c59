/* kept.h - a reservation as a table keeps it: whose it is, what is held, and where.
 *
 * What it has in common with others is in its terms. Files and shared stores have it whole, with
 * names (reservation.h). */
#ifndef WEIR_STORE_MEMORY_KEPT_H
#define WEIR_STORE_MEMORY_KEPT_H

#include "store/memory/terms.h"
#include "store/reservation_pack.h"

struct kept_charge {
    struct key key;
    int64_t held, used; /* used: RESERVED_OPEN until it is settled */
};

/* Behind the charges are the bounds of those that are of a calendar, the terms, if they are its own,
 * and the parts in the order in which they were added. */
struct kept_reservation {
    struct kept_block block; /* as it counts: twice what it takes, as in files it has its names */
    uint64_t fingerprint;
    const struct terms *terms;
    uint16_t charge_count, bounds_count, part_count;
    uint8_t is_settled;
    uint8_t gives_back : 1;    /* once it has expired */
    uint8_t is_released : 1;   /* … and that was done: what is committed later is all added */
    uint8_t has_own_terms : 1; /* they are not shared */
    struct kept_charge charges[];
};

enum {
    /* The bytes of one with shared terms and one charge, which is no calendar's. */
    KEPT_OF_ONE = sizeof(struct kept_reservation) + sizeof(struct kept_charge) +
                  sizeof(struct reserved_part),
    KEPT_COUNTS = 2,
};

/* Fetch what is read of most. */
static inline void kept_prefetch(const struct kept_block *block)
{
    __builtin_prefetch(block);
    __builtin_prefetch((const char *)block + 64);
}

static inline struct calendar_bounds *kept_bounds(const struct kept_reservation *r)
{
    return (struct calendar_bounds *)(r->charges + r->charge_count);
}

struct reserved_part *kept_parts_behind(const struct kept_reservation *r);
static inline struct reserved_part *kept_parts(const struct kept_reservation *r)
{
    return r->has_own_terms ? kept_parts_behind(r)
                            : (struct reserved_part *)(void *)(kept_bounds(r) + r->bounds_count);
}

static inline bool kept_shares_names(const struct kept_reservation *r)
{
    return !r->has_own_terms && r->terms->keeps_names;
}

/* What a question holds; its parts are left to be filled in. NULL: out of memory. */
struct kept_reservation *kept_new(struct terms_set *set, const struct reserving *of,
                                  const struct charge *charges, size_t n, size_t parts,
                                  const weir_allocator *allocator);

/* The same in KEPT_OF_ONE bytes that there are, with what was held, of shared terms. `born` is the
 * state's. */
void kept_put_one(struct kept_reservation *r, const struct terms *terms, const struct reserving *of,
                  const struct charge *c, uint32_t born);

/* Of what a file has, which is sound. NULL: out of memory. */
struct kept_reservation *kept_of(struct terms_set *set, const struct reservation *whole,
                                 const weir_allocator *allocator);

/* As files have it: whole, in the room of RESERVATION_MOST_BYTES, or packed. How many bytes it takes. */
size_t kept_whole(const struct kept_reservation *r, struct reservation *to);
size_t kept_pack(const struct kept_reservation *r, void *to);

/* Room for a part of each charge. False: out of memory, and nothing has changed. */
bool kept_make_room(struct kept_reservation **r, const weir_allocator *allocator);

/* Note what was charged. There is room. */
void kept_add(struct kept_reservation *r, size_t charge, const struct reserved_part *part);

/* Fill in the charges and labels of a question. What is shared is pointed at. */
void kept_read(const struct kept_reservation *r, struct reserving *to, struct charge *charges);

/* What it holds of each charge. */
void kept_visit(const struct kept_reservation *r, int64_t expires, held_visit *visit, void *ctx);

#endif
