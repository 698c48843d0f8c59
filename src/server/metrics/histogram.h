/* histogram.h - how often a number was how large, in fixed buckets.
 *
 * One thread adds, any number of threads read; none of them waits. */
#ifndef WEIR_SERVER_METRICS_HISTOGRAM_H
#define WEIR_SERVER_METRICS_HISTOGRAM_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { HISTOGRAM_MOST = 24 };

/* Where its buckets end, ascending; each includes its end. */
struct histogram_scale {
    size_t count; /* one more bucket has what is beyond the last */
    uint64_t ends[HISTOGRAM_MOST - 1];
};

struct histogram {
    const struct histogram_scale *scale;
    atomic_uint_fast64_t counts[HISTOGRAM_MOST]; /* of each bucket alone */
    atomic_uint_fast64_t sum;
};

/* For numbers that one thread changes and others read: no more than a load and a store. */
static inline void count_up(atomic_uint_fast64_t *counter, uint64_t by)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by,
                          memory_order_relaxed);
}

static inline uint64_t count_of(const atomic_uint_fast64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

extern const struct histogram_scale histogram_times; /* ns: 1 us to 1 s */
extern const struct histogram_scale histogram_sizes; /* 1 to 4096 */

void histogram_init(struct histogram *h, const struct histogram_scale *scale);
void histogram_add(struct histogram *h, uint64_t value, uint64_t times);
void histogram_merge(struct histogram *into, const struct histogram *from); /* of the same scale */

uint64_t histogram_count(const struct histogram *h);

/* The end of the bucket that has the value which `per_mille` of all values do not exceed. What is
 * beyond the last end is given as that end. 0: there are none. */
uint64_t histogram_quantile(const struct histogram *h, uint64_t per_mille);

#endif
