/* check_json.h - the JSON body of a check: one request object, or {"checks": [...]}. Pure: no I/O.
 *
 * The flat object that almost everybody sends is read by a scanner of our own, in place and without
 * allocation; whatever surprises it (an escape, nesting beyond `attributes`, a number that is not
 * plain) is left to jansson. Both take the same texts for valid. */
#ifndef WEIR_PROTO_CHECK_JSON_H
#define WEIR_PROTO_CHECK_JSON_H

#include "base/span.h"
#include "proto/asked.h"

enum { CHECK_JSON_MAX_CHECKS = 1000, CHECK_JSON_MAX_DEPTH = 8 };

struct check_json {
    bool is_many; /* {"checks": [...]} */
    size_t count; /* objects in all */
    /* The reader's own. */
    char *at, *end;
    size_t next;
    void *tree; /* jansson's, or NULL */
};

/* May change the body, but not what follows it: that is the next request. WEIR_EREQUEST: it is not JSON, or not
 * of this shape, and the diag says what and where (never an identity). */
WEIR_MUSTCHECK weir_err check_json_open(struct check_json *j, char *body, size_t len,
                                        weir_diag *diag);

/* The next of `count` requests. An error is of this one only: those after it can still be read.
 * Its texts live until check_json_close(). */
WEIR_MUSTCHECK weir_err check_json_next(struct check_json *j, struct asked *out, weir_diag *diag);
void check_json_close(struct check_json *j);

#endif
