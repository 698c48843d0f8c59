/* http_head.h - the head of a request: its line, its headers, and how long a body they promise. */
#ifndef WEIR_PROTO_HTTP_HEAD_H
#define WEIR_PROTO_HTTP_HEAD_H

#include "proto/http.h"

struct http_framing {
    size_t body_len;
    bool is_chunked;
    bool wants_continue;
    int status; /* what to answer if it is refused … */
    const char *why;
};

/* `head` is all of it, with the empty line at its end and none at its beginning; it has no folded
 * lines, and none that end in a bare LF. Changes nothing, so that a head may be read again when its
 * body is there. False: it is refused. */
bool http_head_read(const char *head, size_t len, struct http_request *out,
                    struct http_framing *framing);

/* The method, the path and the query of a request, from what its first line says. The target is not
 * empty. False: it is refused. */
bool http_request_line(struct span method, struct span target, struct http_request *out,
                       struct http_framing *framing);

/* Put a NUL behind the path, the query and each value: over the delimiter that is there. */
void http_head_seal(char *head, const struct http_request *r);

#endif
