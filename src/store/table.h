/* table.h - the states of many keys in memory, decided on in place.
 *
 * What it promises: a question is decided as if it were alone; at most max_keys keys are
 * held; no call takes more than the time of rebuilding one shard (a few thousand cells),
 * however large the table is. When it is full, keys that are back to untouched go first, then
 * the least consumed: a flood of fresh keys cannot make a limited one forgotten. */
#ifndef WEIR_STORE_TABLE_H
#define WEIR_STORE_TABLE_H

#include "store/journal.h"
#include "store/store.h"

struct table;

WEIR_MUSTCHECK weir_err table_new(struct table **out, const struct store_options *options,
                                  weir_diag *diag);
void table_free(struct table *t);

/* From now on every change is appended to this journal, under the locks it was made with. */
void table_keep_journal(struct table *t, struct journal *journal);

void table_prefetch(struct table *t, struct key key);
void table_judge(struct table *t, struct question *q); /* all but done() */
void table_sweep(struct table *t, int64_t now); /* a hundredth of the table; grows it if due */
void table_stats(struct table *t, weir_stats *stats);

/* ---- as a whole: for snapshots and recovery ---------------------------------------------- */

size_t table_shards(const struct table *t);

/* Hand the live keys of one shard over, in order, with the shard locked. `log` is the whole log
 * of a sliding window, else NULL. */
void table_export(struct table *t, size_t shard, int64_t now,
                  void (*each)(void *ctx, const struct record *r, const struct sliding_window *log),
                  void *ctx);

void table_expect(struct table *t, int64_t keys); /* so many are about to be restored */

/* Make a key what a record says. False: out of memory, or nothing that a key can be. */
bool table_restore(struct table *t, const struct record *r);
bool table_restore_log(struct table *t, const struct record *r, const struct log_entry *entries,
                       size_t n);

#endif
