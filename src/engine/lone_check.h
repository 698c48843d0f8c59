/* lone_check.h - a check of one rule by a key, asked by itself: what callers of the library ask most. */
#ifndef WEIR_ENGINE_LONE_CHECK_H
#define WEIR_ENGINE_LONE_CHECK_H

#include "engine/pattern.h"

/* What engine_prepare_like(), engine_ask() and engine_commit() would do with it, by a pattern that
 * holds, of this set of policies. False: nothing was done, it has to go their way. */
bool lone_check(struct engine *e, const struct policies *policies, const struct pattern *p,
                struct span key, weir_answer *answer);

#endif
