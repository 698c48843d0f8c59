/* resp_reply_parser.h - replies of RESP 2 and 3, as a client reads them. Pure: no I/O. */
#ifndef WEIR_PROTO_RESP_REPLY_PARSER_H
#define WEIR_PROTO_RESP_REPLY_PARSER_H

#include <stdint.h>

#include "base/span.h"
#include "proto/parse.h"

enum { RESP_REPLY_MAX_BULK = 64 * 1024 * 1024 };

/* As much of a reply as it takes to tell what it says. */
struct resp_reply {
    char type;            /* '+' '-' ':' '$' '*' … */
    struct span text;     /* of '+' and '-' and other lines; lives as long as the bytes */
    int64_t first_number; /* the first number in it, however deep */
    bool has_number;
};

/* A reply that came in pieces is read from its beginning each time. */
enum parse resp_reply_parse(const char *bytes, size_t len, struct resp_reply *out,
                            size_t *consumed);

#endif
