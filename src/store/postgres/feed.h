/* feed.h - the change feed of a Postgres store: a connection that has said LISTEN weir, or that
 * asks where a pooler keeps no LISTEN. */
#ifndef WEIR_STORE_POSTGRES_FEED_H
#define WEIR_STORE_POSTGRES_FEED_H

#include "store/postgres/connection.h"
#include "store/remote/change_feed.h"

/* `common` is borrowed until the feed is freed. */
WEIR_MUSTCHECK weir_err postgres_feed_new(struct change_feed **out, struct postgres_common *common,
                                          const struct store_options *options, weir_diag *diag);

#endif
