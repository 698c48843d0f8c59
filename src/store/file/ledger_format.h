/* ledger_format.h - a file of the ledger as bytes in memory: what goes into it, and what is there.
 *
 * FORMAT: a header of 64 bytes, then units, each at a multiple of 16: a header of 32 bytes, and of
 * an entry what ledger_write() makes of it. A seal is a unit without an entry. Checksums are XXH3
 * of 64 bits, seeded with the salt of the file. */
#ifndef WEIR_STORE_FILE_LEDGER_FORMAT_H
#define WEIR_STORE_FILE_LEDGER_FORMAT_H

#include "base/dir.h"
#include "store/file/damage.h"
#include "store/ledger.h"

enum { LEDGER_HEADER = 64 };

struct ledger_format {
    char *bytes; /* NULL: there is no file */
    size_t size;
    uint64_t salt;
    uint64_t carried; /* what was appended up to this one is in older files, too */
};

/* What a file has. */
struct ledger_found {
    uint64_t entries, bytes;
    uint64_t torn; /* bytes of an entry that a crash cut short */
    bool is_damaged;
    char damaged[DIR_NAME]; /* the first file that is */
    struct damage damage;
};

/* The file of this name, or the one that is open. The bytes are the caller's to free. */
WEIR_MUSTCHECK weir_err ledger_format_load(struct ledger_format *out, struct dir *dir,
                                           const char *name, struct file *open,
                                           const weir_allocator *allocator, weir_diag *diag);

/* False: it is damaged. *err: it is not one that can be used here. */
bool ledger_format_header(struct ledger_format *f, const unsigned char secret_id[16], weir_err *err,
                          weir_diag *diag);

/* Visit all that verifies beyond `after`, in order. *end: of the last unit; *seq: of the last
 * entry; both stay where there is none. */
void ledger_format_scan(const struct ledger_format *f, uint64_t after, ledger_visit *visit,
                        void *ctx, struct ledger_found *found, uint64_t *end, uint64_t *seq);

/* Load the file of this name and see what is in it; *end and *seq as above, of one without entries
 * those of its header. Without such a file both are 0, which is no error. */
WEIR_MUSTCHECK weir_err ledger_format_look(struct dir *dir, const char *name,
                                           const unsigned char secret_id[16],
                                           const weir_allocator *allocator, struct ledger_format *f,
                                           struct ledger_found *found, uint64_t *end, uint64_t *seq,
                                           weir_diag *diag);

void ledger_note_damage(struct ledger_found *found, uint64_t at, uint64_t bytes);

/* ---- bytes to be written --------------------------------------------------------------------- */

void ledger_add_header(struct buf *out, uint64_t salt, uint64_t carried,
                       const unsigned char secret_id[16]);
void ledger_add_entry(struct buf *out, uint64_t seq, uint64_t salt, struct span entry);
void ledger_add_seal(struct buf *out, uint64_t seq, uint64_t salt);

/* ---- files ----------------------------------------------------------------------------------- */

#define LEDGER_TEMPORARY "ledger.tmp"

/* Under that name, on disk. *out is to be closed if it is not NULL, also after a failure. */
WEIR_MUSTCHECK weir_err ledger_write_temporary(struct dir *dir, struct span bytes,
                                               struct file **out);

/* And have that on disk, too. */
WEIR_MUSTCHECK weir_err ledger_rename(struct dir *dir, const char *from, const char *to);

/* Have this for a file of the ledger, all of it or what there was before. The handle is the
 * caller's. */
WEIR_MUSTCHECK weir_err ledger_replace(struct dir *dir, const char *name, struct span bytes,
                                       struct file **out);

#endif
