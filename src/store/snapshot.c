/* snapshot.c - all live keys in one file.
 *
 * FORMAT: a header of 64 bytes, then blocks, one or more for each shard. A block is a header
 * of 32 bytes and items. An item is a record of 48 bytes; behind that of a sliding window stand
 * the entries of its log, 16 bytes each, as many as its first word says. The last block has no
 * items, and its number is that of all items. Checksums are XXH3 of 64 bits, seeded with the
 * file's salt. Nothing follows.
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

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include <xxhash.h>

#include "base/buf.h"
#include "base/diag.h"

enum { VERSION = 1, SYNC_EVERY = 8 << 20, MOST_BLOCK = 64 << 20 };

#define MAGIC 0x50414e5352494557u /* "WEIRSNAP" */
#define BLOCK_MAGIC 0x4b434c42u   /* "BLCK" */

struct header {
    uint64_t magic;
    uint32_t version, unused;
    uint64_t epoch, salt;
    unsigned char secret_id[16];
    uint64_t reserved, checksum;
};

struct block_header {
    uint32_t magic, items;
    uint64_t size;   /* of the items */
    uint64_t number; /* of the first item */
    uint64_t checksum;
};

_Static_assert(sizeof(struct header) == 64 && sizeof(struct block_header) == 32, "FORMAT");

static uint64_t header_checksum(const struct header *h)
{
    return XXH3_64bits_withSeed(h, offsetof(struct header, checksum), h->salt);
}

static uint64_t block_checksum(const struct block_header *h, const void *items, uint64_t salt)
{
    uint64_t seed = XXH3_64bits_withSeed(h, offsetof(struct block_header, checksum), salt);

    return XXH3_64bits_withSeed(items, h->size, seed);
}

/* ---- writing --------------------------------------------------------------------------- */

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
    struct header h = { .magic = MAGIC, .version = VERSION, .epoch = epoch };
    weir_err err;

    h.salt = hash_salt();
    w->salt = h.salt;
    memcpy(h.secret_id, secret_id, sizeof h.secret_id);
    h.checksum = header_checksum(&h);
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

/* ---- reading --------------------------------------------------------------------------- */

struct reader {
    struct dir *dir;
    struct file *file;
    struct table *table;
    weir_allocator allocator;
    bool salvage;
    uint64_t size, at, salt, number, keys;
    struct damage damage;
    char *items; /* of one block */
    size_t room;
};

static bool restore_items(struct reader *r, const struct block_header *h)
{
    const char *at = r->items, *end = h->size > 0 ? at + h->size : at;

    for (uint32_t i = 0; i < h->items; i++) {
        struct record item;
        size_t entries = 0;

        if ((size_t)(end - at) < sizeof item)
            return false;
        memcpy(&item, at, sizeof item);
        at += sizeof item;
        if (item.algorithm == WEIR_SLIDING_WINDOW) {
            entries = (size_t)item.packed.words[0];
            if (item.packed.words[0] < 0 ||
                entries > (size_t)(end - at) / sizeof(struct log_entry) ||
                !table_restore_log(r->table, &item, (const struct log_entry *)(const void *)at,
                                   entries))
                return false;
            at += entries * sizeof(struct log_entry);
        } else if (!table_restore(r->table, &item)) {
            return false;
        }
        r->keys++;
    }
    return at == end;
}

/* The block at r->at with its items; false: none that verifies. */
static bool load_block(struct reader *r, struct block_header *h, weir_err *err)
{
    if (r->size - r->at < sizeof *h)
        return false;
    *err = r->dir->ops->read(r->file, r->at, h, sizeof *h);
    if (*err || h->magic != BLOCK_MAGIC || h->size > MOST_BLOCK * (uint64_t)64 ||
        h->size > r->size - r->at - sizeof *h)
        return false;
    if (h->size > r->room) {
        char *bigger = alloc_resize(&r->allocator, r->items, h->size);

        if (!bigger) {
            *err = WEIR_ENOMEM;
            return false;
        }
        r->items = bigger;
        r->room = h->size;
    }
    if (h->size > 0)
        *err = r->dir->ops->read(r->file, r->at + sizeof *h, r->items, h->size);
    return !*err && h->checksum == block_checksum(h, r->items, r->salt);
}

