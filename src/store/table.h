/* table.h - the states of many keys in memory, decided on in place.
 *
 * What it promises: a question is decided as if it were alone; at most max_keys keys are
 * held; no call takes more than the time of rebuilding one shard (a few thousand cells),
 * however large the table is. When it is full, keys that are back to untouched go first, then
 * the least consumed: a flood of fresh keys cannot make a limited one forgotten. */
#ifndef WEIR_STORE_TABLE_H
#define WEIR_STORE_TABLE_H

#include "store/store.h"

struct table;

WEIR_MUSTCHECK weir_err table_new(struct table **out, const struct store_options *options,
                                  weir_diag *diag);
void table_free(struct table *t);

void table_prefetch(struct table *t, struct key key);
void table_judge(struct table *t, struct question *q); /* all but done() */
void table_sweep(struct table *t, int64_t now);        /* a hundredth of the table; grows it if due */
void table_stats(struct table *t, weir_stats *stats);

#endif
