/* table_reservation.h - what table_reservation.c, table_settle.c and table_plain.c share. */
#ifndef WEIR_STORE_MEMORY_TABLE_RESERVATION_H
#define WEIR_STORE_MEMORY_TABLE_RESERVATION_H

#include "store/memory/table_internal.h"

enum {
    /* A value of each key, its hold before and after, a give-back of each part, the record. */
    MOST_LOGGED = 4 * MOST_CHARGES + RESERVATION_MOST_PARTS + 1024,
    RECORD_LEVEL = 8, /* of one that is settled: it goes before keys that are nearly used up */
};

/* One question on its way. */
struct deciding {
    struct table *t;
    struct question *q;
    struct reserving *of;
    int64_t now;
    struct charge *charges;          /* the question's */
    struct cell *cells[MOST_KEYS];   /* NULL: there is none. The record's is the last */
    int64_t used[MOST_CHARGES];      /* settle */
    uint64_t stands;                 /* charges whose step says how they stand, as bits */
    struct shard *homes[MOST_KEYS];  /* where each key is, and the record */
    struct shard *shards[MOST_KEYS]; /* the same, each once and in ascending order */
    size_t shard_count;
    size_t logged_count;
    struct record *lean; /* among them, a new reservation; NULL: there is none */
    struct record logged[MOST_LOGGED];
};

_Static_assert(MOST_CHARGES <= 64, "a bit for each");

static inline struct shard *deciding_home_of_record(const struct deciding *d)
{
    return d->homes[d->q->count];
}

static inline struct kept_reservation *reservation_in(const struct cell *record)
{
    return (struct kept_reservation *)record->state.kept.block;
}

static inline bool deciding_is_shadow(const struct deciding *d, size_t i)
{
    return d->of->labels[i].is_shadow;
}

static inline struct cell *deciding_record(const struct deciding *d)
{
    return d->cells[d->q->count];
}

/* ---- for the log: each fills in one record, or says how many ------------------------------- */

static inline void table_log_cell(struct table *t, struct cell *cell, struct record *to)
{
    table_overtake(t, table_shard(t, cell->key), cell, NULL);
    table_record(cell, to);
}

static inline void table_log_part(const struct cell *cell, int64_t first, int64_t second,
                                  int64_t third, struct record *to)
{
    to->key = cell->key;
    to->stamp = cell->stamp;
    to->is_hold = 1;
    to->packed = (struct packed){ { first, second, third } };
}

/* … with the holds that follow from it, if it is new: the records of its keys stand before it. */
size_t table_log_reservation(struct table *t, struct cell *record, bool is_new, struct record *to);
void table_log_change(struct table *t, struct cell *record, enum record_change change,
                      int64_t amount, struct record *to);

/* ---- table_plain.c; nothing is locked ------------------------------------------------------ */

/* Answer a question that is as most are. False: it is not, and nothing has changed. */
bool table_judge_plainly(struct table *t, struct question *q);

/* ---- table_reservation.c; all shards are locked -------------------------------------------- */

/* Cells of this shard may have moved: find them again. */
void deciding_find_again(struct deciding *d, const struct shard *s);

/* The hold of this reservation by one of its charges, without an amount. */
struct hold deciding_hold(const struct deciding *d, size_t i, int64_t expires, bool gives_back);

/* How each of them stands. */
void deciding_look_at_all(struct deciding *d);

/* May all pass? They are held until they expire; 0: they are used at once. Those in shadow are
 * judged alone. */
bool deciding_take_all(struct deciding *d, int64_t expires, bool gives_back);

/* Room for the state of a charge that was taken: all that can fail. */
WEIR_MUSTCHECK weir_err deciding_prepare(struct deciding *d, size_t i);
WEIR_MUSTCHECK weir_err deciding_prepare_all(struct deciding *d);

/* Charge what was taken, and note it in a record that there was before. */
void deciding_apply_more(struct deciding *d, struct kept_reservation *r);

/* What goes to the log: the new value of a cell, what became of a hold or a part of it, the record,
 * and what became of the record. */
void deciding_log_cell(struct deciding *d, struct cell *cell);
void deciding_log_hold(struct deciding *d, const struct cell *cell, const struct hold *hold);
void deciding_log_part(struct deciding *d, const struct cell *cell, int64_t first, int64_t second,
                       int64_t third);
void deciding_log_record(struct deciding *d, bool is_new);
void deciding_log_change(struct deciding *d, enum record_change change, int64_t amount);
void deciding_append(struct deciding *d);

void deciding_stamp_record(struct deciding *d);

/* ---- table_settle.c ------------------------------------------------------------------------ */

/* The record is there: settle, grow or extend. */
void deciding_change(struct deciding *d);

/* By how much the limit of a cell is exceeded. */
int64_t cell_over(const struct cell *cell, const struct rule *rule, int64_t now);

#endif
