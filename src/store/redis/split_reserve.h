/* split_reserve.h - a question about a reservation, split into parts.
 *
 * To reserve, there is a part for each slot of the charges, and one for the pointer if the id leads
 * to another slot than the first charge's. All other verbs begin with one part, to where the id
 * leads. The main record then says where the others are; lua/reserve.lua has more. */
#ifndef WEIR_STORE_REDIS_SPLIT_RESERVE_H
#define WEIR_STORE_REDIS_SPLIT_RESERVE_H

#include "store/redis/split.h"

/* What a part asks about the reservation, and what it is told. */
struct held_part {
    struct reserving reserving; /* a copy */
    struct reserving_part part;
};

/* NULL: out of memory. */
struct split *split_new_reservation(struct split_pool *pool, struct question *q,
                                    const uint16_t *slots, size_t slot_count, bool has_claims,
                                    void (*done)(struct question *part));

bool split_reserves_all_or_none(const struct split *s);

/* The part was told that the record is elsewhere: it is aimed there. */
bool split_follow(struct part *p);

/* The main record is decided: how many others there are. They are parts now, still to be sent. If
 * it has denied, these only tell how they stand. */
size_t split_add_rest(struct split *s, void (*done)(struct question *part));
bool split_only_looked(const struct part *p);

/* The part's charges are to be undone. `is_over`: the whole question is done by then. */
void split_undo_held(struct part *p, bool is_over);

/* All parts are decided: put what they were told into the whole question. */
void split_gather_held(const struct split *s, struct question *whole);

#endif
