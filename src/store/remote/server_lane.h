/* server_lane.h - one thread's way to one server: links, a queue of what waits for room on them,
 * and a breaker. See remote.h for the rules. */
#ifndef WEIR_STORE_REMOTE_SERVER_LANE_H
#define WEIR_STORE_REMOTE_SERVER_LANE_H

#include "store/remote/breaker.h"
#include "store/remote/lane.h"
#include "store/remote/link.h"
#include "store/remote/probe.h"

struct server_lane {
    struct lane base; /* the first member */
    struct remote *remote;
    struct watch *timer;
    int64_t wakes_at;           /* of the timer; NEVER: it is not set */
    struct question_list queue; /* not sent yet, by deadline */
    struct breaker breaker;
    struct probe *probe;
    struct link links[];
};

struct lane *server_lane_attach(struct remote *r, struct reactor *reactor); /* NULL: no memory */
bool server_lane_is_idle(const struct lane *lane); /* a server_lane; no question is open there */

/* ---- for its links --------------------------------------------------------------------------- */

/* Send what can be sent, then call done() of these; each list may be NULL. */
void server_lane_go_on(struct server_lane *lane, struct question_list *decided,
                       struct question_list *failed);

/* Queue them again, in the order of deadlines. */
void server_lane_put_back(struct server_lane *lane, struct question_list *again);

/* These were not answered in time, or not at all: their keys are candidates (locked_keys.h). */
void server_lane_add_candidates(const struct server_lane *lane, const struct question_list *list);

#endif
