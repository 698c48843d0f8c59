/* file_store.c - the store that survives: the table in memory, a journal and snapshots on disk.
 *
 * STATES: RUNNING, and FAILED after a write or a sync of the journal failed. A failed journal
 * is never written to again. The way back is a new journal under a new snapshot of the whole
 * table: memory has all that was ever answered as kept, so nothing of it is lost, whatever the
 * disk made of the pages it could not write. Until that snapshot is on disk nothing is
 * answered as kept.
 *
 * What a failed sync has lost is still in the system's cache, and a process that follows without
 * that snapshot finds it there. So the failed one leaves a warning, and the next one begins with a
 * snapshot: as long as the cache has what the disk has not, the warning is in it as well.
 *
 * The keeper is a thread that syncs every interval, maps the ring, writes zeros ahead, takes
 * snapshots when the journal has grown, and tries the way back once a second. While it takes a
 * snapshot it goes on with the first three. */
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/diag.h"
#include "base/thread_pool.h"
#include "base/worker.h"
#include "store/file/file_store.h"
#include "store/file/ledger_file.h"
#include "store/file/recovery.h"
#include "store/history_store.h"

enum {
    DEFAULT_SYNC_MS = 50,
    MOST_SYNC_MS = 60000,
    IDLE_MS = 50,
    REST_SHARE = 4, /* of a snapshot: so many times as long as a piece took */
    RETRY_MS = 1000,
    HURRY_LIMITS = 8,  /* of a journal that does not wait for the next second */
    BESIDE_LIMITS = 4, /* … that grows while a snapshot is taken */
    MOST_OLD_JOURNALS = 8,
    LEAST_RING = 512,
    MOST_RING = 2 << 20,
};
#define JOURNAL_LIMIT ((uint64_t)32 << 20) /* a smaller journal is not worth a snapshot */

#define WARNING_NAME "failed"

enum condition { RUNNING, FAILED };

struct file_store {
    struct store store;
    weir_allocator allocator;
    struct store_options options;
    struct dir *dir;
    struct table *table;
    struct journal *journal;
    struct ledger_file *ledger;
    enum sync_mode mode;
    int64_t pause_ms; /* of the keeper: with SYNC_INTERVAL the interval */

    _Atomic(enum condition) state;
    uint64_t epoch; /* the keeper's from here on */
    bool is_begun;  /* the journal of this epoch waits for its snapshot */
    struct snapshot_facts snapshot;
    uint64_t old_journals, old_bytes; /* before this epoch, not yet in a snapshot */
    uint64_t first_bytes;             /* of the journal, when its snapshot was begun */
    int64_t tried_at;                 /* to take a snapshot */
    int64_t tended_at, rested_at;     /* us */
    _Atomic int64_t snapshots, failures, journal_bytes;

    bool has_kept; /* the keeper has begun */
    struct worker keeper;
};

const char *store_directory(const char *uri)
{
    const size_t scheme = strlen(file_store_ops.scheme);

    return strncmp(uri, file_store_ops.scheme, scheme) == 0 ? uri + scheme : NULL;
}

static void say(const struct file_store *s, const char *line)
{
    if (s->options.log)
        s->options.log(s->options.log_ctx, line);
}

static int64_t clock_now(const struct file_store *s)
{
    return s->options.clock(s->options.clock_ctx);
}

/* ---- failing, and the way back ----------------------------------------------------------- */

static bool is_warned(struct file_store *s)
{
    struct file *f;

    if (s->dir->ops->open(s->dir, WARNING_NAME, &f))
        return s->dir->why != ENOENT; /* if in doubt, yes */
    s->dir->ops->close(f);
    return true;
}

static void warn_the_next(struct file_store *s)
{
    struct file *f;

    if (s->dir->ops->create(s->dir, WARNING_NAME, &f) == WEIR_OK)
        s->dir->ops->close(f);
}

static void enter_failed(struct file_store *s)
{
    enum condition running = RUNNING;
    char line[256];

    if (!atomic_compare_exchange_strong(&s->state, &running, FAILED))
        return;
    atomic_fetch_add(&s->failures, 1);
    snprintf(line, sizeof line,
             "store failed: %s: %s; policies decide by their on_error until the disk is back",
             s->dir->path, strerror(s->dir->why));
    warn_the_next(s);
    say(s, line);
}

