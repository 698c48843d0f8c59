/* latency.h - how long things took: a histogram of constant precision.
 *
 * Log-linear: every power of two has as many buckets as every other, so a value is known to less
 * than one percent, from nanoseconds to centuries, in memory that never grows. */
#ifndef WEIR_CLI_BENCH_LATENCY_H
#define WEIR_CLI_BENCH_LATENCY_H

#include <stddef.h>
#include <stdint.h>

enum {
    LATENCY_BITS = 7, /* 128 buckets a power of two */
    LATENCY_BUCKETS = (64 - LATENCY_BITS + 1) << LATENCY_BITS,
};

struct latency {
    uint64_t counts[LATENCY_BUCKETS];
    uint64_t count, sum_ns, min_ns, max_ns; /* exact; min and max only if count > 0 */
};

void latency_add(struct latency *l, uint64_t ns);
void latency_merge(struct latency *into, const struct latency *from);

/* At most so much for `fraction` of them (0.99); 0 if there are none. */
uint64_t latency_quantile(const struct latency *l, double fraction);

uint64_t latency_bucket_end(size_t bucket); /* the largest value that falls into it */

#endif
