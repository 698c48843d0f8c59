/* hyperloglog.c - how many different identities there were, in two kilobytes: a HyperLogLog. */
#include "base/hyperloglog.h"

#include <math.h>

static unsigned char load(const struct hyperloglog *s, size_t i)
{
    return atomic_load_explicit(&s->registers[i], memory_order_relaxed);
}

static void raise_to(struct hyperloglog *s, size_t i, unsigned char value)
{
    if (load(s, i) < value)
        atomic_store_explicit(&s->registers[i], value, memory_order_relaxed);
}

/* A key is a hash already: some of its bits choose the register, others are the random ones. */
void hyperloglog_add(struct hyperloglog *s, struct key key)
{
    const uint64_t bits = key.high | 1; /* so that it ends */

    raise_to(s, key.low % HYPERLOGLOG_REGISTERS, (unsigned char)(1 + __builtin_clzll(bits)));
}

void hyperloglog_clear(struct hyperloglog *s)
{
    for (size_t i = 0; i < HYPERLOGLOG_REGISTERS; i++)
        atomic_store_explicit(&s->registers[i], 0, memory_order_relaxed);
}

void hyperloglog_merge(struct hyperloglog *into, const struct hyperloglog *from)
{
    for (size_t i = 0; i < HYPERLOGLOG_REGISTERS; i++)
        raise_to(into, i, load(from, i));
}

int64_t hyperloglog_count(const struct hyperloglog *s)
{
    const double m = HYPERLOGLOG_REGISTERS, alpha = 0.7213 / (1 + 1.079 / m);
    double sum = 0, estimate;
    size_t empty = 0;

    for (size_t i = 0; i < HYPERLOGLOG_REGISTERS; i++) {
        const unsigned char value = load(s, i);

        sum += ldexp(1, -(int)value);
        empty += value == 0;
    }
    estimate = alpha * m * m / sum;
    if (estimate <= 2.5 * m && empty > 0) /* then the empty ones tell more */
        estimate = m * log(m / (double)empty);
    return (int64_t)llround(estimate);
}
