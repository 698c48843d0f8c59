/* keeper.c - looks after the files of a file store: recovery, fsync, checkpoints.
 *
 * A CHECKPOINT is a new journal and a snapshot of the whole table under it. When the snapshot is
 * on disk, the older journals are deleted.
 *
 * STATES: RUNNING, and FAILED after a write or an fsync of the journal failed. A failed journal
 * is never written to again (J4). The way back to RUNNING is a checkpoint, tried once a second.
 * Memory has everything that was ever answered as durable, so the snapshot has it too, whatever
 * the disk made of the pages that it could not write. Until that snapshot is on disk, nothing is
 * answered as durable.
 *
 * THE WARNING FILE. What a failed fsync has lost is still in the page cache. A process that
 * starts now reads it from there, and cannot see that the disk does not have it. So a failed
 * process leaves a file, and the next process begins with a snapshot. The file needs no fsync:
 * it is in the same page cache as the lost pages, and stays there as long as they do. */
#include "store/file/keeper.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/diag.h"
#include "base/thread_pool.h"
#include "store/file/recovery.h"

enum {
    REST_SHARE = 4, /* a snapshot pauses so many times as long as its last piece took */
    RETRY_MS = 1000,
    HURRY_LIMITS = 8,  /* a journal of so many limits does not wait for the next second */
    BESIDE_LIMITS = 4, /* what a journal may grow by while its snapshot is taken */
    MOST_OLD_JOURNALS = 8,
    LEAST_RING = 512,
    MOST_RING = 2 << 20,
};
#define JOURNAL_LIMIT ((uint64_t)32 << 20) /* a smaller journal is not worth a snapshot */

#define WARNING_NAME "failed"

static void say(const struct keeper *k, const char *line)
{
    if (k->options.log)
        k->options.log(k->options.log_ctx, line);
}

static int64_t clock_now(const struct keeper *k)
{
    return k->options.clock(k->options.clock_ctx);
}

/* ---- failing ----------------------------------------------------------------------------- */

static bool has_warning(struct keeper *k)
{
    struct file *f;

    if (k->dir->ops->open(k->dir, WARNING_NAME, &f))
        return k->dir->why != ENOENT; /* in doubt there is one */
    k->dir->ops->close(f);
    return true;
}

static void leave_warning(struct keeper *k)
{
    struct file *f;

    if (k->dir->ops->create(k->dir, WARNING_NAME, &f) == WEIR_OK)
        k->dir->ops->close(f);
}

void keeper_fail(struct keeper *k)
{
    enum keeper_state running = KEEPER_RUNNING;
    char line[256];

    if (!atomic_compare_exchange_strong(&k->state, &running, KEEPER_FAILED))
        return;
    atomic_fetch_add(&k->failures, 1);
    snprintf(line, sizeof line, "store failed: %s: %s; on_error decides until the disk works again",
             k->dir->path, strerror(k->dir->why));
    leave_warning(k);
    say(k, line);
}

/* ---- the journal, between two checkpoints ----------------------------------------------- */

/* A store with few writes does without a ring: to map it takes longer than a hundred writes. */
static void map_if_worth_it(struct keeper *k)
{
    const uint64_t limit = k->options.journal_limit, size = limit / 8;

    if (k->mode != SYNC_ALWAYS && journal_size(k->journal) >= limit / 512)
        journal_map(k->journal, size < LEAST_RING  ? LEAST_RING
                                : size > MOST_RING ? MOST_RING
                                                   : (size_t)size);
}

/* Sync what is due, or write zeros ahead. */
static weir_err tend_journal(struct keeper *k)
{
    k->tended_at = clock_monotonic_us();
    map_if_worth_it(k);
    if (k->mode == SYNC_INTERVAL)
        return journal_sync(k->journal);
    return k->mode == SYNC_ALWAYS ? journal_prepare(k->journal, k->options.journal_limit / 8)
                                  : journal_failure(k->journal);
}

