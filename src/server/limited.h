/* limited.h - who was refused how often, by the minute, until the annals have it.
 *
 * Of each minute those who were refused most, and never too often: what there is no room for is
 * left out. Bounded, also while the annals take nothing. Not safe for several threads at once. */
#ifndef WEIR_SERVER_LIMITED_H
#define WEIR_SERVER_LIMITED_H

#include "server/top.h"
#include "store/annals.h"

enum {
    LIMITED_A_MINUTE = 128, /* of those who were refused */
    LIMITED_WAITING = 16 * LIMITED_A_MINUTE,
};

struct limited {
    int64_t minute; /* its beginning, in ms since the epoch */
    struct top top; /* of that minute */
    struct limited_entry waiting[LIMITED_WAITING];
    size_t count;
};

/* What is counted from now on is of this minute. */
void limited_begin(struct limited *l, int64_t minute);
void limited_count(struct limited *l, const char *policy, const char *rule, struct key tag,
                   uint64_t times);

/* The minute is over, or the process: what was counted waits for the annals. */
void limited_end(struct limited *l);

/* Hand the annals what waits. On WEIR_EIO it goes on waiting. */
WEIR_MUSTCHECK weir_err limited_keep(struct limited *l, struct annals *annals, weir_diag *diag);

#endif
