/* snapshot.c - all live keys in one file: the writing side.
 *
 * WHY IT NEED NOT STOP THE WORLD: the journal of its epoch was begun before the first shard is
 * read, and has the new value of everything that changes from then on. Replaying it over a
 * snapshot that has some of that already ends in the same values.
 *
 * RULES (test_snapshot.c has a test by each name)
 *   N1  The new bytes are on disk before the name points at them.
 *   N2  The journal has on disk what the snapshot has, before the name points at it: else a
 *       check of several rules could be found half.
 *   N3  The name is on disk before an older journal is dropped. */
#include "store/snapshot.h"

#include <string.h>

#include "base/buf.h"
#include "base/diag.h"
#include "store/snapshot_format.h"

enum { SYNC_EVERY = 8 << 20 };

struct writer {
    struct dir *dir;
    struct file *file;
    struct buf items;
    uint32_t count; /* in `items` */
    uint64_t salt, at, synced, number;
};

static void add_item(void *ctx, const struct record *r, const struct sliding_window *log)
{
    struct writer *w = ctx;
    struct record item = *r;

    if (log)
        item.packed = (struct packed){ { log_length(log) } };
    buf_add(&w->items, (struct span){ (const char *)&item, sizeof item });
    for (uint32_t i = 0; log && i < log_length(log); i++) {
        struct log_entry e = log_at(log, i);

        buf_add(&w->items, (struct span){ (const char *)&e, sizeof e });
    }
    w->count++;
}

static weir_err write_bytes(struct writer *w, const void *bytes, size_t len)
{
    weir_err err = w->dir->ops->write(w->file, w->at, bytes, len);

    w->at += len;
    if (!err &&
        w->at - w->synced >= SYNC_EVERY) { /* not all at the end: the journal has to sync too */
        err = w->dir->ops->sync(w->file);
        w->synced = w->at;
    }
    return err;
}

static weir_err write_block(struct writer *w)
{
    struct block_header h = {
        .magic = BLOCK_MAGIC,
        .items = w->count,
        .size = w->items.len,
        .number = w->number,
    };
    weir_err err;

    if (w->items.failed)
        return WEIR_ENOMEM;
    h.checksum = block_checksum(&h, w->items.at, w->salt);
    err = write_bytes(w, &h, sizeof h);
    if (!err && w->items.len > 0)
        err = write_bytes(w, w->items.at, w->items.len);
    w->number += w->count;
    w->count = 0;
    w->items.len = 0;
    return err;
}

static weir_err fill(struct writer *w, struct table *table, uint64_t epoch,
                     const unsigned char secret_id[16], int64_t now)
{
    struct snapshot_header h = { .magic = SNAPSHOT_MAGIC,
                                 .version = SNAPSHOT_VERSION,
                                 .epoch = epoch };
    weir_err err;

    h.salt = hash_salt();
    w->salt = h.salt;
    memcpy(h.secret_id, secret_id, sizeof h.secret_id);
    h.checksum = snapshot_header_checksum(&h);
    err = write_bytes(w, &h, sizeof h);
    for (size_t i = 0; i < table_shards(table) && !err; i++) {
        table_export(table, i, now, add_item, w);
        if (w->count > 0)
            err = write_block(w);
    }
    return err ? err : write_block(w);
}

weir_err snapshot_write(struct dir *dir, struct table *table, struct journal *journal,
                        uint64_t epoch, const unsigned char secret_id[16], int64_t now,
                        const weir_allocator *allocator, struct snapshot_facts *out,
                        weir_diag *diag)
{
    struct writer w = { .dir = dir };
    const char *step;
    weir_err err;

    buf_init(&w.items, allocator);
    step = "create";
    err = dir->ops->create(dir, SNAPSHOT_TEMPORARY, &w.file);
    if (err)
        goto out;
    step = "write";
    err = fill(&w, table, epoch, secret_id, now);
    if (err)
        goto out;
    step = "sync"; /* N1 */
    err = dir->ops->sync(w.file);
    if (err)
        goto out;
    step = "sync the journal under"; /* N2 */
    err = journal_sync(journal);
    if (err)
        goto out;
    step = "rename";
    err = dir->ops->rename(dir, SNAPSHOT_TEMPORARY, SNAPSHOT_NAME);
    if (err)
        goto out;
    step = "sync the directory of"; /* N3 */
    err = dir->ops->sync_dir(dir);
    *out = (struct snapshot_facts){ .epoch = epoch, .keys = w.number, .bytes = w.at };
out:
    if (w.file)
        dir->ops->close(w.file);
    buf_done(&w.items);
    if (err)
        diag_set(diag, "cannot %s the snapshot: %s", step,
                 err == WEIR_ENOMEM ? weir_err_text(err) : strerror(dir->why));
    return err;
}
