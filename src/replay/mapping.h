/* mapping.h - which policy a request of a log is checked against, and with which attributes.
 *
 * A mapping is a list of lines such as
 *
 *     POST /login => login
 *     GET,HEAD /v1/api status<400 => api tenant=header.x-tenant cost=bytes/1024
 *
 * The first whose conditions all hold says what to check; a request that none is for is counted and
 * not checked. docs/replay.md has the grammar. */
#ifndef WEIR_REPLAY_MAPPING_H
#define WEIR_REPLAY_MAPPING_H

#include "base/arena.h"
#include "policy/policy.h"
#include "replay/record.h"

enum {
    MAPPING_MOST_LINES = 256,
    MAPPING_MOST_CONDITIONS = 8, /* of one line */
    MAPPING_MOST_COSTS = 4,      /* … and amounts that it costs */
    MAPPING_MOST_TEXT = 1024,    /* bytes of one line */
};

enum relation { IS, IS_NOT, IS_LESS, IS_AT_MOST, IS_AT_LEAST, IS_MORE };

struct condition {
    int field;
    enum relation relation;
    struct span pattern; /* IS and IS_NOT: patterns with commas between them */
    bool is_path;
    int64_t number; /* the others */
};

struct mapped_attribute {
    const char *name;
    int field; /* -1: it is always the same: */
    const char *constant;
};

/* What a request costs: a field, divided and rounded up. */
struct mapped_cost {
    const char *amount; /* that it is of; NULL: of what rules count that do not say it */
    int field;
    int64_t unit;
};

struct mapping_line {
    struct condition conditions[MAPPING_MOST_CONDITIONS];
    size_t condition_count;
    const char *policies[WEIR_MAX_RULES];
    size_t policy_count;
    struct mapped_attribute attributes[WEIR_MAX_ATTRIBUTES];
    size_t attribute_count;
    struct mapped_cost costs[MAPPING_MOST_COSTS];
    size_t cost_count; /* 0: each costs 1 */
    const char *plan;
};

struct mapping {
    struct arena texts;
    struct field_list fields;
    struct mapping_line lines[MAPPING_MOST_LINES];
    size_t count;
    int64_t skip_status; /* requests with this status or a larger one are left out; 0: none */
};

struct mapping *mapping_new(void); /* NULL: out of memory */
void mapping_free(struct mapping *m);

/* Add one line. */
WEIR_MUSTCHECK weir_err mapping_add(struct mapping *m, struct span text, weir_diag *diag);

/* The policies that it names are of this set. Attributes that their rules count by, and that no
 * line says, are the fields of the same name. A mapping without lines is for the one policy of the
 * set. For several sets, call it with each. */
WEIR_MUSTCHECK weir_err mapping_complete(struct mapping *m, const struct policies *set,
                                         weir_diag *diag);

/* A request, and what it points at beside the record. */
struct mapped {
    weir_request request;
    weir_attribute attributes[WEIR_MAX_ATTRIBUTES];
    weir_cost costs[MAPPING_MOST_COSTS];
};

enum mapped_as {
    MAPPED,
    MAPPED_TO_NONE, /* no line is for it */
    MAPPED_SKIPPED, /* by its status */
    MAPPED_BADLY,   /* what it costs is no number */
};

/* The request borrows from the record and the mapping. `out` was used before, or is zero. */
enum mapped_as mapping_apply(const struct mapping *m, const struct record *r, struct mapped *out);

#endif
