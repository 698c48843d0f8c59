/* damage.h - a part of a file that does not verify. */
#ifndef WEIR_STORE_FILE_DAMAGE_H
#define WEIR_STORE_FILE_DAMAGE_H

#include <stdint.h>

struct damage {
    uint64_t at;      /* where it begins */
    uint64_t bytes;   /* passed over; 0 unless the rest was searched */
    uint64_t missing; /* records that are lost, by the numbers of those around them */
};

#endif
