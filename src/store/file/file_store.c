/* file_store.c - the store that survives: a table in memory, a journal and snapshots on disk.
 *
 * A question is decided in the table. Its records go to the journal, which is a write-ahead log
 * with group commit: all questions of a turn share one write, and one fsync if `sync` is
 * "always". keeper.c does the rest: it recovers, syncs at intervals, takes checkpoints, and
 * finds the way back after a disk failure. */
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "store/file/file_store.h"
#include "store/file/keeper.h"
#include "store/file/ledger_file.h"
#include "store/history_store.h"
#include "store/memory/table.h"

enum { DEFAULT_SYNC_MS = 50, MOST_SYNC_MS = 60000, IDLE_MS = 50 };

struct file_store {
    struct store store;
    weir_allocator allocator;
    struct dir *dir;
    struct table *table;
    struct ledger_file *ledger;
    struct keeper keeper;
};

const char *store_directory(const char *uri)
{
    const size_t scheme = strlen(file_store_ops.scheme);

    return strncmp(uri, file_store_ops.scheme, scheme) == 0 ? uri + scheme : NULL;
}

/* ---- opening and closing ------------------------------------------------------------------- */

static weir_err read_sync(struct keeper *k, const char *text, weir_diag *diag)
{
    char *end;
    long n;

    k->mode = SYNC_INTERVAL;
    k->pause_ms = DEFAULT_SYNC_MS;
    if (!text)
        return WEIR_OK;
    if (strcmp(text, "always") == 0) {
        k->mode = SYNC_ALWAYS;
        k->pause_ms = IDLE_MS;
        return WEIR_OK;
    }
    if (strcmp(text, "os") == 0) {
        k->mode = SYNC_OS;
        k->pause_ms = IDLE_MS;
        return WEIR_OK;
    }
    n = strtol(text, &end, 10);
    if (end == text || (strcmp(end, "ms") != 0 && strcmp(end, "s") != 0))
        n = 0;
    k->pause_ms = strcmp(end, "s") == 0 ? n * 1000 : n;
    if (n < 1 || k->pause_ms > MOST_SYNC_MS)
        return diag_fail(
            diag, WEIR_EOPTION,
            "sync must be always, os, or an interval from 1ms to 60s such as 50ms, not '%.20s'",
            text);
    return WEIR_OK;
}

static void free_store(struct file_store *s)
{
    weir_allocator allocator = s->allocator;

    keeper_done(&s->keeper);
    ledger_file_close(s->ledger);
    table_free(s->table);
    if (s->dir)
        s->dir->ops->done(s->dir);
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
    s->dir = dir;
    err = table_new(&s->table, options, diag);
    keeper_init(&s->keeper, dir, s->table, options);
    if (!err)
        err = read_sync(&s->keeper, options->sync, diag);
    s->store.commits_at_once = s->keeper.mode != SYNC_ALWAYS;
    if (!err)
        err = keeper_recover(&s->keeper, diag);
    s->store.is_apart = s->keeper.id.is_apart;
    if (!err)
        err = ledger_file_open(&s->ledger, dir, options->secret_ids.apart, &s->allocator, diag);
    if (!err)
        err = keeper_start(&s->keeper, diag);
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
        return diag_fail(diag, WEIR_EOPTION, "the directory is missing, as in file:/var/lib/weir");
    err = dir_open(&dir, path, &options->allocator, diag);
    return err ? err : file_store_open_in(out, dir, options, diag);
}

static void close_file_store(struct store *store)
{
    struct file_store *s = (struct file_store *)store;

    keeper_stop(&s->keeper);
    if (s->keeper.state == KEEPER_RUNNING && journal_finish(s->keeper.journal))
        keeper_fail(&s->keeper); /* logs it */
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
    const uint32_t count = buffer->count; /* they stay there when it is closed */
    uint64_t mark = 0;
    const enum appended how = journal_append_buffer(s->keeper.journal, buffer, &mark);

    for (uint32_t i = 0; i < count && how == BUFFER_OVERTAKEN; i++) {
        const uint64_t again = table_keep_again(s->table, &buffer->records[i]);

        mark = again > mark ? again : mark;
    }
    if (how != BUFFER_WRITTEN && mark > pending->mark)
        pending->mark = mark;
    for (struct question *q = buffer->first; q; q = q->next)
        if (q->mark == MARK_IN_BUFFER)
            q->mark = mark;
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
        pending->part = buffer = write_buffers_take(journal_log(s->keeper.journal)->write_buffers,
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
    if (s->keeper.state != KEEPER_RUNNING) {
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
    is_kept = pending->mark == 0 || journal_commit(s->keeper.journal, pending->mark) == WEIR_OK;
    *pending = (struct pending){ 0 };
    if (!is_kept)
        keeper_fail(&s->keeper);
    for (; q; q = next) {
        next = q->next;
        if (is_kept || q->mark == 0 || journal_commit(s->keeper.journal, q->mark) == WEIR_OK)
            q->done(q);
        else
            answer_unkept(s, q, true);
    }
}

static void tick(struct store *store, int64_t now)
{
    struct file_store *s = (struct file_store *)store;

    table_sweep(s->table, now);
    if (s->keeper.options.no_thread)
        keeper_tick(&s->keeper, now);
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

static weir_err visit_held(struct store *store, int64_t now, held_visit *visit, void *ctx,
                           weir_diag *diag)
{
    (void)diag;
    table_visit_held(((struct file_store *)store)->table, now, visit, ctx);
    return WEIR_OK;
}

static void stats(struct store *store, weir_stats *out)
{
    struct file_store *s = (struct file_store *)store;
    const struct journal_counts counts = journal_counts(s->keeper.journal);

    table_stats(s->table, out);
    out->journal_bytes = s->keeper.journal_bytes;
    out->journal_batches = (int64_t)counts.batches;
    out->journal_syncs = (int64_t)counts.syncs;
    out->snapshots = s->keeper.snapshots;
    out->store_failures = s->keeper.failures;
    out->has_failed = s->keeper.state != KEEPER_RUNNING;
}

static weir_err history_store(struct store *store, struct history_store **out,
                              const struct history_store_options *options, weir_diag *diag)
{
    return history_store_open_local(out, ((struct file_store *)store)->dir, options, diag);
}

const struct store_ops file_store_ops = {
    .scheme = "file:",
    .reserves = true,
    .open = open_file_store,
    .prefetch = prefetch,
    .submit = submit,
    .commit = commit,
    .tick = tick,
    .append_entry = append_entry,
    .read_entries = read_entries,
    .audit_entries = audit_entries,
    .stats = stats,
    .visit_held = visit_held,
    .history_store = history_store,
    .close = close_file_store,
};
