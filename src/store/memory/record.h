/* record.h - one key's new value, as the journal and the snapshot keep it.
 *
 * Numbers are little-endian. A record without an algorithm says that the key is gone. One with
 * `is_hold` says what became of one hold of a key, or of one bucket of its log. One of a
 * reservation says in its first word how many bytes the reservation has; these follow, in as many
 * records as they need, and are no records of their own. Its last word has RECORD_ bits. With `is_hold` it says what became of the
 * reservation: its words are its expiry, a change and an amount. A reservation is never locked out:
 * with `is_locked` either is a short form, which only journals have (record_short.h). */
#ifndef WEIR_STORE_MEMORY_RECORD_H
#define WEIR_STORE_MEMORY_RECORD_H

#include "base/hash.h"
#include "limit/pack.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files are written as memory is");

struct record {
    struct key key;
    union {
        struct {
            uint64_t expires : 48, algorithm : 4, level : 4, class : 6, is_locked : 1, is_hold : 1;
        };
        uint64_t stamp; /* all of it, as in the cell */
    };
    struct packed packed;
};

_Static_assert(sizeof(struct record) == 48, "as in the files");

/* How many records these bytes take. */
static inline size_t record_bytes(uint64_t size)
{
    return size / sizeof(struct record) + (size % sizeof(struct record) > 0);
}

enum {
    RECORD_OPEN = 1,    /* it is not settled */
    RECORD_PACKED = 2,  /* its bytes are those of reservation_pack() */
    RECORD_LEAN = 4,    /* they say only what others of its terms do not; the terms have a number */
    RECORD_TERMS = 8,   /* it is no reservation, but defines terms: its bytes are packed */
    RECORD_INSIDE = 16, /* lean, and its bytes are its first two words: none follow */
    RECORD_FLAGS = 8,   /* bits; the number is above them */
};

static inline bool record_is_short(const struct record *r)
{
    return r->algorithm == ALGORITHM_RESERVATION && r->is_locked;
}

/* How many follow this one, and are bytes of it. */
static inline size_t record_more(const struct record *r)
{
    if (r->algorithm != ALGORITHM_RESERVATION || r->is_hold ||
        (r->is_locked && r->packed.words[2] & RECORD_INSIDE))
        return 0;
    return record_bytes((uint64_t)r->packed.words[0]);
}

/* What became of a reservation. */
enum record_change {
    RECORD_EXTENDED, /* it expires at another time */
    RECORD_SETTLED,  /* what is not said by those before was used as it was held */
    RECORD_RELEASED, /* it has expired, and was given back */
    RECORD_USED,     /* of the first charge so much was used; of the next: this + 1, … */
};

#endif
