/* policies.h - policies in Postgres, for checks by SQL. */
#ifndef WEIR_STORE_POSTGRES_POLICIES_H
#define WEIR_STORE_POSTGRES_POLICIES_H

#include "store/postgres/session.h"

/* Of documents by name, what pushing them would do: rows of a name and "added", "removed",
 * "changed" or "unchanged", by name. */
WEIR_MUSTCHECK weir_err postgres_policies_compare(struct postgres_session *s, const char *documents,
                                                  struct postgres_rows **out, weir_diag *diag);

/* The names of those that are not the same in the database, unless none is there. */
WEIR_MUSTCHECK weir_err postgres_policies_differ(const char *conninfo, const char *documents,
                                                 void (*each)(void *ctx, const char *name),
                                                 void *ctx, weir_diag *diag);

#endif
