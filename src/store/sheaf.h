/* sheaf.h - the records of one thread's turn, on their way to the journal.
 *
 * The journal has one lock, and to take it for every decision would cost more than the decision.
 * So a turn gathers its records in a sheaf, which no other thread touches, and appends them
 * together. Rules H1 to H3 in sheaf.c say what keeps the records of a key in order all the same. */
#ifndef WEIR_STORE_SHEAF_H
#define WEIR_STORE_SHEAF_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/alloc.h"
#include "store/record.h"

enum { SHEAVES = 16, SHEAF_RECORDS = 64 };

struct sheaf {
    alignas(64) _Atomic uint64_t ticket; /* of what is gathered; 0: nothing is */
    atomic_bool is_taken;
    atomic_bool is_overtaken; /* somebody has changed a key after this sheaf */
    uint32_t count;           /* this and what follows belong to the turn */
    uint32_t rest;            /* turns that go without it */
    uint64_t settled;         /* what has a smaller ticket is in the journal */
    struct sheaves *sheaves;
    alignas(64) struct record records[SHEAF_RECORDS];
};

struct sheaves {
    struct sheaf at[SHEAVES];
    alignas(64) _Atomic uint64_t next;    /* ticket */
    alignas(64) _Atomic uint64_t settled; /* for those without a sheaf */
    weir_allocator allocator;
    void *block; /* what this was allocated as */
};

struct sheaves *sheaves_new(const weir_allocator *allocator); /* NULL: out of memory */
void sheaves_free(struct sheaves *l);

/* A sheaf for the turn of this caller, or NULL: do without. */
struct sheaf *sheaves_take(struct sheaves *l, const void *caller);
void sheaf_leave(struct sheaf *sheaf); /* nothing is in it */

/* Open it for records: called before the shard of the first is locked, or with it locked. */
void sheaf_open(struct sheaf *sheaf);

/* The owner appends what it has, or has found it overtaken: both with the journal's lock held. */
void sheaf_close(struct sheaf *sheaf);

/* The sheaves with tickets from `from` to `upto` but `own` are overtaken. */
void sheaves_overtake(struct sheaves *l, const struct sheaf *own, uint64_t from, uint64_t upto);

/* What has a smaller ticket is in the journal, as far as this sheaf knows. */
static inline uint64_t sheaves_settled(const struct sheaves *l, const struct sheaf *sheaf)
{
    return sheaf ? sheaf->settled : atomic_load_explicit(&l->settled, memory_order_acquire);
}

#define JOURNAL_IN_SHEAF (UINT64_MAX - 1) /* a mark that is not known yet */

/* The place of the next record, to be filled with the shard of its key locked. */
static inline struct record *sheaf_next(struct sheaf *sheaf)
{
    return &sheaf->records[sheaf->count++];
}

static inline bool sheaf_is_open(const struct sheaf *sheaf)
{
    return atomic_load_explicit(&sheaf->ticket, memory_order_relaxed) != 0;
}

static inline bool sheaf_is_full(const struct sheaf *sheaf)
{
    return sheaf->count == SHEAF_RECORDS;
}

#endif
