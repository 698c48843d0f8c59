/* write_buffer.c - the records of one thread's turn, before they are appended to the log.
 *
 * A record is a key's new value, so only the last record of a key counts. That of a sliding window is
 * less: its newest bucket, and from which bucket on it counts. A reader drops the buckets before that
 * one, and all that are not older than the newest; it leaves the others as they are. What matters: of
 * two records of a key, the older one must not come later in the log. Each time a write buffer opens it
 * draws a ticket, larger than all before. A cell has the ticket of the write buffer that its last
 * record went to.
 *
 * RULES (test_write_buffer.c has a test by each name)
 *   H1  A thread that changes a key whose record is in another write buffer marks that one as
 *       overtaken. The shard is locked, and the mark is set before the new record can be
 *       appended.
 *   H2  An overtaken write buffer is not appended. Its turn looks at its keys again, and appends
 *       what they are by then, each with its shard locked.
 *   H3  A shard remembers the largest ticket of the cells that it dropped. A key that is made
 *       anew may have been one of them: all write buffers up to that ticket are overtaken.
 *   H4  Of a sliding window, H2 is: all buckets from that of the record on, appended as one.
 *   H5  A record takes the place of the last one in its write buffer only if it says all of it: of a
 *       sliding window, if it is of the same bucket.
 *
 * WHY THIS IS ENOUGH: a thread looks whether its write buffer was overtaken with the log's lock
 * held, and appends before it releases the lock. A thread that overtakes it later also appends
 * later.
 *
 * WHY NOT ALL BUCKETS: a record changes none that is older than its own. So these are in the log, or
 * in another write buffer that was overtaken, whose turn appends them. Until it does, a key may have a
 * bucket in the log without an older one: what that one has more was not answered. AS ONE, because the
 * first of the records drops buckets that other threads have appended and answered.
 *
 * WHY ONLY FOR QUESTIONS OF ONE KEY: what is appended must not build on what is not. With one
 * key it cannot, as a record is the whole value. With several keys, half of a question could be
 * in the value of a key that another thread has appended, and the other half in a write buffer
 * when the power fails. So questions of several keys are appended while their shards are locked. */
#include "store/memory/write_buffer.h"

enum {
    TRIES = 4,
    REST = 32, /* turns without one: where threads want the same keys, it is mostly overtaken */
};

struct write_buffers *write_buffers_new(const weir_allocator *allocator)
{
    void *block = alloc_zeroed(allocator,
                               sizeof(struct write_buffers) + alignof(struct write_buffers));
    const uintptr_t start = (uintptr_t)block + alignof(struct write_buffers) - 1;
    struct write_buffers *l = (struct write_buffers *)(start / alignof(struct write_buffers) *
                                                       alignof(struct write_buffers));

    if (!block)
        return NULL;
    l->allocator = *allocator;
    l->block = block;
    l->next = l->settled = 1;
    for (size_t i = 0; i < WRITE_BUFFERS; i++) {
        l->at[i].write_buffers = l;
        l->at[i].settled = 1;
    }
    return l;
}

void write_buffers_free(struct write_buffers *l)
{
    weir_allocator allocator;

    if (!l)
        return;
    allocator = l->allocator;
    alloc_free(&allocator, l->block);
}

struct write_buffer *write_buffers_take(struct write_buffers *l, const void *caller)
{
    /* Callers are on different stacks; the same one mostly finds the same write buffer. */
    const uint64_t mixed = (uint64_t)(uintptr_t)caller * 0x9e3779b97f4a7c15u >> 32;

    for (uint64_t i = 0; i < TRIES; i++) {
        struct write_buffer *write_buffer = &l->at[(mixed + i) % WRITE_BUFFERS];

        if (atomic_load_explicit(&write_buffer->is_taken, memory_order_relaxed) ||
            atomic_exchange_explicit(&write_buffer->is_taken, true, memory_order_acquire))
            continue;
        if (write_buffer->rest == 0)
            return write_buffer;
        write_buffer->rest--;
        write_buffer_leave(write_buffer);
        return NULL;
    }
    return NULL;
}

void write_buffer_leave(struct write_buffer *write_buffer)
{
    atomic_store_explicit(&write_buffer->ticket, 0, memory_order_release);
    atomic_store_explicit(&write_buffer->is_taken, false, memory_order_release);
}

/* The order matters: a thread that sees in `next` that the ticket is drawn also sees a ticket in
 * the write buffer, and one that is not larger. */
void write_buffer_open(struct write_buffer *write_buffer)
{
    struct write_buffers *l = write_buffer->write_buffers;

    atomic_store_explicit(&write_buffer->is_overtaken, false, memory_order_relaxed);
    atomic_store(&write_buffer->ticket, atomic_load_explicit(&l->next, memory_order_relaxed));
    atomic_store_explicit(&write_buffer->ticket, atomic_fetch_add(&l->next, 1),
                          memory_order_release);
}

void write_buffer_close(struct write_buffer *write_buffer)
{
    struct write_buffers *l = write_buffer->write_buffers;
    uint64_t settled = atomic_load(&l->next);

    if (atomic_load_explicit(&write_buffer->is_overtaken, memory_order_relaxed))
        write_buffer->rest = REST;
    write_buffer->count = 0;
    atomic_store_explicit(&write_buffer->ticket, 0, memory_order_release);
    for (size_t i = 0; i < WRITE_BUFFERS; i++) {
        const uint64_t ticket = atomic_load(&l->at[i].ticket);

        if (ticket != 0 && ticket < settled)
            settled = ticket;
    }
    write_buffer->settled = settled;
    if (settled > atomic_load_explicit(&l->settled, memory_order_relaxed))
        atomic_store_explicit(&l->settled, settled, memory_order_release);
}

void write_buffers_overtake(struct write_buffers *l, const struct write_buffer *own, uint64_t from,
                            uint64_t upto)
{
    for (size_t i = 0; i < WRITE_BUFFERS; i++) {
        struct write_buffer *write_buffer = &l->at[i];
        const uint64_t ticket = atomic_load_explicit(&write_buffer->ticket, memory_order_acquire);

        if (write_buffer != own && ticket != 0 && ticket >= from && ticket <= upto)
            atomic_store_explicit(&write_buffer->is_overtaken, true, memory_order_relaxed);
    }
}
