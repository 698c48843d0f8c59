/* override_json.h - the JSON body of an operator's change, as the request that the engine reads.
 *
 * One object. Unknown members, members that are there twice or are not for this route, and numbers
 * beyond 2^53 are refused; a member that is null is as if it were not there. No I/O. */
#ifndef WEIR_SERVER_HTTP_OVERRIDE_JSON_H
#define WEIR_SERVER_HTTP_OVERRIDE_JSON_H

#include "engine/override_request.h"

struct json_t;

/* What the request points into. */
struct override_json {
    struct json_t *tree;
    weir_attribute attributes[WEIR_MAX_ATTRIBUTES];
};

/* In *request are: `subject`; `effect` LEDGER_REMOVED, if it removes; `policy` of the path, or
 * NULL; `who`, unless the body says it. The rest is filled in. WEIR_EREQUEST: the diag says what
 * would be right, and never has an identity in it. */
WEIR_MUSTCHECK weir_err override_json_open(struct override_json *j, struct span body, int64_t now,
                                           struct override_request *request, weir_diag *diag);
void override_json_close(struct override_json *j); /* also of one that failed */

#endif
