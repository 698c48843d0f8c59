/* ledger_file.c - the ledger of a file store: one file beside its journals, and an archive of
 * older files. What is in force is all in the newest file.
 *
 * RULES (test_ledger.c has a test by each name)
 *   L1  An entry that was answered is found again, even after a power cut.
 *   L2  An entry is synced before its seal is written, and the seal before anything follows. So
 *       what does not verify at the very end is a torn write that was never answered, and is
 *       cut. But if anything that verifies follows, even only the seal, it is damage, and
 *       refused.
 *   L3  After a failed write or sync nothing is written to that file again: the next entry goes
 *       into a copy of what is known to be on disk.
 *   L4  A file that has grown moves to the archive, under the number of its last entry, and a
 *       new one begins with what is in force (compaction). So a ledger opens as fast as
 *       that is small, and nothing of the audit log is lost. While no file has the name of the
 *       newest, the last one in the archive is the newest. */
#include "store/file/ledger_file.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>

#include "base/diag.h"
#include "store/file/ledger_archive.h"
#include "store/file/ledger_compact.h"

#define HINT ". `weir store check` shows more, and `weir store repair` keeps all that verifies"

struct ledger_file {
    struct dir *dir;
    weir_allocator allocator;
    unsigned char secret_id[16];
    pthread_mutex_t lock; /* of what follows */
    struct file *file;    /* NULL: there is none yet */
    bool has_failed;      /* never write to it again (L3) */
    uint64_t salt, end, seq;
    uint64_t carried; /* entries up to this one are in the archive */
    uint64_t bound;   /* bytes; a larger file moves to the archive … */
    uint64_t most;    /* … or one larger than this, if so much is in force */
};

/* ---- reading --------------------------------------------------------------------------------- */

static weir_err damage(const struct dir *dir, const char *name, uint64_t at, weir_diag *diag)
{
    return diag_fail(diag, WEIR_EIO, "%s/%s is damaged at byte %" PRIu64 HINT, dir->path, name, at);
}

/* A reader of the archive sees an entry once, though later files repeat it. */
struct reading {
    uint64_t last;
    ledger_visit *visit;
    void *ctx;
    bool is_over;
};

static bool pass_on(void *ctx, const struct ledger_entry *e)
{
    struct reading *r = ctx;

    if (e->seq <= r->last)
        return true;
    r->last = e->seq;
    r->is_over = !r->visit(r->ctx, e);
    return !r->is_over;
}

static weir_err read_newest(struct ledger_file *l, struct reading *r, weir_diag *diag)
{
    struct ledger_found found = { 0 };
    struct ledger_format f = { 0 };
    uint64_t end, seq;
    weir_err err = WEIR_OK;

    pthread_mutex_lock(&l->lock);
    if (l->file && r->last < l->seq)
        err = ledger_format_load(&f, l->dir, LEDGER_NAME, l->file, &l->allocator, diag);
    if (f.size > l->end)
        f.size = l->end; /* what follows was never answered */
    f.salt = l->salt;
    pthread_mutex_unlock(&l->lock);
    if (f.bytes)
        ledger_format_scan(&f, r->last, pass_on, r, &found, &end, &seq);
    if (!err && (found.is_damaged || found.torn > 0))
        err = damage(l->dir, LEDGER_NAME, found.damage.at, diag);
    alloc_free(&l->allocator, f.bytes);
    return err;
}

static weir_err read_archived(struct ledger_file *l, uint64_t last, struct reading *r,
                              weir_diag *diag)
{
    struct ledger_found found = { 0 };
    struct ledger_format f;
    char name[DIR_NAME];
    uint64_t end, seq;
    weir_err err;

    ledger_archive_name(last, name);
    err = ledger_format_load(&f, l->dir, name, NULL, &l->allocator, diag);
    if (err || !f.bytes)
        return err;
    if (ledger_format_header(&f, l->secret_id, &err, diag))
        ledger_format_scan(&f, r->last, pass_on, r, &found, &end, &seq);
    else
        ledger_note_damage(&found, 0, f.size);
    if (!err && (found.is_damaged || found.torn > 0))
        err = damage(l->dir, name, found.damage.at, diag);
    alloc_free(&l->allocator, f.bytes);
    return err;
}

weir_err ledger_file_audit(struct ledger_file *l, uint64_t after, ledger_visit *visit, void *ctx,
                           weir_diag *diag)
{
    struct reading r = { .last = after, .visit = visit, .ctx = ctx };
    struct ledger_archive archive;
    weir_err err = ledger_archive_list(&archive, l->dir, &l->allocator, diag);

    if (err)
        return err;
    for (size_t i = 0; i < archive.count && !err && !r.is_over; i++)
        if (archive.last[i] > r.last)
            err = read_archived(l, archive.last[i], &r, diag);
    ledger_archive_done(&archive);
    return err || r.is_over ? err : read_newest(l, &r, diag);
}

