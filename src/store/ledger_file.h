/* ledger_file.h - the ledger of a file store: one file beside its journals. */
#ifndef WEIR_STORE_LEDGER_FILE_H
#define WEIR_STORE_LEDGER_FILE_H

#include "base/dir.h"
#include "store/damage.h"
#include "store/ledger.h"

#define LEDGER_NAME "ledger"

struct ledger_file;

/* What is in the file; all zero: there is none. */
struct ledger_found {
    uint64_t entries, bytes;
    uint64_t torn; /* bytes of an entry that a crash cut short */
    bool is_damaged;
    struct damage damage;
};

/* Cuts a torn end and refuses damage with WEIR_EIO. The file is made with the first entry. */
WEIR_MUSTCHECK weir_err ledger_file_open(struct ledger_file **out, struct dir *dir,
                                         const unsigned char secret_id[16],
                                         const weir_allocator *allocator, weir_diag *diag);
void ledger_file_close(struct ledger_file *l); /* NULL is fine; the directory stays open */

/* As a store's; see store.h. What is appended is on disk, whatever the store's `sync` is. */
WEIR_MUSTCHECK weir_err ledger_file_append(struct ledger_file *l, struct ledger_entry *e,
                                           weir_diag *diag);
WEIR_MUSTCHECK weir_err ledger_file_read(struct ledger_file *l, uint64_t after, ledger_visit *visit,
                                         void *ctx, weir_diag *diag);

/* Look at the file and change nothing. */
WEIR_MUSTCHECK weir_err ledger_file_look(struct dir *dir, const unsigned char secret_id[16],
                                         const weir_allocator *allocator, struct ledger_found *out,
                                         weir_diag *diag);

/* Replace a damaged file by one with all that verifies. */
WEIR_MUSTCHECK weir_err ledger_file_repair(struct dir *dir, const unsigned char secret_id[16],
                                           const weir_allocator *allocator, weir_diag *diag);

#endif
