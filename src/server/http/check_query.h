/* check_query.h - a check as the query of a URL says it: `policy=login&ip=203.0.113.7`.
 *
 * policy key cost plan peek exempt now name limit window_ms algorithm burst precision_ms and
 * on_error are what they are in a request object, and `policy` may be there several times; every
 * other name is an attribute. */
#ifndef WEIR_SERVER_HTTP_CHECK_QUERY_H
#define WEIR_SERVER_HTTP_CHECK_QUERY_H

#include "base/span.h"
#include "proto/parsed_request.h"

/* Names that a route has besides. */
struct query_own {
    /* True: it is one of its own, and `err` says whether its value will do. */
    bool (*take)(void *ctx, struct parsed_request *out, struct span name, struct span value,
                 weir_err *err, weir_diag *diag);
    void *ctx;
};

/* Decodes the query in place; the texts of `out` live in it. `own` may be NULL. */
WEIR_MUSTCHECK weir_err check_query_read(struct span query, const struct query_own *own,
                                         struct parsed_request *out, weir_diag *diag);

WEIR_MUSTCHECK weir_err check_query_attribute(struct parsed_request *out, const char *name,
                                              struct span value, weir_diag *diag);

/* A whole number; `name` is for the diag, which never has the value. */
WEIR_MUSTCHECK weir_err check_query_int(const char *name, struct span value, int64_t *out,
                                        weir_diag *diag);

/* Yes or no; an empty value is a yes. */
WEIR_MUSTCHECK weir_err check_query_bool(const char *name, struct span value, bool *out,
                                         weir_diag *diag);

#endif
