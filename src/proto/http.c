/* http.c - HTTP/1.1: where a request ends, and the next one begins.
 *
 * A request that comes in pieces is looked at once, however small they are: lines are looked for
 * from where the last look ended. Only its head is read twice, if it came before its body. */
#include "proto/http.h"

#include <strings.h>

#include "base/hex.h"
#include "proto/http_head.h"

enum {
    MOST_EMPTY_LINES = 4, /* before a request: some clients end a body with one too many */
    REQUEST_LINE_BESIDES_TARGET = 32,
};

static enum parse refuse(struct http_parser *p, int status, const char *why)
{
    p->status = status;
    p->why = why;
    return PARSE_BAD;
}

/* ---- the head --------------------------------------------------------------------------- */

static size_t skip_empty_lines(const char *bytes, size_t len)
{
    size_t at = 0;

    while (at < 2 * MOST_EMPTY_LINES && len - at >= 2 && bytes[at] == '\r' && bytes[at + 1] == '\n')
        at += 2;
    return at;
}

/* At its end, where it belongs, or elsewhere: then the head will be refused for what it is. */
static bool names_version(struct span line)
{
    const size_t len = sizeof "HTTP/1.1" - 1;

    return (line.len > len && memcmp(line.at + line.len - len, "HTTP/", 5) == 0) ||
           memmem(line.at, line.len, "HTTP/", 5);
}

/* There is no end of it yet: can there still be one? */
static enum parse wait_for_head(struct http_parser *p, const char *bytes, size_t len)
{
    const size_t longest_line = HTTP_MAX_TARGET + REQUEST_LINE_BESIDES_TARGET;

    if (len > longest_line && !memchr(bytes, '\n', longest_line))
        return refuse(p, 414, "the target of the request is too long");
    if (len > HTTP_MAX_HEAD)
        return refuse(p, 431, "the headers are too long");
    return PARSE_MORE;
}

/* Sets head_len. A line that goes on in the next one is refused: others read it in another way. */
static enum parse find_head(struct http_parser *p, const char *bytes, size_t len, size_t start)
{
    size_t at = p->scanned > start ? p->scanned : start;

    for (;;) {
        const char *lf = len > at ? memchr(bytes + at, '\n', len - at) : NULL;

        if (!lf) {
            p->scanned = len;
            return wait_for_head(p, bytes + start, len - start);
        }
        at = (size_t)(lf - bytes);
        if (at == start || lf[-1] != '\r')
            return refuse(p, 400, "lines must end in CR LF");
        if (!p->is_http && !names_version((struct span){ bytes + start, at - start - 1 }))
            return refuse(p, 400,
                          "the first line does not end in HTTP/1.1; if this is RESP: send commands "
                          "as arrays, inline commands are not supported");
        p->is_http = true;
        if (len - at < 3 && (len - at == 1 || lf[1] == '\r')) {
            p->scanned = at;
            return wait_for_head(p, bytes + start, len - start);
        }
        if (lf[1] == ' ' || lf[1] == '\t')
            return refuse(p, 400, "a header continues on the next line, which is not allowed");
        if (lf[1] == '\r' && lf[2] == '\n')
            break;
        at++;
    }
    p->head_len = at + 3;
    if (p->head_len - start > HTTP_MAX_HEAD)
        return refuse(p, 431, "the headers are too long");
    return PARSE_DONE;
}

static enum parse read_head(struct http_parser *p, const char *bytes, size_t len,
                            struct http_request *out)
{
    const size_t start = skip_empty_lines(bytes, len);
    struct http_framing framing;
    enum parse result = PARSE_DONE;

    if (p->head_len == 0) {
        result = find_head(p, bytes, len, start);
        p->next = p->scanned = p->head_len;
    }
    if (result != PARSE_DONE)
        return result;
    if (!http_head_read(bytes + start, p->head_len - start, out, &framing))
        return refuse(p, framing.status, framing.why);
    if (p->next == p->head_len) {
        p->is_chunked = framing.is_chunked;
        p->wants_continue = framing.wants_continue;
        p->body_len = framing.body_len;
    }
    return PARSE_DONE;
}

/* ---- the body --------------------------------------------------------------------------- */

/* The line at `next`, without its end. */
static enum parse find_line(struct http_parser *p, const char *bytes, size_t len, size_t longest,
                            struct span *line)
{
    const size_t from = p->scanned > p->next ? p->scanned : p->next;
    const char *lf = len > from ? memchr(bytes + from, '\n', len - from) : NULL;
    size_t line_len = lf ? (size_t)(lf - bytes) - p->next : len - p->next;

    if (line_len > longest)
        return refuse(p, 400, "a chunk line or a trailer is too long");
    if (!lf) {
        p->scanned = len;
        return PARSE_MORE;
    }
    p->scanned = (size_t)(lf - bytes);
    if (line_len == 0 || lf[-1] != '\r')
        return refuse(p, 400, "lines must end in CR LF");
    *line = (struct span){ bytes + p->next, line_len - 1 };
    for (size_t i = 0; i < line->len; i++)
        if (((unsigned char)line->at[i] < 0x20 && line->at[i] != '\t') || line->at[i] == 0x7F)
            return refuse(p, 400, "a chunk line or a trailer has a control character");
    return PARSE_DONE;
}

