/* sheaf.c - the records of one thread's turn, on their way to the journal.
 *
 * A record is a key's new value, so only the last of a key counts, and what matters is that of
 * two records the older is not the later in the file. Every time a sheaf opens it draws a ticket,
 * larger than all before it. A cell has the ticket of the sheaf that its last record went to.
 *
 * RULES (test_sheaf.c has a test by each name)
 *   H1  Who changes a key whose record is in another sheaf marks that sheaf as overtaken. The shard
 *       is locked, and it is done before the new record can be appended.
 *   H2  An overtaken sheaf is not appended. Its turn looks at its keys again, and appends what
 *       they are by then, each with its shard locked.
 *   H3  A shard remembers the largest ticket of what it dropped. A key that is made anew may
 *       have been one of those: all sheaves up to that ticket are overtaken.
 *
 * WHY THIS IS ENOUGH: a sheaf looks whether it was overtaken with the journal's lock held, and
 * appends before it lets go. Whoever overtakes it later appends later.
 *
 * WHY ONLY FOR QUESTIONS OF ONE KEY: what is appended must not build on what is not. With one
 * key it cannot: the value has it all. With several, half of a question could be in the value of
 * a key that somebody else appended, and the other half still in a sheaf when the power goes. So
 * questions of several keys are appended while their shards are locked, and so are sliding windows,
 * of which a record has only what changed. */
#include "store/sheaf.h"

enum {
    TRIES = 4,
    REST = 32, /* turns: where all want the same keys, sheaves are in vain */
};

struct sheaves *sheaves_new(const weir_allocator *allocator)
{
    void *block = alloc_zeroed(allocator, sizeof(struct sheaves) + alignof(struct sheaves));
    const uintptr_t start = (uintptr_t)block + alignof(struct sheaves) - 1;
    struct sheaves *l = (struct sheaves *)(start / alignof(struct sheaves) *
                                           alignof(struct sheaves));

    if (!block)
        return NULL;
    l->allocator = *allocator;
    l->block = block;
    l->next = l->settled = 1;
    for (size_t i = 0; i < SHEAVES; i++) {
        l->at[i].sheaves = l;
        l->at[i].settled = 1;
    }
    return l;
}

void sheaves_free(struct sheaves *l)
{
    weir_allocator allocator;

    if (!l)
        return;
    allocator = l->allocator;
    alloc_free(&allocator, l->block);
}

struct sheaf *sheaves_take(struct sheaves *l, const void *caller)
{
    /* Callers are on different stacks; the same one mostly finds the same sheaf. */
    const uint64_t mixed = (uint64_t)(uintptr_t)caller * 0x9e3779b97f4a7c15u >> 32;

    for (uint64_t i = 0; i < TRIES; i++) {
        struct sheaf *sheaf = &l->at[(mixed + i) % SHEAVES];

        if (atomic_load_explicit(&sheaf->is_taken, memory_order_relaxed) ||
            atomic_exchange_explicit(&sheaf->is_taken, true, memory_order_acquire))
            continue;
        if (sheaf->rest == 0)
            return sheaf;
        sheaf->rest--;
        sheaf_leave(sheaf);
        return NULL;
    }
    return NULL;
}

void sheaf_leave(struct sheaf *sheaf)
{
    atomic_store_explicit(&sheaf->ticket, 0, memory_order_release);
    atomic_store_explicit(&sheaf->is_taken, false, memory_order_release);
}

/* The order matters: who sees in `next` that the ticket is drawn sees in the sheaf a ticket that is
 * not larger. */
void sheaf_open(struct sheaf *sheaf)
{
    struct sheaves *l = sheaf->sheaves;

    atomic_store_explicit(&sheaf->is_overtaken, false, memory_order_relaxed);
    atomic_store(&sheaf->ticket, atomic_load_explicit(&l->next, memory_order_relaxed));
    atomic_store_explicit(&sheaf->ticket, atomic_fetch_add(&l->next, 1), memory_order_release);
}

void sheaf_close(struct sheaf *sheaf)
{
    struct sheaves *l = sheaf->sheaves;
    uint64_t settled = atomic_load(&l->next);

    if (atomic_load_explicit(&sheaf->is_overtaken, memory_order_relaxed))
        sheaf->rest = REST;
    sheaf->count = 0;
    atomic_store_explicit(&sheaf->ticket, 0, memory_order_release);
    for (size_t i = 0; i < SHEAVES; i++) {
        const uint64_t ticket = atomic_load(&l->at[i].ticket);

        if (ticket != 0 && ticket < settled)
            settled = ticket;
    }
    sheaf->settled = settled;
    if (settled > atomic_load_explicit(&l->settled, memory_order_relaxed))
        atomic_store_explicit(&l->settled, settled, memory_order_release);
}

void sheaves_overtake(struct sheaves *l, const struct sheaf *own, uint64_t from, uint64_t upto)
{
    for (size_t i = 0; i < SHEAVES; i++) {
        struct sheaf *sheaf = &l->at[i];
        const uint64_t ticket = atomic_load_explicit(&sheaf->ticket, memory_order_acquire);

        if (sheaf != own && ticket != 0 && ticket >= from && ticket <= upto)
            atomic_store_explicit(&sheaf->is_overtaken, true, memory_order_relaxed);
    }
}
