/* timeline.c - how many requests there were and how many were denied, over the time of the log. */
#include "replay/timeline.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_WIDTH = 1000, FIRST_HOURS = 64, HOUR = 3600000 };

void timeline_init(struct timeline *t)
{
    *t = (struct timeline){ 0 };
}

void timeline_done(struct timeline *t)
{
    free(t->hours);
    t->hours = NULL;
}

/* ---- points --------------------------------------------------------------------------------- */

/* Two points become one. An odd first one keeps its place as the second half of a pair. */
static void widen(struct timeline *t)
{
    const int64_t from = t->from / (2 * t->width) * (2 * t->width);
    const size_t shift = from == t->from ? 0 : 1;
    struct timeline_point wide[TIMELINE_POINTS] = { { 0, 0 } };

    for (size_t i = 0; i < TIMELINE_POINTS; i++) {
        const size_t to = (i + shift) / 2;

        wide[to].requests += t->points[i].requests;
        wide[to].denied += t->points[i].denied;
    }
    memcpy(t->points, wide, sizeof wide);
    t->from = from;
    t->width *= 2;
}

/* A time before the first point: move all points to the right, as far as they are empty there. */
static bool make_room_before(struct timeline *t, int64_t time)
{
    const int64_t from = time / t->width * t->width;
    const int64_t by = (t->from - from) / t->width;
    size_t used = TIMELINE_POINTS;

    while (used > 0 && t->points[used - 1].requests == 0)
        used--;
    if (by > (int64_t)(TIMELINE_POINTS - used))
        return false;
    memmove(t->points + by, t->points, used * sizeof *t->points);
    memset(t->points, 0, (size_t)by * sizeof *t->points);
    t->from = from;
    return true;
}

static void find_point(struct timeline *t, int64_t time)
{
    if (t->width == 0) {
        t->width = FIRST_WIDTH;
        t->from = time / FIRST_WIDTH * FIRST_WIDTH;
        t->first = t->last = time;
    }
    while (time < t->from && !make_room_before(t, time))
        widen(t);
    while ((time - t->from) / t->width >= TIMELINE_POINTS)
        widen(t);
    t->current = &t->points[(time - t->from) / t->width];
    t->current_from = t->from + (t->current - t->points) * t->width;
}

/* ---- hours ---------------------------------------------------------------------------------- */

static struct timeline_hour *place_of(struct timeline_hour *hours, size_t room, int64_t hour)
{
    size_t i = ((uint64_t)hour * 0x9e3779b97f4a7c15u >> 32) & (room - 1);

    while (hours[i].requests > 0 && hours[i].hour != hour)
        i = (i + 1) & (room - 1);
    return &hours[i];
}

static bool grow_hours(struct timeline *t)
{
    const size_t room = t->hour_room ? 2 * t->hour_room : FIRST_HOURS;
    struct timeline_hour *hours;

    if (room > 2 * TIMELINE_MOST_HOURS)
        return false;
    hours = calloc(room, sizeof *hours);
    if (!hours)
        return false;
    for (size_t i = 0; i < t->hour_room; i++)
        if (t->hours[i].requests > 0)
            *place_of(hours, room, t->hours[i].hour) = t->hours[i];
    free(t->hours);
    t->hours = hours;
    t->hour_room = room;
    return true;
}

static void find_hour(struct timeline *t, int64_t hour)
{
    t->hour = NULL;
    if (2 * t->hour_count >= t->hour_room && !grow_hours(t))
        return;
    t->hour = place_of(t->hours, t->hour_room, hour);
    t->hour_count += t->hour->requests == 0;
    t->hour->hour = hour;
}

void timeline_add(struct timeline *t, int64_t time, bool denied)
{
    if (!t->current || time < t->current_from || time - t->current_from >= t->width)
        find_point(t, time);
    t->current->requests++;
    t->current->denied += denied;
    if (!t->hour || t->hour->hour != time / HOUR)
        find_hour(t, time / HOUR);
    if (t->hour) {
        t->hour->requests++;
        t->hour->denied += denied;
    }
    t->first = time < t->first ? time : t->first;
    t->last = time > t->last ? time : t->last;
}

static int by_denied(const void *a, const void *b)
{
    const struct timeline_hour *x = a, *y = b;

    if (x->denied != y->denied)
        return x->denied < y->denied ? 1 : -1;
    return x->hour < y->hour ? -1 : x->hour > y->hour;
}

size_t timeline_worst(const struct timeline *t, struct timeline_hour *out, size_t most)
{
    size_t n = 0;

    for (size_t i = 0; i < t->hour_room; i++) {
        if (t->hours[i].denied == 0)
            continue;
        if (n < most) {
            out[n++] = t->hours[i];
            qsort(out, n, sizeof *out, by_denied);
        } else if (by_denied(&t->hours[i], &out[n - 1]) < 0) {
            out[n - 1] = t->hours[i];
            qsort(out, n, sizeof *out, by_denied);
        }
    }
    return n;
}
