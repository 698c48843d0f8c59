/* observer.h - what one loop has decided: counters, times, who is limited most, what is logged.
 *
 * A loop's observer is written by that loop alone and read by the loop that answers /metrics,
 * /v1/stats or /v1/top; all of its numbers are atomics or under its own short lock. Its memory is
 * bounded. */
#ifndef WEIR_SERVER_METRICS_OBSERVER_H
#define WEIR_SERVER_METRICS_OBSERVER_H

#include "base/buf.h"
#include "engine/pattern.h"
#include "proto/traceparent.h"
#include "server/metrics/metric_sink.h"
#include "server/metrics/unanswered.h"

struct observer;
struct event_log; /* see event_log.h */

/* What becomes of reservations. The last three are told beside one of the others. */
#define RESERVATION_EVENTS(X)                                                                      \
    X(RESERVED, "reserved")                                                                        \
    X(GROWN, "grown")                                                                              \
    X(NOT_GROWN, "growth_denied")                                                                  \
    X(EXTENDED, "extended")                                                                        \
    X(COMMITTED, "committed")                                                                      \
    X(RELEASED, "released")                                                                        \
    X(LATE, "late")         /* settled after its expiry */                                         \
    X(EXCEEDED, "exceeded") /* settled, and a limit is exceeded */                                 \
    X(REPEATED, "repeated") /* it was done before */

enum reservation_event {
#define X(name, text) RESERVATION_##name,
    RESERVATION_EVENTS(X) RESERVATION_EVENT_COUNT
#undef X
};
extern const char *const reservation_event_names[RESERVATION_EVENT_COUNT];

/* The engine's secret makes the tags. NULL: out of memory. */
struct observer *observer_new(const struct engine *engine, struct event_log *log);
void observer_free(struct observer *o);

/* One check was answered, or something was done with a reservation. A check is counted for its
 * policy as allowed, denied, or shadow_denied: it passed, and a limit in shadow would have refused.
 * Each rule that judged is counted as well: of a check that passed as allowed or shadow_denied, of
 * one that was refused as denied, if it was this rule that refused: what another rule refused was
 * neither allowed by it nor charged. Of a denial, the identity goes to the top list and, sampled,
 * to the log: as a tag. What rules were charged is added up. Charges are counted apart. Peeks,
 * refunds and resets are no decisions and count for nothing; nor does an answer with an error.
 * `trace` is the caller's, for the log; NULL: there is none. True: it was a denial,
 * and another of the same identity at the same time would be no more than counted. */
bool observer_answer(struct observer *o, const struct check *check, const struct traceparent *trace,
                     int64_t now);

/* Answers of one pattern, one after the other, that are counted alike: plain checks and reservations
 * that passed; plain checks that were denied to one key, if the log has no line for them; commits of
 * what was held for one rule. They are counted together, by observer_end_runs() at the latest before a
 * reply is sent. */
struct observer_run {
    uint64_t pattern; /* 0: there is no run */
    uint64_t checks;
    const char *policy;
    weir_source source;
    bool reserves;
    size_t rule_count;
    struct {
        const struct policy_rule *rule;
        int64_t cost;
    } rules[PATTERN_MOST_CHARGES];
    struct key denied; /* to this one */
    int64_t now;       /* then */
};

struct observer_runs {
    struct observer_run denied, passed, committed;
};

void observer_begin_run(struct observer *o, struct observer_runs *runs, const struct check *check,
                        const struct traceparent *trace, int64_t now);
void observer_end_runs(struct observer *o, struct observer_runs *runs);

/* A reservation that was made: not one before, nor one that was used at once. */
static inline bool observer_is_made(const struct check *check)
{
    const weir_answer *a = check->answer;

    return check->verb == VERB_RESERVE && check->pattern != 0 && a->allowed && !a->repeated &&
           a->expires_in_ms > 0;
}

/* Committed in time, for the first time, as it was held, and no limit is exceeded. */
static inline bool observer_is_committed(const struct check *check)
{
    const weir_answer *a = check->answer;

    return check->verb == VERB_SETTLE && check->pattern != 0 && !check->is_release &&
           !check->is_settled_later && a->rule_count == 1 && !a->repeated && !a->expired &&
           a->over == 0 && check->questions->count == 1 && check->questions->charges->cost == 0;
}

/* Is it counted as those of the run are, which is of its pattern? */
static inline bool observer_is_alike(const struct observer_runs *runs,
                                     const struct observer_run *run, const struct check *check)
{
    if (check->is_plain)
        return run == &runs->passed || key_is_same(check->charges->key, run->denied);
    if (run == &runs->committed)
        return observer_is_committed(check) && check->answer->rules[0].policy == run->policy;
    return run == &runs->passed && observer_is_made(check);
}

/* One that was answered without an error: as observer_answer(), or in a run. */
static inline void observer_run(struct observer *o, struct observer_runs *runs,
                                const struct check *check, const struct traceparent *trace,
                                int64_t now)
{
    const weir_answer *a = check->answer;
    struct observer_run *run = check->verb == VERB_SETTLE ? &runs->committed
                               : a->allowed               ? &runs->passed
                                                          : &runs->denied;

    if (check->pattern != 0 && check->pattern == run->pattern && a->source == run->source &&
        observer_is_alike(runs, run, check))
        run->checks++;
    else
        observer_begin_run(o, runs, check, trace, now);
}

/* A check has no answer, and its asker got this text. Counted; some go to the log. */
void observer_unanswered(struct observer *o, enum asked_by by, enum problem problem,
                         const char *text, int64_t now);

/* n decisions took this long from decoded to decided. */
void observer_time(struct observer *o, uint64_t ns, size_t n);
void observer_commit(struct observer *o, uint64_t ns, size_t batch); /* one commit of so many */

/* HTTP, gRPC: its status. RESP: 0, or 1 for an error. */
void observer_request(struct observer *o, int protocol, int status);

/* ---- read from any thread ---- */

/* How many events there were: while it is the same, nothing was reserved. */
uint64_t observers_made(struct observer *const *all, size_t n);

/* The sums over all loops, as metrics and as members of JSON. What has not been asked yet is
 * there with 0, for all policies and rules of the set (NULL: none), so that the first time is seen
 * as an increase. If memory is short, `out` has failed. */
void observers_metrics(struct observer *const *all, size_t n, const struct policies *set,
                       struct metric_sink *m);
void observers_stats(struct observer *const *all, size_t n, const struct policies *set, int64_t now,
                     struct buf *out);

/* The member "limits": what limits in shadow would have denied; see shadow_stats.h. */
struct json;
struct shadow_stats_view;
void observers_shadow_stats(struct observer *const *all, size_t n,
                            const struct shadow_stats_view *view, struct json *j);

/* A JSON array of at most `count`, the most denied first: {"policy", "rule", "tag", "denied",
 * "error", "last_ms"}. `refused` may be too high by `error`. Counts are halved every five minutes.
 * Only of one policy, unless `policy` is NULL. */
void observers_top(struct observer *const *all, size_t n, size_t count, const char *policy,
                   struct buf *out);
void observers_top_at(struct observer *const *all, size_t n, size_t count, const char *policy,
                      int64_t now, struct buf *out);

/* Hand on who was refused how often since the last time: for one caller only. Of those who are
 * refused seldom, some may be left out while many others are. */
typedef void observer_denials(void *ctx, const char *policy, const char *rule, struct key tag,
                              uint64_t times);
void observers_denials(struct observer *const *all, size_t n, observer_denials *each, void *ctx);

#endif
