/* http_response_parser.c - responses of HTTP/1, as a client reads them. */
#include "proto/http_response_parser.h"

#include <strings.h>

/* What the head says about the body. */
struct framing {
    size_t head_len, body_len;
    bool has_length, is_chunked;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_named(struct span line, const char *name)
{
    const size_t len = strlen(name);

    return line.len > len && line.at[len] == ':' && strncasecmp(line.at, name, len) == 0;
}

static struct span value_of(struct span line)
{
    const char *colon = memchr(line.at, ':', line.len);
    struct span value = { colon + 1, line.len - (size_t)(colon + 1 - line.at) };

    while (value.len > 0 && (*value.at == ' ' || *value.at == '\t'))
        value = (struct span){ value.at + 1, value.len - 1 };
    while (value.len > 0 && (value.at[value.len - 1] == ' ' || value.at[value.len - 1] == '\t'))
        value.len--;
    return value;
}

static bool is_word(struct span text, const char *word)
{
    return text.len == strlen(word) && strncasecmp(text.at, word, text.len) == 0;
}

static bool read_length(struct span text, size_t *out)
{
    size_t length = 0;

    for (size_t i = 0; i < text.len; i++) {
        if (!is_digit(text.at[i]) || length > HTTP_REPLY_MAX_BODY)
            return false;
        length = length * 10 + (size_t)(text.at[i] - '0');
    }
    *out = length;
    return text.len > 0 && length <= HTTP_REPLY_MAX_BODY;
}

static const char *read_header(struct span line, struct http_reply *out, struct framing *f)
{
    if (is_named(line, "content-length")) {
        if (!read_length(value_of(line), &f->body_len))
            return "its Content-Length is not a number, or too large";
        f->has_length = true;
    } else if (is_named(line, "transfer-encoding")) {
        if (!is_word(value_of(line), "chunked"))
            return "its Transfer-Encoding is not 'chunked'";
        f->is_chunked = true;
    } else if (is_named(line, "connection")) {
        if (is_word(value_of(line), "close"))
            out->keep_alive = false;
        else if (is_word(value_of(line), "keep-alive"))
            out->keep_alive = true;
    } else if (is_named(line, "retry-after")) {
        out->retry_after = value_of(line);
    }
    return NULL;
}

/* "HTTP/1.1 200 OK" */
static bool read_status(struct span line, struct http_reply *out)
{
    if (line.len < 12 || memcmp(line.at, "HTTP/1.", 7) != 0 || line.at[8] != ' ' ||
        !is_digit(line.at[9]) || !is_digit(line.at[10]) || !is_digit(line.at[11]))
        return false;
    out->keep_alive = line.at[7] != '0';
    out->status = (line.at[9] - '0') * 100 + (line.at[10] - '0') * 10 + (line.at[11] - '0');
    return true;
}

/* Up to its line feed, which is passed over; the carriage return before it is not part of it. */
static bool next_line(const char **at, const char *end, struct span *out)
{
    const char *feed = memchr(*at, '\n', (size_t)(end - *at));

    if (!feed)
        return false;
    *out = (struct span){ *at, (size_t)(feed - *at) };
    if (out->len > 0 && out->at[out->len - 1] == '\r')
        out->len--;
    *at = feed + 1;
    return true;
}

static enum parse read_head(const char *bytes, size_t len, struct http_reply *out,
                            struct framing *f, const char **why)
{
    const char *at = bytes, *const end = bytes + len;
    struct span line;

    *f = (struct framing){ .has_length = false };
    if (len >= 5 && memcmp(bytes, "HTTP/", 5) != 0) {
        *why = "it is not HTTP";
        return PARSE_BAD;
    }
    for (bool is_first = true; next_line(&at, end, &line); is_first = false) {
        if (line.len == 0 && !is_first) {
            f->head_len = (size_t)(at - bytes);
            return PARSE_DONE;
        }
        *why = is_first ? read_status(line, out) ? NULL : "its first line is not that of HTTP/1"
                        : read_header(line, out, f);
        if (*why)
            return PARSE_BAD;
    }
    if (len <= HTTP_REPLY_MAX_HEAD)
        return PARSE_MORE;
    *why = "its headers are too long";
    return PARSE_BAD;
}

static bool read_chunk_size(struct span line, size_t *out)
{
    size_t size = 0, i = 0;

    for (; i < line.len; i++) {
        const char c = line.at[i];
        const int digit = is_digit(c)              ? c - '0'
                          : (c >= 'a' && c <= 'f') ? c - 'a' + 10
                          : (c >= 'A' && c <= 'F') ? c - 'A' + 10
                                                   : -1;

        if (digit < 0)
            break;
        size = size * 16 + (size_t)digit;
        if (size > HTTP_REPLY_MAX_BODY)
            return false;
    }
    *out = size;
    return i > 0;
}

/* Find the end of the last chunk, or join them if `joins`: only when all are there. */
static enum parse walk_chunks(char *body, size_t len, bool joins, struct http_reply *out,
                              size_t *body_end)
{
    const char *at = body, *const end = body + len;
    struct span line;
    size_t joined = 0, size;

    for (;;) {
        if (!next_line(&at, end, &line))
            return end - at > 1024 ? PARSE_BAD : PARSE_MORE;
        if (!read_chunk_size(line, &size))
            return PARSE_BAD;
        if (size == 0)
            break;
        if ((size_t)(end - at) < size)
            return joined + size > HTTP_REPLY_MAX_BODY ? PARSE_BAD : PARSE_MORE;
        if (joins)
            memmove(body + joined, at, size);
        joined += size;
        at += size;
        if (!next_line(&at, end, &line))
            return PARSE_MORE;
        if (line.len > 0)
            return PARSE_BAD;
    }
    do { /* trailers */
        if (!next_line(&at, end, &line))
            return end - at > HTTP_REPLY_MAX_HEAD ? PARSE_BAD : PARSE_MORE;
    } while (line.len > 0);
    out->body = (struct span){ body, joined };
    *body_end = (size_t)(at - body);
    return PARSE_DONE;
}

static enum parse read_body(char *body, size_t len, const struct framing *f, struct http_reply *out,
                            size_t *body_end, const char **why)
{
    enum parse p;

    if (out->status == 204 || out->status == 304) {
        out->body = (struct span){ body, 0 };
        *body_end = 0;
        return PARSE_DONE;
    }
    if (f->is_chunked) {
        p = walk_chunks(body, len, false, out, body_end);
        if (p == PARSE_BAD)
            *why = "a chunk of its body is not valid";
        return p == PARSE_DONE ? walk_chunks(body, len, true, out, body_end) : p;
    }
    if (!f->has_length) {
        out->ends_at_close = true;
        out->keep_alive = false;
        out->body = (struct span){ body, len };
        *why = "its body is too long";
        return len > HTTP_REPLY_MAX_BODY ? PARSE_BAD : PARSE_MORE;
    }
    out->body = (struct span){ body, f->body_len };
    *body_end = f->body_len;
    return len < f->body_len ? PARSE_MORE : PARSE_DONE;
}

enum parse http_reply_parse(char *bytes, size_t len, struct http_reply *out, size_t *consumed,
                            const char **why)
{
    size_t from = 0, body_end = 0;
    struct framing f;
    enum parse p;

    do {
        *out = (struct http_reply){ .status = 0 };
        p = read_head(bytes + from, len - from, out, &f, why);
        if (p != PARSE_DONE)
            return p;
        from += f.head_len;
    } while (out->status < 200);
    p = read_body(bytes + from, len - from, &f, out, &body_end, why);
    if (p == PARSE_DONE)
        *consumed = from + body_end;
    return p;
}
