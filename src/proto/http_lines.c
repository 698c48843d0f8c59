/* http_lines.c - a head taken apart, by llhttp.
 *
 * A file of its own, because llhttp.h has the names of methods for itself. */
#include "proto/http_lines.h"

#include <llhttp.h>

struct split {
    struct http_lines *lines;
    bool is_complete, has_too_many, has_nameless;
};

static int take_target(llhttp_t *parser, const char *at, size_t len)
{
    struct split *s = parser->data;

    s->lines->target = (struct span){ at, len };
    return 0;
}

static int take_name(llhttp_t *parser, const char *at, size_t len)
{
    struct split *s = parser->data;
    struct http_lines *lines = s->lines;

    s->has_too_many = lines->count == HTTP_MAX_HEADERS;
    s->has_nameless = len == 0;
    if (s->has_too_many || s->has_nameless)
        return HPE_USER;
    lines->headers[lines->count++] = (struct http_header){ { at, len }, { "", 0 } };
    return 0;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static int take_value(llhttp_t *parser, const char *at, size_t len)
{
    struct split *s = parser->data;

    for (; len > 0 && is_blank(*at); at++)
        len--;
    while (len > 0 && is_blank(at[len - 1]))
        len--;
    if (len > 0)
        s->lines->headers[s->lines->count - 1].value = (struct span){ at, len };
    return 0;
}

static int stop_at_body(llhttp_t *parser)
{
    struct split *s = parser->data;

    s->is_complete = true;
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_url = take_target,
    .on_header_field = take_name,
    .on_header_value = take_value,
    .on_headers_complete = stop_at_body,
};

static bool refuse(struct http_lines *lines, int status, const char *why)
{
    lines->status = status;
    lines->why = why;
    return false;
}

/* A word that could be a method, only not one that anybody knows? */
static bool begins_with_word(const char *head, size_t len)
{
    size_t i = 0;

    while (i < len && head[i] >= 'A' && head[i] <= 'Z')
        i++;
    return i > 0 && i < len && head[i] == ' ';
}

static bool refuse_malformed(struct http_lines *lines, llhttp_errno_t err, const char *head,
                             size_t len)
{
    const bool has_method = begins_with_word(head, len);

    if (err == HPE_OK && has_method) /* llhttp waits for the rest of the preface of HTTP/2 */
        err = HPE_INVALID_VERSION;
    switch (err) {
    case HPE_INVALID_METHOD:
        if (has_method)
            return refuse(lines, 501, "this method is not known");
        return refuse(lines, 400, "this is not an HTTP request");
    case HPE_INVALID_VERSION:
    case HPE_PAUSED_H2_UPGRADE:
        return refuse(lines, 505, "only HTTP/1.1 and HTTP/1.0 are spoken here");
    case HPE_INVALID_URL:
        return refuse(lines, 400, "the target of the request is not valid");
    case HPE_INVALID_HEADER_TOKEN:
        return refuse(lines, 400, "a header has a character that is not allowed there");
    case HPE_INVALID_CONTENT_LENGTH:
        return refuse(lines, 400, "the Content-Length is not a number");
    case HPE_UNEXPECTED_CONTENT_LENGTH:
    case HPE_INVALID_TRANSFER_ENCODING:
        return refuse(lines, 400, "the headers do not agree about the length of the body");
    default:
        return refuse(lines, 400, "the head of the request is malformed");
    }
}

bool http_lines_split(struct http_lines *lines, const char *head, size_t len)
{
    struct split split = { .lines = lines };
    llhttp_t parser;
    llhttp_errno_t err;

    lines->count = 0;
    llhttp_init(&parser, HTTP_REQUEST, &settings);
    parser.data = &split;
    err = llhttp_execute(&parser, head, len);
    lines->major = parser.http_major;
    lines->minor = parser.http_minor;
    if (split.has_too_many)
        return refuse(lines, 431, "the request has too many headers");
    if (split.has_nameless)
        return refuse(lines, 400, "a header has no name");
    return split.is_complete || refuse_malformed(lines, err, head, len);
}
