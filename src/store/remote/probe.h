/* probe.h - a lane's own question, by which it finds out whether the store decides and keeps again.
 *
 * It charges a key that nothing else uses, for a second: if the store can do that, it can do the
 * same for others. */
#ifndef WEIR_STORE_REMOTE_PROBE_H
#define WEIR_STORE_REMOTE_PROBE_H

#include "store/store.h"

struct probe {
    struct charge charge;
    struct rule rule;
    bool is_under_way;
    struct question *question; /* whose done() ends it */
};

/* The question is the beginning of `size` bytes, which a backend may use; 0: of its own size. NULL:
 * out of memory. */
struct probe *probe_new(const weir_allocator *allocator, size_t size);
void probe_free(struct probe *p, const weir_allocator *allocator); /* NULL is fine */

/* The question, to be asked anew; one at a time. */
struct question *probe_begin(struct probe *p, int64_t deadline);

#endif
