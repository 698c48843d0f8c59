/* http_lines.c - a head taken apart, line by line.
 *
 * It is the grammar of RFC 9112 without what a recipient may forgive: no bare LF, no lone CR, no
 * blank before a colon, no folded line, one space where there is to be one. A proxy in front that
 * forgives more, or less, must not see another request than weir does.
 *
 * WHY NOT a library: each version of one forgives something else, and what is a request here would
 * depend on the release of the system. */
#include "proto/http_lines.h"

/* The characters of a token: of a method, and of the name of a header. */
static const bool in_token[256] = {
    ['!'] = 1, ['#'] = 1, ['$'] = 1, ['%'] = 1, ['&'] = 1, ['\''] = 1, ['*'] = 1, ['+'] = 1,
    ['-'] = 1, ['.'] = 1, ['0'] = 1, ['1'] = 1, ['2'] = 1, ['3'] = 1,  ['4'] = 1, ['5'] = 1,
    ['6'] = 1, ['7'] = 1, ['8'] = 1, ['9'] = 1, ['A'] = 1, ['B'] = 1,  ['C'] = 1, ['D'] = 1,
    ['E'] = 1, ['F'] = 1, ['G'] = 1, ['H'] = 1, ['I'] = 1, ['J'] = 1,  ['K'] = 1, ['L'] = 1,
    ['M'] = 1, ['N'] = 1, ['O'] = 1, ['P'] = 1, ['Q'] = 1, ['R'] = 1,  ['S'] = 1, ['T'] = 1,
    ['U'] = 1, ['V'] = 1, ['W'] = 1, ['X'] = 1, ['Y'] = 1, ['Z'] = 1,  ['^'] = 1, ['_'] = 1,
    ['`'] = 1, ['a'] = 1, ['b'] = 1, ['c'] = 1, ['d'] = 1, ['e'] = 1,  ['f'] = 1, ['g'] = 1,
    ['h'] = 1, ['i'] = 1, ['j'] = 1, ['k'] = 1, ['l'] = 1, ['m'] = 1,  ['n'] = 1, ['o'] = 1,
    ['p'] = 1, ['q'] = 1, ['r'] = 1, ['s'] = 1, ['t'] = 1, ['u'] = 1,  ['v'] = 1, ['w'] = 1,
    ['x'] = 1, ['y'] = 1, ['z'] = 1, ['|'] = 1, ['~'] = 1,
};

static const char *skip_token(const char *at, const char *end)
{
    while (at < end && in_token[(unsigned char)*at])
        at++;
    return at;
}

/* What can be seen, but for '#', which ends a target before it is sent. */
static const char *skip_target(const char *at, const char *end)
{
    while (at < end && ' ' < *at && *at < 0x7F && *at != '#')
        at++;
    return at;
}

/* All but control characters; a tab is none. */
static const char *skip_value(const char *at, const char *end)
{
    while (at < end && (((unsigned char)*at >= ' ' && *at != 0x7F) || *at == '\t'))
        at++;
    return at;
}

static bool refuse(struct http_lines *lines, int status, const char *why)
{
    lines->status = status;
    lines->why = why;
    return false;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* `HTTP/1.1` */
static bool read_version(struct http_lines *lines, struct span word)
{
    if (word.len != 8 || memcmp(word.at, "HTTP/", 5) != 0 || !is_digit(word.at[5]) ||
        word.at[6] != '.' || !is_digit(word.at[7]))
        return refuse(lines, 400, "the first line does not end in HTTP/1.1");
    if (word.at[5] != '1' || word.at[7] > '1')
        return refuse(lines, 505, "only HTTP/1.1 and HTTP/1.0 are supported");
    lines->minor = word.at[7] - '0';
    return true;
}

/* `GET /path HTTP/1.1` */
static bool read_request_line(struct http_lines *lines, const char *line, const char *end)
{
    const char *method_end = skip_token(line, end), *target, *target_end;

    if (method_end == line || method_end == end || *method_end != ' ')
        return refuse(lines, 400, "this is not an HTTP request");
    target = method_end + 1;
    target_end = skip_target(target, end);
    if (target_end == target || target_end == end || *target_end != ' ')
        return refuse(lines, 400, "the target of the request is not valid");
    lines->method = (struct span){ line, (size_t)(method_end - line) };
    lines->target = (struct span){ target, (size_t)(target_end - target) };
    return read_version(lines, (struct span){ target_end + 1, (size_t)(end - target_end - 1) });
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* `Name: value` */
static bool read_header_line(struct http_lines *lines, const char *line, const char *end)
{
    const char *name_end = skip_token(line, end), *value = name_end + 1;

    if (lines->count == HTTP_MAX_HEADERS)
        return refuse(lines, 431, "the request has too many headers");
    if (line < end && *line == ':')
        return refuse(lines, 400, "a header has no name");
    if (name_end == end || *name_end != ':' || skip_value(value, end) < end)
        return refuse(lines, 400, "a header has a character that is not allowed there");
    while (value < end && is_blank(*value))
        value++;
    while (value < end && is_blank(end[-1]))
        end--;
    lines->headers[lines->count++] = (struct http_header){
        .name = { line, (size_t)(name_end - line) },
        .value = { value < end ? value : "", (size_t)(end - value) },
    };
    return true;
}

bool http_lines_split(struct http_lines *lines, const char *head, size_t len)
{
    const char *end = memchr(head, '\n', len);

    lines->count = 0;
    if (!read_request_line(lines, head, end - 1))
        return false;
    for (const char *line = end + 1; *line != '\r' || line[1] != '\n'; line = end + 1) {
        end = memchr(line, '\n', (size_t)(head + len - line));
        if (!read_header_line(lines, line, end - 1))
            return false;
    }
    return true;
}
