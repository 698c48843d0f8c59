/* keeper.h - looks after the files of a file store: recovery, fsync, checkpoints.
 *
 * Its thread is the only one that begins journals and takes snapshots. It also syncs the journal
 * at intervals, maps the ring, and writes zeros ahead. Without a thread, keeper_tick() does all
 * this. */
#ifndef WEIR_STORE_FILE_KEEPER_H
#define WEIR_STORE_FILE_KEEPER_H

#include <stdatomic.h>

#include "base/worker.h"
#include "store/file/files_id.h"
#include "store/file/journal.h"
#include "store/file/snapshot.h"
#include "store/store.h"

enum keeper_state {
    KEEPER_RUNNING,
    KEEPER_FAILED, /* a write or an fsync failed: nothing is answered as durable */
};

struct keeper {
    struct dir *dir;     /* borrowed */
    struct table *table; /* borrowed */
    struct journal *journal;
    struct store_options options;
    struct files_id id; /* of its files, when it has recovered */
    enum sync_mode mode;
    int64_t pause_ms; /* between two rounds; with SYNC_INTERVAL this is the interval */

    _Atomic(enum keeper_state) state;
    _Atomic int64_t snapshots, failures, journal_bytes;

    /* The rest belongs to the thread. */
    struct worker worker;
    bool has_kept; /* it has made its first round */
    uint64_t epoch;
    bool is_begun; /* the journal of this epoch waits for its snapshot */
    struct snapshot_facts snapshot;
    uint64_t table_then;              /* table_bytes(), when it was begun */
    uint64_t old_journals, old_bytes; /* before this epoch, not yet in a snapshot */
    uint64_t first_bytes;             /* of the journal, when its snapshot was begun */
    int64_t tried_at;                 /* when the last checkpoint began */
    int64_t tended_at, rested_at;     /* µs */
    int64_t due_at;                   /* the next round: µs */
};

/* `mode` and `pause_ms` are the caller's to set, before it calls any of the others. */
void keeper_init(struct keeper *k, struct dir *dir, struct table *table,
                 const struct store_options *options);
void keeper_done(struct keeper *k);

/* Read snapshot and journals into the table, and begin a new journal. */
WEIR_MUSTCHECK weir_err keeper_recover(struct keeper *k, weir_diag *diag);

WEIR_MUSTCHECK weir_err keeper_start(struct keeper *k, weir_diag *diag);
void keeper_stop(struct keeper *k);

/* Without a thread: one round. `now` is of any clock that goes on. */
void keeper_tick(struct keeper *k, int64_t now);

/* The journal has failed. Any thread may say so, any number of times. */
void keeper_fail(struct keeper *k);

#endif
