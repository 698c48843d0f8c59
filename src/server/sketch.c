/* sketch.c - how many different identities there were, in two kilobytes: a HyperLogLog. */
#include "server/sketch.h"

#include <math.h>

static unsigned char load(const struct sketch *s, size_t i)
{
    return atomic_load_explicit(&s->registers[i], memory_order_relaxed);
}

static void raise_to(struct sketch *s, size_t i, unsigned char value)
{
    if (load(s, i) < value)
        atomic_store_explicit(&s->registers[i], value, memory_order_relaxed);
}

/* A key is a hash already: some of its bits choose the register, others are the random ones. */
void sketch_add(struct sketch *s, struct key key)
{
    const uint64_t bits = key.high | 1; /* so that it ends */

    raise_to(s, key.low % SKETCH_REGISTERS, (unsigned char)(1 + __builtin_clzll(bits)));
}

void sketch_clear(struct sketch *s)
{
    for (size_t i = 0; i < SKETCH_REGISTERS; i++)
        atomic_store_explicit(&s->registers[i], 0, memory_order_relaxed);
}

void sketch_merge(struct sketch *into, const struct sketch *from)
{
    for (size_t i = 0; i < SKETCH_REGISTERS; i++)
        raise_to(into, i, load(from, i));
}

int64_t sketch_count(const struct sketch *s)
{
    const double m = SKETCH_REGISTERS, alpha = 0.7213 / (1 + 1.079 / m);
    double sum = 0, estimate;
    size_t empty = 0;

    for (size_t i = 0; i < SKETCH_REGISTERS; i++) {
        const unsigned char value = load(s, i);

        sum += ldexp(1, -(int)value);
        empty += value == 0;
    }
    estimate = alpha * m * m / sum;
    if (estimate <= 2.5 * m && empty > 0) /* then the empty ones tell more */
        estimate = m * log(m / (double)empty);
    return (int64_t)llround(estimate);
}
