/* lane.h - one thread's way to a remote store: the base of all lanes.
 *
 * A store on one server gives each thread a server_lane. A Redis cluster gives it a cluster_lane,
 * which has a server_lane to each node.
 *
 * All calls about a lane are on its reactor's thread, or under its lock. done() may submit and
 * commit, but not detach. */
#ifndef WEIR_STORE_REMOTE_LANE_H
#define WEIR_STORE_REMOTE_LANE_H

#include "store/store.h"

struct lane_ops {
    void (*commit)(struct lane *lane, struct pending *pending);
    void (*detach)(struct lane *lane);
};

struct lane {
    const struct lane_ops *ops;
    struct reactor *reactor;
};

static inline int64_t lane_now(const struct lane *lane)
{
    return lane->reactor->now(lane->reactor);
}

void lane_submit(struct pending *pending, struct question *q);
void lane_commit(struct pending *pending); /* without a lane, questions fail with WEIR_EIO */
void lane_detach(struct lane *lane);

#endif
