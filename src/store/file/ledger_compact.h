/* ledger_compact.h - compaction of a ledger: the entries that may still be in force. */
#ifndef WEIR_STORE_FILE_LEDGER_COMPACT_H
#define WEIR_STORE_FILE_LEDGER_COMPACT_H

#include "store/file/ledger_format.h"

/* Add the last entry of each subject, unless it has expired at `now`, in their order. The very last
 * entry is always added: it tells readers how far they have read. False: out of memory. */
bool ledger_compact(const struct ledger_format *from, int64_t now, uint64_t salt,
                    const weir_allocator *allocator, struct buf *out);

#endif
