/* check_json.h - the JSON body of a check: one request object, or {"checks": [...]}. Pure: no I/O.
 *
 * The flat object that most clients send is read by a scanner of our own, in place and without
 * allocation; whatever surprises it (an escape, a null, a number that is not plain) is left to
 * jansson. Both take the same texts for valid.
 *
 * A key or the value of an attribute is a string, or a whole number that stands for its decimal
 * text. A member that is null is as if it were not there. Unknown members, members that are there
 * twice and numbers beyond 2^53 are refused. */
#ifndef WEIR_PROTO_CHECK_JSON_H
#define WEIR_PROTO_CHECK_JSON_H

#include "base/span.h"
#include "proto/parsed_request.h"

enum { CHECK_JSON_MAX_CHECKS = 1000, CHECK_JSON_MAX_DEPTH = 8 };

struct json_t;

struct check_json {
    bool is_many; /* {"checks": [...]} */
    size_t count; /* objects in all */
    /* The reader's own. */
    char *at, *end;
    size_t next;
    struct json_t *tree; /* jansson's, or NULL */
};

/* WEIR_EREQUEST: it is not JSON, or not of this shape, and the diag says what and where (never an
 * identity). A list is read to its end before the first check of it is handed out; that a single
 * object is not valid may be found only by check_json_next(). May change the body, but not what
 * follows it: that is the next request. */
WEIR_MUSTCHECK weir_err check_json_open(struct check_json *j, char *body, size_t len,
                                        weir_diag *diag);

/* The next of `count` requests: do not ask for more. An error is of this one only: those after it
 * can still be read. Its texts live until check_json_close(), which an open that failed does not
 * need. */
WEIR_MUSTCHECK weir_err check_json_next(struct check_json *j, struct parsed_request *out,
                                        weir_diag *diag);
void check_json_close(struct check_json *j);

#endif
