/* histogram.c - how often a number was how large, in fixed buckets. */
#include "server/metrics/histogram.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)

const struct histogram_scale histogram_times = {
    19,
    { 1 * US, 2500, 5 * US, 10 * US, 25 * US, 50 * US, 100 * US, 250 * US, 500 * US, 1 * MS,
      2500 * US, 5 * MS, 10 * MS, 25 * MS, 50 * MS, 100 * MS, 250 * MS, 500 * MS, 1000 * MS },
};

const struct histogram_scale histogram_sizes = {
    13,
    { 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096 },
};

void histogram_init(struct histogram *h, const struct histogram_scale *scale)
{
    h->scale = scale;
    for (size_t i = 0; i <= scale->count; i++)
        atomic_init(&h->counts[i], 0);
    atomic_init(&h->sum, 0);
}

void histogram_add(struct histogram *h, uint64_t value, uint64_t times)
{
    size_t i = 0;

    while (i < h->scale->count && value > h->scale->ends[i])
        i++;
    count_up(&h->counts[i], times);
    count_up(&h->sum, value * times);
}

void histogram_merge(struct histogram *into, const struct histogram *from)
{
    for (size_t i = 0; i <= into->scale->count; i++)
        count_up(&into->counts[i], count_of(&from->counts[i]));
    count_up(&into->sum, count_of(&from->sum));
}

uint64_t histogram_count(const struct histogram *h)
{
    uint64_t n = 0;

    for (size_t i = 0; i <= h->scale->count; i++)
        n += count_of(&h->counts[i]);
    return n;
}

uint64_t histogram_quantile(const struct histogram *h, uint64_t per_mille)
{
    const uint64_t all = histogram_count(h);
    const uint64_t wanted = all / 1000 * per_mille + (all % 1000 * per_mille + 999) / 1000;
    uint64_t n = 0;

    for (size_t i = 0; i < h->scale->count; i++) {
        n += count_of(&h->counts[i]);
        if (n >= wanted && n > 0)
            return h->scale->ends[i];
    }
    return all > 0 ? h->scale->ends[h->scale->count - 1] : 0;
}
