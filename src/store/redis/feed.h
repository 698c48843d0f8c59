/* feed.h - the change feed of a Redis store. */
#ifndef WEIR_STORE_REDIS_FEED_H
#define WEIR_STORE_REDIS_FEED_H

#include "store/redis/slots.h"
#include "store/redis/uri.h"
#include "store/remote/change_feed.h"

#define REDIS_CHANNEL "rl:news"

/* Listens to what lua/judge.lua announces. The URI stays the caller's, and must be no cluster's. */
WEIR_MUSTCHECK weir_err redis_feed_new(struct change_feed **out, const struct redis_uri *uri,
                                       const struct store_options *options, weir_diag *diag);

/* The same of a cluster. */
WEIR_MUSTCHECK weir_err redis_cluster_feed_new(struct change_feed **out, struct redis_slots *slots,
                                               const struct store_options *options,
                                               weir_diag *diag);

#endif
