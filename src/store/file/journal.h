/* journal.h - the write-ahead log of the file store: group commit, one file for each epoch. */
#ifndef WEIR_STORE_FILE_JOURNAL_H
#define WEIR_STORE_FILE_JOURNAL_H

#include "base/dir.h"
#include "store/file/damage.h"
#include "store/memory/table_log.h"

/* When a decision may be answered. */
enum sync_mode {
    SYNC_INTERVAL, /* once it is written; journal_sync() syncs at intervals */
    SYNC_ALWAYS,   /* once it is synced */
    SYNC_OS,       /* once it is written; the system syncs when it likes */
};

struct journal;

/* `secret_id` tells the secret that the keys are hashed with. */
WEIR_MUSTCHECK weir_err journal_new(struct journal **out, struct dir *dir, enum sync_mode mode,
                                    const unsigned char secret_id[16],
                                    const weir_allocator *allocator);
void journal_free(struct journal *j); /* does no I/O: see journal_finish() */

/* Before it is begun: its keys are not made by key_beside(), and its files are those of the version
 * before there was that. */
void journal_keep_apart(struct journal *j);
bool journal_is_apart(const struct journal *j);

/* Begin the file of this epoch, which may have `most` bytes: see journal_bound().
 *
 * What was appended before is written to the old file, which is ended and synced. After a
 * failure the journal begins anew: what was not written is dropped, and the caller takes a
 * snapshot that has it. Until the caller confirms that this snapshot is on disk, no commit
 * succeeds, and a reader takes nothing from the new file. */
WEIR_MUSTCHECK weir_err journal_begin(struct journal *j, uint64_t epoch, uint64_t most);
void journal_confirm(struct journal *j);

/* What a table appends to. */
struct table_log *journal_log(struct journal *j);

enum appended {
    BUFFER_OVERTAKEN, /* nothing is appended */
    BUFFER_APPENDED,
    BUFFER_WRITTEN, /* and needs no commit */
};

/* Append the records of the write buffer, and close it. */
WEIR_MUSTCHECK enum appended journal_append_buffer(struct journal *j,
                                                   struct write_buffer *write_buffer,
                                                   uint64_t *mark);

/* Return when everything up to the mark is as durable as the mode asks. One thread writes for all
 * that wait. WEIR_EIO: it is not durable, and will not be in this epoch. */
WEIR_MUSTCHECK weir_err journal_commit(struct journal *j, uint64_t mark);

/* Commits wait while the file has more bytes than this: until the bound is raised, or
 * journal_sync() has written what they wait for. */
void journal_bound(struct journal *j, uint64_t most);

/* Sync what was written. */
WEIR_MUSTCHECK weir_err journal_sync(struct journal *j);

weir_err journal_failure(struct journal *j); /* WEIR_OK: there was none since it was begun */

/* Write `ahead` bytes of zeros behind the end: then only one fsync in many has to change the file's
 * size as well. */
WEIR_MUSTCHECK weir_err journal_prepare(struct journal *j, uint64_t ahead);

/* From now on have the end of the journal in mapped memory of this size, if that is possible. Then
 * only one commit in many makes a system call. Not with SYNC_ALWAYS. */
void journal_map(struct journal *j, size_t size);

/* Have `wake` called, by any thread and with no lock held, when the ring is filling: a thread that has
 * the time is to call journal_drain_early() then. Only if it does not come in time does a commit do
 * that work. */
void journal_wake_by(struct journal *j, void (*wake)(void *ctx), void *ctx);
void journal_drain_early(struct journal *j);

/* Write, sync and mark the end. */
WEIR_MUSTCHECK weir_err journal_finish(struct journal *j);

uint64_t journal_size(struct journal *j); /* bytes of the current file */

struct journal_counts { /* of all epochs of this process */
    uint64_t records, batches, syncs, failures;
};

struct journal_counts journal_counts(struct journal *j);

void journal_name(uint64_t epoch, char out[DIR_NAME]);
bool journal_is_name(const char *name, uint64_t *epoch);

/* ---- reading --------------------------------------------------------------------------- */

enum journal_end {
    JOURNAL_ENDED,  /* whole, and its end is marked */
    JOURNAL_WHOLE,  /* whole; the process that wrote it was killed */
    JOURNAL_TORN,   /* what follows the last whole batch was never synced */
    JOURNAL_BAD,    /* what follows had been synced: it is damaged */
    JOURNAL_EMPTY,  /* it has not even a header: a crash while it was made */
    JOURNAL_FOREIGN /* another format version, or another secret: see the diag */
};

struct journal_reading {
    enum journal_end end;
    bool ended;     /* the last of it is its end mark, whatever follows */
    bool restarted; /* began after a failure: counts only under a snapshot of its epoch */
    uint64_t epoch;
    uint64_t good;        /* bytes that are whole */
    uint64_t written;     /* how many of them the file itself has; the rest is in the ring */
    uint64_t torn;        /* bytes that are not, up to the last that is not zero */
    uint64_t records;     /* replayed */
    uint64_t salt, next;  /* of the file; the number that a further record would have */
    struct damage damage; /* JOURNAL_BAD */
};

/* Hand each record of each whole batch to `each`, with those behind it that are its bytes (false:
 * stop, out of memory), but none of a restarted journal unless its epoch is `base`. With `salvage`,
 * damaged parts are passed over. */
WEIR_MUSTCHECK weir_err journal_read(struct dir *dir, const char *name,
                                     const unsigned char secret_id[16], uint64_t base, bool salvage,
                                     const weir_allocator *allocator,
                                     bool (*each)(void *ctx, const struct record *r), void *ctx,
                                     struct journal_reading *out, weir_diag *diag);

/* Mark the end of a journal that was read to here and is synced: readers look no further. */
WEIR_MUSTCHECK weir_err journal_mark_end(struct dir *dir, struct file *f,
                                         const struct journal_reading *reading);

#endif
