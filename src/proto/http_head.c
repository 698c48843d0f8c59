/* http_head.c - the head of a request: its line, its headers, and how long a body they promise.
 *
 * One rule keeps requests from being smuggled past a proxy: if two readers could differ about where
 * the body ends, there is no request. */
#include "proto/http_head.h"

#include <strings.h>

static const char root[] = "/"; /* the path of `http://host` */

static bool refuse(struct http_framing *framing, int status, const char *why)
{
    framing->status = status;
    framing->why = why;
    return false;
}

/* Upper and lower case are alike. */
static bool is_like(struct span text, const char *lower, size_t len)
{
    return text.len == len && strncasecmp(text.at, lower, len) == 0;
}

/* Those of RFC 9110, and PATCH. False: it is none of them. */
static bool read_method(struct span word, enum http_method *out)
{
    static const struct {
        const char *name;
        enum http_method method;
    } known[] = {
        { "GET", HTTP_GET },     { "POST", HTTP_POST },     { "HEAD", HTTP_HEAD },
        { "PUT", HTTP_PUT },     { "DELETE", HTTP_DELETE }, { "OPTIONS", HTTP_OPTIONS },
        { "PATCH", HTTP_OTHER }, { "CONNECT", HTTP_OTHER }, { "TRACE", HTTP_OTHER },
    };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (span_is(word, known[i].name)) {
            *out = known[i].method;
            return true;
        }
    return false;
}

/* A name or an address, and a port; no user. */
static bool is_of_host(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           strchr("-._~!$&'()*+,;=%:[]", c);
}

/* What is behind `http://host`, or .at NULL. */
static struct span behind_authority(struct span target)
{
    const size_t begin = target.len >= 7 && strncasecmp(target.at, "http://", 7) == 0    ? 7
                         : target.len >= 8 && strncasecmp(target.at, "https://", 8) == 0 ? 8
                                                                                         : 0;
    size_t end = begin;

    while (begin > 0 && end < target.len && is_of_host(target.at[end]))
        end++;
    if (end == begin || (end < target.len && target.at[end] != '/' && target.at[end] != '?'))
        return (struct span){ 0 };
    return (struct span){ target.at + end, target.len - end };
}

static bool read_target(struct span target, struct http_request *out, struct http_framing *framing)
{
    const char *question;

    if (target.len > HTTP_MAX_TARGET)
        return refuse(framing, 414, "the target of the request is too long");
    if (target.at[0] != '/' && !(out->method == HTTP_OPTIONS && span_is(target, "*"))) {
        target = behind_authority(target);
        if (!target.at)
            return refuse(framing, 400, "the target of the request must be a path");
    }
    question = memchr(target.at, '?', target.len);
    out->path = out->query = target;
    if (question) {
        out->path.len = (size_t)(question - target.at);
        out->query = (struct span){ question + 1, target.len - out->path.len - 1 };
    } else {
        out->query = (struct span){ target.at + target.len, 0 };
    }
    if (out->path.len == 0)
        out->path = (struct span){ root, 1 };
    return true;
}

/* Is it in this list, `a, b, c`? */
static bool lists(struct span list, const char *lower, size_t len)
{
    const char *at = list.at, *end = list.at + list.len;

    while (at < end) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        struct span item = { at, (size_t)((comma ? comma : end) - at) };

        at = item.at + item.len + 1;
        for (; item.len > 0 && (*item.at == ' ' || *item.at == '\t'); item.at++)
            item.len--;
        while (item.len > 0 && (item.at[item.len - 1] == ' ' || item.at[item.len - 1] == '\t'))
            item.len--;
        if (is_like(item, lower, len))
            return true;
    }
    return false;
}

static bool read_length(struct span digits, size_t *out)
{
    size_t len = 0;

    if (digits.len == 0)
        return false;
    for (size_t i = 0; i < digits.len; i++) {
        if (digits.at[i] < '0' || digits.at[i] > '9')
            return false;
        if (len <= HTTP_MAX_BODY) /* whatever is more is too much */
            len = len * 10 + (size_t)(digits.at[i] - '0');
    }
    *out = len;
    return true;
}

