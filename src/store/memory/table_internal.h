/* table_internal.h - what table.c, table_room.c and table_bulk.c share. */
#ifndef WEIR_STORE_MEMORY_TABLE_INTERNAL_H
#define WEIR_STORE_MEMORY_TABLE_INTERNAL_H

#include <string.h>

#include "store/memory/growth.h"
#include "store/memory/kept.h"
#include "store/memory/table.h"

enum {
    CLOCK_SLIP = 1000, /* ms; expired cells stay so long, for clocks that are set back a bit */
    MOST_CHARGES = 2 * WEIR_MAX_RULES,
    MOST_KEYS = MOST_CHARGES + 1, /* of a question, with that of a reservation */
};

struct table {
    weir_allocator allocator;
    struct shard *shards;
    void *shards_block; /* what they were allocated as */
    uint32_t shard_bits;
    int64_t max_keys, max_beside;
    bool drop_by_time;
    int64_t clock_slip;
    struct table_log *log; /* NULL: changes are not logged */
    void (*wake)(void *ctx);
    void *wake_ctx;
    struct terms_set *terms; /* of reservations */
    size_t swept;            /* the shard that the next sweep begins with */
    struct growth growth;
    char apart[64]; /* fields above are mostly read, those below are written: no false sharing */
    _Atomic int64_t keys, beside;
    struct pool records;
};

static inline size_t shard_index(const struct table *t, struct key key)
{
    return key.high >> 1 >> (63 - t->shard_bits); /* by 64, if there is one shard */
}

static inline struct shard *table_shard(const struct table *t, struct key key)
{
    return &t->shards[shard_index(t, key)];
}

/* Put a shard among n that are in ascending order, which is that of their locks. How many are there
 * now: each is there once. */
static inline size_t table_order_shard(struct shard *s, size_t n, struct shard *shards[MOST_KEYS])
{
    size_t place = n;

    while (place > 0 && shards[place - 1] > s)
        place--;
    if (place > 0 && shards[place - 1] == s)
        return n;
    for (size_t i = n; i > place; i--)
        shards[i] = shards[i - 1];
    shards[place] = s;
    return n + 1;
}

/* The cell of a key, whose shard is locked; NULL: there is none. */
static inline struct cell *table_cell(const struct table *t, struct key key)
{
    return shard_cell(table_shard(t, key), key);
}

/* Where the records of reservations of a shard come from. */
static inline struct pool_source table_pool(struct table *t, struct shard *s)
{
    return (struct pool_source){ &t->records, &s->records, &t->allocator };
}

/* The packed state of one that was born or has holds, or of a reservation. */
void table_pack(const struct cell *cell, struct packed *out);

static inline void table_record(const struct cell *cell, struct record *out)
{
    out->key = cell->key;
    out->stamp = cell->stamp;
    if (state_is_log(cell->algorithm))
        log_pack(&cell->state.sliding_window, log_length(&cell->state.sliding_window),
                 &out->packed);
    else if (cell->state.words[3] != 0 || cell->algorithm == ALGORITHM_RESERVATION)
        table_pack(cell, &out->packed);
    else
        memcpy(&out->packed, cell->state.words, sizeof out->packed);
}

/* ---- table.c; the shards are locked ------------------------------------------------------ */

/* What a charge would do to this cell, which may be locked out, or NULL. */
void table_take(const struct cell *cell, struct charge *c, const struct ask *ask);

/* A charge passes: a lockout that the cell has is over. NULL is fine. */
void table_unlock(struct table *t, struct cell *cell, int64_t now);

/* A charge was denied, and locks its key out. */
struct cell *table_lock_out(struct table *t, struct shard *s, const struct charge *c);

/* How much of a burst is consumed. Of most limits it is little, and a division is slow. */
static inline uint32_t level_of(int64_t remaining, int64_t burst)
{
    const int64_t used = burst - remaining;

    if (remaining <= 0)
        return SHARD_LEVELS - 1;
    if (used <= 0 || used * (SHARD_LEVELS - 1) < burst)
        return 0;
    return (uint32_t)(used * (SHARD_LEVELS - 1) / burst);
}

/* Note what a decision made of a cell. */
static inline void table_stamp(struct shard *s, struct cell *cell, const struct charge *c)
{
    const struct rule *r = c->rule;
    const struct decision *d = &c->step.decision;
    const int64_t until = c->step.now + d->reset_after;
    const int64_t held = state_lasts_until(&cell->state, r);
    const int64_t expires = held > until ? held : until;

    shard_stamp(s, cell, expires, level_of(d->remaining, r->burst), c->class);
}

/* A record of this cell, or of none, is about to be appended: it must come after the key's last one in
 * the log. H1, and H3 for a key that may have been dropped. NULL: without a write buffer. */
static inline void table_overtake(const struct table *t, const struct shard *s, struct cell *cell,
                                  const struct write_buffer *write_buffer)
{
    const uint64_t tag = cell ? cell_tag(cell) : 0, before = tag ? tag : s->dropped_tag;
    const uint64_t own = write_buffer ? write_buffer_ticket(write_buffer) : 0;

    if (before >= write_buffers_settled(t->log->write_buffers, write_buffer) && before != own)
        write_buffers_overtake(t->log->write_buffers, write_buffer, tag, before);
    if (cell)
        state_set_tag(&cell->state, cell->algorithm, own);
}

/* ---- table_reservation.c; nothing is locked ---------------------------------------------- */

void table_judge_reservation(struct table *t, struct question *q);

/* ---- table_bulk.c; nothing is locked ------------------------------------------------------ */

/* Visit cells of a shard, which is locked meanwhile, some at a time: all, or those of reservations
 * that are open. */
enum walked { WALK_ALL, WALK_OPEN };
typedef void cell_visit(void *ctx, const struct cell *c);
void table_walk(struct table *t, size_t shard, enum walked walked, cell_visit *visit, void *ctx);

/* ---- table_release.c --------------------------------------------------------------------- */

/* A reservation that may have to be given back when it expires; its shard is locked. */
void table_expect_release(struct shard *s, const struct cell *record);

/* Give back what has expired. Nothing is locked. */
void table_release_due(struct table *t, int64_t now);

/* The housekeeper grows the table, if there is one and it keeps up. No shard may be locked. */
void table_grow_if_due(struct table *t);

/* ---- table_room.c; the shard is locked --------------------------------------------------- */

/* The cell of this key, made if there is none. NULL: no room could be made. */
struct cell *table_ensure(struct table *t, struct shard *s, const struct charge *c,
                          const struct question *q);
void table_erase(struct table *t, struct shard *s, uint32_t at);

/* Everything in charging that can fail: a cell, and memory for its state. */
WEIR_MUSTCHECK weir_err table_prepare(struct table *t, struct shard *s, const struct charge *c,
                                      const struct question *q, struct cell **out);

/* So much more memory is beside the cells of this shard: evict others, if it is too much. False:
 * there is none to evict. Cells may move. */
bool table_allow_beside(struct table *t, struct shard *s, const struct question *q, int64_t more);

/* Drop what has expired, if there can be any. */
void table_purge(struct table *t, struct shard *s, int64_t now);

/* Lazy expiry: a shard that fills up drops what has expired before it makes the table grow. Only
 * before a question looks at its keys: the key that it is about to charge may have expired, too. */
static inline void table_purge_if_due(struct table *t, struct shard *s, int64_t now)
{
    if (t->drop_by_time && s->count >= s->purge_at)
        table_purge(t, s, now);
}

#endif
