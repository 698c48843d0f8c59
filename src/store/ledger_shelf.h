/* ledger_shelf.h - the older files of a ledger, by their names: "ledger." and the last entry in it. */
#ifndef WEIR_STORE_LEDGER_SHELF_H
#define WEIR_STORE_LEDGER_SHELF_H

#include "base/alloc.h"
#include "base/dir.h"

struct ledger_shelf {
    uint64_t *last; /* of each file, ascending */
    size_t count, room;
    weir_allocator allocator;
    bool failed; /* out of memory */
};

WEIR_MUSTCHECK weir_err ledger_shelf_list(struct ledger_shelf *out, struct dir *dir,
                                          const weir_allocator *allocator, weir_diag *diag);
void ledger_shelf_done(struct ledger_shelf *s);

void ledger_shelf_name(uint64_t last, char name[DIR_NAME]);

#endif
