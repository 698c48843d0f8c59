/* ring.h - the end of the journal in mapped memory.
 *
 * To put bytes there takes no system call. If the process is killed they stay, as if they had
 * been written. A byte of the journal is in the ring at its place modulo the ring's size, until
 * it is written to the journal itself. */
#ifndef WEIR_STORE_FILE_RING_H
#define WEIR_STORE_FILE_RING_H

#include "base/dir.h"

#define RING_NAME "journal.ring"

struct ring;

/* Make it, zeroed. Fails where the system cannot guarantee that stores to mapped memory succeed. */
WEIR_MUSTCHECK weir_err ring_open(struct ring **out, struct dir *dir, size_t size,
                                  const weir_allocator *allocator);
void ring_close(struct ring *r);
size_t ring_size(const struct ring *r);

void ring_put(struct ring *r, uint64_t at, const void *bytes, size_t len);

/* Write these bytes, at most as many as the ring has, to the journal. */
WEIR_MUSTCHECK weir_err ring_drain(const struct ring *r, struct file *journal, uint64_t from,
                                   uint64_t upto);

/* The whole ring, beginning with what belongs at `at` in the journal. NULL bytes: there is no
 * ring. The caller frees them. */
WEIR_MUSTCHECK weir_err ring_read(struct dir *dir, uint64_t at, const weir_allocator *allocator,
                                  char **bytes, size_t *size);

#endif
