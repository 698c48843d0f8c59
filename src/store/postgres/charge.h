/* charge.h - a batch of plain checks as the parameters of weir.charge_one() and
 * weir.charge_many(), and what those answer as decisions. See sql/0007_charge.sql. */
#ifndef WEIR_STORE_POSTGRES_CHARGE_H
#define WEIR_STORE_POSTGRES_CHARGE_H

#include "store/postgres/layout.h"
#include "store/postgres/statement.h"

extern const struct statement charge_statement, charge_many_statement;

/* Plain are checks of one charge that cost something, if those of a key agree on its rule and on
 * the time. All others are for weir.judge(). */
bool is_plain(const struct layout *l, bool brings_now);

/* With the callers' times, or with the database's. Of one question, of many. False: no memory. */
bool charge_write(struct parameters *p, const struct batch *b, bool brings_now);
bool charge_many_write(struct parameters *p, const struct layout *l, bool brings_now);

/* Fill in the questions that are still open. `slots` is the layout's slot_of, from when it was
 * sent. False: that is no answer to them. */
bool charge_read(const struct span *columns, struct batch *b, bool brings_now);
bool charge_many_read(const struct span *columns, struct batch *b, const uint16_t *slots,
                      bool brings_now);

#endif