/* Between two rounds: its ring is filling. */
static void drain_early(struct keeper *k)
{
    journal_drain_early(k->journal);
    if (k->state == KEEPER_RUNNING && journal_failure(k->journal))
        keeper_fail(k);
}

/* ---- checkpoints -------------------------------------------------------------------------- */

/* HOW LARGE THE FILES GET. While a snapshot is written, the new journal may grow by half of the live
 * state. With the last snapshot, the new one and the journals between them, all files together have at
 * most three times the live state: so the journals are as large as that allows when a checkpoint is
 * due. That is half of the live state, and more while it grows. Where the state is small, the bound is
 * `least` times the journal limit, which is about what one second of full load writes. */
static uint64_t live_bytes(const struct keeper *k)
{
    const uint64_t now = table_bytes(k->table), had = k->snapshot.bytes;

    if (now >= k->table_then)
        return had + (now - k->table_then);
    return had > k->table_then - now ? had - (k->table_then - now) : 0;
}

static uint64_t at_least(const struct keeper *k, uint64_t bytes, int least)
{
    const uint64_t limit = (uint64_t)least * k->options.journal_limit;

    return bytes > limit ? bytes : limit;
}

/* Of the journals, when a checkpoint is due. */
static uint64_t due_bytes(const struct keeper *k, int least)
{
    const uint64_t live = live_bytes(k), most = live + live / 2, had = k->snapshot.bytes;

    return at_least(k, most > had ? most - had : 0, least);
}

/* While no checkpoint is under way. There is some room above what makes one due, so that commits do
 * not wait just because the keeper is late. */
static void bound_journal(struct keeper *k)
{
    const uint64_t most = due_bytes(k, HURRY_LIMITS) + live_bytes(k) / 16 +
                          k->options.journal_limit / 2;

    if (!k->options.no_thread)
        journal_bound(k->journal, most > k->old_bytes ? most - k->old_bytes : 0);
}

/* How large the journal may be when so many shards of its snapshot are written. */
static uint64_t most_bytes(const struct keeper *k, size_t done, size_t shards)
{
    const uint64_t most = at_least(k, live_bytes(k) / 2, BESIDE_LIMITS);

    return k->first_bytes + most / 4 + (most - most / 4) * done / shards;
}

static void rest(struct keeper *k, int64_t us)
{
    const int64_t until = clock_monotonic_us() + us;

    while (worker_rest(&k->worker, until - clock_monotonic_us()))
        drain_early(k);
}

/* Between two pieces of a snapshot, rest: then an fsync of the journal finds the disk free four
 * times out of five. But the journal must not outgrow its bound. When it comes close there is no
 * rest, and at the bound commits wait for the next piece. */
static bool pace(void *ctx, size_t done, size_t shards)
{
    struct keeper *k = ctx;
    const int64_t took = clock_monotonic_us() - k->rested_at;
    const uint64_t due = most_bytes(k, done, shards);
    const bool has_time = journal_size(k->journal) - k->first_bytes < (due - k->first_bytes) / 2;

    if (k->state == KEEPER_RUNNING && clock_monotonic_us() >= k->tended_at + k->pause_ms * 1000 &&
        tend_journal(k))
        keeper_fail(k);
    journal_bound(k->journal, due);
    drain_early(k);
    if (k->state == KEEPER_RUNNING && has_time)
        rest(k, took * REST_SHARE);
    k->rested_at = clock_monotonic_us();
    return has_time;
}

