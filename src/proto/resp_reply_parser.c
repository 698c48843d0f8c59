/* resp_reply_parser.c - replies of RESP 2 and 3, as a client reads them. */
#include "proto/resp_reply_parser.h"

/* -1 stands for null in a length. False: it is no number. */
static bool read_number(const char *at, const char *end, int64_t *out)
{
    const bool is_negative = at < end && *at == '-';
    int64_t n = 0;

    if (is_negative || (at < end && *at == '+'))
        at++;
    if (at == end || end - at > 18)
        return false;
    for (; at < end; at++) {
        if (*at < '0' || *at > '9')
            return false;
        n = n * 10 + (*at - '0');
    }
    *out = is_negative ? -n : n;
    return true;
}

/* What follows an element's line: so many bytes, or so many elements. */
static enum parse read_line(char type, const char *at, const char *line_end, struct resp_reply *out,
                            int64_t *bytes, int64_t *elements)
{
    int64_t n = 0;

    *bytes = *elements = 0;
    switch (type) {
    case '+':
    case '-':
    case ',':
    case '#':
    case '(':
    case '_':
        return PARSE_DONE;
    case ':':
        if (line_end - at == 1 && *at >= '0' && *at <= '9')
            n = *at - '0';
        else if (!read_number(at, line_end, &n)) /* 19 digits are one too many to be told */
            n = INT64_MAX;
        if (!out->has_number)
            out->first_number = n;
        out->has_number = true;
        return PARSE_DONE;
    case '$':
    case '!':
    case '=':
        if (!read_number(at, line_end, &n) || n < -1 || n > RESP_REPLY_MAX_BULK)
            return PARSE_BAD;
        *bytes = n < 0 ? 0 : n + 2;
        return PARSE_DONE;
    case '*':
    case '~':
    case '>':
    case '%':
    case '|':
        if (!read_number(at, line_end, &n) || n < -1 || n > RESP_REPLY_MAX_BULK)
            return PARSE_BAD;
        *elements = n < 0 ? 0 : type == '%' ? 2 * n : type == '|' ? 2 * n + 1 : n;
        return PARSE_DONE;
    default:
        return PARSE_BAD;
    }
}

enum parse resp_reply_parse(const char *bytes, size_t len, struct resp_reply *out, size_t *consumed)
{
    const char *at = bytes, *const end = bytes + len;
    int64_t left = 1, more_bytes, elements;

    *out = (struct resp_reply){ .type = len > 0 ? bytes[0] : '\0' };
    while (left > 0) {
        const char *feed = memchr(at, '\n', (size_t)(end - at));

        if (!feed)
            return end - at > RESP_REPLY_MAX_BULK ? PARSE_BAD : PARSE_MORE;
        if (feed - at < 2 || feed[-1] != '\r')
            return PARSE_BAD;
        if (read_line(*at, at + 1, feed - 1, out, &more_bytes, &elements) == PARSE_BAD)
            return PARSE_BAD;
        if (at == bytes)
            out->text = (struct span){ at + 1, (size_t)(feed - 2 - at) };
        at = feed + 1;
        if (end - at < more_bytes)
            return PARSE_MORE;
        at += more_bytes;
        left += elements - 1;
    }
    *consumed = (size_t)(at - bytes);
    return PARSE_DONE;
}
