/* parsed_request.h - what a caller asks for, whichever protocol it was said in. */
#ifndef WEIR_PROTO_PARSED_REQUEST_H
#define WEIR_PROTO_PARSED_REQUEST_H

#include "base/span.h"
#include "weir.h"

/* Texts end with a NUL and live in the bytes that were parsed, which the parser may change. */
struct parsed_request {
    weir_request
        request; /* .attributes, .policies and .costs point at the arrays below, or are NULL */
    weir_attribute attributes[WEIR_MAX_ATTRIBUTES];
    const char *policies[WEIR_MAX_RULES];
    weir_cost costs[WEIR_MAX_COSTS];
    bool peek;
    bool is_release; /* of a reservation: nothing was used */
    bool wants_tag;  /* the hash of the identity, in the answer */
};

/* One more cost; false: there are too many. */
bool parsed_request_add_cost(struct parsed_request *a, const char *name, int64_t amount);

/* One more policy: the only one is the request's `policy`, and several are its list. False: there
 * are too many. */
bool parsed_request_add_policy(struct parsed_request *a, const char *name);

/* False: there is no such word, and the hint says which there are, or which was meant. */
bool parsed_request_algorithm(struct span word, weir_algorithm *out, weir_diag *hint);

/* The same, and the diag repeats the word: not for a place where a key may stand by mistake. */
WEIR_MUSTCHECK weir_err parsed_request_named_algorithm(struct span word, weir_algorithm *out,
                                                       weir_diag *diag);

/* False: there is no such word. */
bool parsed_request_on_error(struct span word, weir_on_error *out);
bool parsed_request_start(struct span word, weir_start *out);

#endif
