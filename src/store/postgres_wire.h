/* postgres_wire.h - a batch as the parameters of weir.judge(), and its row as decisions: arrays in
 * Postgres's binary form. What the arrays mean is said in sql/0002_judge.sql. */
#ifndef WEIR_STORE_POSTGRES_WIRE_H
#define WEIR_STORE_POSTGRES_WIRE_H

#include "base/buf.h"
#include "store/remote.h"

#define JUDGE_NAME "weir_judge"
#define JUDGE_STATEMENT                                                                            \
    "SELECT allowed, remaining, retry_after, reset_after, delay "                                  \
    "FROM weir.judge($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"

enum { JUDGE_PARAMETERS = 12, JUDGE_COLUMNS = 5 };

extern const unsigned judge_types[JUDGE_PARAMETERS]; /* OIDs */

struct judge_parameters {
    const char *values[JUDGE_PARAMETERS]; /* into `bytes`; NULL is NULL */
    int lengths[JUDGE_PARAMETERS];
    struct buf bytes, scratch;
};

void judge_parameters_init(struct judge_parameters *p, const weir_allocator *allocator);
void judge_parameters_done(struct judge_parameters *p);

/* With the callers' times, or with the database's. False: out of memory. */
bool judge_write(struct judge_parameters *p, const struct batch *b, bool brings_now);

/* Fill in the questions that are still open. False: that is no answer to them. */
bool judge_read(const struct span columns[JUDGE_COLUMNS], struct batch *b);

#endif
