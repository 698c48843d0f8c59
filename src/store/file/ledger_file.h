/* ledger_file.h - the ledger of a file store: a file beside its journals, and older ones. */
#ifndef WEIR_STORE_FILE_LEDGER_FILE_H
#define WEIR_STORE_FILE_LEDGER_FILE_H

#include "base/dir.h"
#include "store/file/ledger_format.h"

#define LEDGER_NAME "ledger"

enum { LEDGER_MOST = 1 << 20 }; /* bytes of a file, unless more is in force */

struct ledger_file;

/* Cuts a torn end and refuses damage with WEIR_EIO. The file is made with the first entry. */
WEIR_MUSTCHECK weir_err ledger_file_open(struct ledger_file **out, struct dir *dir,
                                         const unsigned char secret_id[16],
                                         const weir_allocator *allocator, weir_diag *diag);
void ledger_file_close(struct ledger_file *l); /* NULL is fine; the directory stays open */

/* A file of more bytes is followed by a new one, in place of one of more than LEDGER_MOST. Before
 * anything is appended. */
void ledger_file_bound(struct ledger_file *l, uint64_t bytes);

/* As a store's; see store.h. Read with an `after` of 0 leaves out what is not in force any more
 * and is in an older file; audit leaves out nothing. What is appended is on disk, whatever the
 * store's `sync` is. */
WEIR_MUSTCHECK weir_err ledger_file_append(struct ledger_file *l, struct ledger_entry *e,
                                           weir_diag *diag);
WEIR_MUSTCHECK weir_err ledger_file_read(struct ledger_file *l, uint64_t after, ledger_visit *visit,
                                         void *ctx, weir_diag *diag);

WEIR_MUSTCHECK weir_err ledger_file_audit(struct ledger_file *l, uint64_t after,
                                          ledger_visit *visit, void *ctx, weir_diag *diag);

/* Look at all files and change nothing. `torn` is of the newest. */
WEIR_MUSTCHECK weir_err ledger_file_look(struct dir *dir, const unsigned char secret_id[16],
                                         const weir_allocator *allocator, struct ledger_found *out,
                                         weir_diag *diag);

/* Replace damaged files by ones with all that verifies. */
WEIR_MUSTCHECK weir_err ledger_file_repair(struct dir *dir, const unsigned char secret_id[16],
                                           const weir_allocator *allocator, weir_diag *diag);

#endif