/* Not for those that ask little: it takes longer than a hundred writes. */
static void map_if_worth_it(struct file_store *s)
{
    const uint64_t limit = s->options.journal_limit, size = limit / 8;

    if (s->mode != SYNC_ALWAYS && journal_size(s->journal) >= limit / 512)
        journal_map(s->journal, size < LEAST_RING  ? LEAST_RING
                                : size > MOST_RING ? MOST_RING
                                                   : (size_t)size);
}

/* Sync what is due, or have zeros ahead. */
static weir_err tend_journal(struct file_store *s)
{
    s->tended_at = clock_monotonic_us();
    map_if_worth_it(s);
    if (s->mode == SYNC_INTERVAL)
        return journal_sync(s->journal);
    return s->mode == SYNC_ALWAYS ? journal_prepare(s->journal, s->options.journal_limit / 8)
                                  : journal_failure(s->journal);
}

/* HOW LARGE THE FILES GET: a snapshot is due when the journals are half of the live state, and its
 * own journal may grow by another half until it is there. With the last snapshot and the new one
 * that makes three times the live state. Where that is little, the least is what a second or so
 * of full load brings. */
static uint64_t half_of_live(const struct file_store *s, int least)
{
    const uint64_t half = s->snapshot.bytes / 2, limit = (uint64_t)least * s->options.journal_limit;

    return half > limit ? half : limit;
}

/* When no snapshot is under way. The keeper need not be quick to see that one is due. */
static void bound_journal(struct file_store *s)
{
    const uint64_t half = half_of_live(s, HURRY_LIMITS);
    const uint64_t most = half + half / 8 + s->options.journal_limit / 2;

    if (!s->options.no_thread)
        journal_bound(s->journal, most > s->old_bytes ? most - s->old_bytes : 0);
}

/* How large the journal may be when so much of its snapshot is written. */
static uint64_t due_by(const struct file_store *s, size_t done, size_t shards)
{
    const uint64_t most = half_of_live(s, BESIDE_LIMITS);

    return s->first_bytes + most / 4 + (most - most / 4) * done / shards;
}

/* Between two pieces of a snapshot: wait, so that syncs of the journal find the disk free four
 * times out of five. But its journal must not get ahead: if it does there is no waiting, and
 * before it would be too large commits wait for the next piece. */
static bool rest(void *ctx, size_t done, size_t shards)
{
    struct file_store *s = ctx;
    const int64_t took = clock_monotonic_us() - s->rested_at;
    const uint64_t due = due_by(s, done, shards);
    const bool has_time = journal_size(s->journal) - s->first_bytes < (due - s->first_bytes) / 2;

    if (s->state == RUNNING && clock_monotonic_us() >= s->tended_at + s->pause_ms * 1000 &&
        tend_journal(s))
        enter_failed(s);
    journal_bound(s->journal, due);
    if (s->state == RUNNING && has_time) {
        worker_rest(&s->keeper, took * REST_SHARE);
    }
    s->rested_at = clock_monotonic_us();
    return has_time;
}

/* A new journal, then a snapshot under it; then the old journals go. If only the snapshot
 * fails, the new journal serves the next try as well. */
static weir_err roll_over(struct file_store *s, weir_diag *diag)
{
    const bool has_failed = s->state == FAILED;
    const uint64_t size = journal_size(s->journal), epoch = s->epoch + !s->is_begun;
    weir_err err;

    s->first_bytes = s->is_begun ? size : 0;
    if (!s->is_begun) {
        err = journal_begin(s->journal, epoch, s->options.no_thread ? UINT64_MAX : due_by(s, 0, 1));
        if (err) {
            enter_failed(s);
            return diag_fail(diag, err, "cannot begin a new journal: %s", strerror(s->dir->why));
        }
    }
    if (!s->is_begun && !has_failed) {
        s->is_begun = true;
        s->epoch = epoch;
        s->old_bytes += size;
        s->old_journals++;
    }
    s->tended_at = 0; /* a new journal has no zeros ahead */
    s->rested_at = clock_monotonic_us();
    err = snapshot_write(s->dir, s->table, s->journal, epoch, s->options.secret_id, clock_now(s),
                         s->options.no_thread ? NULL : &(struct snapshot_pace){ rest, s },
                         &s->allocator, &s->snapshot, diag);
    if (err) {
        journal_bound(s->journal, UINT64_MAX); /* there is nothing to wait for */
        if (journal_failure(s->journal))
            enter_failed(s);
        return err;
    }
    journal_confirm(s->journal);
    s->epoch = epoch;
    s->is_begun = false;
    s->old_bytes = s->old_journals = 0;
    atomic_fetch_add(&s->snapshots, 1);
    bound_journal(s);
    recovery_remove_before(s->dir, epoch);
    return WEIR_OK;
}

