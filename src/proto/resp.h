/* resp.h - the protocol of Redis, versions 2 and 3: commands in, values out. Pure: no I/O.
 *
 * A command is an array of bulk strings. Inline commands are not taken: they could not be told
 * from HTTP. */
#ifndef WEIR_PROTO_RESP_H
#define WEIR_PROTO_RESP_H

#include "base/buf.h"
#include "base/decimal.h"
#include "base/span.h"
#include "proto/parse.h"

enum {
    RESP_MAX_WORDS = 64,          /* in a command, its name included */
    RESP_MAX_COMMAND = 64 * 1024, /* bytes of a command on the wire */
};

/* A NUL follows each word. Lives as long as the bytes. */
struct resp_command {
    const char *from; /* its first byte; NULL: it is no longer as it came */
    struct span words[RESP_MAX_WORDS];
    size_t count; /* 0: an empty array or line, which asks for nothing and gets no reply */
};

/* Puts the NULs into `bytes`. A command that came in pieces is read from its beginning each time:
 * a word costs the same however long it is. PARSE_BAD: `why` is for the error reply,
 * behind "ERR ". */
enum parse resp_parse(char *bytes, size_t len, struct resp_command *out, size_t *consumed,
                      const char **why);

void resp_simple(struct buf *out, const char *text); /* +OK */
void resp_error(struct buf *out, const char *text);  /* -ERR …; line breaks become spaces */
void resp_int(struct buf *out, int64_t number);
void resp_bulk(struct buf *out, struct span bytes);
void resp_array(struct buf *out, size_t count);

/* Into memory that is there: RESP_INT_MOST bytes, of which those behind the end may change. The type,
 * the digits and the end of the line. Each returns the end. */
enum { RESP_INT_MOST = DECIMAL_MOST + 3 };
static inline char *resp_write_header(char *at, char type, int64_t number)
{
    *at++ = type;
    at = decimal_write(at, number);
    *at++ = '\r';
    *at++ = '\n';
    return at;
}

static inline char *resp_write_int(char *at, int64_t number)
{
    return resp_write_header(at, ':', number);
}

/* A bulk string that is written in between. */
size_t resp_bulk_begin(struct buf *out);
void resp_bulk_end(struct buf *out, size_t begin); /* what that returned */

/* The beginning of an array: its first n elements are these numbers. */
void resp_numbers(struct buf *out, size_t count, const int64_t *numbers, size_t n);

void resp_null(struct buf *out, int version);
void resp_map(struct buf *out, size_t pairs, int version); /* RESP2: an array of twice as many */

#endif
