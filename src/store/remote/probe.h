/* probe.h - a question of a store's own, by which it finds out whether another machine decides and
 * keeps again.
 *
 * It charges a key that nothing else counts by, for a second: what can be charged and kept for it
 * can be for others. */
#ifndef WEIR_STORE_REMOTE_PROBE_H
#define WEIR_STORE_REMOTE_PROBE_H

#include "store/store.h"

struct probe {
    struct charge charge;
    struct rule rule;
    bool is_under_way;
    struct question *question; /* whose done() ends it */
};

/* The question begins `size` bytes that are a backend's; 0: it is all there is. NULL: out of memory. */
struct probe *probe_new(const weir_allocator *allocator, size_t size);
void probe_free(struct probe *p, const weir_allocator *allocator); /* NULL is fine */

/* The question, to be asked anew; one at a time. */
struct question *probe_begin(struct probe *p, int64_t deadline);

#endif
