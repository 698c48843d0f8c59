/* way.h - what clients can ask for, by its name: the same by HTTP and in the JSON of RESP. */
#ifndef WEIR_SERVER_WAY_H
#define WEIR_SERVER_WAY_H

#include "proto/check_json.h"
#include "server/reply.h"

struct way {
    const char *name;
    enum verb verb;
    bool may_peek, peeks;
    bool is_of_reservation; /* that was made before */
    bool is_release;
};

extern const struct way way_check, way_peek, way_refund, way_charge, way_reset, way_reserve,
    way_commit, way_release, way_grow, way_extend;

/* NULL: there is none; then `near` has what may have been meant, or is NULL. */
const struct way *way_find(struct span name, const char **near);

/* May this be asked so? If it may, it says the rest that the way says. */
WEIR_MUSTCHECK weir_err way_set(const struct way *way, struct parsed_request *asked,
                                weir_diag *diag);

/* The next request of a body. */
WEIR_MUSTCHECK weir_err way_read(const struct way *way, struct check_json *j,
                                 struct parsed_request *asked, weir_diag *diag);

/* Ask all of a body. */
void way_ask_all(const struct way *way, struct check_json *j, struct reply *r);

#endif
