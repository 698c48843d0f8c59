/* recovery.h - crash recovery: from the files on disk to the table. */
#ifndef WEIR_STORE_FILE_RECOVERY_H
#define WEIR_STORE_FILE_RECOVERY_H

#include "store/file/files_id.h"
#include "store/file/snapshot.h"

enum recovery_how {
    RECOVERY_OPEN,     /* cut a torn tail, remove leftovers, refuse damage */
    RECOVERY_DISTRUST, /* the same, but do not end the last journal: a snapshot replaces it */
    RECOVERY_LOOK,     /* change nothing */
    RECOVERY_SALVAGE,  /* change nothing, and keep all that verifies */
};

enum { RECOVERY_LISTED = 32 };

struct recovery {
    struct files_id id;  /* for all files to come */
    uint64_t next_epoch; /* for the journal to come */
    struct snapshot_facts snapshot;
    uint64_t journals, journal_bytes, records;
    uint64_t torn_bytes;
    bool has_failed; /* to write or sync what was found */

    /* What does not verify: the first of it, or all with RECOVERY_SALVAGE, which passes over it. */
    size_t damages; /* may be more than are listed */
    struct {
        char file[DIR_NAME];
        const char *what; /* to be read after the file's name */
        struct damage extent;
    } damage[RECOVERY_LISTED];
};

/* Load the table. WEIR_EIO with a diag that names the file, the place and what to do: it was
 * refused, and nothing on disk was changed. */
WEIR_MUSTCHECK weir_err recovery_run(struct dir *dir, const struct restoring *to,
                                     const struct secret_ids *ids, enum recovery_how how,
                                     const weir_allocator *allocator, struct recovery *out,
                                     weir_diag *diag);

/* Remove journals before `epoch` and what a crash may have left. */
void recovery_remove_before(struct dir *dir, uint64_t epoch);

#endif
