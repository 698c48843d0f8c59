/* sketch.h - how many different identities there were, in two kilobytes: a HyperLogLog.
 *
 * Up to some thousand it is off by one or two percent, beyond that by two or three. One thread adds,
 * any number of threads read. */
#ifndef WEIR_SERVER_SKETCH_H
#define WEIR_SERVER_SKETCH_H

#include <stdatomic.h>

#include "base/hash.h"

enum { SKETCH_REGISTERS = 2048 };

struct sketch {
    atomic_uchar registers[SKETCH_REGISTERS];
};

void sketch_add(struct sketch *s, struct key key);
void sketch_clear(struct sketch *s);
void sketch_merge(struct sketch *into, const struct sketch *from);
int64_t sketch_count(const struct sketch *s);

#endif
