/* history_internal.h - the history as its own files know it: counting, and as bytes. */
#ifndef WEIR_STORE_HISTORY_INTERNAL_H
#define WEIR_STORE_HISTORY_INTERNAL_H

#include "store/history.h"

enum { MINUTES, HOURS, STREAMS };

#define LATEST ((uint64_t)1 << 32) /* minute: in the year 10136 */

/* Times are in units since the epoch. */
struct slot {
    uint64_t time;
    uint64_t counts[HISTORY_COUNTS];
};

struct stream {
    struct buf closed;
    uint64_t before, last; /* of the closed entries: see history.c, and the time of the newest */
    struct slot open;      /* .time 0: there is none */
};

struct series {
    char *policy, *rule;
    struct stream streams[STREAMS];
};

struct history {
    weir_allocator allocator;
    size_t most_bytes, bytes; /* of closed entries */
    uint64_t newest;          /* hour */
    uint64_t since[STREAMS];  /* nothing before is left; minutes begin with an hour */
    struct series **all;
    size_t count, room;
};

/* The closed entry that `from` begins with; `before` is the time of the one before it. */
bool history_next_slot(struct span *from, uint64_t before, struct slot *out);

struct series *history_add_series(struct history *h, const char *policy, const char *rule);

#endif
