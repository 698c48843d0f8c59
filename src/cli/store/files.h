/* files.h - the directory of a file store, for the commands that look after it.
 *
 * It is owned as by a process that counts, so no other process changes it meanwhile. Nothing in it
 * is changed but the pid in its lock. */
#ifndef WEIR_CLI_STORE_FILES_H
#define WEIR_CLI_STORE_FILES_H

#include "base/buf.h"
#include "store/file/ledger_file.h"
#include "store/file/recovery.h"

struct store_files {
    struct dir *dir;
    struct table *table; /* all that verifies */
    struct recovery found;
    struct ledger_found ledger;
    struct secret_ids secret_ids;
    weir_allocator allocator;
    int64_t now;
    uint64_t keys, live; /* live: not yet back to untouched */
};

/* `name` is the directory, with or without `file:` before it. STATUS_YES; STATUS_NO: some of it
 * is damaged; STATUS_TROUBLE: it was said on stderr why it cannot be read. */
int store_files_load(struct store_files *f, const char *name, const char *secret_file);
void store_files_done(struct store_files *f);

/* One line on what was lost there: "journal.3 is damaged at byte 160: …". */
void store_files_tell_damage(const struct store_files *f, size_t i, struct buf *into);

/* A line for each, as many as are listed. */
void store_files_print_damages(const struct store_files *f, const char *before);

#endif
