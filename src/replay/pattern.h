/* pattern.h - does a text match a pattern with stars? */
#ifndef WEIR_REPLAY_PATTERN_H
#define WEIR_REPLAY_PATTERN_H

#include "base/span.h"

/* In a pattern of paths `*` stands for any bytes but '/', and `**` for any bytes at all. In others
 * both do. All other bytes stand for themselves. */
bool pattern_matches(struct span pattern, struct span text, bool is_path);

#endif
