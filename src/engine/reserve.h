/* reserve.h - reservations: from a request to the question about one. */
#ifndef WEIR_ENGINE_RESERVE_H
#define WEIR_ENGINE_RESERVE_H

#include "engine/engine.h"

/* The check is of a verb about reservations, or a check with an id, which becomes one. */
WEIR_MUSTCHECK weir_err reserve_prepare(struct engine *e, struct check *check, weir_diag *diag);

/* An id: as much of the text as tells whether it is too long. */
struct span reserve_id_of(const char *text);

/* What is the same in requests that differ in their key or id alone: see pattern.h. */
enum { RESERVE_PATTERN_AMOUNTS = 2 };
struct reserve_pattern {
    bool has_id;     /* reserve: the request brings one */
    bool is_by_name; /* … and its value by the name of the attribute */
    bool brings_ttl; /* … and how long it is held; else all are held as long as `ttl` says */
    bool is_used, gives_back;
    int64_t ttl, most_ttl;
    uint64_t print;      /* of all but whom it is for and the amounts */
    size_t amount_count; /* settle: by name */
    struct {
        size_t len;
        int64_t amount;
        char name[WEIR_MAX_NAME];
    } amounts[RESERVE_PATTERN_AMOUNTS];
};

/* Of a check that reserve_prepare() has prepared, of a store in this process. False: it is none. */
bool reserve_pattern_of(const struct engine *e, const struct check *check,
                        struct reserve_pattern *out);

/* As reserve_prepare() does, by a pattern, in two steps: the id, and when there are charges, if any
 * are due, the rest. */
WEIR_MUSTCHECK weir_err reserve_begin_like(struct check *check, const struct reserve_pattern *p,
                                           struct span id, int64_t ttl, weir_diag *diag);
void reserve_new_like(struct engine *e, struct check *check, const struct reserve_pattern *p,
                      struct span value);
void reserve_known_like(const struct engine *e, struct check *check,
                        const struct reserve_pattern *p);

/* Of a reservation that this process holds by itself, as the store is away: its id says so. */
bool reserve_is_local(const char *id);

/* The id of one, for this question; its key is the reservation's then. */
void reserve_make_local(const struct engine *e, struct check *check, struct key *key);

#endif