/* Not more than once a second, even if the clock is set back. */
static bool is_time_to_try(struct file_store *s, int64_t now)
{
    if (s->tried_at != 0 && now >= s->tried_at && now < s->tried_at + RETRY_MS)
        return false;
    s->tried_at = now;
    return true;
}

static void try_the_way_back(struct file_store *s, int64_t now)
{
    weir_diag diag;

    if (!is_time_to_try(s, now))
        return;
    s->is_begun = false;
    s->dir->ops->remove(s->dir, SNAPSHOT_TEMPORARY); /* a full disk needs the room */
    warn_the_next(s);                                /* if it could not be before */
    if (roll_over(s, &diag))
        return;
    s->dir->ops->remove(s->dir, WARNING_NAME);
    atomic_store(&s->state, RUNNING);
    say(s, "store recovered: everything that was counted is on disk again");
}

static void snapshot_if_worth_it(struct file_store *s, int64_t now)
{
    const uint64_t size = journal_size(s->journal) + s->old_bytes;
    weir_diag diag;
    char line[sizeof diag.text + 64];

    atomic_store(&s->journal_bytes, (int64_t)size);
    if (size < half_of_live(s, 1) && s->old_journals < MOST_OLD_JOURNALS)
        return;
    if (!is_time_to_try(s, now) && (s->is_begun || size < half_of_live(s, HURRY_LIMITS)))
        return;
    if (roll_over(s, &diag)) {
        snprintf(line, sizeof line, "no snapshot was taken, the journal goes on: %s", diag.text);
        say(s, line);
    }
}

/* What the keeper does each time it wakes. `now` is any clock's that goes on. */
static void keep(struct file_store *s, int64_t now)
{
    if (s->state == FAILED)
        try_the_way_back(s, now);
    else if (tend_journal(s))
        enter_failed(s);
    else
        snapshot_if_worth_it(s, now);
}

static int64_t keep_on(void *arg)
{
    struct file_store *s = arg;

    if (s->has_kept) {
        keep(s, clock_monotonic_ms());
    } else {
        bound_journal(s);
        /* Not only later: of processes that live shortly, each leaves a journal. */
        snapshot_if_worth_it(s, clock_monotonic_ms());
        s->has_kept = true;
    }
    return s->pause_ms * 1000;
}

/* ---- opening and closing ------------------------------------------------------------------- */

static weir_err read_sync(struct file_store *s, const char *text, weir_diag *diag)
{
    char *end;
    long n;

    s->mode = SYNC_INTERVAL;
    s->pause_ms = DEFAULT_SYNC_MS;
    if (!text)
        return WEIR_OK;
    if (strcmp(text, "always") == 0) {
        s->mode = SYNC_ALWAYS;
        s->pause_ms = IDLE_MS;
        return WEIR_OK;
    }
    if (strcmp(text, "os") == 0) {
        s->mode = SYNC_OS;
        s->pause_ms = IDLE_MS;
        return WEIR_OK;
    }
    n = strtol(text, &end, 10);
    if (end == text || (strcmp(end, "ms") != 0 && strcmp(end, "s") != 0))
        n = 0;
    s->pause_ms = strcmp(end, "s") == 0 ? n * 1000 : n;
    if (n < 1 || s->pause_ms > MOST_SYNC_MS)
        return diag_fail(
            diag, WEIR_EOPTION,
            "sync is always, os, or an interval from 1ms to 60s such as 50ms, not '%.20s'", text);
    return WEIR_OK;
}

static weir_err begin(struct file_store *s, weir_diag *diag)
{
    const weir_err err = journal_begin(s->journal, s->epoch, UINT64_MAX);

    if (!err)
        return WEIR_OK;
    diag_set(diag, "cannot begin a journal in %s: %s", s->dir->path, strerror(s->dir->why));
    warn_the_next(s);
    return err;
}

/* The disk may not have what was read: first have a snapshot of it there. */
static weir_err begin_anew(struct file_store *s, weir_diag *diag)
{
    const weir_err err = snapshot_write(s->dir, s->table, s->journal, s->epoch,
                                        s->options.secret_id, clock_now(s), NULL, &s->allocator,
                                        &s->snapshot, diag);

    if (err) {
        s->dir->ops->remove(s->dir, SNAPSHOT_TEMPORARY); /* a full disk needs the room */
        return err;
    }
    s->old_bytes = s->old_journals = 0;
    recovery_remove_before(s->dir, s->epoch);
    s->dir->ops->remove(s->dir, WARNING_NAME);
    say(s, "the last process could not sync what it wrote: it is in a snapshot now");
    return begin(s, diag);
}

