/* journal.c - the write-ahead log of the file store: appending and group commit.
 *
 * Records are appended to a buffer in memory: from a write buffer, or while the shards of their
 * keys are locked. The first thread that commits takes the whole buffer, writes it as one batch
 * and, if asked, syncs it. Meanwhile other threads append to a second buffer, and one of them
 * writes that next. So one write and one fsync serve every decision that arrived while the last
 * ones ran. No lock is held over either.
 *
 * Where a commit need not sync, the batch is put into a ring of mapped memory instead. Large
 * writes drain the ring into the file, and fsync runs beside the commits. Another thread drains it,
 * if there is one: to copy a megabyte into new pages takes as long as a thousand decisions.
 *
 * RULES (test_journal.c has a test by each name)
 *   J1  With sync always, no commit returns before the sync of its batch.
 *   J2  A batch is replayed whole or not at all; what is appended together is in one batch.
 *   J3  The records of one key are in the order of its decisions.
 *   J4  After a failed write or sync, nothing is written to that file again: the kernel may have
 *       dropped the pages it could not write, and a second sync would lie.
 *   J5  A journal is deleted only when a synced snapshot has a later epoch.
 *   J6  The next journal is made only when the last one is ended and synced.
 *   J7  What is in the ring stays there until it is in the file, or in a snapshot. */
#include "store/file/journal_internal.h"

#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "store/memory/record_short.h"

enum {
    FIRST_ROOM = 1 << 16,
    AWAKE_NS = 400000,  /* spin so long: to be woken can take as long as a write or a fast fsync */
    GATHER_NS = 100000, /* an fsync waits so long for the threads that shared the last one */
};

/* ---- appending ------------------------------------------------------------------------- */

static bool make_room(struct journal *j, size_t more)
{
    struct batch *b = &j->batch;
    size_t room = b->room ? b->room : FIRST_ROOM;
    char *bytes;

    if (b->len == 0)
        b->len = sizeof(struct batch_header);
    while (room < b->len + more)
        room *= 2;
    if (room == b->room)
        return true;
    bytes = alloc_resize(&j->allocator, b->bytes, room);
    if (!bytes)
        return false;
    b->bytes = bytes;
    b->room = room;
    return true;
}

/* The lock is held. */
static uint64_t append(struct journal *j, const struct record *records, size_t n)
{
    const size_t size = n * sizeof *records;

    if (!j->failed && !make_room(j, size))
        j->failed = WEIR_ENOMEM;
    if (j->failed)
        return MARK_LOST;
    memcpy(j->batch.bytes + j->batch.len, records, size);
    j->batch.len += size;
    return j->appended += n;
}

static uint64_t append_for_table(struct table_log *log, const struct record *records, size_t n)
{
    struct journal *j = (struct journal *)log;
    uint64_t mark;

    pthread_mutex_lock(&j->lock);
    mark = append(j, records, n);
    pthread_mutex_unlock(&j->lock);
    return mark;
}

static uint64_t append_lean(struct table_log *log, const struct record *records, size_t n,
                            struct record *reserved, const struct kept_reservation *r)
{
    struct journal *j = (struct journal *)log;
    struct record definition[TERMS_RECORDS];
    uint64_t mark = MARK_LOST;
    size_t count;

    pthread_mutex_lock(&j->lock);
    if (!j->failed) {
        const uint64_t number = known_terms_number(j->terms, r, definition, &count);

        reserved->packed.words[2] |= short_flags(0, number);
        if (count > 0)
            append(j, definition, count);
        mark = append(j, records, n);
    }
    pthread_mutex_unlock(&j->lock);
    return mark;
}

struct table_log *journal_log(struct journal *j)
{
    return &j->log;
}

/* ---- making ---------------------------------------------------------------------------- */

weir_err journal_new(struct journal **out, struct dir *dir, enum sync_mode mode,
                     const unsigned char secret_id[16], const weir_allocator *allocator)
{
    struct journal *j = alloc_zeroed(allocator, sizeof *j);
    pthread_mutexattr_t adaptive;

    if (!j)
        return WEIR_ENOMEM;
    j->log.write_buffers = write_buffers_new(allocator);
    j->terms = known_terms_new(allocator);
    if (!j->log.write_buffers || !j->terms) {
        write_buffers_free(j->log.write_buffers);
        known_terms_free(j->terms, allocator);
        alloc_free(allocator, j);
        return WEIR_ENOMEM;
    }
    j->log.append = append_for_table;
    j->log.append_lean = append_lean;
    j->dir = dir;
    j->allocator = *allocator;
    j->mode = mode;
    memcpy(j->secret_id, secret_id, sizeof j->secret_id);
    pthread_mutexattr_init(&adaptive);
    pthread_mutexattr_settype(&adaptive,
                              PTHREAD_MUTEX_ADAPTIVE_NP); /* held for a copy of 48 bytes */
    pthread_mutex_init(&j->lock, &adaptive);
    pthread_mutexattr_destroy(&adaptive);
    pthread_cond_init(&j->idle, NULL);
    *out = j;
    return WEIR_OK;
}