/* If only the snapshot fails, the next try goes on with the new journal. */
static weir_err checkpoint(struct keeper *k, weir_diag *diag)
{
    const bool has_failed = k->state == KEEPER_FAILED;
    const uint64_t size = journal_size(k->journal), epoch = k->epoch + !k->is_begun,
                   table = table_bytes(k->table);
    weir_err err;

    k->first_bytes = k->is_begun ? size : 0;
    if (!k->is_begun) {
        err = journal_begin(k->journal, epoch,
                            k->options.no_thread ? UINT64_MAX : most_bytes(k, 0, 1));
        if (err) {
            keeper_fail(k);
            return diag_fail(diag, err, "cannot begin a new journal: %s", strerror(k->dir->why));
        }
    }
    if (!k->is_begun && !has_failed) {
        k->is_begun = true;
        k->epoch = epoch;
        k->old_bytes += size;
        k->old_journals++;
    }
    k->tended_at = 0; /* tend it at once: a new journal has no zeros ahead */
    k->rested_at = clock_monotonic_us();
    err = snapshot_write(k->dir, k->table, k->journal, epoch, k->id.bytes, clock_now(k),
                         k->options.no_thread ? NULL : &(struct snapshot_pace){ pace, k },
                         &k->options.allocator, &k->snapshot, diag);
    if (err) {
        journal_bound(k->journal, UINT64_MAX); /* there is nothing to wait for */
        if (journal_failure(k->journal))
            keeper_fail(k);
        return err;
    }
    journal_confirm(k->journal);
    k->table_then = table;
    k->epoch = epoch;
    k->is_begun = false;
    k->old_bytes = k->old_journals = 0;
    atomic_fetch_add(&k->snapshots, 1);
    bound_journal(k);
    recovery_remove_before(k->dir, epoch);
    return WEIR_OK;
}

/* At most once a second, even if the clock is set back. */
static bool is_time_to_try(struct keeper *k, int64_t now)
{
    if (k->tried_at != 0 && now >= k->tried_at && now < k->tried_at + RETRY_MS)
        return false;
    k->tried_at = now;
    return true;
}

static void try_restart(struct keeper *k, int64_t now)
{
    weir_diag diag;

    if (!is_time_to_try(k, now))
        return;
    k->is_begun = false;
    k->dir->ops->remove(k->dir, SNAPSHOT_TEMPORARY); /* frees room on a full disk */
    leave_warning(k);                                /* it may have failed before */
    if (checkpoint(k, &diag))
        return;
    k->dir->ops->remove(k->dir, WARNING_NAME);
    atomic_store(&k->state, KEEPER_RUNNING);
    say(k, "store recovered: everything that was counted is on disk again");
}

static void checkpoint_if_due(struct keeper *k, int64_t now)
{
    const uint64_t size = journal_size(k->journal) + k->old_bytes;
    weir_diag diag;
    char line[sizeof diag.text + 64];

    atomic_store(&k->journal_bytes, (int64_t)size);
    if (!k->is_begun)
        bound_journal(k); /* by what is live now */
    if (size < due_bytes(k, 1) && k->old_journals < MOST_OLD_JOURNALS)
        return;
    if (!is_time_to_try(k, now) && (k->is_begun || size < due_bytes(k, HURRY_LIMITS)))
        return;
    if (checkpoint(k, &diag)) {
        snprintf(line, sizeof line, "snapshot failed, the journal goes on: %s", diag.text);
        say(k, line);
    }
}

/* ---- the thread ----------------------------------------------------------------------------- */

void keeper_tick(struct keeper *k, int64_t now)
{
    if (k->state == KEEPER_FAILED)
        try_restart(k, now);
    else if (tend_journal(k))
        keeper_fail(k);
    else
        checkpoint_if_due(k, now);
}

static void run_round(struct keeper *k)
{
    if (k->has_kept) {
        keeper_tick(k, clock_monotonic_ms());
    } else {
        /* Not only later: processes that live shortly would leave a journal each. */
        checkpoint_if_due(k, clock_monotonic_ms());
        k->has_kept = true;
    }
    k->due_at = clock_monotonic_us() + k->pause_ms * 1000;
}

static int64_t run(void *arg)
{
    struct keeper *k = arg;
    int64_t left;

    drain_early(k);
    if (clock_monotonic_us() >= k->due_at)
        run_round(k);
    left = k->due_at - clock_monotonic_us();
    return left > 0 ? left : 0;
}

