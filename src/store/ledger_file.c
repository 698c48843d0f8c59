/* ledger_file.c - the ledger of a file store: one file beside its journals.
 *
 * FORMAT: a header of 64 bytes, then units, each at a multiple of 16: a header of 32 bytes, and of
 * an entry what ledger_write() makes of it. A seal is a unit without an entry. Checksums are XXH3
 * of 64 bits, seeded with the salt of the file.
 *
 * RULES (test_ledger.c has a test by each name)
 *   L1  An entry that was answered as kept is found again, whatever happens to the power.
 *   L2  An entry is synced before its seal is written, and that before anything follows. So what
 *       does not verify at the very end was never answered, and is cut; but if anything that
 *       verifies follows, be it only the seal, it is damage, and refused.
 *   L3  After a failed write or sync nothing is written to that file again: the next entry goes
 *       into a copy of what is known to be on disk. */
#include "store/ledger_file.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>

#include <xxhash.h>

#include "base/diag.h"

#define LEDGER_TEMPORARY "ledger.tmp"
#define LEDGER_MAGIC 0x5247444c52494557u /* "WEIRLDGR" */
#define UNIT_MAGIC 0x5254454cu           /* "LETR" */
#define HINT ". `weir store check` tells more, and `weir store repair` keeps all that verifies"

enum { LEDGER_VERSION = 1, STEP = 16 };

struct ledger_header {
    uint64_t magic;
    uint32_t version, zero;
    uint64_t salt;
    unsigned char secret_id[16];
    uint64_t spare[2];
    uint64_t checksum;
};

struct unit {
    uint32_t magic, size; /* size: of the entry; 0: a seal */
    uint64_t seq;         /* of the entry, or of the one that is sealed */
    uint64_t zero;
    uint64_t checksum;
};

_Static_assert(sizeof(struct ledger_header) == 64 && sizeof(struct unit) == 32, "FORMAT");

struct ledger_file {
    struct dir *dir;
    weir_allocator allocator;
    unsigned char secret_id[16];
    pthread_mutex_t lock; /* of what follows */
    struct file *file;    /* NULL: there is none yet */
    bool has_failed;      /* it is not to be written to */
    uint64_t salt, end, seq;
};

/* All of a file, in memory. */
struct image {
    char *bytes;
    size_t size;
    uint64_t salt;
};

/* ---- units ------------------------------------------------------------------------------------ */

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

static void add_unit(struct buf *out, uint64_t seq, uint64_t salt, struct span entry)
{
    static const char zeros[STEP];
    struct unit u = { .magic = UNIT_MAGIC, .size = (uint32_t)entry.len, .seq = seq };

    u.checksum = unit_checksum(&u, entry.at, salt);
    buf_add(out, (struct span){ (const char *)&u, sizeof u });
    buf_add(out, entry);
    buf_add(out, (struct span){ zeros, padded(entry.len) - entry.len });
}

static void add_seal(struct buf *out, uint64_t seq, uint64_t salt)
{
    add_unit(out, seq, salt, (struct span){ "", 0 });
}

static void add_header(struct buf *out, uint64_t salt, const unsigned char secret_id[16])
{
    struct ledger_header h = { .magic = LEDGER_MAGIC, .version = LEDGER_VERSION, .salt = salt };

    memcpy(h.secret_id, secret_id, sizeof h.secret_id);
    h.checksum = header_checksum(&h);
    buf_add(out, (struct span){ (const char *)&h, sizeof h });
}

/* Does a unit stand here that verifies? */
static bool unit_at(const struct image *f, uint64_t at, struct unit *out)
{
    if (f->size - at < sizeof *out)
        return false;
    memcpy(out, f->bytes + at, sizeof *out);
    return out->magic == UNIT_MAGIC && padded(out->size) <= f->size - at - sizeof *out &&
           out->checksum == unit_checksum(out, f->bytes + at + sizeof *out, f->salt);
}

/* ---- reading ---------------------------------------------------------------------------------- */

