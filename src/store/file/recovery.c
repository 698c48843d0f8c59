/* recovery.c - crash recovery: from the files on disk to the table.
 *
 * The snapshot first, then the journals from its epoch on, in order. A journal that was begun
 * after a failure counts only under the snapshot that ended the failure: until that was on disk,
 * nothing in it was answered as durable. Without that snapshot, such a journal and all after it are
 * leftovers.
 *
 * If the last process was killed, what is read may be in the page cache only. It is synced before
 * anything builds on it, or is removed because of it. */
#include "store/file/recovery.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/diag.h"
#include "store/file/replay.h"
#include "store/file/ring.h"

/* The epochs of the journals that are there, ascending. */
static const uint64_t *epochs_in(const struct buf *found, size_t *count)
{
    *count = found->len / sizeof(uint64_t);
    return (const uint64_t *)(const void *)found->at;
}

static void note_name(void *found, const char *name)
{
    uint64_t epoch;

    if (journal_is_name(name, &epoch))
        buf_add(found, (struct span){ (const char *)&epoch, sizeof epoch });
}

static int by_epoch(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static weir_err find_journals(struct dir *dir, struct buf *found)
{
    weir_err err = dir->ops->list(dir, note_name, found);

    if (!err && found->failed)
        err = WEIR_ENOMEM;
    if (!err && found->len > 0)
        qsort(found->at, found->len / sizeof(uint64_t), sizeof(uint64_t), by_epoch);
    return err;
}

struct run {
    struct dir *dir;
    const struct restoring *to;
    enum recovery_how how;
    const weir_allocator *allocator;
    struct recovery *out;
    weir_diag *diag;
    uint64_t last_epoch; /* of the last journal that was replayed; 0: none was */
    struct journal_reading last;
    bool is_torn;      /* its end is */
    bool is_base_lost; /* the snapshot's epoch is not known: replay all that could be under it */
};

/* Write what the ring has of the last journal to its file. */
static weir_err write_rest(struct dir *dir, struct file *f, uint64_t from, uint64_t upto,
                           const weir_allocator *allocator)
{
    char *bytes;
    size_t size;
    weir_err err = ring_read(dir, from, allocator, &bytes, &size);

    if (!err)
        err = dir->ops->write(f, from, bytes, upto - from);
    alloc_free(allocator, bytes);
    return err;
}

/* End the last journal on disk where reading stopped. What was not found in the ring now must
 * not be found another time, when other journals follow. */
static weir_err settle(struct run *run, const char *name)
{
    const struct journal_reading *last = &run->last;
    struct dir *dir = run->dir;
    struct file *f;
    weir_err err = dir->ops->open(dir, name, &f);

    if (!err) {
        err = dir->ops->truncate(f, last->written);
        if (!err && last->good > last->written)
            err = write_rest(dir, f, last->written, last->good, run->allocator);
        if (!err)
            err = dir->ops->sync(f);
        if (!err && !last->ended)
            err = journal_mark_end(dir, f, last);
        dir->ops->close(f);
    }
    return err ? diag_fail(run->diag, err, "cannot sync %s/%s: %s", dir->path, name,
                           err == WEIR_ENOMEM ? weir_err_text(err) : strerror(dir->why))
               : WEIR_OK;
}

static void note_damage(struct run *run, const char *file, const char *what, struct damage extent)
{
    struct recovery *out = run->out;

    if (out->damages < RECOVERY_LISTED) {
        snprintf(out->damage[out->damages].file, DIR_NAME, "%s", file);
        out->damage[out->damages].what = what;
        out->damage[out->damages].extent = extent;
    }
    out->damages++;
}

static weir_err refuse(struct run *run, const char *file, const char *what, struct damage extent)
{
    note_damage(run, file, what, extent);
    if (run->how == RECOVERY_SALVAGE)
        return WEIR_OK;
    return diag_fail(run->diag, WEIR_EIO, "%s/%s %s. `weir store repair` keeps all that verifies",
                     run->dir->path, file, what);
}

/* A journal that is followed by another was ended and synced before the next was begun (J6). */
static weir_err refuse_early_end(struct run *run)
{
    const struct damage extent = { .at = run->last.good, .bytes = run->out->torn_bytes };
    char name[DIR_NAME];

    journal_name(run->last_epoch, name);
    run->is_torn = false;
    run->out->torn_bytes = 0;
    return refuse(run, name, "ends before its end, and another journal follows", extent);
}

/* Replay one journal. *is_last: nothing after it counts. */
static weir_err replay(struct run *run, uint64_t epoch, bool is_followed, bool *is_last)
{
    const uint64_t base = run->is_base_lost ? epoch : run->out->snapshot.epoch;
    struct replaying *replaying = NULL;
    struct journal_reading reading;
    char name[DIR_NAME];
    weir_diag why = { "" };
    weir_err err;

    journal_name(epoch, name);
    err = replay_begin(&replaying, run->to, run->allocator);
    if (err)
        return diag_fail(run->diag, err, "%s", weir_err_text(err));
    err = journal_read(run->dir, name, run->out->id.bytes, base, run->how == RECOVERY_SALVAGE,
                       run->allocator, replay_record, replaying, &reading, &why);
    if (!replay_end(replaying) && !err)
        err = diag_fail(&why, WEIR_ENOMEM, "not enough memory to replay %s", name);
    if (err || reading.end == JOURNAL_FOREIGN)
        return diag_fail(run->diag, err ? err : WEIR_EIO, "%s: %s", run->dir->path, why.text);
    if (reading.end != JOURNAL_EMPTY && reading.epoch != 0 && reading.epoch != epoch)
        return refuse(run, name, "is another journal under this name", reading.damage);
    if (reading.end == JOURNAL_EMPTY && is_followed)
        return refuse(run, name, "has no header, and another journal follows", reading.damage);
    if (reading.end == JOURNAL_EMPTY || (reading.restarted && epoch != base)) {
        *is_last = true;
        return WEIR_OK;
    }
    if (run->is_torn) {
        err = refuse_early_end(run);
        if (err)
            return err;
    }
    run->out->journals++;
    run->out->journal_bytes += reading.good;
    run->out->records += reading.records;
    run->last_epoch = epoch;
    run->last = reading;
    run->is_torn = reading.end == JOURNAL_TORN;
    if (run->is_torn)
        run->out->torn_bytes += reading.torn;
    run->out->next_epoch = epoch + 1;
    if (reading.end == JOURNAL_BAD) {
        diag_set(run->diag, "%s/%s", run->dir->path, why.text);
        note_damage(run, name, "is damaged", reading.damage);
        return run->how == RECOVERY_SALVAGE ? WEIR_OK : WEIR_EIO;
    }
    return WEIR_OK;
}

static weir_err replay_all(struct run *run, const uint64_t *epochs, size_t count)
{
    uint64_t expected = run->out->snapshot.epoch > 0 ? run->out->snapshot.epoch : 1;
    bool is_last = false;
    weir_err err = WEIR_OK;

    for (size_t i = 0; i < count && !err && !is_last; i++) {
        char name[DIR_NAME];

        if (epochs[i] < expected)
            continue; /* from before the snapshot */
        journal_name(epochs[i], name);
        if (epochs[i] != expected && expected == 1) {
            run->is_base_lost = true;
            err = refuse(run, name, "is there, but neither a snapshot nor the first journal",
                         (struct damage){ 0 });
        } else if (epochs[i] != expected) {
            err = refuse(run, name, "is there, but the journal before it is missing",
                         (struct damage){ 0 });
        }
        if (!err)
            err = replay(run, epochs[i], i + 1 < count, &is_last);
        expected = epochs[i] + 1;
    }
    return err;
}

static weir_err sync_names(struct run *run)
{
    const weir_err err = run->dir->ops->sync_dir(run->dir);

    if (err)
        diag_set(run->diag, "cannot sync %s: %s", run->dir->path, strerror(run->dir->why));
    return err;
}

/* Cut what was torn, and remove what does not count. */
static weir_err tidy_up(struct run *run, const uint64_t *epochs, size_t count)
{
    struct dir *dir = run->dir;
    char name[DIR_NAME];
    weir_err err = WEIR_OK;

    if (run->last_epoch && run->how == RECOVERY_OPEN) {
        journal_name(run->last_epoch, name);
        err = settle(run, name);
    }
    if (!err)
        err = sync_names(run); /* the snapshot's, before what it replaces is removed */
    if (err)
        return err;
    for (size_t i = 0; i < count; i++) {
        const bool is_leftover = epochs[i] >= run->out->next_epoch;

        journal_name(epochs[i], name);
        if (!is_leftover && epochs[i] >= run->out->snapshot.epoch)
            continue;
        err = dir->ops->remove(dir, name);                       /* if not now, then next time */
        if (err && is_leftover && run->how == RECOVERY_DISTRUST) /* a snapshot gets its epoch */
            return diag_fail(run->diag, err, "cannot remove %s/%s: %s", dir->path, name,
                             strerror(dir->why));
    }
    dir->ops->remove(dir, SNAPSHOT_TEMPORARY);
    return sync_names(run); /* before a journal is made that has the name of a removed one */
}

static weir_err run_all(struct run *run, const uint64_t *epochs, size_t count)
{
    struct recovery *out = run->out;
    const bool salvage = run->how == RECOVERY_SALVAGE;
    enum snapshot_end end;
    weir_err err = snapshot_read(run->dir, run->to, run->out->id.bytes, salvage, run->allocator,
                                 &end, &out->snapshot, run->diag);

    if (err)
        return err;
    if (end == SNAPSHOT_BAD)
        note_damage(run, SNAPSHOT_NAME, "is damaged", out->snapshot.damage);
    run->is_base_lost = end == SNAPSHOT_BAD && out->snapshot.epoch == 0;
    if (end == SNAPSHOT_FOREIGN || (end == SNAPSHOT_BAD && !salvage))
        return WEIR_EIO;
    if (out->snapshot.epoch > 0)
        out->next_epoch = out->snapshot.epoch;
    err = replay_all(run, epochs, count);
    if (!err && run->how <= RECOVERY_DISTRUST) {
        err = tidy_up(run, epochs, count);
        out->has_failed = err;
    }
    if (salvage && count > 0 && epochs[count - 1] >= out->next_epoch)
        out->next_epoch = epochs[count - 1] + 1;
    return err;
}

weir_err recovery_run(struct dir *dir, const struct restoring *to, const struct secret_ids *ids,
                      enum recovery_how how, const weir_allocator *allocator, struct recovery *out,
                      weir_diag *diag)
{
    struct run run = {
        .dir = dir,
        .to = to,
        .how = how,
        .allocator = allocator,
        .out = out,
        .diag = diag,
    };
    struct buf found;
    weir_err err;

    *out = (struct recovery){ .next_epoch = 1 };
    buf_init(&found, allocator);
    err = find_journals(dir, &found);
    if (err) {
        diag_set(diag, "cannot list %s: %s", dir->path,
                 err == WEIR_ENOMEM ? weir_err_text(err) : strerror(dir->why));
    } else {
        size_t count;
        const uint64_t *epochs = epochs_in(&found, &count);

        err = files_id_find(dir, ids, epochs, count, &out->id, diag);
        if (!err)
            err = run_all(&run, epochs, count);
    }
    buf_done(&found);
    return err;
}

void recovery_remove_before(struct dir *dir, uint64_t epoch)
{
    const weir_allocator allocator = alloc_or_default((weir_allocator){ 0 });
    struct buf found;
    const uint64_t *epochs;
    size_t count;

    buf_init(&found, &allocator);
    if (!find_journals(dir, &found)) {
        epochs = epochs_in(&found, &count);
        for (size_t i = 0; i < count && epochs[i] < epoch; i++) {
            char name[DIR_NAME];

            journal_name(epochs[i], name);
            dir->ops->remove(dir, name);
        }
    }
    buf_done(&found);
}
