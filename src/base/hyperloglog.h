/* hyperloglog.h - how many different identities there were, in two kilobytes: a HyperLogLog.
 *
 * Up to some thousand it is off by one or two percent, beyond that by two or three. One thread
 * adds, any number of threads read. */
#ifndef WEIR_BASE_HYPERLOGLOG_H
#define WEIR_BASE_HYPERLOGLOG_H

#include <stdatomic.h>

#include "base/hash.h"

enum { HYPERLOGLOG_REGISTERS = 2048 };

struct hyperloglog {
    atomic_uchar registers[HYPERLOGLOG_REGISTERS];
};

void hyperloglog_add(struct hyperloglog *s, struct key key);
void hyperloglog_clear(struct hyperloglog *s);
void hyperloglog_merge(struct hyperloglog *into, const struct hyperloglog *from);
int64_t hyperloglog_count(const struct hyperloglog *s);

#endif
