/* shadow_stats.h - what limits on trial would have refused, beside what was refused.
 *
 * On trial is a rule in shadow, one that is rolled out to a share of its identities, and a
 * shadow_limit. Counted from when its numbers were first seen: a reload that changes them begins
 * anew. What on_error decided says nothing about a limit, and is left out.
 *
 * A limit that comes with requests and has a name is on trial while an operator has that name in
 * shadow. Requests may bring it with different numbers at the same time: each is a trial of its
 * own.
 *
 * A loop's shadow_stats are written by that loop alone, and read by any thread. Bounded: what
 * reloads bring beyond SHADOW_STATS_MOST is not counted, nor what requests bring beyond
 * NAMED_NUMBERS under one name. */
#ifndef WEIR_SERVER_METRICS_SHADOW_STATS_H
#define WEIR_SERVER_METRICS_SHADOW_STATS_H

#include "base/hyperloglog.h"
#include "base/json.h"
#include "engine/engine.h"
#include "engine/override_index.h"
#include "server/metrics/histogram.h"

enum { SHADOW_STATS_MOST = 128 };

enum trial_kind { TRIAL_MODE, TRIAL_ROLLOUT, TRIAL_SHADOW_LIMIT };

/* Of those who were asked about. */
struct shadow_side {
    atomic_uint_fast64_t requests, refused;
    struct hyperloglog identities, denied_identities;
};

struct shadow_stat {
    const char *policy, *rule; /* kept once, and compared by where they are */
    enum trial_kind kind;
    bool is_named; /* it came with requests */
    struct rule numbers;
    int rollout;
    _Atomic int64_t since;
    struct shadow_side tried;
    struct shadow_side live;   /* of a shadow_limit: the limit; in shadow: the policy; rolled out:
                                  those whom it has reached */
    atomic_uint_fast64_t both; /* refused by the one and by the other */
};

struct shadow_stats {
    atomic_size_t count;
    struct shadow_stat all[SHADOW_STATS_MOST];
};

struct shadow_stats *shadow_stats_new(void); /* NULL: out of memory */
void shadow_stats_free(struct shadow_stats *t);

/* One check was answered. */
void shadow_stats_observe(struct shadow_stats *t, const struct check *check, int64_t now);

/* What is on trial: by the file, and by operators who have put a policy into another mode. */
struct shadow_stats_view {
    const struct policies *set;             /* NULL: none */
    const struct override_index *overrides; /* NULL: operators have changed nothing */
    int64_t now;
    const char *policy; /* of this one only; NULL: of all */
};

/* A JSON array of all of it, over all loops. If memory is short, it has failed. */
void shadow_stats_write(struct shadow_stats *const *all, size_t n,
                        const struct shadow_stats_view *view, struct json *j);

#endif
