/* lone_pair.h - a reservation of a policy by a key, and its commit, each asked by itself: what callers
 * of the library ask most of reservations. */
#ifndef WEIR_ENGINE_LONE_PAIR_H
#define WEIR_ENGINE_LONE_PAIR_H

#include "engine/pattern.h"

/* What engine_prepare(), engine_ask() and engine_commit() would do with it, by a pattern that holds, of
 * this set of policies; the request has a policy and a key, and nothing else but an id, a time, amounts
 * and `now`. False: nothing was done, it has to go their way. An error is the answer's. */
bool lone_reserve(struct engine *e, const struct policies *policies, const struct pattern *p,
                  const weir_request *r, weir_answer *answer);

/* The same of a commit or a release, which needs no policies. */
bool lone_settle(struct engine *e, const weir_request *r, bool is_release, weir_answer *answer);

#endif
