/* journal.c - the write-ahead journal of the file store: the writing side.
 *
 * Records are appended to a buffer in memory while the shards of their keys are locked. A
 * commit takes the whole buffer, writes it as one batch and, if asked, syncs it; meanwhile
 * others append to the second buffer, and whoever is next takes that. So one write and one
 * sync serve every decision that arrived while the last ones ran. No lock is held over either.
 *
 * RULES (test_journal.c has a test by each name)
 *   J1  With sync always, no commit returns before the sync of its batch.
 *   J2  A batch is replayed whole or not at all; what is appended together is in one batch.
 *   J3  The records of one key are in the order of its decisions.
 *   J4  After a failed write or sync, nothing is written to that file again: the kernel may
 *       have dropped the pages it could not write, and a second sync would lie.
 *   J5  A journal is deleted only when a synced snapshot has a later epoch.
 *   J6  The next journal is made only when the last one is ended and synced. */
#include "store/journal.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "store/journal_format.h"

enum {
    FIRST_ROOM = 1 << 16,
    ZEROS = 1 << 18,
    SPINS = 400,        /* a write takes microseconds: less than sleeping and being woken */
    GATHER_NS = 100000, /* a sync waits this long for those that shared the last one */
};

/* A batch in the making: its header's place, then records. */
struct batch {
    char *bytes;
    size_t len, room; /* len: 0 or the header and the records so far */
};

struct journal {
    struct dir *dir;
    weir_allocator allocator;
    enum sync_mode mode;
    unsigned char secret_id[16];

    pthread_mutex_t lock; /* of all below but the file's bytes, which belong to the busy one */
    pthread_cond_t idle;
    atomic_bool busy;  /* a thread writes, or changes the file; set and cleared with the lock */
    unsigned came;     /* commits since the last batch was taken */
    unsigned expected; /* … and how many are likely to */
    weir_err failed;
    bool is_unconfirmed; /* begun after a failure, and not yet under a snapshot */
    struct file *file;   /* NULL before the first epoch, and after a failure to make one */
    uint64_t epoch, salt;
    uint64_t end;      /* of what is written */
    uint64_t prepared; /* of what was written ahead */
    bool is_tight;     /* there is no room to write ahead */
    struct batch batch, spare;
    uint64_t appended, written, synced; /* records, of all epochs */
    uint64_t lost_after, lost_upto;     /* marks of a failed epoch that were never durable */
    struct journal_counts counts;
};

weir_err journal_new(struct journal **out, struct dir *dir, enum sync_mode mode,
                     const unsigned char secret_id[16], const weir_allocator *allocator)
{
    struct journal *j = alloc_zeroed(allocator, sizeof *j);
    pthread_mutexattr_t adaptive;

    if (!j)
        return WEIR_ENOMEM;
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
    if (j->file)
        j->dir->ops->close(j->file);
    alloc_free(&allocator, j->batch.bytes);
    alloc_free(&allocator, j->spare.bytes);
    pthread_cond_destroy(&j->idle);
    pthread_mutex_destroy(&j->lock);
    alloc_free(&allocator, j);
}

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

uint64_t journal_append(struct journal *j, const struct record *records, size_t n)
{
    const size_t size = n * sizeof *records;
    uint64_t mark;

    pthread_mutex_lock(&j->lock);
    if (!j->failed && !make_room(j, size))
        j->failed = WEIR_ENOMEM;
    if (j->failed) {
        mark = JOURNAL_LOST;
    } else {
        memcpy(j->batch.bytes + j->batch.len, records, size);
        j->batch.len += size;
        mark = j->appended += n;
    }
    pthread_mutex_unlock(&j->lock);
    return mark;
}

/* ---- writing --------------------------------------------------------------------------- */

static void seal(struct batch *b, uint64_t number, uint64_t synced, uint64_t salt)
{
    struct batch_header h = {
        .magic = BATCH_MAGIC,
        .count = (uint32_t)((b->len - sizeof h) / sizeof(struct record)),
        .number = number,
        .synced = synced,
    };

    h.checksum = batch_checksum(&h, b->bytes + sizeof h, salt);
    memcpy(b->bytes, &h, sizeof h);
}

/* Write all that is appended, as the one thread that does. The lock is held before and after,
 * not while the disk works. */
