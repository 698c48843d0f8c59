/* remote.c - what all stores have in common that are on another machine. */
#include "store/remote/remote.h"

#include <stdio.h>

#include "store/remote/lane.h"

void remote_log(const struct remote *r, const char *what, const char *why)
{
    char line[512];

    if (!r->log)
        return;
    snprintf(line, sizeof line, "%s %s%s%.400s", r->name, what, why ? ": " : "", why ? why : "");
    r->log(r->log_ctx, line);
}

void remote_stats(struct remote *r, weir_stats *stats)
{
    *stats = (weir_stats){
        .keys = -1,
        .max_keys = -1,
        .evicted_keys = -1,
        .expired_keys = -1,
        .memory_bytes = -1,
        .store_failures = atomic_load(&r->failures),
        .has_failed = atomic_load(&r->open_breakers) > 0,
        .breakers = atomic_load(&r->lanes),
        .breakers_open = atomic_load(&r->open_breakers),
    };
}

void remote_submit(struct store *s, struct pending *pending, struct question *q)
{
    (void)s;
    lane_submit(pending, q);
}

void remote_commit(struct store *s, struct pending *pending)
{
    (void)s;
    lane_commit(pending);
}

void remote_detach(struct store *s, struct lane *lane)
{
    (void)s;
    lane_detach(lane);
}
