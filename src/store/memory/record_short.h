/* record_short.h - new reservations and those that are settled, as a journal has them: short.
 *
 * Those of one rule have a form of their own, which is written faster; others are packed
 * (reservation_pack.h). What the record of a key says, which stands before them in the same batch, is left out, and so
 * is what became of the hold: it follows. A reader makes of it what would stand there otherwise. */
#ifndef WEIR_STORE_MEMORY_RECORD_SHORT_H
#define WEIR_STORE_MEMORY_RECORD_SHORT_H

#include "store/memory/record.h"
#include "store/memory/shard.h"
#include "store/reservation.h"

/* The bytes behind the record. The names, each with a NUL: policy, rule, what is counted. */
struct short_reservation {
    uint64_t fingerprint;
    int64_t most_ttl, limit, window, burst, precision, held, mark;
    uint32_t born;
    uint8_t algorithm, class, start, gives_back;
    char names[];
};

enum {
    SHORT_NAMES = 3 * (WEIR_MAX_NAME + 1),
    /* Room to write one, with the zeros behind it; and for what a reader makes of it. */
    SHORT_MOST = 1 + (sizeof(struct short_reservation) + SHORT_NAMES) / sizeof(struct record) + 2,
    SHORT_EXPANDED = 2 + (RESERVATION_OF_ONE + SHORT_NAMES) / sizeof(struct record) + 1,
};

/* Of a record that is as reservation_put_one() made it, and whose limit does not lock out. How many
 * records that are. */
size_t short_write(const struct cell *record, struct record *to);

/* It was settled as it was held, or what was used is said by records before. The last key that stands
 * before it has holds, and that of the reservation, which would have ended at `hold_expires`, is over;
 * of other keys records before it say so. */
void short_write_settled(const struct cell *record, int64_t hold_expires, struct record *to);

/* The records that are meant, in the room of SHORT_EXPANDED: how many, with those that are bytes of
 * others. 0: it makes no sense. `key` is the last record of a key before it. Not of one that is
 * packed. */
size_t short_expand(const struct record *r, const struct record *key, struct record *out);

/* Of one that is packed: the holds that follow from it. The records of its keys stand before it, from
 * `first` on at the earliest. False: they do not, or it makes no sense. */
bool short_holds(const struct record *r, const struct record *first,
                 struct record holds[RESERVATION_MOST_CHARGES], size_t *count);

static inline bool record_is_packed(const struct record *r)
{
    return !r->is_hold && r->packed.words[2] & RECORD_PACKED;
}

#endif