static void write_batch(struct journal *j, bool sync)
{
    struct batch taken = j->batch;
    const uint64_t upto = j->appended, number = j->written, synced = j->synced, at = j->end;
    const bool has_records = taken.len > sizeof(struct batch_header);
    weir_err err = WEIR_OK;

    j->busy = true;
    j->batch = j->spare;
    j->batch.len = 0;
    j->spare = (struct batch){ 0 };
    pthread_mutex_unlock(&j->lock);
    if (has_records) {
        seal(&taken, number, synced, j->salt);
        err = j->dir->ops->write(j->file, at, taken.bytes, taken.len);
    }
    if (!err && sync)
        err = j->dir->ops->sync(j->file);
    pthread_mutex_lock(&j->lock);
    j->counts.batches += has_records;
    j->counts.syncs += sync;
    if (err) {
        j->failed = err;
        j->counts.failures++;
    } else {
        if (has_records)
            j->end = at + taken.len;
        j->written = upto;
        if (sync)
            j->synced = upto;
    }
    j->spare = taken;
    j->busy = false;
    pthread_cond_broadcast(&j->idle);
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

/* Wait for the thread that writes. The lock is held. */
static void wait_for_other(struct journal *j)
{
    if (j->mode != SYNC_ALWAYS) {
        pthread_mutex_unlock(&j->lock);
        for (int i = 0; i < SPINS && atomic_load_explicit(&j->busy, memory_order_acquire); i++)
            sched_yield();
        pthread_mutex_lock(&j->lock);
    }
    if (j->busy)
        pthread_cond_wait(&j->idle, &j->lock);
}

static int64_t monotonic_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* A sync costs a hundred times what it takes to decide a few more questions: those that shared
 * the last one are about to come again. The lock is held. */
static void gather(struct journal *j)
{
    const int64_t until = monotonic_ns() + GATHER_NS;

    while (j->came < j->expected && !j->busy && monotonic_ns() < until) {
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

weir_err journal_commit(struct journal *j, uint64_t mark)
{
    weir_err err;

    pthread_mutex_lock(&j->lock);
    j->came++;
    while (!j->failed && !is_lost(j, mark) && durable(j) < mark) {
        if (j->busy)
            wait_for_other(j);
        else if (j->mode == SYNC_ALWAYS)
            sync_group(j);
        else
            write_batch(j, false);
    }
    err = !is_lost(j, mark) && durable(j) >= mark ? WEIR_OK : WEIR_EIO;
    pthread_mutex_unlock(&j->lock);
    return err;
}

/* Wait until no other thread writes. The lock is held. */
static void wait_idle(struct journal *j)
{
    while (j->busy)
        pthread_cond_wait(&j->idle, &j->lock);
}

weir_err journal_sync(struct journal *j)
{
    weir_err err;

    pthread_mutex_lock(&j->lock);
    wait_idle(j);
    if (!j->failed && j->synced < j->appended)
        write_batch(j, true);
    err = j->failed;
    pthread_mutex_unlock(&j->lock);
    return err;
}

/* One piece of zeros behind all that is written, as the one thread that writes: else a batch
 * might be there already. False: enough is prepared, or it failed. */
static bool prepare_piece(struct journal *j, uint64_t ahead)
{
    static const char zeros[ZEROS];
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
        j->failed = err;
        j->counts.failures++;
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
static weir_err end_file(struct journal *j)
{
    struct batch_header h = { .magic = BATCH_MAGIC, .number = j->written, .synced = j->synced };
    weir_err err;

    h.checksum = batch_checksum(&h, NULL, j->salt);
    err = j->dir->ops->write(j->file, j->end, &h, sizeof h);
    return err ? err : j->dir->ops->sync(j->file);
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

weir_err journal_begin(struct journal *j, uint64_t epoch)
{
    struct file *file = NULL;
    uint64_t salt;
    bool has_failed;
    weir_err err = WEIR_OK;

    pthread_mutex_lock(&j->lock);
    wait_idle(j);
    if (!j->failed && !j->is_unconfirmed && j->file) {
        write_batch(j, true);
        wait_idle(j); /* another thread may have been quicker */
    }
    j->busy = true; /* what is appended from here on goes to the new file */
    has_failed = j->failed || j->is_unconfirmed;
    if (has_failed) {
        if (j->lost_upto == 0) /* marks of the time between two failures are long settled */
            j->lost_after = durable(j);
        j->lost_upto = j->appended;
        j->written = j->synced = j->appended;
        j->batch.len = 0;
    }
    pthread_mutex_unlock(&j->lock);

    if (!has_failed && j->file)
        err = end_file(j);
    if (!err)
        err = make_file(j, epoch, has_failed, &file, &salt);

    pthread_mutex_lock(&j->lock);
    if (err) {
        j->failed = err;
        j->counts.failures++;
    } else {
        if (j->file)
            j->dir->ops->close(j->file);
        j->file = file;
        j->epoch = epoch;
        j->salt = salt;
        j->end = j->prepared = sizeof(struct journal_header);
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
