/* peaks.h - how many identities had which peak: a histogram with bounded error.
 *
 * Up to 31 each number is its own; above, one of 16 for each doubling, so that a number is off by
 * at most a sixteenth. */
#ifndef WEIR_REPLAY_PEAKS_H
#define WEIR_REPLAY_PEAKS_H

#include <stddef.h>
#include <stdint.h>

enum { PEAKS_STEPS = 16, PEAKS_BUCKETS = 2 * PEAKS_STEPS + 58 * PEAKS_STEPS };

struct peaks {
    int64_t count;
    int64_t largest;
    int64_t buckets[PEAKS_BUCKETS];
};

static inline size_t peaks_bucket(int64_t value)
{
    unsigned shift;

    if (value < 2 * PEAKS_STEPS)
        return value < 0 ? 0 : (size_t)value;
    shift = 59 - (unsigned)__builtin_clzll((uint64_t)value);
    return (size_t)(shift + 1) * PEAKS_STEPS + ((uint64_t)value >> shift) - PEAKS_STEPS;
}

/* The largest number of a bucket. */
static inline int64_t peaks_upper(size_t bucket)
{
    const size_t shift = bucket / PEAKS_STEPS - 1;

    if (bucket < 2 * PEAKS_STEPS)
        return (int64_t)bucket;
    return (int64_t)(((bucket % PEAKS_STEPS + PEAKS_STEPS + 1) << shift) - 1);
}

static inline void peaks_add(struct peaks *p, int64_t value)
{
    p->count++;
    p->largest = value > p->largest ? value : p->largest;
    p->buckets[peaks_bucket(value)]++;
}

#endif
