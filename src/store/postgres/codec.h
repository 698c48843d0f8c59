/* codec.h - a batch as a statement and its parameters, and what comes back as decisions.
 *
 * There are four statements: for a plain check, for many, for reservations, and for all else.
 * Batches are written and read in the same order. */
#ifndef WEIR_STORE_POSTGRES_CODEC_H
#define WEIR_STORE_POSTGRES_CODEC_H

#include "store/postgres/statement.h"
#include "store/remote/remote.h"

extern const struct statement *const wire_statements[]; /* to be prepared; the last is NULL */

/* A batch that is on its way. */
struct sent {
    const struct statement *statement;
    uint16_t slots[BATCH_MOST]; /* of each plain question: its key's place */
};

struct wire {
    bool brings_now; /* callers' times, or the database's */
    struct parameters parameters;
    struct buf scratch;
    struct sent sent[BATCHES_ON_LINK]; /* a ring */
    size_t written, read;
};

void wire_init(struct wire *w, bool brings_now, const weir_allocator *allocator);
void wire_done(struct wire *w);

/* `parameters` are to be sent. False: out of memory. */
bool wire_write(struct wire *w, const struct batch *b);

/* The next batch was answered by this row: fill in its questions that are still open. False: that
 * is no answer to them. */
bool wire_read(struct wire *w, const struct span *columns, int count, struct batch *b);

size_t wire_under_way(const struct wire *w); /* batches that were written and not read */

void wire_skip(struct wire *w); /* there will be no answer to the next one */

#endif
