/* snapshot.c - all live keys in one file: the writing side.
 *
 * WHY DECISIONS GO ON MEANWHILE: the journal of the same epoch was begun before the first shard
 * is read, and has the new value of everything that changes from then on. Replay is idempotent:
 * over a snapshot that has some of these changes already, it ends in the same values.
 *
 * RULES (test_snapshot.c has a test by each name)
 *   N1  The new bytes are on disk before the name points at them.
 *   N2  The journal has on disk what the snapshot has, before the name points at it. Else a
 *       check of several rules could be recovered by half.
 *   N3  The name is on disk before an older journal is dropped. */
#include "store/file/snapshot.h"

#include <string.h>

#include "base/buf.h"
#include "base/diag.h"
#include "store/file/snapshot_format.h"
#include "store/memory/kept.h"

/* Bytes given to the disk at once: an fsync of the journal may have to wait for them. */
enum { PIECE = 64 << 10, LARGE_PIECE = 4 << 20 };

struct writer {
    struct dir *dir;
    struct file *file;
    const struct snapshot_pace *pace; /* NULL: none */
    size_t done, shards;
    size_t piece;
    struct buf block; /* its header, and items so far */
    uint32_t count;   /* of items */
    uint64_t salt, at, written_out, number;
};

/* Packed, in whole records. */
static void add_reservation(struct writer *w, const struct record *r,
                            const struct kept_block *block)
{
    struct record item = *r;
    char *to = buf_room(&w->block, sizeof item + RESERVATION_MOST_PACKED + sizeof item), *end;

    if (!to)
        return;
    item.packed.words[0] = (int64_t)kept_pack((const struct kept_reservation *)block,
                                              to + sizeof item);
    item.packed.words[2] |= RECORD_PACKED;
    end = to + sizeof item + item.packed.words[0];
    memset(end, 0, sizeof item);
    memcpy(to, &item, sizeof item);
    buf_wrote(&w->block, (1 + record_more(&item)) * sizeof item);
    w->count++;
}

static void add_item(void *ctx, const struct record *r, const struct sliding_window *log,
                     const struct kept_block *block)
{
    struct writer *w = ctx;
    struct record item = *r;

    if (block) {
        add_reservation(w, r, block);
        return;
    }
    if (log)
        item.packed = (struct packed){ { log_length(log), log_born(log) } };
    buf_add(&w->block, (struct span){ (const char *)&item, sizeof item });
    for (uint32_t i = 0; log && i < log_length(log); i++) {
        struct log_entry e = log_at(log, i);

        buf_add(&w->block, (struct span){ (const char *)&e, sizeof e });
    }
    w->count++;
}

/* Piece by piece, and each is written out before the next. Else the page cache would gather
 * them, and an fsync of the journal would wait for all of them. */
static weir_err write_bytes(struct writer *w, const char *bytes, size_t len)
{
    weir_err err = WEIR_OK;

    while (len > 0 && !err) {
        const size_t room = w->piece - (size_t)(w->at - w->written_out),
                     n = len < room ? len : room;

        err = w->dir->ops->write(w->file, w->at, bytes, n);
        w->at += n;
        bytes += n;
        len -= n;
        if (err || n < room)
            continue;
        err = w->dir->ops->write_out(w->file, w->written_out, w->piece);
        w->written_out = w->at;
        if (w->pace)
            w->piece = w->pace->rest(w->pace->ctx, w->done, w->shards) ? PIECE : LARGE_PIECE;
    }
    return err;
}

static void begin_block(struct writer *w)
{
    const struct block_header none = { 0 };

    w->block.len = 0;
    w->count = 0;
    buf_add(&w->block, (struct span){ (const char *)&none, sizeof none });
}

static weir_err write_block(struct writer *w)
{
    struct block_header h = {
        .magic = BLOCK_MAGIC,
        .items = w->count,
        .size = w->block.len - sizeof h,
        .number = w->number,
    };

    if (w->block.failed)
        return WEIR_ENOMEM;
    h.checksum = block_checksum(&h, w->block.at + sizeof h, w->salt);
    memcpy(w->block.at, &h, sizeof h);
    w->number += w->count;
    return write_bytes(w, w->block.at, w->block.len);
}

static weir_err fill(struct writer *w, struct table *table, uint32_t version, uint64_t epoch,
                     const unsigned char secret_id[16], int64_t now)
{
    struct snapshot_header h = { .magic = SNAPSHOT_MAGIC, .version = version, .epoch = epoch };
    weir_err err;

    h.salt = hash_salt();
    w->salt = h.salt;
    memcpy(h.secret_id, secret_id, sizeof h.secret_id);
    h.checksum = snapshot_header_checksum(&h);
    err = write_bytes(w, (const char *)&h, sizeof h);
    w->shards = table_shards(table);
    for (; w->done < w->shards && !err; w->done++) {
        begin_block(w);
        table_export(table, w->done, now, add_item, w);
        if (w->count > 0)
            err = write_block(w);
    }
    begin_block(w);
    return err ? err : write_block(w);
}

weir_err snapshot_write(struct dir *dir, struct table *table, struct journal *journal,
                        uint64_t epoch, const unsigned char secret_id[16], int64_t now,
                        const struct snapshot_pace *pace, const weir_allocator *allocator,
                        struct snapshot_facts *out, weir_diag *diag)
{
    const uint32_t version = journal_is_apart(journal) ? SNAPSHOT_VERSION_APART : SNAPSHOT_VERSION;
    struct writer w = { .dir = dir, .pace = pace, .piece = pace ? PIECE : LARGE_PIECE };
    const char *step;
    weir_err err;

    buf_init(&w.block, allocator);
    step = "create";
    err = dir->ops->create(dir, SNAPSHOT_TEMPORARY, &w.file);
    if (err)
        goto out;
    step = "write";
    err = fill(&w, table, version, epoch, secret_id, now);
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
    buf_done(&w.block);
    if (err)
        diag_set(diag, "cannot %s the snapshot: %s", step,
                 err == WEIR_ENOMEM ? weir_err_text(err) : strerror(dir->why));
    return err;
}
