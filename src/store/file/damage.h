/* damage.h - what of a file does not verify. */
#ifndef WEIR_STORE_FILE_DAMAGE_H
#define WEIR_STORE_FILE_DAMAGE_H

#include <stdint.h>

struct damage {
    uint64_t at;      /* where it begins */
    uint64_t bytes;   /* passed over; only if the rest was looked for */
    uint64_t missing; /* records that were there, as the numbers of those around them tell */
};

#endif