static enum snapshot_end read_header(struct reader *r, const unsigned char secret_id[16],
                                     struct header *h, weir_err *err, weir_diag *diag)
{
    if (r->size >= sizeof *h)
        *err = r->dir->ops->read(r->file, 0, h, sizeof *h);
    if (*err)
        return SNAPSHOT_BAD;
    if (r->size < sizeof *h || h->magic != MAGIC || h->checksum != header_checksum(h)) {
        r->damage = (struct damage){ .bytes = r->size };
        diag_set(diag,
                 "%s/" SNAPSHOT_NAME " is damaged: its header does not verify. `weir store "
                 "repair` keeps what the journals have",
                 r->dir->path);
        return SNAPSHOT_BAD;
    }
    if (h->version != VERSION) {
        diag_set(diag,
                 "%s/" SNAPSHOT_NAME " has format version %u, and this program writes version "
                 "%d: open it with the program that wrote it",
                 r->dir->path, h->version, VERSION);
        return SNAPSHOT_FOREIGN;
    }
    if (memcmp(h->secret_id, secret_id, sizeof h->secret_id) != 0) {
        diag_set(diag,
                 "%s/" SNAPSHOT_NAME " was written with another secret: with this one nobody "
                 "would be known again. Give the secret file it was made with",
                 r->dir->path);
        return SNAPSHOT_FOREIGN;
    }
    return SNAPSHOT_WHOLE;
}

static void note_damage(struct reader *r, weir_diag *diag)
{
    r->damage.at = r->at;
    diag_set(diag,
             "%s/" SNAPSHOT_NAME " is damaged at byte %llu. `weir store check` tells more, and "
             "`weir store repair` keeps all that verifies",
             r->dir->path, (unsigned long long)r->at);
}

/* Go on behind damage: at the next block that verifies. False: there is none. */
static bool skip_damage(struct reader *r, weir_err *err)
{
    const uint64_t from = r->at;
    struct block_header h;

    do {
        r->at += 16;
        if (r->at + sizeof h > r->size) {
            r->damage.bytes += r->size - from;
            return false;
        }
    } while (!load_block(r, &h, err) && !*err);
    r->damage.bytes += r->at - from;
    if (h.number > r->number)
        r->damage.missing += h.number - r->number;
    r->number = h.number;
    return !*err;
}

static enum snapshot_end read_blocks(struct reader *r, weir_err *err, weir_diag *diag)
{
    enum snapshot_end end = SNAPSHOT_WHOLE;

    for (;;) {
        struct block_header h;

        if (load_block(r, &h, err) && h.number == r->number) {
            r->at += sizeof h + h.size;
            if (h.items == 0 && r->at == r->size)
                return end;
            if (h.items == 0) {
                if (end == SNAPSHOT_WHOLE)
                    note_damage(r, diag);
                r->damage.bytes += r->size - r->at;
                return SNAPSHOT_BAD;
            }
            if (!restore_items(r, &h)) {
                *err = WEIR_ENOMEM;
                return SNAPSHOT_BAD;
            }
            r->number += h.items;
            continue;
        }
        if (*err)
            return SNAPSHOT_BAD;
        if (end == SNAPSHOT_WHOLE)
            note_damage(r, diag);
        end = SNAPSHOT_BAD;
        if (!r->salvage || !skip_damage(r, err))
            return end;
    }
}

weir_err snapshot_read(struct dir *dir, struct table *table, const unsigned char secret_id[16],
                       bool salvage, const weir_allocator *allocator, enum snapshot_end *end,
                       struct snapshot_facts *out, weir_diag *diag)
{
    struct reader r = { .dir = dir, .table = table, .allocator = *allocator, .salvage = salvage };
    struct header h;
    weir_err err = dir->ops->open(dir, SNAPSHOT_NAME, &r.file);

    *out = (struct snapshot_facts){ 0 };
    *end = SNAPSHOT_NONE;
    if (err && dir->why == ENOENT)
        return WEIR_OK;
    if (!err)
        err = dir->ops->size(r.file, &r.size);
    if (!err) {
        *end = read_header(&r, secret_id, &h, &err, diag);
        if (*end == SNAPSHOT_WHOLE) {
            table_expect(table, (int64_t)(r.size / sizeof(struct record)));
            r.at = sizeof h;
            r.salt = h.salt;
            *end = read_blocks(&r, &err, diag);
            *out = (struct snapshot_facts){ .epoch = h.epoch, .keys = r.keys, .bytes = r.size };
        }
        out->damage = r.damage;
    }
    if (err)
        diag_set(diag, "cannot read the snapshot: %s",
                 err == WEIR_ENOMEM ? weir_err_text(err) : strerror(dir->why));
    if (r.file)
        dir->ops->close(r.file);
    alloc_free(allocator, r.items);
    return err;
}
