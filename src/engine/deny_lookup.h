/* deny_lookup.h - what a check need not ask, as it is known to be refused. Where there are
 * denials. */
#ifndef WEIR_ENGINE_DENY_LOOKUP_H
#define WEIR_ENGINE_DENY_LOOKUP_H

#include "engine/engine.h"

/* Is the question at this place known to be refused? One charge that is refused will do: it is
 * decided then, and marked as remembered; of the others nothing is known. */
bool deny_lookup_refuses(struct check *check, size_t at);

/* The store is done with this question: remember what it refused. What it gave back or forgot, or
 * may have, is forgotten here. */
void deny_lookup_learn(const struct check *check, const struct question *q);

#endif