static weir_err recover(struct file_store *s, weir_diag *diag)
{
    const struct restoring to = { s->table, clock_now(s),
                                  s->options.no_thread ? 1 : thread_pool_processors() };
    const bool warned = is_warned(s);
    struct recovery found;
    char line[256];
    weir_err err = recovery_run(s->dir, &to, s->options.secret_id,
                                warned ? RECOVERY_DISTRUST : RECOVERY_OPEN, &s->allocator, &found,
                                diag);

    if (found.has_failed)
        warn_the_next(s);
    if (err)
        return err;
    s->epoch = found.next_epoch;
    s->snapshot = found.snapshot;
    s->old_journals = found.journals;
    s->old_bytes = found.journal_bytes;
    if (found.torn_bytes > 0) {
        snprintf(line, sizeof line,
                 "the journal's end was torn: %" PRIu64 " bytes that nobody was told of were cut",
                 found.torn_bytes);
        say(s, line);
    }
    err = journal_new(&s->journal, s->dir, s->mode, s->options.secret_id, &s->allocator);
    if (err)
        return diag_fail(diag, err, "%s", weir_err_text(err));
    table_keep_log(s->table, journal_log(s->journal));
    return warned ? begin_anew(s, diag) : begin(s, diag);
}

static void free_store(struct file_store *s)
{
    weir_allocator allocator = s->allocator;

    journal_free(s->journal);
    ledger_file_close(s->ledger);
    table_free(s->table);
    if (s->dir)
        s->dir->ops->done(s->dir);
    worker_done(&s->keeper);
    alloc_free(&allocator, s);
}

weir_err file_store_open_in(struct store **out, struct dir *dir,
                            const struct store_options *options, weir_diag *diag)
{
    struct file_store *s = alloc_zeroed(&options->allocator, sizeof *s);
    weir_err err;

    if (!s) {
        dir->ops->done(dir);
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    }
    s->store.ops = &file_store_ops;
    s->allocator = options->allocator;
    s->options = *options;
    if (s->options.journal_limit == 0)
        s->options.journal_limit = JOURNAL_LIMIT;
    s->dir = dir;
    worker_init(&s->keeper);
    err = read_sync(s, options->sync, diag);
    s->store.commits_at_once = s->mode != SYNC_ALWAYS;
    if (!err)
        err = table_new(&s->table, options, diag);
    if (!err)
        err = recover(s, diag);
    if (!err)
        err = ledger_file_open(&s->ledger, s->dir, s->options.secret_id, &s->allocator, diag);
    if (!err && !s->options.no_thread)
        err = worker_start(&s->keeper, "store's", 0, keep_on, s, diag);
    if (err) {
        free_store(s);
        return err;
    }
    *out = &s->store;
    return WEIR_OK;
}

static weir_err open_file_store(struct store **out, const struct store_options *options,
                                weir_diag *diag)
{
    const char *path = store_directory(options->uri);
    struct dir *dir;
    weir_err err;

    if (path[0] == '\0')
        return diag_fail(diag, WEIR_EOPTION, "name the directory, as in file:/var/lib/weir");
    err = dir_open(&dir, path, &options->allocator, diag);
    return err ? err : file_store_open_in(out, dir, options, diag);
}