/* `1a` or `1a;extension`. False: it is neither. */
static bool read_chunk_size(struct span line, size_t *size)
{
    size_t i = 0;

    *size = 0;
    for (; i < line.len && hex_digit(line.at[i]) >= 0; i++)
        if (*size <= HTTP_MAX_BODY) /* whatever is more is too much */
            *size = *size * 16 + (size_t)hex_digit(line.at[i]);
    return i > 0 && (i == line.len || line.at[i] == ';');
}

/* One chunk, joined to those before it. */
static enum parse read_chunk(struct http_parser *p, char *bytes, size_t len)
{
    const size_t most = p->most_body ? p->most_body : HTTP_MAX_BODY;
    struct span line;
    size_t size, data;
    enum parse result = find_line(p, bytes, len, HTTP_MAX_CHUNK_LINE, &line);

    if (result != PARSE_DONE)
        return result;
    if (!read_chunk_size(line, &size))
        return refuse(p, 400, "the size of a chunk is not a hexadecimal number");
    data = p->next + line.len + 2;
    if (size > most || p->body_len > most - size || data + size - p->head_len > 2 * most)
        return refuse(p, 413, "the body is too large");
    if (size == 0) {
        p->next = data;
        p->is_last_chunk_read = true;
        return PARSE_DONE;
    }
    if (len - data < size + 2)
        return PARSE_MORE;
    if (bytes[data + size] != '\r' || bytes[data + size + 1] != '\n')
        return refuse(p, 400, "a chunk does not end where its size says");
    memmove(bytes + p->head_len + p->body_len, bytes + data, size);
    p->body_len += size;
    p->next = data + size + 2;
    return PARSE_DONE;
}

static enum parse read_chunked(struct http_parser *p, char *bytes, size_t len)
{
    struct span line = { "", 1 };
    enum parse result;

    while (!p->is_last_chunk_read) {
        result = read_chunk(p, bytes, len);
        if (result != PARSE_DONE)
            return result;
    }
    while (line.len > 0) { /* trailers are not used */
        result = find_line(p, bytes, len, HTTP_MAX_HEAD - p->trailer_len, &line);
        if (result != PARSE_DONE)
            return result;
        if (line.len > 0 && (line.at[0] == ':' || !memchr(line.at, ':', line.len)))
            return refuse(p, 400, "a trailer is malformed");
        p->trailer_len += line.len;
        p->next += line.len + 2;
    }
    return PARSE_DONE;
}

static enum parse read_body(struct http_parser *p, char *bytes, size_t len)
{
    if (len > p->head_len)
        p->wants_continue = false;
    if (p->is_chunked)
        return read_chunked(p, bytes, len);
    if (len - p->head_len < p->body_len)
        return PARSE_MORE;
    p->next = p->head_len + p->body_len;
    return PARSE_DONE;
}

enum parse http_parse(struct http_parser *p, char *bytes, size_t len, struct http_request *out,
                      size_t *consumed)
{
    const bool had_head = p->head_len > 0;
    enum parse result = had_head ? PARSE_DONE : read_head(p, bytes, len, out);

    p->is_head_read = !had_head && result == PARSE_DONE;
    if (result == PARSE_DONE)
        result = read_body(p, bytes, len);
    if (result == PARSE_DONE && had_head)
        result = read_head(p, bytes, len, out);
    if (result != PARSE_DONE)
        return result;
    http_head_seal(bytes, out);
    out->body = (struct span){ bytes + p->head_len, p->body_len };
    *consumed = p->next;
    *p = (struct http_parser){ 0 };
    return PARSE_DONE;
}

struct span http_header(const struct http_request *r, const char *name)
{
    const size_t len = strlen(name);

    for (size_t i = 0; i < r->header_count; i++)
        if (r->headers[i].name.len == len && strncasecmp(r->headers[i].name.at, name, len) == 0)
            return r->headers[i].value;
    return (struct span){ 0 };
}

const char *http_reason(int status)
{
    static const struct {
        int status;
        const char *reason;
    } reasons[] = {
        { 100, "Continue" },
        { 200, "OK" },
        { 201, "Created" },
        { 202, "Accepted" },
        { 204, "No Content" },
        { 304, "Not Modified" },
        { 400, "Bad Request" },
        { 401, "Unauthorized" },
        { 403, "Forbidden" },
        { 404, "Not Found" },
        { 405, "Method Not Allowed" },
        { 406, "Not Acceptable" },
        { 408, "Request Timeout" },
        { 409, "Conflict" },
        { 410, "Gone" },
        { 411, "Length Required" },
        { 413, "Content Too Large" },
        { 414, "URI Too Long" },
        { 415, "Unsupported Media Type" },
        { 417, "Expectation Failed" },
        { 422, "Unprocessable Content" },
        { 429, "Too Many Requests" },
        { 431, "Request Header Fields Too Large" },
        { 500, "Internal Server Error" },
        { 501, "Not Implemented" },
        { 503, "Service Unavailable" },
        { 505, "HTTP Version Not Supported" },
    };

    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "Unknown";
}
