/* top.h - which identities are denied most: a Space-Saving sketch, so its memory is bounded.
 *
 * Counts forget: every TOP_HALVED_MS they are halved, so what is long over falls behind what is
 * going on. A count may be too high, by at most its `error`, and is never too low (rounding by the
 * halving aside).
 *
 * Not safe for several threads at once. */
#ifndef WEIR_SERVER_METRICS_TOP_H
#define WEIR_SERVER_METRICS_TOP_H

#include "base/hash.h"

enum { TOP_ENTRIES = 512, TOP_HALVED_MS = 5 * 60 * 1000 };

struct top_entry {
    const char *policy, *rule; /* by their pointers; policy NULL: the limit came with a request */
    struct key key;
    struct key tag; /* the caller's: zeros in a new entry */
    uint64_t count, error;
    int64_t last;         /* refused, in ms since the epoch */
    int64_t logged_until; /* for the caller: it is 0 in a new entry */
    uint64_t total, told; /* denials since it is an entry, never halved; and those handed on */
    uint16_t place;       /* in the heap */
};

struct top {
    size_t count;
    int64_t period;                  /* of the last halving */
    uint16_t heap[TOP_ENTRIES];      /* places in entries[], least counted first */
    uint16_t slots[2 * TOP_ENTRIES]; /* 1 + place in entries[], by key; 0: free */
    struct top_entry entries[TOP_ENTRIES];
};

void top_init(struct top *t);

/* Count a denial, or so many. The entry is valid until the next call. */
struct top_entry *top_count(struct top *t, const char *policy, const char *rule, struct key key,
                            int64_t now);
struct top_entry *top_count_many(struct top *t, const char *policy, const char *rule,
                                 struct key key, uint64_t times, int64_t now);

void top_forget(struct top *t, int64_t now); /* halve what is due */

/* What is not among the entries may have been counted so often and then displaced. */
uint64_t top_least(const struct top *t);

/* NULL: it has none. */
const struct top_entry *top_find(const struct top *t, const char *policy, const char *rule,
                                 struct key key);

#endif
