/* ring.h - the end of the journal in mapped memory: what a process that is killed leaves there
 * stays, as if it had been written, and to put it there takes no call of the system.
 *
 * The bytes of a journal from some place on stand in the ring at that place modulo its size,
 * until they are written to the journal itself. */
#ifndef WEIR_STORE_FILE_RING_H
#define WEIR_STORE_FILE_RING_H

#include "base/dir.h"

#define RING_NAME "journal.ring"

struct ring;

/* Make it, zeroed. Fails where the system cannot promise that stores to mapped memory succeed. */
WEIR_MUSTCHECK weir_err ring_open(struct ring **out, struct dir *dir, size_t size,
                                  const weir_allocator *allocator);
void ring_close(struct ring *r);
size_t ring_size(const struct ring *r);

void ring_put(struct ring *r, uint64_t at, const void *bytes, size_t len);

/* Write these bytes, at most as many as the ring has, to the journal. */
WEIR_MUSTCHECK weir_err ring_drain(const struct ring *r, struct file *journal, uint64_t from,
                                   uint64_t upto);

/* What would stand in the journal from `at` on, and has its whole size. NULL bytes: there is no
 * ring. The caller frees them. */
WEIR_MUSTCHECK weir_err ring_read(struct dir *dir, uint64_t at, const weir_allocator *allocator,
                                  char **bytes, size_t *size);

#endif
