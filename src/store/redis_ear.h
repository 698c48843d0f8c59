/* redis_ear.h - an ear for a Redis store. */
#ifndef WEIR_STORE_REDIS_EAR_H
#define WEIR_STORE_REDIS_EAR_H

#include "store/ear.h"
#include "store/redis_uri.h"

#define REDIS_CHANNEL "rl:news"

/* Listens to what lua/judge.lua announces. The URI stays the caller's, and must be no cluster's:
 * its nodes pass announcements on in no order. */
WEIR_MUSTCHECK weir_err redis_ear_new(struct ear **out, const struct redis_uri *uri,
                                      const struct store_options *options, weir_diag *diag);

#endif
