/* recovery.h - from what is on disk to the table that was. */
#ifndef WEIR_STORE_RECOVERY_H
#define WEIR_STORE_RECOVERY_H

#include "store/snapshot.h"

enum recovery_how {
    RECOVERY_OPEN,    /* cut a torn tail, remove leftovers, refuse damage */
    RECOVERY_LOOK,    /* change nothing */
    RECOVERY_SALVAGE, /* change nothing, and keep all that verifies */
};

struct recovery {
    uint64_t next_epoch; /* for the journal to come */
    struct snapshot_facts snapshot;
    uint64_t journals, journal_bytes, records;
    uint64_t torn_bytes;
    bool damaged; /* with RECOVERY_SALVAGE: something was passed over, and the diag says what */
};

/* Load the table. WEIR_EIO with a diag that names the file, the place and what to do: it was
 * refused, and nothing on disk was changed. */
WEIR_MUSTCHECK weir_err recovery_run(struct dir *dir, struct table *table,
                                     const unsigned char secret_id[16], enum recovery_how how,
                                     const weir_allocator *allocator, struct recovery *out,
                                     weir_diag *diag);

/* Remove journals before `epoch` and what a crash may have left. */
void recovery_remove_before(struct dir *dir, uint64_t epoch);

#endif
