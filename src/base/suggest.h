/* suggest.h - "did you mean": the known word that a mistyped one is closest to. */
#ifndef WEIR_BASE_SUGGEST_H
#define WEIR_BASE_SUGGEST_H

#include "base/span.h"

/* The nearest of n words within a third of its length (at least one edit; a swap of
 * neighbours counts as one; upper and lower case are alike), or NULL. */
const char *suggest(struct span typed, const char *const *words, size_t n);

#endif
