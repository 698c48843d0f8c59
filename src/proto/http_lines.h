/* http_lines.h - a head taken apart: a method, a target, a version, names and values. */
#ifndef WEIR_PROTO_HTTP_LINES_H
#define WEIR_PROTO_HTTP_LINES_H

#include "base/span.h"

enum { HTTP_MAX_HEADERS = 64 };

struct http_header {
    struct span name, value; /* the value without the blanks around it */
};

struct http_lines {
    struct http_header *headers; /* the caller's, HTTP_MAX_HEADERS of them */
    size_t count;
    struct span method, target;
    int minor;  /* HTTP/1.minor */
    int status; /* what to answer if it is malformed … */
    const char *why;
};

/* `head` is all of it: lines that end in CR LF, and an empty one at its end. False: it is
 * malformed. Changes nothing. */
bool http_lines_split(struct http_lines *lines, const char *head, size_t len);

#endif
