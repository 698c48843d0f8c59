/* journal_epoch.c - the files of the journal, one for each epoch: how they are named, begun and
 * ended.
 *
 * The order of J6 is here: a new file is made only when the old one has its end mark and is
 * synced. */
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "store/file/journal_internal.h"

void journal_name(uint64_t epoch, char out[DIR_NAME])
{
    snprintf(out, DIR_NAME, "journal.%llu", (unsigned long long)epoch);
}

bool journal_is_name(const char *name, uint64_t *epoch)
{
    char expected[DIR_NAME];
    unsigned long long n;

    if (sscanf(name, "journal.%llu", &n) != 1)
        return false;
    journal_name(n, expected);
    *epoch = n;
    return strcmp(name, expected) == 0;
}

/* The end mark tells a reader that nothing is missing. It is synced with all before it. */
static weir_err write_end(struct dir *dir, struct file *f, uint64_t at, uint64_t number,
                          uint64_t synced, uint64_t salt)
{
    const struct batch_header h = batch_seal(NULL, 0, number, synced, salt);
    const weir_err err = dir->ops->write(f, at, &h, sizeof h);

    return err ? err : dir->ops->sync(f);
}

static weir_err end_file(struct journal *j)
{
    return write_end(j->dir, j->file, j->end, j->written, j->synced, j->salt);
}

weir_err journal_mark_end(struct dir *dir, struct file *f, const struct journal_reading *reading)
{
    return write_end(dir, f, reading->good, reading->next, reading->next, reading->salt);
}

static weir_err make_file(const struct journal *j, uint64_t epoch, bool restarted,
                          struct file **out, uint64_t *salt)
{
    struct journal_header h = {
        .magic = JOURNAL_MAGIC,
        .version = j->is_apart ? JOURNAL_VERSION_APART : JOURNAL_VERSION,
        .restarted = restarted,
        .epoch = epoch,
        .first = j->written,
    };
    char name[DIR_NAME];
    weir_err err;

    h.salt = hash_salt();
    memcpy(h.secret_id, j->secret_id, sizeof h.secret_id);
    h.checksum = journal_header_checksum(&h);
    journal_name(epoch, name);
    j->dir->ops->remove(j->dir, name); /* left by a failed try: its bytes must not be read */
    err = j->dir->ops->create(j->dir, name, out);
    if (err)
        return err;
    err = j->dir->ops->write(*out, 0, &h, sizeof h);
    if (!err)
        err = j->dir->ops->sync(*out);
    if (!err)
        err = j->dir->ops->sync_dir(j->dir);
    if (err) {
        j->dir->ops->close(*out);
        *out = NULL;
    }
    *salt = h.salt;
    return err;
}

weir_err journal_begin(struct journal *j, uint64_t epoch, uint64_t most)
{
    struct file *file = NULL;
    uint64_t salt;
    bool has_failed = false;
    weir_err err = WEIR_OK;

    if (j->mode != SYNC_ALWAYS && j->file && !j->is_unconfirmed && journal_sync(j))
        has_failed = true; /* and if not, little is left to sync while commits wait */
    pthread_mutex_lock(&j->lock);
    journal_wait_idle(j);
    known_terms_forget(j->terms); /* T1: what is appended from now on goes to the new file */
    if (!j->failed && !j->is_unconfirmed && j->file)
        journal_write_batch(j, true);
    j->busy = true;
    has_failed = has_failed || j->failed || j->is_unconfirmed;
    if (has_failed) {
        if (j->lost_upto == 0) /* marks from between two failures are settled long since */
            j->lost_after = journal_durable(j);
        j->lost_upto = j->appended;
        j->written = j->filed = j->synced = j->appended;
        j->batch.len = 0;
        known_terms_forget(j->terms); /* definitions were dropped with it */
    }
    pthread_mutex_unlock(&j->lock);

    if (!has_failed && j->file)
        err = end_file(j);
    if (!err)
        err = make_file(j, epoch, has_failed, &file, &salt);

    pthread_mutex_lock(&j->lock);
    if (err) {
        journal_note_failure(j, err);
    } else {
        if (j->file)
            j->dir->ops->close(j->file);
        j->file = file;
        j->epoch = epoch;
        j->salt = salt;
        j->end = j->drained = j->prepared = sizeof(struct journal_header);
        j->most = most;
        j->is_tight = false;
        j->failed = WEIR_OK;
        j->is_unconfirmed = has_failed;
    }
    j->busy = false;
    pthread_cond_broadcast(&j->idle);
    pthread_mutex_unlock(&j->lock);
    return err;
}

void journal_confirm(struct journal *j)
{
    pthread_mutex_lock(&j->lock);
    j->is_unconfirmed = false;
    pthread_mutex_unlock(&j->lock);
}

weir_err journal_finish(struct journal *j)
{
    weir_err err = journal_sync(j);

    return err || !j->file ? err : end_file(j);
}
