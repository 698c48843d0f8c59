/* guard.h - how much work a client of HTTP/2 may cause without asking for anything.
 *
 * Every frame takes something from what a connection has left, a request that is asked gives it more
 * than its frames took, and time gives a little. So floods of frames that cost their sender nothing
 * (settings, pings, resets, empty data, errors) end the connection, and those who ask do not notice
 * it. */
#ifndef WEIR_SERVER_HTTP2_GUARD_H
#define WEIR_SERVER_HTTP2_GUARD_H

#include <stdbool.h>
#include <stdint.h>

enum {
    GUARD_MOST = 4096,         /* frames without a request … */
    GUARD_MOST_UNKNOWN = 1024, /* … of a client without a token */
    GUARD_A_SECOND = 200,      /* more of them, with time */
    GUARD_EARNED = 8,          /* by a request */
    GUARD_ERROR = 32,          /* an error of the client costs as much as so many frames … */
    GUARD_REFUSED = 1,         /* … a stream too many less: it may not know better yet */
};

struct guard {
    int64_t left, most;
    uint64_t since_ms; /* when time was last counted */
};

static inline struct guard guard_new(uint64_t now_ms)
{
    return (struct guard){ GUARD_MOST_UNKNOWN, GUARD_MOST_UNKNOWN, now_ms };
}

/* Time has its turn only when nothing is left. False: it was too much. */
static inline bool guard_take(struct guard *g, int64_t cost, uint64_t now_ms)
{
    g->left -= cost;
    if (g->left >= 0)
        return true;
    g->left += (int64_t)(now_ms - g->since_ms) * GUARD_A_SECOND / 1000;
    g->since_ms = now_ms;
    if (g->left > g->most)
        g->left = g->most;
    return g->left >= 0;
}

/* A client that has become known has as much left as if it had been from its first frame. */
static inline void guard_earn(struct guard *g, bool is_known)
{
    if (is_known && g->most < GUARD_MOST) {
        g->left += GUARD_MOST - g->most;
        g->most = GUARD_MOST;
    }
    if (g->left < g->most)
        g->left += GUARD_EARNED;
}

#endif
