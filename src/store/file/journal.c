/* journal.c - the write-ahead journal of the file store: the writing side.
 *
 * Records are appended to a buffer in memory, by write_buffers or while the shards of their keys are
 * locked. A commit takes the whole buffer, writes it as one batch and, if asked, syncs it;
 * meanwhile others append to the second buffer, and whoever is next takes that. So one write and
 * one sync serve every decision that arrived while the last ones ran. No lock is held over either.
 *
 * Where a commit need not sync, the batch is put into a ring of mapped memory instead, which is
 * drained into the file by large writes. Syncs then run beside the commits.
 *
 * RULES (test_journal.c has a test by each name)
 *   J1  With sync always, no commit returns before the sync of its batch.
 *   J2  A batch is replayed whole or not at all; what is appended together is in one batch.
 *   J3  The records of one key are in the order of its decisions.
 *   J4  After a failed write or sync, nothing is written to that file again: the kernel may
 *       have dropped the pages it could not write, and a second sync would lie.
 *   J5  A journal is deleted only when a synced snapshot has a later epoch.
 *   J6  The next journal is made only when the last one is ended and synced.
 *   J7  What is in the ring stays there until it is in the file, or in a snapshot. */
#include "store/file/journal.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "store/file/journal_format.h"
#include "store/file/ring.h"

enum {
    FIRST_ROOM = 1 << 16,
    ZEROS = 1 << 18,
    AWAKE_NS = 400000,  /* wait awake: being woken can take as long as a write, or a fast sync */
    GATHER_NS = 100000, /* a sync waits this long for those that shared the last one */
};

/* A batch in the making: its header's place, then records. */
struct batch {
    char *bytes;
    size_t len, room; /* len: 0 or the header and the records so far */
};

struct journal {
    struct table_log log; /* first: the table's pointer to it is one to the journal */
    struct dir *dir;
    weir_allocator allocator;
    enum sync_mode mode;
    unsigned char secret_id[16];

    pthread_mutex_t lock; /* of all below but the file's bytes, which belong to the busy one */
    pthread_cond_t idle;
    atomic_bool busy; /* a thread writes, or changes the file; set and cleared with the lock */
    atomic_bool is_draining; /* a thread writes what is in the ring, while others put more there */
    bool is_syncing;         /* a thread syncs, while others put and drain */
    bool is_watched;         /* a thread waits awake for a sync: one is enough to go on */
    unsigned came;           /* commits since the last batch was taken */
    unsigned expected;       /* … and how many are likely to */
    weir_err failed;
    bool is_unconfirmed; /* begun after a failure, and not yet under a snapshot */
    struct file *file;   /* NULL before the first epoch, and after a failure to make one */
    uint64_t epoch, salt;
    struct ring *ring; /* NULL: batches are written to the file at once */
    bool is_unmappable;
    uint64_t end;      /* of what is written, or in the ring */
    uint64_t most;     /* that `end` may be when a commit writes */
    uint64_t drained;  /* of what is written */
    uint64_t prepared; /* of what was written ahead */
    bool is_tight;     /* there is no room to write ahead */
    struct batch batch, spare;
    uint64_t appended, written, filed, synced; /* records, of all epochs; filed: in the file */
    uint64_t lost_after, lost_upto;            /* marks of a failed epoch that were never durable */
    struct journal_counts counts;
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
        return JOURNAL_LOST;
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
    if (!j->log.write_buffers) {
        alloc_free(allocator, j);
        return WEIR_ENOMEM;
    }
    j->log.append = append_for_table;
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
    alloc_free(&allocator, j->batch.bytes);
    alloc_free(&allocator, j->spare.bytes);
    pthread_cond_destroy(&j->idle);
    pthread_mutex_destroy(&j->lock);
    alloc_free(&allocator, j);
}

/* ---- writing --------------------------------------------------------------------------- */

static struct batch_header seal(const void *records, size_t n, uint64_t number, uint64_t synced,
                                uint64_t salt)
{
    struct batch_header h = {
        .magic = BATCH_MAGIC,
        .count = (uint32_t)n,
        .number = number,
        .synced = synced,
    };

    h.checksum = batch_checksum(&h, records, salt);
    return h;
}

static size_t count(const struct batch *b)
{
    return b->len == 0 ? 0 : (b->len - sizeof(struct batch_header)) / sizeof(struct record);
}

static void note_failure(struct journal *j, weir_err err)
{
    j->failed = err;
    j->counts.failures++;
}

/* Write all that is appended, and what is in the ring before it, as the one thread that does. The
 * lock is held before and after, not while the disk works. */
