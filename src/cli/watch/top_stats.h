/* top_stats.h - what a server tells about itself, and how fast it changes. */
#ifndef WEIR_CLI_WATCH_TOP_STATS_H
#define WEIR_CLI_WATCH_TOP_STATS_H

#include "base/span.h"
#include "weir.h"

enum { TOP_IDENTITIES = 64, TOP_NAME = 2 * WEIR_MAX_NAME + 2 };

/* A policy, or below it one of its rules. Allowed includes what would be denied without shadow. */
struct top_row {
    char policy[WEIR_MAX_NAME + 32];
    char rule[WEIR_MAX_NAME + 1]; /* "": it is the policy's */
    int64_t allowed, denied, shadow_denied;
    double allowed_rate, denied_rate, shadow_rate; /* a second */
};

struct top_identity {
    char name[TOP_NAME];
    char tag[40];
    int64_t denied; /* at least so often: the server does not remember every identity */
    int64_t last_ms;
};

struct top_stats {
    char version[24];
    int64_t now_ms, started_ms, threads, memory;
    int64_t connections, max_connections, refused_connections, reload_failures;
    int64_t keys, max_keys; /* -1: it is not known */
    int64_t evicted_keys, journal_bytes;
    int64_t leases, lease_checks, lease_requests;
    int64_t requests, failed_requests;
    double request_rate;
    int64_t held, expired;             /* reservations: now, and unsettled in the last minutes */
    int64_t unanswered, unanswered_ms; /* checks without an answer, and in how long */
    char unanswered_why[256];          /* the last reason; "": there is none */
    int64_t decision_p50_ns, decision_p99_ns, commit_p99_ns;
    bool is_draining, has_failed;

    struct top_row *rows; /* the busiest policy first; those of several rules have these below */
    size_t row_count;
    struct top_identity identities[TOP_IDENTITIES]; /* as the server orders them */
    size_t identity_count;
    bool hides_identities; /* the token does not let one see them */
};

/* From the bodies of /v1/stats and /v1/top, which is empty if it was refused. Rates are since
 * `before`, or since the server started if that is NULL or of another life. False: it is not what a
 * server of weir says. */
bool top_stats_read(struct top_stats *s, const struct top_stats *before, struct span stats,
                    struct span top);
void top_stats_done(struct top_stats *s);

#endif