void journal_keep_apart(struct journal *j)
{
    j->is_apart = true;
}

bool journal_is_apart(const struct journal *j)
{
    return j->is_apart;
}

void journal_free(struct journal *j)
{
    weir_allocator allocator;

    if (!j)
        return;
    allocator = j->allocator;
    ring_close(j->ring);
    if (j->file)
        j->dir->ops->close(j->file);
    write_buffers_free(j->log.write_buffers);
    known_terms_free(j->terms, &allocator);
    alloc_free(&allocator, j->batch.bytes);
    alloc_free(&allocator, j->spare.bytes);
    pthread_cond_destroy(&j->idle);
    pthread_mutex_destroy(&j->lock);
    alloc_free(&allocator, j);
}

/* ---- the ring -------------------------------------------------------------------------- */

/* Put records into the ring as a batch. The lock is held, and no thread is `busy`. False: there is
 * no room. */
static bool put(struct journal *j, const void *records, size_t n)
{
    const size_t size = n * sizeof(struct record);
    struct batch_header h;

    if (j->end + sizeof h + size > j->drained + ring_size(j->ring))
        return false;
    h = batch_seal(records, n, j->written, j->synced, j->salt);
    ring_put(j->ring, j->end, &h, sizeof h);
    ring_put(j->ring, j->end + sizeof h, records, size);
    j->end += sizeof h + size;
    j->written += n;
    j->counts.batches++;
    return true;
}

static bool put_batch(struct journal *j)
{
    if (!put(j, j->batch.bytes + sizeof(struct batch_header), batch_count(&j->batch)))
        return false;
    j->batch.len = 0;
    return true;
}

/* Past the buffer, if that is empty and there is no thread to wait for. */
static bool put_at_once(struct journal *j, const struct record *records, size_t n)
{
    if (j->failed || j->busy || !journal_has_ring(j) || j->end > j->most ||
        batch_count(&j->batch) > 0 || !put(j, records, n))
        return false;
    j->appended += n;
    return true;
}

static bool may_drain(const struct journal *j)
{
    return journal_has_ring(j) && !j->failed && !j->busy && !j->is_draining;
}

static bool is_fuller_than(const struct journal *j, size_t size)
{
    return j->end - j->drained > size;
}

/* What the lock was held for is done. A ring that is half full is drained. If another thread does that,
 * it is woken when a quarter is full, and has the time until three quarters are. */
static void unlock(struct journal *j)
{
    const size_t size = may_drain(j) ? ring_size(j->ring) : 0;
    void (*wake)(void *ctx) = NULL;
    void *const ctx = j->wake_ctx;

    if (size > 0 && is_fuller_than(j, j->wake ? size / 4 * 3 : size / 2)) {
        journal_drain(j);
    } else if (size > 0 && j->wake && !j->is_woken && is_fuller_than(j, size / 4)) {
        j->is_woken = true;
        wake = j->wake;
    }
    pthread_mutex_unlock(&j->lock);
    if (wake)
        wake(ctx);
}

void journal_wake_by(struct journal *j, void (*wake)(void *ctx), void *ctx)
{
    pthread_mutex_lock(&j->lock);
    j->wake = wake;
    j->wake_ctx = ctx;
    pthread_mutex_unlock(&j->lock);
}

void journal_drain_early(struct journal *j)
{
    pthread_mutex_lock(&j->lock);
    if (may_drain(j) && is_fuller_than(j, ring_size(j->ring) / 4))
        journal_drain(j);
    j->is_woken = false;
    pthread_mutex_unlock(&j->lock);
}

enum appended journal_append_buffer(struct journal *j, struct write_buffer *write_buffer,
                                    uint64_t *mark)
{
    enum appended how = BUFFER_OVERTAKEN;

    pthread_mutex_lock(&j->lock);
    if (!atomic_load_explicit(&write_buffer->is_overtaken, memory_order_relaxed)) {
        how = put_at_once(j, write_buffer->records, write_buffer->count) ? BUFFER_WRITTEN
                                                                         : BUFFER_APPENDED;
        *mark = how == BUFFER_WRITTEN ? j->appended
                                      : append(j, write_buffer->records, write_buffer->count);
    }
    write_buffer_close(write_buffer);
    unlock(j);
    return how;
}