static void write_batch(struct journal *j, bool sync)
{
    struct batch taken = j->batch;
    const uint64_t upto = j->appended, number = j->written, synced = j->synced, at = j->end;
    const size_t records = count(&taken);
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
        h = seal(taken.bytes + sizeof h, records, number, synced, j->salt);
        memcpy(taken.bytes, &h, sizeof h);
        err = j->dir->ops->write(j->file, at, taken.bytes, taken.len);
    }
    if (!err && sync)
        err = j->dir->ops->sync(j->file);
    pthread_mutex_lock(&j->lock);
    j->counts.batches += records > 0;
    j->counts.syncs += sync;
    if (err) {
        note_failure(j, err);
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

/* Wait until no other thread has to do with the file. The lock is held. */
static void wait_idle(struct journal *j)
{
    while (j->busy || j->is_draining || j->is_syncing)
        pthread_cond_wait(&j->idle, &j->lock);
}

/* ---- the ring -------------------------------------------------------------------------- */

/* Under a new snapshot's journal the ring may still have what only the last one knows (J7). */
static bool has_ring(const struct journal *j)
{
    return j->ring && !j->is_unconfirmed;
}

/* Put records into the ring as a batch. The lock is held, and nobody is busy. False: there is no
 * room. */
static bool put(struct journal *j, const void *records, size_t n)
{
    const size_t size = n * sizeof(struct record);
    struct batch_header h;

    if (j->end + sizeof h + size > j->drained + ring_size(j->ring))
        return false;
    h = seal(records, n, j->written, j->synced, j->salt);
    ring_put(j->ring, j->end, &h, sizeof h);
    ring_put(j->ring, j->end + sizeof h, records, size);
    j->end += sizeof h + size;
    j->written += n;
    j->counts.batches++;
    return true;
}

static bool put_batch(struct journal *j)
{
    if (!put(j, j->batch.bytes + sizeof(struct batch_header), count(&j->batch)))
        return false;
    j->batch.len = 0;
    return true;
}

/* Past the buffer, if nothing is in it and nobody has to be waited for. */
static bool put_at_once(struct journal *j, const struct record *records, size_t n)
{
    if (j->failed || j->busy || !has_ring(j) || j->end > j->most || count(&j->batch) > 0 ||
        !put(j, records, n))
        return false;
    j->appended += n;
    return true;
}

/* Write what is in the ring while others put more there. Always to the end of a batch, so that a
 * reader finds every batch whole in the one or the other. The lock is held before and after, and
 * nobody else writes. */
static void drain(struct journal *j)
{
    const uint64_t upto = j->end, records = j->written;
    weir_err err;

    j->is_draining = true;
    pthread_mutex_unlock(&j->lock);
    err = ring_drain(j->ring, j->file, j->drained, upto);
    pthread_mutex_lock(&j->lock);
    if (err) {
        note_failure(j, err);
    } else {
        j->drained = upto;
        j->filed = records;
    }
    j->is_draining = false;
    pthread_cond_broadcast(&j->idle);
}

static void drain_if_half_full(struct journal *j)
{
    if (!j->failed && !j->busy && !j->is_draining && j->end - j->drained > ring_size(j->ring) / 2)
        drain(j);
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
    if (has_ring(j))
        drain_if_half_full(j);
    pthread_mutex_unlock(&j->lock);
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
    wait_idle(j);
    j->ring = ring;
    j->is_unmappable = !ring;
    pthread_mutex_unlock(&j->lock);
}

static uint64_t durable(const struct journal *j)
{
    return j->mode == SYNC_ALWAYS ? j->synced : j->written;
}

static bool is_lost(const struct journal *j, uint64_t mark)
{
    return mark == JOURNAL_LOST ||
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

/* A sync costs a hundred times what it takes to decide a few more questions: those that shared
 * the last one are about to come again. The lock is held. */
static void gather(struct journal *j)
{
    const uint64_t until = clock_monotonic_ns() + GATHER_NS;

    while (j->came < j->expected && !j->busy && clock_monotonic_ns() < until) {
        pthread_mutex_unlock(&j->lock);
        sched_yield();
        pthread_mutex_lock(&j->lock);
    }
}

/* Those that the last sync served will come again, beside those that were too late for it. */
static void sync_group(struct journal *j)
{
    unsigned served;

    gather(j);
    if (j->busy || j->failed)
        return;
    served = j->came;
    j->came = 0;
    write_batch(j, true);
    j->expected = served + j->came;
}

/* Have all that is appended written, or wait for who does. The lock is held. */
static void write_some(struct journal *j)
{
    if (!j->busy && has_ring(j) && put_batch(j))
        return;
    if (j->busy || (has_ring(j) && j->is_draining))
        wait_for_other(j);
    else
        write_batch(j, false); /* there is no ring, it is full, or the batch larger */
}

weir_err journal_commit(struct journal *j, uint64_t mark)
{
    weir_err err;

    pthread_mutex_lock(&j->lock);
    j->came++;
    while (!j->failed && !is_lost(j, mark) && durable(j) < mark) {
        if (j->end > j->most)
            pthread_cond_wait(&j->idle, &j->lock);
        else if (j->mode != SYNC_ALWAYS)
            write_some(j);
        else if (j->busy)
            wait_for_other(j);
        else
            sync_group(j);
    }
    err = !is_lost(j, mark) && durable(j) >= mark ? WEIR_OK : WEIR_EIO;
    if (has_ring(j))
        drain_if_half_full(j);
    pthread_mutex_unlock(&j->lock);
    return err;
}

void journal_bound(struct journal *j, uint64_t most)
{
    pthread_mutex_lock(&j->lock);
    j->most = most;
    pthread_cond_broadcast(&j->idle);
    pthread_mutex_unlock(&j->lock);
}

/* Sync what is in the file, while others write more of it. Only one thread at a time does: an
 * error is told once, and to one. */
static void sync_beside(struct journal *j)
{
    const uint64_t upto = j->filed;
    weir_err err;

    j->is_syncing = true;
    pthread_mutex_unlock(&j->lock);
    err = j->dir->ops->sync(j->file);
    pthread_mutex_lock(&j->lock);
    j->counts.syncs++;
    if (err)
        note_failure(j, err);
    else
        j->synced = upto;
    j->is_syncing = false;
    pthread_cond_broadcast(&j->idle);
}

weir_err journal_sync(struct journal *j)
{
    weir_err err;

    pthread_mutex_lock(&j->lock);
    wait_idle(j);
    if (!j->failed && j->synced < j->appended) {
        if (has_ring(j) && (count(&j->batch) == 0 || put_batch(j)))
            drain(j);
        else
            write_batch(j, j->mode == SYNC_ALWAYS);
        if (!j->failed && j->mode != SYNC_ALWAYS)
            sync_beside(j);
    }
    err = j->failed;
    pthread_mutex_unlock(&j->lock);
    return err;
}

/* One piece of zeros behind all that is written, as the one thread that writes: else a batch
 * might be there already. False: enough is prepared, or it failed. */
static bool prepare_piece(struct journal *j, uint64_t ahead)
{
    static char zeros[ZEROS]; /* not const: a constant would stand in the library's file */
    const size_t len = ahead < ZEROS ? ahead : ZEROS;
    weir_err err;
    uint64_t at;

    wait_idle(j);
    at = j->prepared > j->end ? j->prepared : j->end;
    if (j->failed || j->is_tight || !j->file || at >= j->end + ahead)
        return false;
    j->busy = true;
    pthread_mutex_unlock(&j->lock);
    err = j->dir->ops->write(j->file, at, zeros, len);
    if (err && (j->dir->why == ENOSPC || j->dir->why == EDQUOT)) {
        j->is_tight = true; /* decisions need the room more */
        err = j->dir->ops->truncate(j->file, at);
    }
    pthread_mutex_lock(&j->lock);
    if (err) {
        note_failure(j, err);
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

/* ---- beginning and ending -------------------------------------------------------------- */

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

/* The end mark tells a reader that nothing is missing; it is synced with all before it. */
static weir_err write_end(struct dir *dir, struct file *f, uint64_t at, uint64_t number,
                          uint64_t synced, uint64_t salt)
{
    const struct batch_header h = seal(NULL, 0, number, synced, salt);
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
        .version = JOURNAL_VERSION,
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
    j->dir->ops->remove(j->dir, name); /* of a try that failed: its bytes must not show through */
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
        has_failed = true; /* as the journal knows; else most is synced while commits go on */
    pthread_mutex_lock(&j->lock);
    wait_idle(j);
    if (!j->failed && !j->is_unconfirmed && j->file)
        write_batch(j, true);
    j->busy = true; /* what is appended from here on goes to the new file */
    has_failed = has_failed || j->failed || j->is_unconfirmed;
    if (has_failed) {
        if (j->lost_upto == 0) /* marks of the time between two failures are long settled */
            j->lost_after = durable(j);
        j->lost_upto = j->appended;
        j->written = j->filed = j->synced = j->appended;
        j->batch.len = 0;
    }
    pthread_mutex_unlock(&j->lock);

    if (!has_failed && j->file)
        err = end_file(j);
    if (!err)
        err = make_file(j, epoch, has_failed, &file, &salt);

    pthread_mutex_lock(&j->lock);
    if (err) {
        note_failure(j, err);
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

uint64_t journal_records(struct journal *j)
{
    uint64_t records;

    pthread_mutex_lock(&j->lock);
    records = j->appended;
    pthread_mutex_unlock(&j->lock);
    return records;
}

struct journal_counts journal_counts(struct journal *j)
{
    struct journal_counts counts;

    pthread_mutex_lock(&j->lock);
    counts = j->counts;
    pthread_mutex_unlock(&j->lock);
    return counts;
}