static void wake(void *arg)
{
    struct keeper *k = arg;

    worker_wake(&k->worker);
}

weir_err keeper_start(struct keeper *k, weir_diag *diag)
{
    weir_err err;

    if (k->options.no_thread)
        return WEIR_OK;
    err = worker_start(&k->worker, "store's", 0, run, k, diag);
    if (!err)
        journal_wake_by(k->journal, wake, k);
    return err;
}

void keeper_stop(struct keeper *k)
{
    if (k->journal)
        journal_wake_by(k->journal, NULL, NULL);
    worker_stop(&k->worker);
}

/* ---- recovery ------------------------------------------------------------------------------ */

static weir_err begin_journal(struct keeper *k, weir_diag *diag)
{
    const weir_err err = journal_begin(k->journal, k->epoch, UINT64_MAX);

    if (!err)
        return WEIR_OK;
    diag_set(diag, "cannot begin a journal in %s: %s", k->dir->path, strerror(k->dir->why));
    leave_warning(k);
    return err;
}

/* What was read may be in the page cache only. Have it on disk before anything builds on it. */
static weir_err begin_with_snapshot(struct keeper *k, weir_diag *diag)
{
    const weir_err err = snapshot_write(k->dir, k->table, k->journal, k->epoch, k->id.bytes,
                                        clock_now(k), NULL, &k->options.allocator, &k->snapshot,
                                        diag);

    if (err) {
        k->dir->ops->remove(k->dir, SNAPSHOT_TEMPORARY); /* frees room on a full disk */
        return err;
    }
    k->table_then = table_bytes(k->table);
    k->old_bytes = k->old_journals = 0;
    recovery_remove_before(k->dir, k->epoch);
    k->dir->ops->remove(k->dir, WARNING_NAME);
    say(k, "the last process could not sync its writes: a snapshot has them now");
    return begin_journal(k, diag);
}

weir_err keeper_recover(struct keeper *k, weir_diag *diag)
{
    const struct restoring to = { k->table, clock_now(k),
                                  k->options.no_thread ? 1 : thread_pool_processors() };
    const bool warned = has_warning(k);
    struct recovery found;
    char line[256];
    weir_err err = recovery_run(k->dir, &to, &k->options.secret_ids,
                                warned ? RECOVERY_DISTRUST : RECOVERY_OPEN, &k->options.allocator,
                                &found, diag);

    if (found.has_failed)
        leave_warning(k);
    if (err)
        return err;
    k->id = found.id;
    k->epoch = found.next_epoch;
    k->snapshot = found.snapshot;
    k->table_then = table_bytes(k->table);
    k->old_journals = found.journals;
    k->old_bytes = found.journal_bytes;
    if (found.torn_bytes > 0) {
        snprintf(line, sizeof line,
                 "the journal's end was torn: %" PRIu64 " bytes that were never answered were cut",
                 found.torn_bytes);
        say(k, line);
    }
    err = journal_new(&k->journal, k->dir, k->mode, k->id.bytes, &k->options.allocator);
    if (err)
        return diag_fail(diag, err, "%s", weir_err_text(err));
    if (k->id.is_apart)
        journal_keep_apart(k->journal);
    table_keep_log(k->table, journal_log(k->journal));
    return warned ? begin_with_snapshot(k, diag) : begin_journal(k, diag);
}

void keeper_init(struct keeper *k, struct dir *dir, struct table *table,
                 const struct store_options *options)
{
    *k = (struct keeper){ .dir = dir, .table = table, .options = *options };
    if (k->options.journal_limit == 0)
        k->options.journal_limit = JOURNAL_LIMIT;
    worker_init(&k->worker);
}

void keeper_done(struct keeper *k)
{
    journal_free(k->journal);
    worker_done(&k->worker);
}