void journal_map(struct journal *j, size_t size)
{
    struct ring *ring = NULL;
    bool is_wanted;

    pthread_mutex_lock(&j->lock);
    is_wanted = j->mode != SYNC_ALWAYS && !j->ring && !j->is_unmappable && !j->failed;
    pthread_mutex_unlock(&j->lock);
    if (!is_wanted)
        return;
    if (ring_open(&ring, j->dir, size, &j->allocator))
        ring = NULL;
    pthread_mutex_lock(&j->lock);
    journal_wait_idle(j);
    j->ring = ring;
    j->is_unmappable = !ring;
    pthread_mutex_unlock(&j->lock);
}

/* ---- group commit ------------------------------------------------------------------------ */

static bool is_lost(const struct journal *j, uint64_t mark)
{
    return mark == MARK_LOST ||
           (mark > j->lost_after && (mark <= j->lost_upto || j->is_unconfirmed));
}

static bool is_writing(struct journal *j)
{
    return atomic_load_explicit(&j->busy, memory_order_acquire) ||
           atomic_load_explicit(&j->is_draining, memory_order_acquire);
}

static void watch(struct journal *j)
{
    const uint64_t until = clock_monotonic_ns() + AWAKE_NS;

    pthread_mutex_unlock(&j->lock);
    while (is_writing(j) && clock_monotonic_ns() < until)
        sched_yield();
    pthread_mutex_lock(&j->lock);
}

/* Wait for the thread that writes. The lock is held. */
static void wait_for_other(struct journal *j)
{
    if (j->mode != SYNC_ALWAYS) {
        watch(j);
    } else if (!j->is_watched) {
        j->is_watched = true;
        watch(j);
        j->is_watched = false;
    }
    if (is_writing(j))
        pthread_cond_wait(&j->idle, &j->lock);
}

/* An fsync takes a hundred times as long as to decide a few more questions, and the threads that
 * shared the last one are about to commit again: wait for them. The lock is held. */
static void gather(struct journal *j)
{
    const uint64_t until = clock_monotonic_ns() + GATHER_NS;

    while (j->came < j->expected && !j->busy && clock_monotonic_ns() < until) {
        pthread_mutex_unlock(&j->lock);
        sched_yield();
        pthread_mutex_lock(&j->lock);
    }
}

/* Next time expect the threads that this fsync served, and those that were too late for it. */
static void sync_group(struct journal *j)
{
    unsigned served;

    gather(j);
    if (j->busy || j->failed)
        return;
    served = j->came;
    j->came = 0;
    journal_write_batch(j, true);
    j->expected = served + j->came;
}

/* Write all that is appended, or wait for the thread that does. The lock is held. */
static void write_some(struct journal *j)
{
    if (!j->busy && journal_has_ring(j) && put_batch(j))
        return;
    if (j->busy || (journal_has_ring(j) && j->is_draining))
        wait_for_other(j);
    else
        journal_write_batch(j, false); /* no ring, or no room in it */
}

weir_err journal_commit(struct journal *j, uint64_t mark)
{
    weir_err err;

    pthread_mutex_lock(&j->lock);
    j->came++;
    while (!j->failed && !is_lost(j, mark) && journal_durable(j) < mark) {
        if (j->end > j->most)
            pthread_cond_wait(&j->idle, &j->lock);
        else if (j->mode != SYNC_ALWAYS)
            write_some(j);
        else if (j->busy)
            wait_for_other(j);
        else
            sync_group(j);
    }
    err = !is_lost(j, mark) && journal_durable(j) >= mark ? WEIR_OK : WEIR_EIO;
    unlock(j);
    return err;
}

void journal_bound(struct journal *j, uint64_t most)
{
    pthread_mutex_lock(&j->lock);
    j->most = most;
    pthread_cond_broadcast(&j->idle);
    pthread_mutex_unlock(&j->lock);
}

weir_err journal_sync(struct journal *j)
{
    weir_err err;

    pthread_mutex_lock(&j->lock);
    journal_wait_idle(j);
    if (!j->failed && j->synced < j->appended) {
        if (journal_has_ring(j) && (batch_count(&j->batch) == 0 || put_batch(j)))
            journal_drain(j);
        else
            journal_write_batch(j, j->mode == SYNC_ALWAYS);
        if (!j->failed && j->mode != SYNC_ALWAYS)
            journal_sync_file(j);
    }
    err = j->failed;
    pthread_mutex_unlock(&j->lock);
    return err;
}

weir_err journal_failure(struct journal *j)
{
    weir_err err;

    pthread_mutex_lock(&j->lock);
    err = j->failed;
    pthread_mutex_unlock(&j->lock);
    return err;
}

uint64_t journal_size(struct journal *j)
{
    uint64_t size;

    pthread_mutex_lock(&j->lock);
    size = j->end;
    pthread_mutex_unlock(&j->lock);
    return size;
}

struct journal_counts journal_counts(struct journal *j)
{
    struct journal_counts counts;

    pthread_mutex_lock(&j->lock);
    counts = j->counts;
    counts.records = j->appended;
    pthread_mutex_unlock(&j->lock);
    return counts;
}
