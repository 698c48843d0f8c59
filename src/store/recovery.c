/* recovery.c - from what is on disk to the table that was.
 *
 * The snapshot first, then the journals from its epoch on, in order. A journal that was begun
 * after a failure counts only under the snapshot that ended the failure: until that is there,
 * nothing in it was answered as kept. So such a journal, and all after it, are leftovers. */
#include "store/recovery.h"

#include <string.h>

#include "base/diag.h"

enum { MOST_JOURNALS = 4096 };

struct names {
    struct dir *dir;
    uint64_t epochs[MOST_JOURNALS]; /* ascending */
    size_t count;
    bool overflow;
};

static void note_name(void *ctx, const char *name)
{
    struct names *n = ctx;
    uint64_t epoch;
    size_t at;

    if (!journal_is_name(name, &epoch))
        return;
    if (n->count == MOST_JOURNALS) {
        n->overflow = true;
        return;
    }
    for (at = n->count++; at > 0 && n->epochs[at - 1] > epoch; at--)
        n->epochs[at] = n->epochs[at - 1];
    n->epochs[at] = epoch;
}

static bool restore_record(void *table, const struct record *r)
{
    return table_restore(table, r);
}

static weir_err cut(struct dir *dir, const char *name, uint64_t good, weir_diag *diag)
{
    struct file *f;
    weir_err err = dir->ops->open(dir, name, &f);

    if (!err) {
        err = dir->ops->truncate(f, good);
        if (!err)
            err = dir->ops->sync(f);
        dir->ops->close(f);
    }
    return err ? diag_fail(diag, err, "cannot cut the torn end off %s/%s: %s", dir->path, name,
                           strerror(dir->why))
               : WEIR_OK;
}

struct run {
    struct dir *dir;
    struct table *table;
    const unsigned char *secret_id;
    enum recovery_how how;
    const weir_allocator *allocator;
    struct recovery *out;
    weir_diag *diag;
    uint64_t torn_epoch; /* the last journal that was replayed, if its end was torn */
    uint64_t torn_good;
};

static weir_err refuse(struct run *run, const char *format, const char *name)
{
    run->out->damaged = true;
    if (run->how == RECOVERY_SALVAGE)
        return WEIR_OK;
    return diag_fail(run->diag, WEIR_EIO, format, run->dir->path, name);
}

/* Replay one journal. *is_last: nothing after it counts. */
static weir_err replay(struct run *run, uint64_t epoch, bool *is_last)
{
    struct journal_reading reading;
    char name[DIR_NAME];
    weir_diag why = { "" };
    weir_err err;

    journal_name(epoch, name);
    err = journal_read(run->dir, name, run->secret_id, run->out->snapshot.epoch,
                       run->how == RECOVERY_SALVAGE, run->allocator, restore_record, run->table,
                       &reading, &why);
    if (err || reading.end == JOURNAL_FOREIGN)
        return diag_fail(run->diag, err ? err : WEIR_EIO, "%s: %s", run->dir->path, why.text);
    if (reading.end == JOURNAL_EMPTY || (reading.restarted && epoch != run->out->snapshot.epoch)) {
        *is_last = true;
        return WEIR_OK;
    }
    if (run->torn_epoch && run->how != RECOVERY_SALVAGE)
        return refuse(run, "%s/%s follows a journal that was cut short: something is damaged. `weir "
                           "store repair` keeps all that verifies", name);
    run->out->journals++;
    run->out->journal_bytes += reading.good;
    run->out->records += reading.records;
    if (reading.end == JOURNAL_TORN) {
        run->torn_epoch = epoch;
        run->torn_good = reading.good;
        run->out->torn_bytes += reading.torn;
    }
    run->out->next_epoch = epoch + 1;
    if (reading.end == JOURNAL_BAD) {
        diag_set(run->diag, "%s/%s", run->dir->path, why.text);
        run->out->damaged = true;
        return run->how == RECOVERY_SALVAGE ? WEIR_OK : WEIR_EIO;
    }
    return WEIR_OK;
}

static weir_err replay_all(struct run *run, const struct names *names)
{
    uint64_t expected = run->out->snapshot.epoch;
    bool is_last = false;
    weir_err err = WEIR_OK;

    for (size_t i = 0; i < names->count && !err && !is_last; i++) {
        char name[DIR_NAME];

        if (names->epochs[i] < expected)
            continue; /* from before the snapshot */
        journal_name(names->epochs[i], name);
        if (expected > 0 && names->epochs[i] != expected && run->out->journals > 0)
            err = refuse(run, "%s/%s is there, but the journal before it is missing. `weir store "
                              "repair` keeps all that verifies", name);
        if (expected == 0 && names->epochs[i] != 1)
            err = refuse(run, "%s/%s is there, but neither a snapshot nor the first journal. `weir "
                              "store repair` keeps all that verifies", name);
        if (!err)
            err = replay(run, names->epochs[i], &is_last);
        expected = names->epochs[i] + 1;
    }
    return err;
}

weir_err recovery_run(struct dir *dir, struct table *table, const unsigned char secret_id[16],
                      enum recovery_how how, const weir_allocator *allocator, struct recovery *out,
                      weir_diag *diag)
{
    struct run run = { dir, table, secret_id, how, allocator, out, diag, 0, 0 };
    struct names *names = alloc_zeroed(allocator, sizeof *names);
    enum snapshot_end end;
    weir_err err;

    *out = (struct recovery){ .next_epoch = 1 };
    if (!names)
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    err = dir->ops->list(dir, note_name, names);
    if (err)
        diag_set(diag, "cannot list %s: %s", dir->path, strerror(dir->why));
    if (!err)
        err = snapshot_read(dir, table, secret_id, how == RECOVERY_SALVAGE, allocator, &end,
                            &out->snapshot, diag);
    if (!err && (end == SNAPSHOT_FOREIGN || (end == SNAPSHOT_BAD && how != RECOVERY_SALVAGE)))
        err = WEIR_EIO;
    if (!err) {
        out->damaged = end == SNAPSHOT_BAD;
        if (out->snapshot.epoch > 0)
            out->next_epoch = out->snapshot.epoch;
        err = replay_all(&run, names);
    }
    if (!err && how == RECOVERY_OPEN) {
        if (run.torn_epoch) {
            char name[DIR_NAME];

            journal_name(run.torn_epoch, name);
            err = cut(dir, name, run.torn_good, diag);
        }
        for (size_t i = 0; i < names->count && !err; i++) {
            char name[DIR_NAME];

            journal_name(names->epochs[i], name);
            if (names->epochs[i] < out->snapshot.epoch || names->epochs[i] >= out->next_epoch)
                dir->ops->remove(dir, name); /* if not now, then next time */
        }
        dir->ops->remove(dir, SNAPSHOT_TEMPORARY);
    }
    if (how == RECOVERY_SALVAGE && names->count > 0 &&
        names->epochs[names->count - 1] >= out->next_epoch)
        out->next_epoch = names->epochs[names->count - 1] + 1;
    alloc_free(allocator, names);
    return err;
}

void recovery_remove_before(struct dir *dir, uint64_t epoch)
{
    struct names names = { .dir = dir };

    if (dir->ops->list(dir, note_name, &names))
        return;
    for (size_t i = 0; i < names.count; i++) {
        char name[DIR_NAME];

        journal_name(names.epochs[i], name);
        if (names.epochs[i] < epoch)
            dir->ops->remove(dir, name);
    }
}
