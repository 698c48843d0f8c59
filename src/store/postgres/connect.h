/* connect.h - a connection that the store can use: to a database with the right schema and
 * the right secret, set up, and with weir.judge() prepared, as far as a pooler keeps that. */
#ifndef WEIR_STORE_POSTGRES_CONNECT_H
#define WEIR_STORE_POSTGRES_CONNECT_H

#include "base/hash.h"
#include "store/postgres/session.h"
#include "store/postgres/uri.h"

/* Blocks. `pooler` is what is known of one, or what the URI says. WEIR_EIO: the database cannot be
 * reached, but may be later. Any other error will stay. */
WEIR_MUSTCHECK weir_err postgres_connect(struct postgres_session **out,
                                         const struct postgres_uri *uri,
                                         enum postgres_pooler pooler,
                                         const unsigned char secret_id[16], weir_diag *diag);

/* The secret that all processes that share the database hash with; errors as above. */
WEIR_MUSTCHECK weir_err postgres_secret(const char *uri, const weir_allocator *allocator,
                                        struct secret *out, weir_diag *diag);

#endif
