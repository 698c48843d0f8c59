/* denied_minutes.h - who was refused how often, by the minute, until the history_store have it.
 *
 * Of each minute those who were refused most, and never too often: what there is no room for is
 * left out. Bounded, also while the history_store take nothing. Not safe for several threads at
 * once. */
#ifndef WEIR_SERVER_ALERTS_DENIED_MINUTES_H
#define WEIR_SERVER_ALERTS_DENIED_MINUTES_H

#include "server/metrics/top.h"
#include "store/history_store.h"

enum {
    DENIED_MINUTES_A_MINUTE = 128, /* of those who were refused */
    DENIED_MINUTES_WAITING = 16 * DENIED_MINUTES_A_MINUTE,
};

struct denied_minutes {
    int64_t minute; /* its beginning, in ms since the epoch */
    struct top top; /* of that minute */
    struct denied_minutes_entry waiting[DENIED_MINUTES_WAITING];
    size_t count;
};

/* What is counted from now on is of this minute. */
void denied_minutes_begin(struct denied_minutes *l, int64_t minute);
void denied_minutes_count(struct denied_minutes *l, const char *policy, const char *rule,
                          struct key tag, uint64_t times);

/* The minute is over, or the process: what was counted waits for the history_store. */
void denied_minutes_end(struct denied_minutes *l);

/* Hand the history_store what waits. On WEIR_EIO it goes on waiting. */
WEIR_MUSTCHECK weir_err denied_minutes_keep(struct denied_minutes *l,
                                            struct history_store *history_store, weir_diag *diag);

#endif
