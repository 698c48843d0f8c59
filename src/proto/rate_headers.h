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

/* The same for one answer after the other, which mostly are by the same rules: what is the same in
 * all of them is written once. The pointers tell names: those of all answers must live as long as
 * `last`, which is zero at first. Answers of one `kind` are by the same rules with the same numbers;
 * 0: that is not known. */
enum { RATE_HEADERS_RULES = 4 };
struct rate_headers_last {
    uint64_t kind;
    const char *policy, *rule; /* that decided */
    size_t rule_count;         /* 0: nothing is remembered */
    struct {
        const char *policy, *rule;
        int64_t limit, window_ms;
        bool shadow;
    } rules[RATE_HEADERS_RULES];
    size_t first_len, next_len;
    char first[400]; /* up to what remains … */
    char next[80];   /* … and from when that was told to where it is told again */
};
void rate_headers_write_after(struct buf *out, const weir_answer *answer, uint64_t kind,
                              int64_t now, struct rate_headers_last *last);

/* Are rules of this policy, a name of the answer's, announced with their own names as well? */
bool rate_header_has_rule(const weir_answer *a, const char *policy);

#endif
