/* override_json.h - the JSON body of an operator's change: an override, a plan, a mode. Pure: no I/O.
 *
 * One object. Unknown members, members that are there twice and numbers beyond 2^53 are refused; a
 * member that is null is as if it were not there. */
#ifndef WEIR_PROTO_OVERRIDE_JSON_H
#define WEIR_PROTO_OVERRIDE_JSON_H

#include "base/span.h"
#include "weir.h"

struct json_t;

enum { CHANGE_JSON_MAX_BY = 8 }; /* attributes that a tag is of */

/* Texts are NULL and numbers -1 where nothing is said. */
struct override_json {
    const char *policy, *rule, *key, *tag;
    const char *effect, *plan, *mode;
    const char *duration; /* `for` */
    const char *who, *reason;
    int64_t limit, burst, expires_ms, id;
    bool named;
    weir_attribute attributes[WEIR_MAX_ATTRIBUTES];
    size_t attribute_count;
    const char *by[CHANGE_JSON_MAX_BY]; /* attributes that the tag is of */
    size_t by_count;
    struct json_t *tree; /* the texts are in it */
};

/* WEIR_EREQUEST: the diag says what is wrong, and never has an identity in it. An empty body says
 * nothing. */
WEIR_MUSTCHECK weir_err override_json_open(struct override_json *c, struct span body,
                                           weir_diag *diag);
void override_json_close(struct override_json *c); /* also of one that failed */

#endif