/* No bytes, not even none: there is no file. */
static weir_err load(struct dir *dir, struct file *open, const weir_allocator *allocator,
                     struct image *out, weir_diag *diag)
{
    struct file *f = open;
    uint64_t size = 0;
    weir_err err = WEIR_OK;

    *out = (struct image){ 0 };
    if (!f)
        err = dir->ops->open(dir, LEDGER_NAME, &f);
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
    *out = (struct image){ 0 };
    return diag_fail(diag, err, "cannot read %s/" LEDGER_NAME ": %s", dir->path,
                     err == WEIR_ENOMEM ? weir_err_text(err) : strerror(dir->why));
}

/* False: it is damaged. The name is given to a file with a header only, so a short one is, too. */
static bool read_header(struct image *f, const unsigned char secret_id[16], weir_err *err,
                        weir_diag *diag)
{
    struct ledger_header h;

    if (f->size < sizeof h)
        return false;
    memcpy(&h, f->bytes, sizeof h);
    f->salt = h.salt; /* what verifies with it is ours, whatever else is wrong here */
    if (h.magic != LEDGER_MAGIC || h.checksum != header_checksum(&h))
        return false;
    if (h.version != LEDGER_VERSION)
        *err = diag_fail(diag, WEIR_EIO,
                         LEDGER_NAME " has format version %u, and this program writes version %d: "
                                     "open it with the program that wrote it",
                         h.version, LEDGER_VERSION);
    else if (memcmp(h.secret_id, secret_id, sizeof h.secret_id) != 0)
        *err = diag_fail(diag, WEIR_EIO,
                         LEDGER_NAME " was written with another secret: with this one nobody would "
                                     "be known again. Give the secret file it was made with");
    return true;
}

static uint64_t next_unit(const struct image *f, uint64_t from)
{
    struct unit u;
    uint64_t at = from + STEP;

    while (at < f->size && !unit_at(f, at, &u))
        at += STEP;
    return at < f->size ? at : f->size;
}

static void note_damage(struct ledger_found *found, uint64_t at, uint64_t bytes)
{
    if (!found->is_damaged)
        found->damage.at = at;
    found->is_damaged = true;
    found->damage.bytes += bytes;
}

/* All that verifies, in order, beyond `after`. *end: of the last unit. */
static void scan(const struct image *f, uint64_t after, ledger_visit *visit, void *ctx,
                 struct ledger_found *found, uint64_t *end, uint64_t *seq)
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
            note_damage(found, at, next - at);
        } else if (u.size > 0) {
            found->entries++;
            *seq = e.seq = u.seq;
            goes_on = u.seq <= after || !visit || visit(ctx, &e);
        }
        *end = at = next;
    }
}

static weir_err look(struct dir *dir, const unsigned char secret_id[16],
                     const weir_allocator *allocator, struct image *f, struct ledger_found *found,
                     uint64_t *end, uint64_t *seq, weir_diag *diag)
{
    weir_err err = load(dir, NULL, allocator, f, diag);

    *found = (struct ledger_found){ .bytes = f->size };
    *end = *seq = 0;
    if (err || !f->bytes)
        return err;
    if (read_header(f, secret_id, &err, diag))
        scan(f, 0, NULL, NULL, found, end, seq);
    else
        note_damage(found, 0, f->size);
    if (*end == 0)
        *end = sizeof(struct ledger_header);
    return err;
}

weir_err ledger_file_look(struct dir *dir, const unsigned char secret_id[16],
                          const weir_allocator *allocator, struct ledger_found *out,
                          weir_diag *diag)
{
    struct image f;
    uint64_t end, seq;
    weir_err err = look(dir, secret_id, allocator, &f, out, &end, &seq, diag);

    alloc_free(allocator, f.bytes);
    return err;
}

