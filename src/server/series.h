/* series.h - checks counted by policy, and what rules decided by policy and rule; both by outcome
 * and source.
 *
 * Keyed by the pointers of names, which the handle keeps once each until it closes. One thread
 * counts, any number of threads read; nobody waits. Bounded: reloads that bring ever new names end
 * in a series for all others. */
#ifndef WEIR_SERVER_SERIES_H
#define WEIR_SERVER_SERIES_H

#include "server/histogram.h"
#include "weir.h"

enum { SERIES_MOST = 4096, SERIES_SOURCES = WEIR_FROM_OFF + 1 };

enum outcome { OUTCOME_ALLOWED, OUTCOME_DENIED, OUTCOME_SHADOW_DENIED, OUTCOME_COUNT };
extern const char *const outcome_names[OUTCOME_COUNT];

/* No policy's name: a parenthesis cannot stand in one. What there is no room for is counted under
 * named_other, as limits are whose names are not kept. */
#define SERIES_UNNAMED "(unnamed)" /* limits that came with their requests, without a name */

struct series {
    const char *policy, *rule;
    atomic_uint_fast64_t counts[OUTCOME_COUNT][SERIES_SOURCES];
};

struct series_table {
    atomic_size_t count;
    uint16_t slots[2 * SERIES_MOST]; /* 1 + place in all[]; 0: free. The counting thread's. */
    struct series *last;             /* found; the counting thread's */
    struct series all[SERIES_MOST];  /* never moved */
    size_t known;                    /* of a sum: the first so many are told with their zeros */
};

/* The rule under which whole checks are counted. */
extern const char series_checks[];

/* `rule` is that of limits that came with their requests. NULL: out of memory. */
struct series_table *series_new(const char *rule);
void series_free(struct series_table *t);

/* `policy` NULL: a limit that came with its request. */
struct series *series_find(struct series_table *t, const char *policy, const char *rule);
void series_merge(struct series_table *into, const struct series_table *from);

#endif
