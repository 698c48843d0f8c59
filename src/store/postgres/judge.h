/* judge.h - a batch as the parameters of weir.judge(), and its row as decisions: arrays
 * that mean what sql/0002_judge.sql says. */
#ifndef WEIR_STORE_POSTGRES_JUDGE_H
#define WEIR_STORE_POSTGRES_JUDGE_H

#include "store/postgres/layout.h"
#include "store/postgres/statement.h"

extern const struct statement judge_statement;

/* With the callers' times, or with the database's. False: out of memory. */
bool judge_write(struct parameters *p, const struct layout *l, bool brings_now);

/* Fill in the questions that are still open. False: that is no answer to them. */
bool judge_read(const struct span *columns, struct batch *b);

/* Of an answer by columns: is it one of so many charges, and what is said of the i-th? */
bool judge_is_answer(const struct span *columns, size_t count);
void judge_read_decision(const struct span *columns, size_t i, struct decision *out);

#endif
