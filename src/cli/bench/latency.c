/* latency.c - how long things took: a histogram of constant precision. */
#include "cli/bench/latency.h"

enum { PER_POWER = 1 << LATENCY_BITS };

static size_t bucket_of(uint64_t ns)
{
    unsigned shift;

    if (ns < PER_POWER)
        return (size_t)ns;
    shift = 63u - (unsigned)__builtin_clzll(ns) - LATENCY_BITS;
    return ((size_t)(shift + 1) << LATENCY_BITS) + (size_t)((ns >> shift) - PER_POWER);
}

uint64_t latency_bucket_end(size_t bucket)
{
    const size_t power = bucket >> LATENCY_BITS;

    if (power == 0)
        return bucket;
    return (((uint64_t)(bucket & (PER_POWER - 1)) + PER_POWER + 1) << (power - 1)) - 1;
}

void latency_add(struct latency *l, uint64_t ns)
{
    l->counts[bucket_of(ns)]++;
    l->sum_ns += ns;
    if (l->count == 0 || ns < l->min_ns)
        l->min_ns = ns;
    if (ns > l->max_ns)
        l->max_ns = ns;
    l->count++;
}

void latency_merge(struct latency *into, const struct latency *from)
{
    if (from->count == 0)
        return;
    for (size_t i = 0; i < LATENCY_BUCKETS; i++)
        into->counts[i] += from->counts[i];
    if (into->count == 0 || from->min_ns < into->min_ns)
        into->min_ns = from->min_ns;
    if (from->max_ns > into->max_ns)
        into->max_ns = from->max_ns;
    into->count += from->count;
    into->sum_ns += from->sum_ns;
}

uint64_t latency_quantile(const struct latency *l, double fraction)
{
    const double wanted = fraction * (double)l->count;
    uint64_t seen = 0;

    for (size_t i = 0; i < LATENCY_BUCKETS; i++) {
        seen += l->counts[i];
        if (seen > 0 && (double)seen >= wanted)
            return latency_bucket_end(i) < l->max_ns ? latency_bucket_end(i) : l->max_ns;
    }
    return l->max_ns;
}
