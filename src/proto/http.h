/* http.h - HTTP/1.1: requests in, heads of responses out. Pure: no I/O. */
#ifndef WEIR_PROTO_HTTP_H
#define WEIR_PROTO_HTTP_H

#include "base/buf.h"
#include "base/span.h"
#include "proto/parse.h"

enum {
    HTTP_MAX_HEAD = 16 * 1024,
    HTTP_MAX_HEADERS = 64,
    HTTP_MAX_BODY = 1024 * 1024,
};

enum http_method {
    HTTP_GET,
    HTTP_HEAD,
    HTTP_POST,
    HTTP_PUT,
    HTTP_DELETE,
    HTTP_OPTIONS,
    HTTP_OTHER
};

struct http_header {
    struct span name, value; /* the value without the blanks around it */
};

/* Spans live as long as the bytes; a NUL follows the path, the query and each header's value. */
struct http_request {
    enum http_method method;
    struct span path, query; /* as sent: not decoded; the query without its '?' */
    struct http_header headers[HTTP_MAX_HEADERS];
    size_t header_count;
    struct span body; /* of a chunked one, the chunks joined */
    int minor;        /* HTTP/1.minor */
    bool keep_alive;
};

/* One a connection: how far a request has been read that is not all there yet. */
struct http_parser {
    size_t scanned;  /* no end of the head before here */
    size_t head_len; /* 0: its end has not come */
    size_t next;     /* body bytes up to here are read; of a chunked one, joined below */
    size_t body_len;
    bool is_chunked,
        wants_continue; /* it said `Expect: 100-continue`, and nothing of its body came */
    int status;         /* PARSE_BAD: 400, 413, 414, 431, 501 or 505 … */
    const char *why;    /* … and what is wrong, in a sentence */
};

/* PARSE_MORE: call again with the same bytes (which may have moved) and more behind them. Changes
 * the bytes: NULs, joined chunks. After PARSE_DONE the parser is at the beginning again. */
enum parse http_parse(struct http_parser *p, char *bytes, size_t len, struct http_request *out,
                      size_t *consumed);

/* The value of the first header of this name (lower case), or .at NULL. */
struct span http_header(const struct http_request *r, const char *name);

/* The next `name=value` of a query, decoded in place (%XX, '+'), each with a NUL behind it. False:
 * there is none left, or it is not valid: then *bad is set. */
bool http_query_next(struct span *query, struct span *name, struct span *value, bool *bad);

const char *http_reason(int status); /* "Too Many Requests" */

#endif