static void close_file_store(struct store *store)
{
    struct file_store *s = (struct file_store *)store;

    worker_stop(&s->keeper);
    if (s->state == RUNNING && journal_finish(s->journal))
        enter_failed(s); /* says so */
    free_store(s);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static void prefetch(struct store *store, struct key key, enum prefetch what)
{
    table_prefetch(((struct file_store *)store)->table, key, what);
}

/* Decided in memory, or not at all, as the question wants it. */
static void answer_unkept(struct file_store *s, struct question *q, bool is_judged)
{
    if (!q->decide_anyway) {
        q->err = WEIR_EIO;
    } else {
        if (!is_judged)
            table_judge(s->table, q);
        q->is_unkept = true;
    }
    q->done(q);
}

/* Append what the buffer has. If it was overtaken, append what its keys are by now (H2). */
static void empty_buffer(struct file_store *s, struct pending *pending, struct write_buffer *buffer)
{
    uint64_t mark = 0;
    const enum appended how = journal_append_buffer(s->journal, buffer, &mark);

    for (struct question *q = buffer->first; q; q = q->next) {
        if (q->mark != MARK_IN_BUFFER)
            continue;
        if (how == BUFFER_OVERTAKEN)
            table_keep_again(s->table, q);
        else
            q->mark = mark;
        if (how != BUFFER_WRITTEN && q->mark > pending->mark)
            pending->mark = q->mark;
    }
    buffer->first = NULL;
}

/* A buffer pays from the second question on. A question that does not fit it comes after those that
 * are in it. */
static struct write_buffer *buffer_for(struct file_store *s, struct pending *pending,
                                       const struct question *q)
{
    const bool fits = table_fits_buffer(q);
    struct write_buffer *buffer = pending->part;

    if (buffer && buffer->count > 0) {
        if (fits && !write_buffer_is_full(buffer))
            return buffer;
        empty_buffer(s, pending, buffer);
    }
    if (!fits || (!pending->first && !pending->is_long))
        return NULL;
    if (!buffer)
        pending->part = buffer = write_buffers_take(journal_log(s->journal)->write_buffers,
                                                    pending);
    if (buffer && !write_buffer_is_open(buffer))
        write_buffer_open(buffer);
    return buffer;
}

static void submit(struct store *store, struct pending *pending, struct question *q)
{
    struct file_store *s = (struct file_store *)store;
    struct write_buffer *buffer;

    q->is_unkept = false;
    if (s->state != RUNNING) {
        answer_unkept(s, q, false);
        return;
    }
    buffer = buffer_for(s, pending, q);
    if (buffer)
        table_judge_in(s->table, q, buffer);
    else
        table_judge(s->table, q);
    if (q->mark == MARK_IN_BUFFER)
        buffer->first = buffer->first ? buffer->first : q;
    else if (q->mark > pending->mark)
        pending->mark = q->mark;
    q->next = NULL;
    if (pending->last)
        pending->last->next = q;
    else
        pending->first = q;
    pending->last = q;
}

static void commit(struct store *store, struct pending *pending)
{
    struct file_store *s = (struct file_store *)store;
    struct question *q = pending->first, *next;
    struct write_buffer *buffer = pending->part;
    bool is_kept;

    if (buffer && buffer->count > 0)
        empty_buffer(s, pending, buffer);
    if (buffer)
        write_buffer_leave(buffer);
    is_kept = pending->mark == 0 || journal_commit(s->journal, pending->mark) == WEIR_OK;
    *pending = (struct pending){ 0 };
    if (!is_kept)
        enter_failed(s);
    for (; q; q = next) {
        next = q->next;
        if (is_kept || q->mark == 0 || journal_commit(s->journal, q->mark) == WEIR_OK)
            q->done(q);
        else
            answer_unkept(s, q, true);
    }
}

static void tick(struct store *store, int64_t now)
{
    struct file_store *s = (struct file_store *)store;

    table_sweep(s->table, now);
    if (s->options.no_thread)
        keep(s, now);
}

static weir_err append_entry(struct store *store, struct ledger_entry *e, weir_diag *diag)
{
    return ledger_file_append(((struct file_store *)store)->ledger, e, diag);
}

static weir_err read_entries(struct store *store, uint64_t after, ledger_visit *visit, void *ctx,
                             weir_diag *diag)
{
    return ledger_file_read(((struct file_store *)store)->ledger, after, visit, ctx, diag);
}

static weir_err audit_entries(struct store *store, uint64_t after, ledger_visit *visit, void *ctx,
                              weir_diag *diag)
{
    return ledger_file_audit(((struct file_store *)store)->ledger, after, visit, ctx, diag);
}

static void stats(struct store *store, weir_stats *out)
{
    struct file_store *s = (struct file_store *)store;
    const struct journal_counts counts = journal_counts(s->journal);

    table_stats(s->table, out);
    out->journal_bytes = s->journal_bytes;
    out->journal_batches = (int64_t)counts.batches;
    out->journal_syncs = (int64_t)counts.syncs;
    out->snapshots = s->snapshots;
    out->store_failures = s->failures;
    out->has_failed = s->state != RUNNING;
}

static weir_err history_store(struct store *store, struct history_store **out,
                              const struct history_store_options *options, weir_diag *diag)
{
    return history_store_open_local(out, ((struct file_store *)store)->dir, options, diag);
}

const struct store_ops file_store_ops = {
    .scheme = "file:",
    .open = open_file_store,
    .prefetch = prefetch,
    .submit = submit,
    .commit = commit,
    .tick = tick,
    .append_entry = append_entry,
    .read_entries = read_entries,
    .audit_entries = audit_entries,
    .stats = stats,
    .history_store = history_store,
    .close = close_file_store,
};
