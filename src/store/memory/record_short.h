/* record_short.h - new reservations and those that are settled, as a journal has them: short.
 *
 * Most new ones are lean: what others of the same policy say as well is left out, and they name its
 * definition (journal_terms.h). Their bytes are the fingerprint, 8 bytes, and of each charge the
 * numbers (varint.h) held, mark and born. Where the numbers fit 8 bytes these stand in the record
 * itself, padded with zeros: then a mark is 0, or the word of its key's record that says the same,
 * counted from 1, and the expiry is that of the cell, less RESERVATION_KNOWN_MS. Others are packed
 * (reservation_pack.h). Journals of version 4 and 5 have a form of its own of those with one rule.
 *
 * What the record of a key says, which stands before them in the same batch, is left out, and so
 * is what became of the hold: it follows. A reader makes of it what would stand there otherwise. */
#ifndef WEIR_STORE_MEMORY_RECORD_SHORT_H
#define WEIR_STORE_MEMORY_RECORD_SHORT_H

#include "store/memory/kept.h"
#include "store/memory/record.h"
#include "store/memory/shard.h"

/* Of versions 4 and 5: the bytes behind the record. The names, each with a NUL: policy, rule, what is counted. */
struct short_reservation {
    uint64_t fingerprint;
    int64_t most_ttl, limit, window, burst, precision, held, mark;
    uint32_t born;
    uint8_t algorithm, class, start, gives_back;
    char names[];
};

enum {
    SHORT_NAMES = 3 * (WEIR_MAX_NAME + 1),
    /* Room for what a reader makes of one. */
    SHORT_WHOLE = sizeof(struct reservation) + sizeof(struct reserved_charge) +
                  sizeof(struct reserved_part) + SHORT_NAMES,
    SHORT_EXPANDED = 2 + SHORT_WHOLE / sizeof(struct record) + 1,
};

enum {
    LEAN_MOST_CHARGES = 6,
    /* Of such a reservation: its size packed, and the records of its lean form. */
    LEAN_MOST_PACKED = 64 + LEAN_MOST_CHARGES * (16 + 3 + 12 * 10 + SHORT_NAMES + 40),
    LEAN_MOST = 2 + (8 + LEAN_MOST_CHARGES * 25) / sizeof(struct record),
};

/* May a new reservation be lean? It shares terms and keeps names, has few charges, and has charged each. */
static inline bool short_may_be_lean(const struct kept_reservation *r)
{
    return kept_shares_names(r) && r->charge_count <= LEAN_MOST_CHARGES &&
           r->part_count == r->charge_count;
}

/* How many records that are. Those of its keys stand before it. The number of its terms is left to
 * the log, to be put above the flags. */
size_t short_write_lean(const struct cell *record, struct record to[LEAN_MOST]);

/* With these terms, as the packed one that is meant. The records of its keys stand before it, from
 * `first` on at the earliest. How many records that are; 0: it makes no sense. */
size_t short_pack(const struct record *lean, const struct record *first,
                  const struct reservation *terms, struct record *out);

/* The last word of a record that has a number. */
static inline int64_t short_flags(unsigned flags, uint64_t number)
{
    return (int64_t)(number << RECORD_FLAGS | flags);
}

static inline uint64_t short_number(const struct record *r)
{
    return (uint64_t)r->packed.words[2] >> RECORD_FLAGS;
}

/* It was settled as it was held, or what was used is said by records before. The last key that stands
 * before it has holds, and that of the reservation, which would have ended at `hold_expires`, is over;
 * of other keys records before it say so. */
void short_write_settled(const struct cell *record, int64_t hold_expires, struct record *to);

/* The records that are meant, in the room of SHORT_EXPANDED: how many, with those that are bytes of
 * others. 0: it makes no sense. `key` is the last record of a key before it. Not of one that is
 * packed. */
size_t short_expand(const struct record *r, const struct record *key, struct record *out);

/* Of one that is packed: the holds that follow from it. The records of its keys stand before `end`,
 * from `first` on at the earliest. False: they do not, or it makes no sense. */
bool short_holds(const struct record *r, const struct record *first, const struct record *end,
                 struct record holds[RESERVATION_MOST_CHARGES], size_t *count);

static inline bool record_is_packed(const struct record *r)
{
    return !r->is_hold && r->packed.words[2] & RECORD_PACKED;
}

#endif
