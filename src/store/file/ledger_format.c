/* ledger_format.c - a file of the ledger as bytes in memory: what goes into it, and what is
 * there. */
#include "store/file/ledger_format.h"

#include <errno.h>

#include <xxhash.h>

#include "base/diag.h"

#define LEDGER_MAGIC 0x5247444c52494557u /* "WEIRLDGR" */
#define UNIT_MAGIC 0x5254454cu           /* "LETR" */

enum { LEDGER_VERSION = 1, STEP = 16 };

struct ledger_header {
    uint64_t magic;
    uint32_t version, zero;
    uint64_t salt;
    unsigned char secret_id[16];
    uint64_t carried, spare;
    uint64_t checksum;
};

struct unit {
    uint32_t magic, size; /* size: of the entry; 0: a seal */
    uint64_t seq;         /* of the entry, or of the one that is sealed */
    uint64_t zero;
    uint64_t checksum;
};

_Static_assert(sizeof(struct ledger_header) == LEDGER_HEADER && sizeof(struct unit) == 32,
               "FORMAT");

/* ---- units ----------------------------------------------------------------------------------- */

static uint64_t header_checksum(const struct ledger_header *h)
{
    return XXH3_64bits_withSeed(h, offsetof(struct ledger_header, checksum), h->salt);
}

static uint64_t unit_checksum(const struct unit *u, const void *entry, uint64_t salt)
{
    const uint64_t seed = XXH3_64bits_withSeed(u, offsetof(struct unit, checksum), salt);

    return XXH3_64bits_withSeed(entry, u->size, seed);
}

static size_t padded(size_t size)
{
    return (size + STEP - 1) / STEP * STEP;
}

void ledger_add_entry(struct buf *out, uint64_t seq, uint64_t salt, struct span entry)
{
    static const char zeros[STEP];
    struct unit u = { .magic = UNIT_MAGIC, .size = (uint32_t)entry.len, .seq = seq };

    u.checksum = unit_checksum(&u, entry.at, salt);
    buf_add(out, (struct span){ (const char *)&u, sizeof u });
    buf_add(out, entry);
    buf_add(out, (struct span){ zeros, padded(entry.len) - entry.len });
}

void ledger_add_seal(struct buf *out, uint64_t seq, uint64_t salt)
{
    ledger_add_entry(out, seq, salt, (struct span){ "", 0 });
}

void ledger_add_header(struct buf *out, uint64_t salt, uint64_t carried,
                       const unsigned char secret_id[16])
{
    struct ledger_header h = {
        .magic = LEDGER_MAGIC, .version = LEDGER_VERSION, .salt = salt, .carried = carried
    };

    memcpy(h.secret_id, secret_id, sizeof h.secret_id);
    h.checksum = header_checksum(&h);
    buf_add(out, (struct span){ (const char *)&h, sizeof h });
}

/* Does a unit stand here that verifies? */
static bool unit_at(const struct ledger_format *f, uint64_t at, struct unit *out)
{
    if (f->size - at < sizeof *out)
        return false;
    memcpy(out, f->bytes + at, sizeof *out);
    return out->magic == UNIT_MAGIC && padded(out->size) <= f->size - at - sizeof *out &&
           out->checksum == unit_checksum(out, f->bytes + at + sizeof *out, f->salt);
}

/* ---- reading --------------------------------------------------------------------------------- */

weir_err ledger_format_load(struct ledger_format *out, struct dir *dir, const char *name,
                            struct file *open, const weir_allocator *allocator, weir_diag *diag)
{
    struct file *f = open;
    uint64_t size = 0;
    weir_err err = WEIR_OK;

    *out = (struct ledger_format){ 0 };
    if (!f)
        err = dir->ops->open(dir, name, &f);
    if (err && dir->why == ENOENT)
        return WEIR_OK;
    if (!err)
        err = dir->ops->size(f, &size);
    if (!err) {
        out->bytes = alloc_resize(allocator, NULL, size + 1);
        err = out->bytes ? dir->ops->read(f, 0, out->bytes, size) : WEIR_ENOMEM;
    }
    if (f && !open)
        dir->ops->close(f);
    if (!err) {
        out->size = size;
        return WEIR_OK;
    }
    alloc_free(allocator, out->bytes);
    *out = (struct ledger_format){ 0 };
    return diag_fail(diag, err, "cannot read %s/%s: %s", dir->path, name,
                     err == WEIR_ENOMEM ? weir_err_text(err) : strerror(dir->why));
}

