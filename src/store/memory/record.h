/* record.h - one key's new value, as the journal and the snapshot keep it.
 *
 * Numbers are little-endian. A record without an algorithm says that the key is gone. */
#ifndef WEIR_STORE_MEMORY_RECORD_H
#define WEIR_STORE_MEMORY_RECORD_H

#include "base/hash.h"
#include "limit/pack.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files are written as memory is");

struct record {
    struct key key;
    union {
        struct {
            uint64_t expires : 48, algorithm : 4, level : 4, class : 6, is_locked : 1, unused : 1;
        };
        uint64_t stamp; /* all of it, as in the cell */
    };
    struct packed packed;
};

_Static_assert(sizeof(struct record) == 48, "as in the files");

#endif