struct marks {
    int hosts, lengths, codings;
    bool says_close, says_keep_alive;
};

/* The headers that say something about the message itself. */
static bool read_header(const struct http_header *h, struct marks *m, struct http_framing *framing)
{
    size_t len;

    switch (h->name.len) {
    case 4:
        m->hosts += is_like(h->name, "host", 4);
        break;
    case 6:
        if (!is_like(h->name, "expect", 6))
            break;
        if (!is_like(h->value, "100-continue", 12))
            return refuse(framing, 417, "only 'Expect: 100-continue' is supported");
        framing->wants_continue = true;
        break;
    case 10:
        if (!is_like(h->name, "connection", 10))
            break;
        m->says_close = m->says_close || lists(h->value, "close", 5);
        m->says_keep_alive = m->says_keep_alive || lists(h->value, "keep-alive", 10);
        break;
    case 14:
        if (!is_like(h->name, "content-length", 14))
            break;
        if (!read_length(h->value, &len))
            return refuse(framing, 400, "the Content-Length is not a number");
        if (m->lengths++ > 0)
            return refuse(framing, 400, "there are two Content-Lengths");
        framing->body_len = len;
        break;
    case 17:
        if (!is_like(h->name, "transfer-encoding", 17))
            break;
        if (m->codings++ > 0)
            return refuse(framing, 400, "there are two Transfer-Encodings");
        if (!is_like(h->value, "chunked", 7))
            return refuse(framing, 501, "the only Transfer-Encoding supported is chunked");
        framing->is_chunked = true;
        break;
    }
    return true;
}

static bool judge(const struct marks *m, struct http_request *out, struct http_framing *framing)
{
    if (m->hosts > 1 || (m->hosts == 0 && out->minor == 1))
        return refuse(framing, 400,
                      m->hosts ? "there are two Host headers" : "the Host header is missing");
    if (framing->is_chunked && (m->lengths > 0 || out->minor == 0))
        return refuse(framing, 400,
                      m->lengths > 0 ? "there is a Content-Length and a Transfer-Encoding"
                                     : "HTTP/1.0 has no Transfer-Encoding");
    if (framing->body_len > HTTP_MAX_BODY)
        return refuse(framing, 413, "the body is too large: at most 1 MiB");
    framing->wants_continue = framing->wants_continue && out->minor == 1 &&
                              (framing->is_chunked || framing->body_len > 0);
    out->has_long_body = framing->is_chunked || framing->wants_continue ||
                         framing->body_len > HTTP_MAX_SHORT_BODY;
    out->keep_alive = !m->says_close && (out->minor == 1 || m->says_keep_alive);
    return true;
}

bool http_request_line(struct span method, struct span target, struct http_request *out,
                       struct http_framing *framing)
{
    if (!read_method(method, &out->method))
        return refuse(framing, 501, "unknown method");
    return read_target(target, out, framing);
}

bool http_head_read(const char *head, size_t len, struct http_request *out,
                    struct http_framing *framing)
{
    struct http_lines lines = { .headers = out->headers };
    struct marks marks = { 0 };

    *framing = (struct http_framing){ 0 };
    if (!http_lines_split(&lines, head, len))
        return refuse(framing, lines.status, lines.why);
    out->minor = lines.minor;
    out->header_count = lines.count;
    if (!http_request_line(lines.method, lines.target, out, framing))
        return false;
    for (size_t i = 0; i < out->header_count; i++)
        if (!read_header(&out->headers[i], &marks, framing))
            return false;
    return judge(&marks, out, framing);
}

static void seal(char *head, struct span text)
{
    head[text.at + text.len - head] = '\0';
}

void http_head_seal(char *head, const struct http_request *r)
{
    if (r->path.at != root)
        seal(head, r->path);
    seal(head, r->query);
    for (size_t i = 0; i < r->header_count; i++)
        if (r->headers[i].value.len > 0) /* an empty one is a text of our own */
            seal(head, r->headers[i].value);
}
