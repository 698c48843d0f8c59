/* crew.h - threads that work through loads which one thread fills.
 *
 * Loads are worked through in any order, several at once. The threads are started with the first
 * heavy loads, so that little work starts none; without them, or if none can be had, the caller
 * does the work as it hands it over. */
#ifndef WEIR_BASE_CREW_H
#define WEIR_BASE_CREW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"

enum { CREW_MOST_HANDS = 8, CREW_HEAVY = 256 << 10 };

struct load {
    char *bytes;
    size_t len, room;
    uint64_t at;       /* where the bytes are from, for those who want to know */
    bool is_under_way; /* the crew's */
};

bool load_reserve(struct load *l, size_t more, const weir_allocator *allocator);

struct crew;

WEIR_MUSTCHECK weir_err crew_new(struct crew **out, unsigned hands, /* 0 or 1: no threads */
                                 const weir_allocator *allocator);
void crew_free(struct crew *c); /* when all is done that was handed over */

/* Have it worked through. Until that is done, the load is not to be touched. */
void crew_hand(struct crew *c, struct load *l, void (*work)(void *ctx, const struct load *l),
               void *ctx);

void crew_wait_for(struct crew *c, const struct load *l);
void crew_wait(struct crew *c); /* for all */

unsigned crew_processors(void); /* that this process may use, at most CREW_MOST_HANDS */

#endif
