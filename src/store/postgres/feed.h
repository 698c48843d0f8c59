/* feed.h - the change feed of a Postgres store: a connection that has said LISTEN weir. */
#ifndef WEIR_STORE_POSTGRES_FEED_H
#define WEIR_STORE_POSTGRES_FEED_H

#include "store/remote/change_feed.h"

/* `conninfo` is as libpq takes it. It is borrowed until the feed is freed. */
WEIR_MUSTCHECK weir_err postgres_feed_new(struct change_feed **out, const char *conninfo,
                                          const struct store_options *options, weir_diag *diag);

#endif
