/* rate_headers.h - what an answer looks like in the headers of a response.
 *
 * RateLimit-Policy and RateLimit as draft-ietf-httpapi-ratelimit-headers-10 has them, the older
 * X-RateLimit-*, and Retry-After. Seconds are rounded up: no client is told to come too early. */
#ifndef WEIR_PROTO_RATE_HEADERS_H
#define WEIR_PROTO_RATE_HEADERS_H

#include "base/buf.h"
#include "weir.h"

/* `now` is for X-RateLimit-Reset. Rules in shadow are not announced; of what was not counted there
 * is nothing to tell. */
void rate_headers_write(struct buf *out, const weir_answer *answer, int64_t now);

/* Are rules of this policy, a name of the answer's, announced with their own names as well? */
bool rate_header_has_rule(const weir_answer *a, const char *policy);

#endif