weir_err ledger_file_read(struct ledger_file *l, uint64_t after, ledger_visit *visit, void *ctx,
                          weir_diag *diag)
{
    struct ledger_found found = { 0 };
    struct image f = { 0 };
    uint64_t end, seq;
    weir_err err = WEIR_OK;

    pthread_mutex_lock(&l->lock);
    if (l->file && after < l->seq)
        err = load(l->dir, l->file, &l->allocator, &f, diag);
    if (f.size > l->end)
        f.size = l->end; /* what follows was not kept */
    f.salt = l->salt;
    pthread_mutex_unlock(&l->lock);
    if (f.bytes)
        scan(&f, after, visit, ctx, &found, &end, &seq);
    if (!err && (found.is_damaged || found.torn > 0))
        err = diag_fail(diag, WEIR_EIO, "%s/" LEDGER_NAME " is damaged at byte %" PRIu64 HINT,
                        l->dir->path, found.damage.at);
    alloc_free(&l->allocator, f.bytes);
    return err;
}

/* ---- writing ---------------------------------------------------------------------------------- */

/* Have this for the ledger, all of it or what there was before. The handle is the caller's. */
static weir_err replace(struct dir *dir, struct span bytes, struct file **out)
{
    struct file *f = NULL;
    weir_err err = dir->ops->create(dir, LEDGER_TEMPORARY, &f);

    if (!err)
        err = dir->ops->write(f, 0, bytes.at, bytes.len);
    if (!err)
        err = dir->ops->sync(f);
    if (!err)
        err = dir->ops->rename(dir, LEDGER_TEMPORARY, LEDGER_NAME);
    if (!err)
        err = dir->ops->sync_dir(dir);
    if (err && f) {
        dir->ops->close(f);
        f = NULL;
    }
    *out = f;
    return err;
}

static weir_err append_to_copy(struct ledger_file *l, struct span entry, uint64_t *end)
{
    const uint64_t salt = l->file ? l->salt : hash_salt();
    struct file *next = NULL;
    struct buf all;
    char *room;
    weir_err err = WEIR_OK;

    buf_init(&all, &l->allocator);
    room = l->file ? buf_room(&all, l->end) : NULL;
    if (!l->file)
        add_header(&all, salt, l->secret_id);
    else if (room)
        err = l->dir->ops->read(l->file, 0, room, l->end);
    if (room && !err)
        buf_wrote(&all, l->end);
    add_unit(&all, l->seq + 1, salt, entry);
    add_seal(&all, l->seq + 1, salt);
    if (!err && all.failed)
        err = WEIR_ENOMEM;
    if (!err)
        err = replace(l->dir, buf_span(&all), &next);
    if (!err) {
        if (l->file)
            l->dir->ops->close(l->file);
        l->file = next;
        l->salt = salt;
        l->has_failed = false;
        *end = all.len;
    }
    buf_done(&all);
    return err;
}

static weir_err append_in_place(struct ledger_file *l, struct span entry, uint64_t *end)
{
    struct buf units;
    size_t sealed;
    weir_err err;

    buf_init(&units, &l->allocator);
    add_unit(&units, l->seq + 1, l->salt, entry);
    sealed = units.len;
    add_seal(&units, l->seq + 1, l->salt);
    if (units.failed) {
        buf_done(&units);
        return WEIR_ENOMEM;
    }
    err = l->dir->ops->write(l->file, l->end, units.at, sealed);
    if (!err)
        err = l->dir->ops->sync(l->file);
    l->has_failed = err;
    if (!err) { /* it is kept; the seal only tells so */
        l->has_failed = l->dir->ops->write(l->file, l->end + sealed, units.at + sealed,
                                           units.len - sealed) ||
                        l->dir->ops->sync(l->file);
        *end = l->end + (l->has_failed ? sealed : units.len);
    }
    buf_done(&units);
    return err;
}

weir_err ledger_file_append(struct ledger_file *l, struct ledger_entry *e, weir_diag *diag)
{
    struct buf entry;
    uint64_t end = 0;
    weir_err err = WEIR_OK;

    buf_init(&entry, &l->allocator);
    ledger_write(e, &entry);
    if (entry.failed)
        err = WEIR_ENOMEM;
    pthread_mutex_lock(&l->lock);
    if (!err)
        err = l->file && !l->has_failed ? append_in_place(l, buf_span(&entry), &end)
                                        : append_to_copy(l, buf_span(&entry), &end);
    if (!err) {
        l->end = end;
        e->seq = ++l->seq;
    }
    pthread_mutex_unlock(&l->lock);
    buf_done(&entry);
    return err ? diag_fail(diag, err, "the change cannot be kept in %s/" LEDGER_NAME ": %s",
                           l->dir->path,
                           err == WEIR_ENOMEM ? weir_err_text(err) : strerror(l->dir->why))
               : WEIR_OK;
}

