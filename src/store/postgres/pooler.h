/* pooler.h - is a pooler between weir and the database, and what does it keep of a session?
 *
 * A pooler such as pgbouncer may hand the connection to the database to another client after each
 * transaction. What a session keeps is then not there in the next transaction, or is found by
 * other clients: prepared statements, settings, LISTEN.
 *
 * HOW it is found. A pooler makes up the number that a client gets at the start and needs to
 * cancel: it is not that of the process which answers. A pooler that hands out whole sessions
 * looks the same, so only the URI can say that it does (pooler=session).
 *
 * Through a pooler each batch brings its settings, for its transaction alone, and no name of a
 * prepared statement, unless the pooler translates names (pgbouncer from 1.21 on may). */
#ifndef WEIR_STORE_POSTGRES_POOLER_H
#define WEIR_STORE_POSTGRES_POOLER_H

#include "store/postgres/session.h"
#include "store/postgres/statement.h"
#include "store/postgres/uri.h"

/* Sets the session's `keeps`. WEIR_EOPTION: weir cannot work through this pooler. */
WEIR_MUSTCHECK weir_err postgres_pooler_find(struct postgres_session *s,
                                             enum postgres_pooler setting, weir_diag *diag);

/* Does this SQLSTATE say that a prepared statement is not this session's? */
bool postgres_pooler_shows(const char *state);

#endif