weir_err ledger_file_read(struct ledger_file *l, uint64_t after, ledger_visit *visit, void *ctx,
                          weir_diag *diag)
{
    struct reading r = { .last = after, .visit = visit, .ctx = ctx };
    uint64_t carried;

    pthread_mutex_lock(&l->lock);
    carried = l->carried;
    pthread_mutex_unlock(&l->lock);
    /* A reader that knows some entries must also learn which of them have ended. */
    return after > 0 && after < carried ? ledger_file_audit(l, after, visit, ctx, diag)
                                        : read_newest(l, &r, diag);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* The next file, with what is in force of this one. If that fails it goes on with this one, or
 * with a copy of it if a failed rename leaves in doubt what its name is. */
static weir_err move_to_archive(struct ledger_file *l, struct span next, uint64_t salt)
{
    struct file *f = NULL;
    char name[DIR_NAME];
    weir_err err = ledger_write_temporary(l->dir, next, &f);

    if (!err) {
        ledger_archive_name(l->seq, name);
        err = ledger_rename(l->dir, LEDGER_NAME, name);
        if (!err)
            err = ledger_rename(l->dir, LEDGER_TEMPORARY, LEDGER_NAME);
        l->has_failed = err;
    }
    if (err) {
        if (f)
            l->dir->ops->close(f);
        return err;
    }
    l->dir->ops->close(l->file);
    l->file = f;
    l->salt = salt;
    l->end = next.len;
    l->carried = l->seq;
    return WEIR_OK;
}

/* Not if most of it would have to be carried on. */
static void begin_anew(struct ledger_file *l, int64_t now)
{
    const uint64_t salt = hash_salt();
    struct ledger_format f;
    struct buf next;
    weir_err err = ledger_format_load(&f, l->dir, LEDGER_NAME, l->file, &l->allocator, NULL);

    if (err)
        return;
    f.size = l->end;
    f.salt = l->salt;
    buf_init(&next, &l->allocator);
    ledger_add_header(&next, salt, l->seq, l->secret_id);
    if (ledger_compact(&f, now, salt, &l->allocator, &next)) {
        if (next.len <= l->end / 2)
            err = move_to_archive(l, buf_span(&next), salt);
        if (!err)
            l->most = next.len > l->bound / 2 ? 2 * next.len : l->bound;
    }
    (void)err; /* the entry is on disk, and the next one tries again */
    buf_done(&next);
    alloc_free(&l->allocator, f.bytes);
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
        ledger_add_header(&all, salt, 0, l->secret_id);
    else if (room)
        err = l->dir->ops->read(l->file, 0, room, l->end);
    if (room && !err)
        buf_wrote(&all, l->end);
    ledger_add_entry(&all, l->seq + 1, salt, entry);
    ledger_add_seal(&all, l->seq + 1, salt);
    if (!err && all.failed)
        err = WEIR_ENOMEM;
    if (!err)
        err = ledger_replace(l->dir, LEDGER_NAME, buf_span(&all), &next);
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
    ledger_add_entry(&units, l->seq + 1, l->salt, entry);
    sealed = units.len;
    ledger_add_seal(&units, l->seq + 1, l->salt);
    if (units.failed) {
        buf_done(&units);
        return WEIR_ENOMEM;
    }
    err = l->dir->ops->write(l->file, l->end, units.at, sealed);
    if (!err)
        err = l->dir->ops->sync(l->file);
    l->has_failed = err;
    if (!err) { /* it is on disk; the seal only says so */
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
        if (l->end >= l->most && !l->has_failed)
            begin_anew(l, e->at);
    }
    pthread_mutex_unlock(&l->lock);
    buf_done(&entry);
    return err ? diag_fail(diag, err, "the change cannot be kept in %s/" LEDGER_NAME ": %s",
                           l->dir->path,
                           err == WEIR_ENOMEM ? weir_err_text(err) : strerror(l->dir->why))
               : WEIR_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* A crash may have come between the two names that a new file takes. */
static weir_err find_newest(struct dir *dir, const weir_allocator *allocator, weir_diag *diag)
{
    struct ledger_archive archive;
    struct file *f = NULL;
    char name[DIR_NAME];
    weir_err err = dir->ops->open(dir, LEDGER_NAME, &f);

    if (!err)
        dir->ops->close(f);
    if (!err || dir->why != ENOENT)
        return WEIR_OK; /* reading it reports the error */
    err = ledger_archive_list(&archive, dir, allocator, diag);
    if (err)
        return err;
    if (archive.count > 0) {
        ledger_archive_name(archive.last[archive.count - 1], name);
        if (ledger_rename(dir, name, LEDGER_NAME))
            err = diag_fail(diag, WEIR_EIO, "cannot rename %s/%s: %s", dir->path, name,
                            strerror(dir->why));
    }
    ledger_archive_done(&archive);
    return err;
}

/* If the last process was killed, what was read may be in the page cache only, and so may its
 * name. */
static weir_err settle(struct ledger_file *l, const struct ledger_found *found, weir_diag *diag)
{
    weir_err err = l->dir->ops->open(l->dir, LEDGER_NAME, &l->file);

    if (!err && found->torn > 0)
        err = l->dir->ops->truncate(l->file, l->end);
    if (!err)
        err = l->dir->ops->sync(l->file);
    if (!err)
        err = l->dir->ops->sync_dir(l->dir);
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
    struct ledger_format f = { 0 };
    weir_err err;

    if (!l)
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    l->dir = dir;
    l->allocator = *allocator;
    memcpy(l->secret_id, secret_id, sizeof l->secret_id);
    pthread_mutex_init(&l->lock, NULL);
    ledger_file_bound(l, LEDGER_MOST);
    err = find_newest(dir, allocator, diag);
    if (!err)
        err = ledger_format_look(dir, LEDGER_NAME, secret_id, allocator, &f, &found, &l->end,
                                 &l->seq, diag);
    l->salt = f.salt;
    l->carried = f.carried;
    if (!err && found.is_damaged)
        err = damage(dir, LEDGER_NAME, found.damage.at, diag);
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

void ledger_file_bound(struct ledger_file *l, uint64_t bytes)
{
    l->bound = l->most = bytes;
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
