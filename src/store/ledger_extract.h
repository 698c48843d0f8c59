/* ledger_extract.h - what of a ledger may still be in force. */
#ifndef WEIR_STORE_LEDGER_EXTRACT_H
#define WEIR_STORE_LEDGER_EXTRACT_H

#include "store/ledger_image.h"

/* Add the last entry of each subject, unless it is over at `now`, as units in their order; and the very
 * last in any case, for readers to know how far they are. False: out of memory. */
bool ledger_extract(const struct ledger_image *from, int64_t now, uint64_t salt,
                    const weir_allocator *allocator, struct buf *out);

#endif
