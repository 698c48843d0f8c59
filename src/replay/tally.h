/* tally.h - what a set of policies did to the requests of a log, by rule.
 *
 * A row is a rule, or the shadow limit beside one. A rule in shadow denies nothing; what it would
 * have denied is counted as denied in its row, and not among the requests that were denied. */
#ifndef WEIR_REPLAY_TALLY_H
#define WEIR_REPLAY_TALLY_H

#include "engine/engine.h"
#include "replay/identities.h"
#include "replay/timeline.h"

struct tally_row {
    const struct policy_rule *rule;
    const struct counted *counted; /* its numbers, or those of its shadow limit */
    bool is_shadow_limit;
    uint16_t index;
    int64_t requests, cost, denied;
    int64_t longest_wait; /* of what was denied; a wait without end is counted by: */
    int64_t never;
    int64_t window_from, window_to; /* of the last request, and its number */
    uint32_t window;
    struct timeline timeline;
};

struct tally {
    const struct engine *engine;
    struct tally_row *rows; /* in the order of the file */
    size_t row_count;
    const struct counted **slots; /* by their place in memory: rows, by slot_rows */
    uint16_t *slot_rows;
    size_t slot_mask;
    struct tally_row *last; /* that was found */
    int64_t judged, denied, shadow_denied, exempt, off;
    int64_t first, last_time; /* of requests that were judged */
    struct identities identities;
};

WEIR_MUSTCHECK weir_err tally_init(struct tally *t, const struct engine *engine,
                                   const struct policies *set, bool keeps_raw);
void tally_done(struct tally *t);

/* Bring near what tally_add() will look at. */
void tally_prefetch(const struct tally *t, const struct check *check);

/* A check that was asked for at this time. */
void tally_add(struct tally *t, const struct check *check, int64_t time);

#endif
