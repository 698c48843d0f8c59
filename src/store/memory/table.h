/* table.h - a hash table of the states of keys, in memory, where questions are decided.
 *
 * What it promises: a question is decided atomically; at most max_keys keys are held; no call
 * takes longer than to rebuild one shard (a few thousand cells), however large the table is. A
 * full table evicts keys that have expired first, then those that have consumed least. Each
 * class of keys has a part of its own. So a flood of fresh keys cannot evict a key that is at
 * its limit. */
#ifndef WEIR_STORE_MEMORY_TABLE_H
#define WEIR_STORE_MEMORY_TABLE_H

#include "store/memory/table_log.h"
#include "store/store.h"

struct table;

WEIR_MUSTCHECK weir_err table_new(struct table **out, const struct store_options *options,
                                  weir_diag *diag);
void table_free(struct table *t);

/* From now on every change is appended to this log, with the shards of its keys locked. */
void table_keep_log(struct table *t, struct table_log *log);

void table_prefetch(struct table *t, struct key key, enum prefetch what);

/* All but done(). */
void table_judge_any(struct table *t, struct question *q);

/* The same for one charge of a verb that adds. Its record goes to the write buffer, if there is one,
 * and the mark is MARK_IN_BUFFER then: only for a question that table_fits_buffer(). */
void table_judge_in(struct table *t, struct question *q, struct write_buffer *write_buffer);

/* Whichever it is: most questions are of one charge. */
static inline void table_judge(struct table *t, struct question *q)
{
    if (q->count == 1 && verb_adds(q->verb) && !verb_reserves(q->verb))
        table_judge_in(t, q, NULL);
    else
        table_judge_any(t, q);
}

static inline bool table_fits_buffer(const struct question *q)
{
    return q->count == 1 && !verb_reserves(q->verb) && verb_adds(q->verb);
}

/* The write buffer with this record was overtaken: append what its key is by now (H2). Returns the
 * mark for its questions. */
uint64_t table_keep_again(struct table *t, const struct record *r);

void table_sweep(struct table *t, int64_t now); /* a hundredth of the table; grows it if due */
void table_stats(struct table *t, weir_stats *stats);

/* See store_ops; a slice of a shard is locked at a time. */
void table_visit_held(struct table *t, int64_t now, held_visit *visit, void *ctx);

/* ---- as a whole: for snapshots and recovery ---------------------------------------------- */

size_t table_shards(const struct table *t);

/* `log` is the whole log of a sliding window, `block` the bytes of a reservation; else NULL. */
typedef void table_each(void *ctx, const struct record *r, const struct sliding_window *log,
                        const struct kept_block *block);

/* Call each() for the live keys of one shard, in order, with the shard locked. After a key come
 * its holds. */
void table_export(struct table *t, size_t shard, int64_t now, table_each *each, void *ctx);

uint64_t table_bytes(const struct table *t);      /* of all that is exported: about, and no more */
void table_expect(struct table *t, int64_t keys); /* so many are about to be restored */

/* Where keys are restored to. */
struct restoring {
    struct table *table;
    int64_t now;    /* if there are more keys than it may hold, what has expired goes first */
    unsigned hands; /* threads of the pool; 0 or 1: the caller does it alone */
};

/* Make a key what a record says, and the bytes that follow it. False: out of memory, or the record
 * is not valid. */
bool table_restore(struct table *t, const struct record *r, int64_t now);

/* The same for many at once: as fast as memory allows, if they are in order and the table is
 * empty. Between begin and end a shard is locked, and this thread may do nothing else with the
 * table. Other threads may fill it at the same time. */
struct table_filling {
    struct table *table;
    struct shard *shard; /* the locked one; NULL: none yet */
    int64_t now;
    uint32_t reserved; /* of max_keys, for keys to come */
    uint32_t next;     /* the first cell behind those that were filled */
    struct key last;
    bool appends; /* the shard has only what was filled in order */
};

void table_fill_begin(struct table_filling *f, struct table *t, uint32_t keys, int64_t now);
bool table_fill(struct table_filling *f, const struct record *r, const struct log_entry *entries,
                size_t n); /* `entries`: of a sliding window, all; else NULL */
void table_fill_end(struct table_filling *f);

#endif
