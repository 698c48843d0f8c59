/* decision_counts.h - checks counted by policy, and what rules decided by policy and rule; both by
 * outcome and source. Beside them charges, and what rules were charged.
 *
 * Keyed by the pointers of names, which the handle keeps once each until it closes. One thread
 * counts, any number of threads read; none of them waits. Bounded: reloads that bring ever new
 * names end in a series for all others. */
#ifndef WEIR_SERVER_METRICS_DECISION_COUNTS_H
#define WEIR_SERVER_METRICS_DECISION_COUNTS_H

#include "server/metrics/histogram.h"
#include "weir.h"

enum { DECISION_COUNTS_MOST = 4096 };

enum {
#define X(name, value, text) DECISION_COUNTS_INDEX_##name,
    WEIR_SOURCES(X) DECISION_COUNTS_SOURCES
#undef X
};

enum outcome { OUTCOME_ALLOWED, OUTCOME_DENIED, OUTCOME_SHADOW_DENIED, OUTCOME_COUNT };
extern const char *const outcome_names[OUTCOME_COUNT];

static inline enum outcome outcome_of(const weir_answer *a)
{
    return !a->allowed ? OUTCOME_DENIED : a->shadow ? OUTCOME_SHADOW_DENIED : OUTCOME_ALLOWED;
}

/* No policy's name: a parenthesis cannot stand in one. What there is no room for is counted under
 * named_other, as limits are whose names are not kept. */
#define DECISION_COUNTS_UNNAMED                                                                    \
    "(unnamed)" /* limits that came with their requests, without a name */

struct decision_counts {
    const char *policy, *rule;
    atomic_uint_fast64_t counts[OUTCOME_COUNT][DECISION_COUNTS_SOURCES];
    atomic_uint_fast64_t charges[DECISION_COUNTS_SOURCES]; /* of checks' series */
    atomic_uint_fast64_t used;       /* of a rule's: the costs that it was charged */
    atomic_uint_fast64_t given_back; /* … of them, what commits gave back */
    atomic_uint_fast64_t overrun;    /* … of them, what commits had used beyond what was held */
    _Atomic(const char *) unit;      /* … and of what; NULL: requests */
};

struct decision_counts_table {
    atomic_size_t count;
    uint16_t
        slots[2 * DECISION_COUNTS_MOST]; /* 1 + place in all[]; 0: free. The counting thread's. */
    struct decision_counts *last;        /* found; the counting thread's */
    struct decision_counts all[DECISION_COUNTS_MOST]; /* never moved */
    size_t known; /* of a sum: the first so many are told with their zeros */
};

/* The rule under which whole checks are counted. */
extern const char series_checks[];

/* `rule` is that of limits that came with their requests. NULL: out of memory. */
struct decision_counts_table *decision_counts_new(const char *rule);
void decision_counts_free(struct decision_counts_table *t);

/* `policy` NULL: a limit that came with its request. */
struct decision_counts *decision_counts_find(struct decision_counts_table *t, const char *policy,
                                             const char *rule);
static inline const char *decision_counts_unit(const struct decision_counts *s)
{
    return atomic_load_explicit(&s->unit, memory_order_relaxed);
}
static inline void decision_counts_set_unit(struct decision_counts *s, const char *unit)
{
    atomic_store_explicit(&s->unit, unit, memory_order_relaxed);
}

void decision_counts_merge(struct decision_counts_table *into,
                           const struct decision_counts_table *from);

#endif
