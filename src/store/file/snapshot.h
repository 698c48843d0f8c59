/* snapshot.h - all live keys in one file. It replaces the journals before it. */
#ifndef WEIR_STORE_FILE_SNAPSHOT_H
#define WEIR_STORE_FILE_SNAPSHOT_H

#include "store/file/journal.h"
#include "store/memory/table.h"

#define SNAPSHOT_NAME "snapshot"
#define SNAPSHOT_TEMPORARY "snapshot.tmp"

struct snapshot_facts {
    uint64_t epoch; /* the first journal to replay over it */
    uint64_t keys, bytes;
    struct damage damage; /* SNAPSHOT_BAD */
};

/* Called after each piece that was written, when `done` of `shards` shards are, to leave the
 * disk to the journal for a while. False: there is no time for that, the next piece is to be a
 * large one. */
struct snapshot_pace {
    bool (*rest)(void *ctx, size_t done, size_t shards);
    void *ctx;
};

/* Replace the snapshot by the table as it is, shard by shard while decisions go on, or leave the
 * old one as it was. `epoch` is that of the journal, which was begun before, and says how keys are made. Without a pace it is
 * written as fast as can be. */
WEIR_MUSTCHECK weir_err snapshot_write(struct dir *dir, struct table *table,
                                       struct journal *journal, uint64_t epoch,
                                       const unsigned char secret_id[16], int64_t now,
                                       const struct snapshot_pace *pace,
                                       const weir_allocator *allocator, struct snapshot_facts *out,
                                       weir_diag *diag);

enum snapshot_end {
    SNAPSHOT_NONE,
    SNAPSHOT_WHOLE,
    SNAPSHOT_BAD,     /* damaged: the diag says where */
    SNAPSHOT_FOREIGN, /* another format version, or another secret */
};

/* Restore its keys. With `salvage`, damaged parts are passed over and all that verifies is kept. */
WEIR_MUSTCHECK weir_err snapshot_read(struct dir *dir, const struct restoring *to,
                                      const unsigned char secret_id[16], bool salvage,
                                      const weir_allocator *allocator, enum snapshot_end *end,
                                      struct snapshot_facts *out, weir_diag *diag);

#endif
