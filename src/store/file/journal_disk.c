/* journal_disk.c - the journal's work on the disk: write, fsync, zeros ahead.
 *
 * Each function here sets a flag (`busy`, `is_draining`, `is_syncing`), lets go of the lock
 * while the disk works, and takes it again to note what came of it. So threads append meanwhile,
 * and none holds a lock over a system call. */
#include "store/file/journal_internal.h"

#include <errno.h>

enum { ZEROS = 1 << 18 };

void journal_note_failure(struct journal *j, weir_err err)
{
    j->failed = err;
    j->counts.failures++;
}

void journal_wait_idle(struct journal *j)
{
    while (j->busy || j->is_draining || j->is_syncing)
        pthread_cond_wait(&j->idle, &j->lock);
}

void journal_write_batch(struct journal *j, bool sync)
{
    struct batch taken = j->batch;
    const uint64_t upto = j->appended, number = j->written, synced = j->synced, at = j->end;
    const size_t records = batch_count(&taken);
    struct batch_header h;
    weir_err err = WEIR_OK;

    j->busy = true;
    j->batch = j->spare;
    j->batch.len = 0;
    j->spare = (struct batch){ 0 };
    pthread_mutex_unlock(&j->lock);
    if (j->drained < at)
        err = ring_drain(j->ring, j->file, j->drained, at);
    if (!err && records > 0) {
        h = batch_seal(taken.bytes + sizeof h, records, number, synced, j->salt);
        memcpy(taken.bytes, &h, sizeof h);
        err = j->dir->ops->write(j->file, at, taken.bytes, taken.len);
    }
    if (!err && sync)
        err = j->dir->ops->sync(j->file);
    pthread_mutex_lock(&j->lock);
    j->counts.batches += records > 0;
    j->counts.syncs += sync;
    if (err) {
        journal_note_failure(j, err);
    } else {
        if (records > 0)
            j->end = at + taken.len;
        j->drained = j->end;
        j->written = j->filed = upto;
        if (sync)
            j->synced = upto;
    }
    j->spare = taken;
    j->busy = false;
    pthread_cond_broadcast(&j->idle);
}

/* Always to the end of a batch: a reader finds each batch whole, in the file or in the ring. */
void journal_drain(struct journal *j)
{
    const uint64_t upto = j->end, records = j->written;
    weir_err err;

    j->is_draining = true;
    pthread_mutex_unlock(&j->lock);
    err = ring_drain(j->ring, j->file, j->drained, upto);
    pthread_mutex_lock(&j->lock);
    if (err) {
        journal_note_failure(j, err);
    } else {
        j->drained = upto;
        j->filed = records;
    }
    j->is_draining = false;
    pthread_cond_broadcast(&j->idle);
}

/* Only one thread at a time: the kernel reports an error of fsync once, and to one caller. */
void journal_sync_file(struct journal *j)
{
    const uint64_t upto = j->filed;
    weir_err err;

    j->is_syncing = true;
    pthread_mutex_unlock(&j->lock);
    err = j->dir->ops->sync(j->file);
    pthread_mutex_lock(&j->lock);
    j->counts.syncs++;
    if (err)
        journal_note_failure(j, err);
    else
        j->synced = upto;
    j->is_syncing = false;
    pthread_cond_broadcast(&j->idle);
}

/* Write one piece of zeros behind all that is written. No other thread may write: else the zeros
 * could overwrite a batch. False: enough is prepared, or it failed. */
static bool prepare_piece(struct journal *j, uint64_t ahead)
{
    static char zeros[ZEROS]; /* a const would take 256 KiB of the library's file */
    const size_t len = ahead < ZEROS ? ahead : ZEROS;
    weir_err err;
    uint64_t at;

    journal_wait_idle(j);
    at = j->prepared > j->end ? j->prepared : j->end;
    if (j->failed || j->is_tight || !j->file || at >= j->end + ahead)
        return false;
    j->busy = true;
    pthread_mutex_unlock(&j->lock);
    err = j->dir->ops->write(j->file, at, zeros, len);
    if (err && (j->dir->why == ENOSPC || j->dir->why == EDQUOT)) {
        j->is_tight = true; /* leave the room to batches */
        err = j->dir->ops->truncate(j->file, at);
    }
    pthread_mutex_lock(&j->lock);
    if (err) {
        journal_note_failure(j, err);
    } else if (!j->is_tight) {
        j->prepared = at + len;
    }
    j->busy = false;
    pthread_cond_broadcast(&j->idle);
    return !err;
}

weir_err journal_prepare(struct journal *j, uint64_t ahead)
{
    weir_err err;

    pthread_mutex_lock(&j->lock);
    if (j->prepared < j->end + ahead / 2)
        while (prepare_piece(j, ahead))
            ;
    err = j->failed;
    pthread_mutex_unlock(&j->lock);
    return err;
}
