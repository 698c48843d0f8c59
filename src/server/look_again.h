/* look_again.h - a loop that looks at its sockets again before it sleeps, while that pays. */
#ifndef WEIR_SERVER_LOOK_AGAIN_H
#define WEIR_SERVER_LOOK_AGAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LOOK_AGAIN_SERVED = 4 }; /* connections that are few */

struct look_again {
    bool is_looking;       /* the loop is not to sleep */
    uint64_t worked_ns;    /* the end of the last turn that had work */
    unsigned short_pauses; /* of the last ones, a long one counts for several */
    bool has_other_core;
    bool has_waited;    /* since then, to gather; `worked_ns` is the end of that */
    unsigned lone;      /* turns in a row whose requests came one by one, soon after each other */
    unsigned lone_mean; /* when so many mean that they are worth gathering */
    unsigned gathered;  /* turns left for which requests are gathered; 0: they are not */
    unsigned missed;    /* turns in a row that gathered in vain */
    unsigned gather_times;              /* how long they are gathered for */
    bool is_trying;                     /* … is being tried */
    unsigned tried;                     /* for so many turns, which have … */
    size_t found, found_before;         /* … so many requests; half the time had so many */
    uint64_t served[LOOK_AGAIN_SERVED]; /* the last connections, by their ids … */
    unsigned next_served;               /* … of which this is the first to be forgotten */
};

/* What a turn had to do. */
struct turn_work {
    size_t requests, connections; /* so many requests, of so many connections … */
    size_t served_before;         /* … that look_again_serves() knew */
};

/* A connection is served: was it one of the last few that were? */
static inline bool look_again_serves(struct look_again *l, uint64_t id)
{
    for (size_t i = 0; i < LOOK_AGAIN_SERVED; i++)
        if (l->served[i] == id)
            return true;
    l->served[l->next_served] = id;
    l->next_served = (l->next_served + 1) % LOOK_AGAIN_SERVED;
    return false;
}

void look_again_init(struct look_again *l);

/* Before each look: let others run, and wait if several requests may be worth it. */
void look_again_wait(struct look_again *l);

/* After each turn. `had_work`: it had requests, or replies to send. */
void look_again_after(struct look_again *l, bool had_work, const struct turn_work *work);

/* The same at a time of the monotonic clock. */
void look_again_at(struct look_again *l, uint64_t now, bool had_work, const struct turn_work *work);

#endif
