/* journal_internal.h - the journal as its own files know it.
 *
 * journal.c has what happens in memory: appending, the ring, group commit. journal_disk.c writes
 * and syncs. journal_epoch.c begins and ends files. */
#ifndef WEIR_STORE_FILE_JOURNAL_INTERNAL_H
#define WEIR_STORE_FILE_JOURNAL_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "store/file/journal.h"
#include "store/file/journal_format.h"
#include "store/file/journal_terms.h"
#include "store/file/ring.h"

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
    bool is_apart;

    pthread_mutex_t lock; /* of all below; the file's bytes belong to the thread that is `busy` */
    pthread_cond_t idle;
    atomic_bool busy; /* a thread writes, or changes the file; set and cleared with the lock held */
    atomic_bool is_draining; /* a thread writes what is in the ring, others may put more there */
    bool is_syncing;         /* a thread syncs, others may put and drain */
    bool is_watched;         /* a thread spins until the fsync is done: one is enough */
    unsigned came;           /* commits since the last batch was taken */
    unsigned expected;       /* commits to wait for before the next batch is taken */
    weir_err failed;
    bool is_unconfirmed; /* begun after a failure, and not yet under a snapshot */
    struct file *file;   /* NULL before the first epoch, and after a failure to make one */
    uint64_t epoch, salt;
    struct ring *ring; /* NULL: batches are written to the file at once */
    bool is_unmappable;
    void (*wake)(void *ctx); /* of the thread that drains the ring early; NULL: there is none */
    void *wake_ctx;
    bool is_woken;     /* for what is in the ring now */
    uint64_t end;      /* of what is written, or in the ring */
    uint64_t most;     /* that `end` may be when a commit writes */
    uint64_t drained;  /* of what is written */
    uint64_t prepared; /* of what was written ahead */
    bool is_tight;     /* there is no room to write ahead */
    struct batch batch, spare;
    struct known_terms *terms; /* of reservations, which the file that is appended to has */
    uint64_t appended, written, filed, synced; /* records, of all epochs; filed: in the file */
    uint64_t lost_after, lost_upto;            /* marks of a failed epoch that were never durable */
    struct journal_counts counts;
};

static inline size_t batch_count(const struct batch *b)
{
    return b->len == 0 ? 0 : (b->len - sizeof(struct batch_header)) / sizeof(struct record);
}

/* The records up to this one are as durable as the mode asks. */
static inline uint64_t journal_durable(const struct journal *j)
{
    return j->mode == SYNC_ALWAYS ? j->synced : j->written;
}

/* Before a journal that follows a failure is confirmed, the ring may have records that only the
 * failed one has (J7). */
static inline bool journal_has_ring(const struct journal *j)
{
    return j->ring && !j->is_unconfirmed;
}

/* ---- journal_disk.c ------------------------------------------------------------------------
 *
 * The lock is held when these are called and when they return, but not while the disk works. They
 * report errors in `failed`. */

/* Write what is in the ring and then all that is appended. No other thread writes. */
void journal_write_batch(struct journal *j, bool sync);

/* Write what is in the ring, while other threads put more there. No other thread writes. */
void journal_drain(struct journal *j);

/* Sync what is in the file, while other threads write more of it. */
void journal_sync_file(struct journal *j);

/* Wait until no other thread uses the file. */
void journal_wait_idle(struct journal *j);

void journal_note_failure(struct journal *j, weir_err err);

#endif
