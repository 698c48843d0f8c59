/* feed.h - an feed for a Postgres store: a connection that listens to the channel `weir`. */
#ifndef WEIR_STORE_POSTGRES_FEED_H
#define WEIR_STORE_POSTGRES_FEED_H

#include "store/remote/change_feed.h"

/* `conninfo` is as libpq takes it, and is kept in place by the caller. */
WEIR_MUSTCHECK weir_err postgres_feed_new(struct change_feed **out, const char *conninfo,
                                          const struct store_options *options, weir_diag *diag);

#endif
