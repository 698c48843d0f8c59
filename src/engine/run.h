/* run.h - checks of one pattern that are asked one after the other: only what differs is written.
 *
 * There is no struct check. The store is in this process, so all of them are done when its commit
 * returns; then one check tells their answers, one after the other. */
#ifndef WEIR_ENGINE_RUN_H
#define WEIR_ENGINE_RUN_H

#include "engine/short_identity.h"

enum { RUN_MOST = 16 };

struct run {
    const struct pattern *pattern;
    enum pattern_kind kind; /* the pattern's then: it may be forgotten meanwhile */
    uint64_t made_by; /* whose the first `made` questions and charges are, but for what differs */
    size_t made;
    size_t count;  /* checks … */
    size_t hashed; /* … and those whose keys are known */
    int64_t now;   /* when they were asked */
    struct whose whose[RUN_MOST];
    struct question questions[RUN_MOST];
    struct charge charges[RUN_MOST * PATTERN_MOST_CHARGES];
};

/* May a check of this pattern with this key be in a run? */
static inline bool run_takes(const struct pattern *p, struct span key)
{
    return p->may_run && key.len > 0 && key.len <= SHORT_VALUE_MOST &&
           (p->kind == PATTERN_CELL || utf8_is_plain(key) || utf8_is_text(key));
}

void run_init(struct run *run);

/* The pattern holds, and stays where it is until all is told. */
void run_begin(struct run *run, const struct pattern *p);

/* One more; it is not full. */
void run_put(struct engine *e, struct run *run, struct span key);

static inline bool run_is_full(const struct run *run)
{
    return run->count == RUN_MOST;
}

void run_ask(struct engine *e, struct pending *pending, struct run *run,
             const struct policies *policies, int64_t now);

/* It is committed. A check that tells what came of its members, one after the other: only its room,
 * its answer and its policies need be there. */
void run_begin_telling(struct engine *e, const struct run *run, struct check *teller);
void run_tell(struct run *run, size_t i, struct check *teller);

#endif
