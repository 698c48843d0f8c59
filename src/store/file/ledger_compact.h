/* ledger_compact.h - what of a ledger may still be in force. */
#ifndef WEIR_STORE_FILE_LEDGER_COMPACT_H
#define WEIR_STORE_FILE_LEDGER_COMPACT_H

#include "store/file/ledger_format.h"

/* Add the last entry of each subject, unless it is over at `now`, as units in their order; and the very
 * last in any case, for readers to know how far they are. False: out of memory. */
bool ledger_compact(const struct ledger_format *from, int64_t now, uint64_t salt,
                    const weir_allocator *allocator, struct buf *out);

#endif
