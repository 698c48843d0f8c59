/* reserve.h - reservations: from a request to the question about one. */
#ifndef WEIR_ENGINE_RESERVE_H
#define WEIR_ENGINE_RESERVE_H

#include "engine/engine.h"

/* The check is of a verb about reservations, or a check with an id, which becomes one. */
WEIR_MUSTCHECK weir_err reserve_prepare(struct engine *e, struct check *check, weir_diag *diag);

/* An id: as much of the text as tells whether it is too long. */
struct span reserve_id_of(const char *text);

/* Put it there, with zeros behind it. False: it is none. */
bool reserve_put_id(struct span id, struct check_reserving *to);

/* Make one, of a reservation in a store that is not shared. */
void reserve_make_id(struct engine *e, struct check_reserving *to);

/* Nothing is known of it yet. Field by field: else all would be zeroed first, by an instruction that
 * is slow to begin. */
static inline void reserve_begin(struct reserving *of, struct reserving_room *room)
{
    of->key = (struct key){ 0 };
    of->tag = 0;
    of->part = NULL;
    of->fingerprint = 0;
    of->ttl = of->most_ttl = 0;
    of->gives_back = of->is_expiry = of->is_used = of->is_release = of->forgets = false;
    of->amounts = room->amounts;
    of->amount_count = 0;
    of->labels = room->labels;
    of->rules = room->rules;
    of->calendars = room->calendars;
    of->text = room->text;
    of->charges = NULL;
    of->refusal = WEIR_OK;
    of->expires_in = 0;
    of->is_repeated = of->has_expired = false;
    of->over = 0;
}

/* What is the same in requests that differ in their key or id alone: see pattern.h. */
enum { RESERVE_PATTERN_AMOUNTS = 2 };
struct reserve_pattern {
    bool has_id;     /* reserve: the request brings one */
    bool is_by_name; /* … and its value by the name of the attribute */
    bool is_used, gives_back;
    int64_t ttl;         /* how long it is held … */
    int64_t usual_ttl;   /* … if the request does not say it; 0: it must … */
    int64_t most_ttl;    /* … and how long at most */
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
                                           struct span id, weir_diag *diag);
void reserve_new_like(struct engine *e, struct check *check, const struct reserve_pattern *p,
                      struct span value);

/* The fingerprint of a request with a key, of these amounts. */
uint64_t reserve_print_like(const struct reserve_pattern *p, struct span key,
                            const struct charge_label *labels, const struct charge *charges,
                            size_t n);
void reserve_known_like(const struct engine *e, struct check *check,
                        const struct reserve_pattern *p);

/* Of a reservation that this process holds by itself, as the store is away: its id says so. */
bool reserve_is_local(const char *id);

/* The id of one, for this question; its key is the reservation's then. */
void reserve_make_local(const struct engine *e, struct check *check, struct key *key);

#endif
