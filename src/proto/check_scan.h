/* check_scan.h - one request object as most clients write it, read where it stands. */
#ifndef WEIR_PROTO_CHECK_SCAN_H
#define WEIR_PROTO_CHECK_SCAN_H

#include "base/span.h"
#include "proto/parsed_request.h"

/* Where the texts of a request end: a NUL goes there once nothing has to be read again. */
struct check_scan {
    char *ends[6 + 2 * WEIR_MAX_ATTRIBUTES + WEIR_MAX_COSTS + WEIR_MAX_RULES];
    size_t count;
};

/* The object at *at, which is left behind it. Changes no byte. False: something in it is not as
 * usual, and the full parser has to look: it may be valid or not. */
bool check_scan_object(struct check_scan *s, char **at, char *end, struct parsed_request *out);
void check_scan_seal(struct check_scan *s);

/* A text without escapes, from one quote to the other, and valid. */
bool check_scan_text(char **at, char *end, struct span *text);

static inline void check_scan_blanks(char **at, const char *end)
{
    while (*at < end && (**at == ' ' || **at == '\n' || **at == '\r' || **at == '\t'))
        (*at)++;
}

/* Is this character next, with blanks before it? Then go behind it. */
static inline bool check_scan_mark(char **at, char *end, char mark)
{
    check_scan_blanks(at, end);
    if (*at == end || **at != mark)
        return false;
    (*at)++;
    return true;
}

#endif
