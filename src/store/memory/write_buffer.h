/* write_buffer.h - the records of one thread's turn, before they are appended to the log.
 *
 * The log has one lock, and to take it for every decision would cost more than the decision. So
 * a turn gathers its records in a write buffer, which no other thread touches, and appends them
 * together. Rules H1 to H5 in write_buffer.c keep the records of a key in order all the same. */
#ifndef WEIR_STORE_MEMORY_WRITE_BUFFER_H
#define WEIR_STORE_MEMORY_WRITE_BUFFER_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/alloc.h"
#include "store/memory/record.h"

enum { WRITE_BUFFERS = 16, WRITE_BUFFER_RECORDS = 64 };

struct write_buffer {
    alignas(64) _Atomic uint64_t ticket; /* of what is gathered; 0: nothing is */
    atomic_bool is_taken;
    atomic_bool is_overtaken; /* another thread has changed one of its keys since */
    uint32_t count;           /* this and the fields below belong to the turn */
    uint32_t rest;            /* turns that go without it, after it was overtaken */
    uint64_t settled;         /* records with a smaller ticket are in the log */
    struct question *first;   /* whose record is here; the file store's */
    struct write_buffers *write_buffers;
    alignas(64) struct record records[WRITE_BUFFER_RECORDS];
};

struct write_buffers {
    struct write_buffer at[WRITE_BUFFERS];
    alignas(64) _Atomic uint64_t next;    /* ticket */
    alignas(64) _Atomic uint64_t settled; /* for threads without a write buffer */
    weir_allocator allocator;
    void *block; /* what this was allocated as */
};

struct write_buffers *write_buffers_new(const weir_allocator *allocator); /* NULL: out of memory */
void write_buffers_free(struct write_buffers *l);

/* A write buffer for the turn of this caller, or NULL: do without. */
struct write_buffer *write_buffers_take(struct write_buffers *l, const void *caller);
void write_buffer_leave(struct write_buffer *write_buffer); /* nothing is in it */

/* Open it for records: called before the shard of the first is locked, or with it locked. */
void write_buffer_open(struct write_buffer *write_buffer);

/* Its records are appended, or it was found to be overtaken. The log's lock is held. */
void write_buffer_close(struct write_buffer *write_buffer);

/* Mark those with tickets from `from` to `upto` as overtaken, but not `own`. */
void write_buffers_overtake(struct write_buffers *l, const struct write_buffer *own, uint64_t from,
                            uint64_t upto);

/* Records with a smaller ticket are in the log, as far as this write buffer knows. */
static inline uint64_t write_buffers_settled(const struct write_buffers *l,
                                             const struct write_buffer *write_buffer)
{
    return write_buffer ? write_buffer->settled
                        : atomic_load_explicit(&l->settled, memory_order_acquire);
}

#define MARK_LOST UINT64_MAX            /* a mark that no commit will confirm */
#define MARK_IN_BUFFER (UINT64_MAX - 1) /* the record has no position in the log yet */

/* Does the second record say all that the first does? A lockout says that nothing is held any more. */
static inline bool record_replaces(const struct record *old, const struct record *r)
{
    return old->key.low == r->key.low && old->key.high == r->key.high && !old->is_locked &&
           (!state_is_log(r->algorithm) || old->packed.words[1] == r->packed.words[1]);
}

/* The place of the next record, to be filled with the shard of its key locked. */
static inline struct record *write_buffer_next(struct write_buffer *write_buffer)
{
    return &write_buffer->records[write_buffer->count];
}

/* It is filled; `may_replace`: others of its key are there (H5). */
static inline void write_buffer_put(struct write_buffer *write_buffer, bool may_replace)
{
    struct record *r = write_buffer_next(write_buffer);

    if (may_replace && write_buffer->count > 0 && record_replaces(r - 1, r))
        r[-1] = *r;
    else
        write_buffer->count++;
}

static inline uint64_t write_buffer_ticket(const struct write_buffer *write_buffer)
{
    return atomic_load_explicit(&write_buffer->ticket, memory_order_relaxed);
}

static inline bool write_buffer_is_open(const struct write_buffer *write_buffer)
{
    return write_buffer_ticket(write_buffer) != 0;
}

static inline bool write_buffer_is_full(const struct write_buffer *write_buffer)
{
    return write_buffer->count == WRITE_BUFFER_RECORDS;
}

#endif