/* A name is given to a file with a header only, so a short one is damaged, too. */
bool ledger_format_header(struct ledger_format *f, const unsigned char secret_id[16], weir_err *err,
                          weir_diag *diag)
{
    struct ledger_header h;

    if (f->size < sizeof h)
        return false;
    memcpy(&h, f->bytes, sizeof h);
    f->salt = h.salt; /* what verifies with it is ours, whatever else is wrong here */
    if (h.magic != LEDGER_MAGIC || h.checksum != header_checksum(&h))
        return false;
    f->carried = h.carried;
    if (h.version != LEDGER_VERSION)
        *err = diag_fail(diag, WEIR_EIO,
                         "the ledger has format version %u, and this program writes version %d: "
                         "open it with the program that wrote it",
                         h.version, LEDGER_VERSION);
    else if (memcmp(h.secret_id, secret_id, sizeof h.secret_id) != 0)
        *err = diag_fail(diag, WEIR_EIO,
                         "the ledger was written with another secret: no key would match. Give the "
                         "secret file it was made with");
    return true;
}

static uint64_t next_unit(const struct ledger_format *f, uint64_t from)
{
    struct unit u;
    uint64_t at = from + STEP;

    while (at < f->size && !unit_at(f, at, &u))
        at += STEP;
    return at < f->size ? at : f->size;
}

void ledger_note_damage(struct ledger_found *found, uint64_t at, uint64_t bytes)
{
    if (!found->is_damaged)
        found->damage.at = at;
    found->is_damaged = true;
    found->damage.bytes += bytes;
}

void ledger_format_scan(const struct ledger_format *f, uint64_t after, ledger_visit *visit,
                        void *ctx, struct ledger_found *found, uint64_t *end, uint64_t *seq)
{
    uint64_t at = sizeof(struct ledger_header);
    struct ledger_entry e;
    struct unit u;
    bool goes_on = true;

    while (at < f->size && goes_on) {
        const bool is_good = unit_at(f, at, &u);
        const uint64_t next = is_good ? at + sizeof u + padded(u.size) : next_unit(f, at);

        if (!is_good && next == f->size) {
            found->torn = f->size - at;
            return;
        }
        if (!is_good ||
            (u.size > 0 && !ledger_read((struct span){ f->bytes + at + sizeof u, u.size }, &e))) {
            ledger_note_damage(found, at, next - at);
        } else if (u.size > 0) {
            found->entries++;
            *seq = e.seq = u.seq;
            goes_on = u.seq <= after || !visit || visit(ctx, &e);
        }
        *end = at = next;
    }
}

weir_err ledger_format_look(struct dir *dir, const char *name, const unsigned char secret_id[16],
                            const weir_allocator *allocator, struct ledger_format *f,
                            struct ledger_found *found, uint64_t *end, uint64_t *seq,
                            weir_diag *diag)
{
    weir_err err = ledger_format_load(f, dir, name, NULL, allocator, diag);

    *found = (struct ledger_found){ .bytes = f->size };
    *end = *seq = 0;
    if (err || !f->bytes)
        return err;
    if (ledger_format_header(f, secret_id, &err, diag))
        ledger_format_scan(f, 0, NULL, NULL, found, end, seq);
    else
        ledger_note_damage(found, 0, f->size);
    if (*end == 0)
        *end = LEDGER_HEADER;
    if (*seq < f->carried)
        *seq = f->carried;
    return err;
}

/* ---- writing --------------------------------------------------------------------------------- */

weir_err ledger_write_temporary(struct dir *dir, struct span bytes, struct file **out)
{
    weir_err err = dir->ops->create(dir, LEDGER_TEMPORARY, out);

    if (!err)
        err = dir->ops->write(*out, 0, bytes.at, bytes.len);
    if (!err)
        err = dir->ops->sync(*out);
    return err;
}

weir_err ledger_rename(struct dir *dir, const char *from, const char *to)
{
    weir_err err = dir->ops->rename(dir, from, to);

    return err ? err : dir->ops->sync_dir(dir);
}

weir_err ledger_replace(struct dir *dir, const char *name, struct span bytes, struct file **out)
{
    struct file *f = NULL;
    weir_err err = ledger_write_temporary(dir, bytes, &f);

    if (!err)
        err = ledger_rename(dir, LEDGER_TEMPORARY, name);
    if (err && f) {
        dir->ops->close(f);
        f = NULL;
    }
    *out = f;
    return err;
}
