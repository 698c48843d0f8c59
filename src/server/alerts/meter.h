/* meter.h - how often things happened in the last while: a window in sixty pieces for each.
 *
 * Not safe for several threads at once. Bounded: when there are too many, the one with the least in
 * its window makes room. */
#ifndef WEIR_SERVER_ALERTS_METER_H
#define WEIR_SERVER_ALERTS_METER_H

#include "base/hash.h"

enum { METER_PIECES = 60, METERS_MOST = 1024 };

struct meter {
    const char *policy, *rule; /* by their pointers */
    struct key key;            /* the tag of an identity; zeros: of all */
    uint64_t all[METER_PIECES], hits[METER_PIECES];
    uint64_t all_sum, hits_sum;

    /* For the caller; zeros in a new one. */
    bool is_raised;
    int64_t calm_since, raised_at;
};

struct meters {
    int64_t window, piece; /* ms, and the number of the newest piece */
    struct meter *at;
    size_t count, room;
};

void meters_init(struct meters *m, int64_t window);
void meters_done(struct meters *m);

/* Forget what lies before the window. Time that steps back changes nothing. */
void meters_advance(struct meters *m, int64_t now);

/* Count so many, and how many of them were hits. NULL: out of memory. Meters may be anywhere
 * else afterwards. */
struct meter *meters_count(struct meters *m, const char *policy, const char *rule, struct key key,
                           uint64_t all, uint64_t hits);

/* Drop those that have counted nothing in the window and are not raised. */
void meters_tidy(struct meters *m);

#endif