/* ---- opening ---------------------------------------------------------------------------------- */

/* What was read may be in the system's cache only, if the last process was killed. */
static weir_err settle(struct ledger_file *l, const struct ledger_found *found, weir_diag *diag)
{
    weir_err err = l->dir->ops->open(l->dir, LEDGER_NAME, &l->file);

    if (!err && found->torn > 0)
        err = l->dir->ops->truncate(l->file, l->end);
    if (!err)
        err = l->dir->ops->sync(l->file);
    return err ? diag_fail(diag, err, "cannot sync %s/" LEDGER_NAME ": %s", l->dir->path,
                           strerror(l->dir->why))
               : WEIR_OK;
}

weir_err ledger_file_open(struct ledger_file **out, struct dir *dir,
                          const unsigned char secret_id[16], const weir_allocator *allocator,
                          weir_diag *diag)
{
    struct ledger_file *l = alloc_zeroed(allocator, sizeof *l);
    struct ledger_found found;
    struct image f;
    weir_err err;

    if (!l)
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    l->dir = dir;
    l->allocator = *allocator;
    memcpy(l->secret_id, secret_id, sizeof l->secret_id);
    pthread_mutex_init(&l->lock, NULL);
    err = look(dir, secret_id, allocator, &f, &found, &l->end, &l->seq, diag);
    l->salt = f.salt;
    if (!err && found.is_damaged)
        err = diag_fail(diag, WEIR_EIO, "%s/" LEDGER_NAME " is damaged at byte %" PRIu64 HINT,
                        dir->path, found.damage.at);
    if (!err && f.bytes)
        err = settle(l, &found, diag);
    alloc_free(allocator, f.bytes);
    if (err) {
        ledger_file_close(l);
        return err;
    }
    *out = l;
    return WEIR_OK;
}

void ledger_file_close(struct ledger_file *l)
{
    weir_allocator allocator;

    if (!l)
        return;
    allocator = l->allocator;
    if (l->file)
        l->dir->ops->close(l->file);
    pthread_mutex_destroy(&l->lock);
    alloc_free(&allocator, l);
}

/* ---- repairing -------------------------------------------------------------------------------- */

struct repair {
    struct buf all, entry;
    uint64_t salt;
};

static bool keep(void *ctx, const struct ledger_entry *e)
{
    struct repair *r = ctx;

    r->entry.len = 0;
    ledger_write(e, &r->entry);
    add_unit(&r->all, e->seq, r->salt, buf_span(&r->entry));
    add_seal(&r->all, e->seq, r->salt);
    return true;
}

weir_err ledger_file_repair(struct dir *dir, const unsigned char secret_id[16],
                            const weir_allocator *allocator, weir_diag *diag)
{
    struct repair r = { .salt = hash_salt() };
    struct ledger_found found = { 0 };
    struct file *file = NULL;
    uint64_t end = 0, seq = 0;
    struct image f;
    weir_err err = load(dir, NULL, allocator, &f, diag);

    if (err)
        return err;
    buf_init(&r.all, allocator);
    buf_init(&r.entry, allocator);
    add_header(&r.all, r.salt, secret_id);
    if (f.bytes && (!read_header(&f, secret_id, &err, diag) || !err))
        scan(&f, 0, keep, &r, &found, &end, &seq);
    if (!err && (r.all.failed || r.entry.failed))
        err = diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    else if (!err && f.bytes && replace(dir, buf_span(&r.all), &file))
        err = diag_fail(diag, WEIR_EIO, "cannot replace %s/" LEDGER_NAME ": %s", dir->path,
                        strerror(dir->why));
    if (file)
        dir->ops->close(file);
    buf_done(&r.all);
    buf_done(&r.entry);
    alloc_free(allocator, f.bytes);
    return err;
}
