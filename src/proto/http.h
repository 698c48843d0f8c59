/* http.h - HTTP/1.1: requests in, heads of responses out. Pure: no I/O. */
#ifndef WEIR_PROTO_HTTP_H
#define WEIR_PROTO_HTTP_H

#include "base/buf.h"
#include "base/span.h"
#include "proto/http_lines.h"
#include "proto/parse.h"

enum {
    HTTP_MAX_TARGET = 8 * 1024,
    HTTP_MAX_HEAD = 16 * 1024, /* and as much again for the trailers */
    HTTP_MAX_BODY = 1024 * 1024,
    HTTP_MAX_SHORT_BODY = 16 * 1024, /* is waited for, whatever will be answered */
    HTTP_MAX_CHUNK_LINE = 256,       /* the size of a chunk, and its extensions */
    /* All the bytes of a request: small chunks take several times the room of what is in them. */
    HTTP_MAX_REQUEST = 2 * HTTP_MAX_HEAD + 2 * HTTP_MAX_BODY,
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

/* Spans live as long as the bytes; a NUL follows the path, the query and each header's value. */
struct http_request {
    enum http_method method;
    struct span path, query; /* as sent: not decoded; the query without its '?'. "*" for OPTIONS */
    struct http_header headers[HTTP_MAX_HEADERS];
    size_t header_count;
    struct span body; /* of a chunked one, the chunks joined */
    int minor;        /* HTTP/1.minor */
    bool keep_alive;
    bool has_long_body; /* or may have one */
};

/* One a connection: how far a request has been read that is not all there yet. */
struct http_parser {
    size_t scanned;  /* the line that is being read does not end before here */
    size_t head_len; /* 0: its end has not come */
    size_t next;     /* the body is read up to here; of a chunked one, joined behind the head */
    size_t body_len;
    size_t trailer_len;
    bool is_http;     /* its first line says so */
    size_t most_body; /* bytes; 0: HTTP_MAX_BODY */
    bool is_chunked, is_last_chunk_read;
    bool is_head_read; /* PARSE_MORE: just now, and `out` is its request without a body. The caller
                          may clear it, and set most_body */
    bool wants_continue; /* it said `Expect: 100-continue`, and nothing of its body came; the
                            caller may clear it */
    int status;          /* PARSE_BAD: 400, 413, 414, 417, 431, 501 or 505 … */
    const char *why;     /* … and what is wrong, in a sentence */
};

/* PARSE_MORE: call again with the same bytes (which may have moved) and more behind them. Changes
 * the bytes: NULs, joined chunks. After PARSE_DONE the parser is at the beginning again. */
enum parse http_parse(struct http_parser *p, char *bytes, size_t len, struct http_request *out,
                      size_t *consumed);

/* The value of the first header of this name (lower case), or .at NULL. */
struct span http_header(const struct http_request *r, const char *name);

/* The next `name=value` of a query, decoded in place (%XX, '+'), each with a NUL behind it and none
 * inside. False: there is none left, or it is not valid: then *bad is set. */
bool http_query_next(struct span *query, struct span *name, struct span *value, bool *bad);

/* A name that stands in the path, with a byte behind it that may be changed, likewise; a '+' is
 * one. False: it is not valid. */
bool http_name_decode(struct span *name);

const char *http_reason(int status); /* "Too Many Requests" */

#endif
