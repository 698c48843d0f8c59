/* rate.h - durations ("15m") and rates ("5 per 15m"), read from text. */
#ifndef WEIR_POLICY_RATE_H
#define WEIR_POLICY_RATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"
#include "weir.h"

/* A whole number and one of ms s m h d w: "500ms", "15m". The diag says what would be right. */
WEIR_MUSTCHECK weir_err duration_read(struct span text, int64_t *ms, weir_diag *diag);

/* "5 per 15m" (also "1 per h" = "1 per 1h"), or "0": always deny (window 0), or
 * "10 at once": of concurrency (window 0). */
WEIR_MUSTCHECK weir_err rate_read(struct span text, int64_t *limit, int64_t *window,
                                  weir_diag *diag);

/* The number and the word of "5 per month". False: it is not of that form, or too large. */
bool rate_read_word(struct span text, int64_t *limit, struct span *word);

enum { SHARE_ALL = 10000 }; /* 100% */

/* "10%", with at most two digits after a point: in hundredths of a percent. */
WEIR_MUSTCHECK weir_err share_read(struct span text, int *share, weir_diag *diag);
void share_write(int share, char out[16]);

/* "15m", the largest unit that is exact. */
void duration_write(int64_t ms, char out[32]);

#endif
