/* http_response_parser.h - responses of HTTP/1, as a client reads them. Pure: no I/O. */
#ifndef WEIR_PROTO_HTTP_RESPONSE_PARSER_H
#define WEIR_PROTO_HTTP_RESPONSE_PARSER_H

#include "base/span.h"
#include "proto/parse.h"

enum {
    HTTP_REPLY_MAX_HEAD = 64 * 1024,
    HTTP_REPLY_MAX_BODY = 64 * 1024 * 1024,
};

struct http_reply {
    int status;
    struct span body;        /* lives as long as the bytes; chunks are joined in place */
    struct span retry_after; /* so does this; .at NULL: there is none */
    bool keep_alive;         /* another request may follow */
    bool ends_at_close;      /* the body is what comes until the connection ends; see below */
};

/* PARSE_MORE: call again with the same bytes and more behind them; they have not been changed.
 * A response that `ends_at_close` stays PARSE_MORE: when the connection has ended, `body` is all of
 * it. Interim responses (100 Continue) are passed over. `why` is set with PARSE_BAD. */
enum parse http_reply_parse(char *bytes, size_t len, struct http_reply *out, size_t *consumed,
                            const char **why);

#endif
