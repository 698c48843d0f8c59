/* pushed.h - the policies that were pushed into a store, for those who ask it without a server, and
 * whether they are those that are in force here.
 *
 * Compared at the start, after a reload, and when the store has news: by a thread that may wait. */
#ifndef WEIR_ENGINE_PUSHED_H
#define WEIR_ENGINE_PUSHED_H

#include "base/published.h"
#include "store/store.h"

struct pushed;

/* `policies` are a struct policies or NULL, and like the store are borrowed. */
WEIR_MUSTCHECK weir_err pushed_new(struct pushed **out, struct store *store,
                                   struct published *policies, const weir_allocator *allocator);
void pushed_free(struct pushed *p); /* NULL is fine */

/* From any thread: one of both may have changed. NULL is fine. */
void pushed_want(struct pushed *p);

/* By one thread, which may have to wait. What differs is logged when that has changed. */
void pushed_tick(struct pushed *p, void (*log)(void *ctx, const char *line), void *log_ctx);

/* From any thread: the names of those that differ, in order; and whether there was a comparison
 * yet, which there never is with a store that nothing can be pushed into. */
void pushed_each(struct pushed *p, void (*visit)(void *ctx, const char *name), void *ctx);
bool pushed_is_known(struct pushed *p);

#endif
