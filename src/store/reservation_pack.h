/* reservation_pack.h - the record of a reservation in as few bytes as it needs: as files have it.
 *
 * FORMAT: the fingerprint, 8 bytes; numbers (varint.h): most_ttl, what is_settled, gives_back and
 * is_released are as bits, how many charges, bounds and parts there are; the charges; the parts. A
 * charge is its key, 16 bytes; its algorithm, its class and PACK_ bits, a byte each; the numbers
 * limit, window, burst, precision, block_for, held and used + 1; the bounds of its calendar, the
 * first and what each has more than the one before; its names, each with a NUL, but for those that
 * are the last charge's. A part is the numbers charge, amount, mark and born. */
#ifndef WEIR_STORE_RESERVATION_PACK_H
#define WEIR_STORE_RESERVATION_PACK_H

#include "base/span.h"
#include "store/reservation.h"

enum {
    /* No record with text is larger; no packed one is. */
    RESERVATION_MOST_BYTES = sizeof(struct reservation) +
                             RESERVATION_MOST_CHARGES *
                                 (sizeof(struct reserved_charge) + sizeof(struct calendar_bounds)) +
                             (RESERVATION_MOST_PARTS + RESERVATION_MOST_CHARGES) *
                                 sizeof(struct reserved_part) +
                             RESERVATION_MOST_TEXT + 8,
    RESERVATION_MOST_PACKED = 128 + RESERVATION_MOST_CHARGES * (16 + 3 + 12 * 10) +
                              RESERVATION_MOST_TEXT +
                              (RESERVATION_MOST_PARTS + RESERVATION_MOST_CHARGES) * 40,
};

/* How many bytes it takes. */
size_t reservation_pack(const struct reservation *r, void *to);

/* Makes one of it, in the room of RESERVATION_MOST_BYTES. 0: the bytes are
 * none. Others may still not be sound. */
size_t reservation_unpack(struct span bytes, struct reservation *to);

#endif
