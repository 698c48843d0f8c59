/* ledger_archive.h - the older files of a ledger. A name is "ledger." and the number of the last
 * entry. */
#ifndef WEIR_STORE_FILE_LEDGER_ARCHIVE_H
#define WEIR_STORE_FILE_LEDGER_ARCHIVE_H

#include "base/alloc.h"
#include "base/dir.h"

struct ledger_archive {
    uint64_t *last; /* of each file, ascending */
    size_t count, room;
    weir_allocator allocator;
    bool failed; /* out of memory */
};

WEIR_MUSTCHECK weir_err ledger_archive_list(struct ledger_archive *out, struct dir *dir,
                                            const weir_allocator *allocator, weir_diag *diag);
void ledger_archive_done(struct ledger_archive *s);

void ledger_archive_name(uint64_t last, char name[DIR_NAME]);

#endif
