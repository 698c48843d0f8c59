/* timeline.h - how many requests there were and how many were denied, over the time of the log.
 *
 * A fixed number of points, whatever the log spans: if a time does not fit, points are made twice
 * as wide. The hours are counted beside them, each by itself. */
#ifndef WEIR_REPLAY_TIMELINE_H
#define WEIR_REPLAY_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TIMELINE_POINTS = 240,
    TIMELINE_MOST_HOURS = 1 << 16, /* seven years: further ones are not among the worst */
};

struct timeline_point {
    int64_t requests, denied;
};

struct timeline_hour {
    int64_t hour; /* since 1970; meaningful if there are requests */
    int64_t requests, denied;
};

struct timeline {
    int64_t width;        /* of a point, in ms; 0: there is none yet */
    int64_t from;         /* of the first; a multiple of the width */
    int64_t first, last;  /* times that were added */
    int64_t current_from; /* of the point that the last time was in */
    struct timeline_point *current;
    struct timeline_hour *hour; /* … and of its hour */
    struct timeline_point points[TIMELINE_POINTS];
    struct timeline_hour *hours; /* open addressing */
    size_t hour_count, hour_room;
};

void timeline_init(struct timeline *t);
void timeline_done(struct timeline *t);
void timeline_add(struct timeline *t, int64_t time, bool denied);

/* The hours with most denied requests, first the worst. Returns how many. */
size_t timeline_worst(const struct timeline *t, struct timeline_hour *out, size_t most);

#endif
