/* replay.h - the records of a journal on their way into the table. */
#ifndef WEIR_STORE_FILE_REPLAY_H
#define WEIR_STORE_FILE_REPLAY_H

#include "store/memory/table.h"

struct replaying;

WEIR_MUSTCHECK weir_err replay_begin(struct replaying **out, const struct restoring *to,
                                     const weir_allocator *allocator);

/* The next record, as journal_read() hands it out. False: one of those so far cannot be
 * restored. */
bool replay_record(void *replaying, const struct record *r);

/* Wait until all are in the table. False: one could not be restored. */
WEIR_MUSTCHECK bool replay_end(struct replaying *p);

#endif
