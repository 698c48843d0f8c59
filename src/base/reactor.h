/* reactor.h - what code that waits for sockets needs from the loop.
 *
 * A server has one on each of its event loops, the library one that waits in the caller's thread.
 * All calls and callbacks are on the reactor's thread, or under its lock. */
#ifndef WEIR_BASE_REACTOR_H
#define WEIR_BASE_REACTOR_H

#include <stdint.h>

enum { REACTOR_READ = 1, REACTOR_WRITE = 2 };

struct watch; /* of one socket, or of one moment */

struct reactor {
    /* Call ready() while any of `events` holds. NULL: out of memory. */
    struct watch *(*watch)(struct reactor *r, int fd, unsigned events,
                           void (*ready)(void *ctx, unsigned events), void *ctx);
    void (*rewatch)(struct watch *w, unsigned events);

    /* Call due() once, in so many ms. NULL: out of memory. */
    struct watch *(*timer)(struct reactor *r, void (*due)(void *ctx), void *ctx);
    void (*set)(struct watch *w, int64_t ms); /* below 0: not at all */

    void (*unwatch)(struct watch *w);        /* of either kind; NULL is fine */
    int64_t (*now)(const struct reactor *r); /* ms of a clock that never steps */
};

#endif
