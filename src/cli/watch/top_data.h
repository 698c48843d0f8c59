/* top_data.h - what a server was asked for a view, and what it said. */
#ifndef WEIR_CLI_WATCH_TOP_DATA_H
#define WEIR_CLI_WATCH_TOP_DATA_H

#include "cli/client.h"
#include "cli/watch/top_stats.h"

struct json_t;

/* X(name, path, member that must be there, looks from one to the next) */
#define TOP_DOCS(X)                                                                                \
    X(TOP, "/v1/top?n=100", "top", 1)                                                              \
    X(POLICIES, "/v1/policies", "policies", 5)                                                     \
    X(OVERRIDES, "/v1/overrides", "overrides", 5)                                                  \
    X(PLANS, "/v1/plans", "plans", 5)                                                              \
    X(AUDIT, "/v1/audit?newest=200", "entries", 5)                                                 \
    X(LOOKUP, "/v1/lookup", "policies", 5)

enum top_doc {
#define X(name, path, member, looks) TOP_DOC_##name,
    TOP_DOCS(X)
#undef X
        TOP_DOC_COUNT
};

struct top_data {
    struct client client;
    struct top_stats stats; /* .rows NULL: none yet */
    struct json_t *numbers; /* /v1/stats, whole */
    struct json_t *docs[TOP_DOC_COUNT];
    bool is_refused[TOP_DOC_COUNT]; /* the token does not permit it */
    struct json_t *token;           /* its name and scopes */
    struct buf stats_body, lookup;  /* lookup: what is asked; empty: nothing */
    int64_t looks;
    weir_diag diag;
};

void top_data_init(struct top_data *d);
void top_data_done(struct top_data *d);

/* The statistics, and those of `docs` (bits by enum top_doc) that are due, or all of them if
 * `is_late`. False: the diag says why, and what was known stays. */
bool top_data_look(struct top_data *d, unsigned docs, bool is_late);

bool top_data_may(const struct top_data *d, const char *scope);

/* The rule of a policy of the file, or NULL. */
const struct json_t *top_data_rule(const struct top_data *d, const char *policy, const char *rule);

/* The override of an identity in this rule, or NULL. */
const struct json_t *top_data_override(const struct top_data *d, const char *policy,
                                       const char *rule, const char *tag);

#endif
