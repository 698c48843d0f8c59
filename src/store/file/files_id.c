/* files_id.c - the id that the files of a directory have: it tells the secret of their keys, and how these
 * are made.
 *
 * Versions before this way of making keys (hash.h, key_beside()) hashed an identity for each rule anew.
 * Nothing leads from such a key to the other one, so a directory that has them goes on with them.
 *
 * RULES (test_files_id.c has a test by each name)
 *   I1  All files of a directory have one id, which it keeps for good: no process writes another.
 *   I2  It is that of the snapshot, if its header verifies, or else of the first journal whose header
 *       does. Journals from before the snapshot have no say, as none is read.
 *   I3  A directory without such a header begins with keys side by side. It has nothing that could be
 *       counted on: without its header no byte of a file verifies. Recovery refuses it where a file
 *       shows that there was more than a header; a repair keeps nothing of that file.
 *   I4  Headers with both ids are refused, as the keys of one of them would be forgotten.
 *   I5  A header that cannot be read is an error, and not one that is missing. */
#include "store/file/files_id.h"

#include <errno.h>
#include <string.h>

#include "base/diag.h"
#include "store/file/journal.h"
#include "store/file/journal_format.h"
#include "store/file/snapshot.h"
#include "store/file/snapshot_format.h"

struct search {
    struct dir *dir;
    const struct secret_ids *ids;
    struct files_id *out;
    char found_in[DIR_NAME]; /* "": there is none yet */
    uint64_t epoch;          /* of the snapshot; 0: there is none, or it does not verify */
    weir_diag *diag;
};

union header {
    struct snapshot_header snapshot;
    struct journal_header journal;
};
_Static_assert(sizeof(struct snapshot_header) == sizeof(struct journal_header), "both are read");

/* *is_there: it has one, which need not verify. */
static weir_err read_header(const struct search *s, const char *name, union header *h,
                            bool *is_there)
{
    struct file *f = NULL;
    uint64_t size = 0;
    weir_err err = s->dir->ops->open(s->dir, name, &f);

    *is_there = false;
    if (err && s->dir->why == ENOENT)
        return WEIR_OK;
    if (!err)
        err = s->dir->ops->size(f, &size);
    if (!err && size >= sizeof *h) {
        err = s->dir->ops->read(f, 0, h, sizeof *h);
        *is_there = !err;
    }
    if (f)
        s->dir->ops->close(f);
    return err ? diag_fail(s->diag, err, "cannot read %s/%s: %s", s->dir->path, name,
                           strerror(s->dir->why))
               : WEIR_OK;
}

static weir_err note(struct search *s, const char *name, const unsigned char *id)
{
    const bool is_together = memcmp(id, s->ids->together, SECRET_ID_BYTES) == 0;

    if (!is_together && memcmp(id, s->ids->apart, SECRET_ID_BYTES) != 0)
        return WEIR_OK; /* of another secret */
    if (s->found_in[0] != '\0' && s->out->is_apart == is_together)
        return diag_fail(s->diag, WEIR_EIO,
                         "%s: %s and %s are not of one store, as their keys are made in different "
                         "ways: take away the one that was put there",
                         s->dir->path, s->found_in, name);
    if (s->found_in[0] != '\0')
        return WEIR_OK;
    s->out->is_apart = !is_together;
    memcpy(s->out->bytes, id, SECRET_ID_BYTES);
    memcpy(s->found_in, name, strlen(name) + 1);
    return WEIR_OK;
}

static weir_err look_at_snapshot(struct search *s)
{
    union header h;
    bool is_there;
    const weir_err err = read_header(s, SNAPSHOT_NAME, &h, &is_there);

    if (err || !is_there || h.snapshot.magic != SNAPSHOT_MAGIC ||
        h.snapshot.checksum != snapshot_header_checksum(&h.snapshot))
        return err;
    s->epoch = h.snapshot.epoch;
    return note(s, SNAPSHOT_NAME, h.snapshot.secret_id);
}

static weir_err look_at_journal(struct search *s, uint64_t epoch)
{
    char name[DIR_NAME];
    union header h;
    bool is_there;
    weir_err err;

    journal_name(epoch, name);
    err = read_header(s, name, &h, &is_there);
    if (err || !is_there || h.journal.magic != JOURNAL_MAGIC ||
        h.journal.checksum != journal_header_checksum(&h.journal))
        return err;
    return note(s, name, h.journal.secret_id);
}

weir_err files_id_find(struct dir *dir, const struct secret_ids *ids, const uint64_t *epochs,
                       size_t count, struct files_id *out, weir_diag *diag)
{
    struct search s = { .dir = dir, .ids = ids, .out = out, .diag = diag };
    weir_err err;

    out->is_apart = false;
    memcpy(out->bytes, ids->together, sizeof out->bytes);
    err = look_at_snapshot(&s);
    for (size_t i = 0; i < count && !err; i++)
        if (epochs[i] >= s.epoch)
            err = look_at_journal(&s, epochs[i]);
    return err;
}
