/* reservations.h - questions about reservations as the parameters of weir.judge_reservations(). */
#ifndef WEIR_STORE_POSTGRES_RESERVATIONS_H
#define WEIR_STORE_POSTGRES_RESERVATIONS_H

#include "store/postgres/statement.h"
#include "store/remote/backend.h"

extern const struct statement reservations_statement;

/* All questions of the batch are about reservations. False: out of memory. */
bool reservations_write(struct parameters *p, const struct batch *b, bool brings_now);

/* False: that is no answer to them. */
bool reservations_read(const struct span *columns, struct batch *b);

#endif
