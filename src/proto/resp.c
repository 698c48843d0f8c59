/* resp.c - the protocol of Redis: commands in, values out.
 *
 * FORMAT of a command: `*COUNT\r\n`, then COUNT times `$LENGTH\r\nBYTES\r\n`. Numbers are decimal
 * without a sign and without leading zeros. What exceeds a limit is refused by the number that
 * says so, before the bytes have come. */
#include "proto/resp.h"

#include <string.h>

enum { MOST_DIGITS = 6 }; /* of a length that can still be within the limits */

struct reader {
    const char *bytes;
    size_t len, at;
    const char *why;
};

static enum parse fail(struct reader *r, const char *why)
{
    r->why = why;
    return PARSE_BAD;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_line_end(const char *at)
{
    return memcmp(at, "\r\n", 2) == 0;
}

/* `TYPE NUMBER \r\n`, with a number up to `most`. */
static enum parse read_header(struct reader *r, char type, size_t most, const char *no_type,
                              const char *no_number, size_t *out)
{
    size_t at = r->at, number = 0, first;

    if (at == r->len)
        return PARSE_MORE;
    if (r->bytes[at++] != type)
        return fail(r, no_type);
    for (first = at; at < r->len && is_digit(r->bytes[at]); at++) {
        if (at - first == MOST_DIGITS || (at > first && number == 0))
            return fail(r, no_number);
        number = number * 10 + (size_t)(r->bytes[at] - '0');
        if (number > most)
            return fail(r, no_number);
    }
    if (at == r->len)
        return PARSE_MORE;
    if (at == first || r->bytes[at++] != '\r')
        return fail(r, no_number);
    if (at == r->len)
        return PARSE_MORE;
    if (r->bytes[at++] != '\n')
        return fail(r, no_number);
    r->at = at;
    *out = number;
    return PARSE_DONE;
}

/* What most commands have: a count below 10, and words of less than 100 bytes. Each returns its
 * end; NULL: it is none of those, or not all there. */
static const char *read_short_count(const char *at, const char *end, size_t *out)
{
    if (end - at < 4 || at[0] != '*' || at[1] < '1' || at[1] > '9' || !is_line_end(at + 2))
        return NULL;
    *out = (size_t)(at[1] - '0');
    return at + 4;
}

static const char *read_short_word(const char *at, const char *end, struct span *out)
{
    size_t len;

    if (end - at < 6 || at[0] != '$' || !is_digit(at[1]))
        return NULL;
    len = (size_t)(at[1] - '0');
    if (at[2] != '\r') {
        if (!is_digit(at[2]) || len == 0)
            return NULL;
        len = len * 10 + (size_t)(at[2] - '0');
        at++;
    }
    if (!is_line_end(at + 2))
        return NULL;
    at += 4;
    if ((size_t)(end - at) < len + 2 || !is_line_end(at + len))
        return NULL;
    *out = (struct span){ at, len };
    return at + len + 2;
}

static enum parse read_word(struct reader *r, struct span *out)
{
    enum parse parse;
    size_t len;

    parse = read_header(r, '$', RESP_MAX_COMMAND, "Protocol error: expected '$'",
                        "Protocol error: invalid bulk length", &len);
    if (parse != PARSE_DONE)
        return parse;
    if (r->at + len + 2 > RESP_MAX_COMMAND)
        return fail(r, "Protocol error: the command is too long: at most 64 KiB");
    *out = (struct span){ r->bytes + r->at, len };
    if (r->len - r->at <= len)
        return PARSE_MORE;
    if (r->bytes[r->at + len] != '\r')
        return fail(r, "Protocol error: a word is longer than its length says");
    if (r->len - r->at == len + 1)
        return PARSE_MORE;
    if (r->bytes[r->at + len + 1] != '\n')
        return fail(r, "Protocol error: a word is longer than its length says");
    r->at += len + 2;
    return PARSE_DONE;
}

enum parse resp_parse(char *bytes, size_t len, struct resp_command *out, size_t *consumed,
                      const char **why)
{
    const char *const end = bytes + (len < RESP_MAX_COMMAND ? len : RESP_MAX_COMMAND);
    struct reader r = { .bytes = bytes, .len = len };
    enum parse parse = PARSE_DONE;
    const char *next;
    size_t count = 0;

    if (len > 0 && bytes[0] == '\r') { /* redis-cli --pipe ends with an empty line */
        if (len == 1)
            return PARSE_MORE;
        if (bytes[1] == '\n') {
            out->count = 0;
            *consumed = 2;
            return PARSE_DONE;
        }
    }
    next = read_short_count(bytes, end, &count);
    if (next)
        r.at = (size_t)(next - bytes);
    else
        parse = read_header(&r, '*', RESP_MAX_WORDS, "Protocol error: expected '*'",
                            "Protocol error: invalid multibulk length", &count);
    for (size_t i = 0; i < count && parse == PARSE_DONE; i++) {
        next = read_short_word(bytes + r.at, end, &out->words[i]);
        if (next)
            r.at = (size_t)(next - bytes);
        else
            parse = read_word(&r, &out->words[i]);
    }
    if (parse == PARSE_BAD)
        *why = r.why;
    if (parse != PARSE_DONE)
        return parse;
    /* Only now: what came in pieces is read again. */
    for (size_t i = 0; i < count; i++)
        bytes[(size_t)(out->words[i].at - bytes) + out->words[i].len] = '\0';
    out->from = bytes;
    out->count = count;
    *consumed = r.at;
    return PARSE_DONE;
}

/* ---- values out ----------------------------------------------------------------------- */

static void put_text(struct buf *out, char type, const char *text)
{
    const size_t start = out->len + 1;

    buf_add(out, (struct span){ &type, 1 });
    buf_text(out, text);
    for (size_t i = start; i < out->len; i++)
        if (out->at[i] == '\r' || out->at[i] == '\n')
            out->at[i] = ' ';
    buf_add(out, (struct span){ "\r\n", 2 });
}

void resp_simple(struct buf *out, const char *text)
{
    put_text(out, '+', text);
}

void resp_error(struct buf *out, const char *text)
{
    put_text(out, '-', text);
}

enum { HEADER_MOST = RESP_INT_MOST };

static void put_header(struct buf *out, char type, int64_t number)
{
    char *to = buf_room(out, HEADER_MOST);

    if (to)
        buf_wrote(out, (size_t)(resp_write_header(to, type, number) - to));
}

void resp_int(struct buf *out, int64_t number)
{
    put_header(out, ':', number);
}

void resp_bulk(struct buf *out, struct span bytes)
{
    char *to = buf_room(out, HEADER_MOST + bytes.len + 2), *at = to;

    if (!to)
        return;
    at = resp_write_header(at, '$', (int64_t)bytes.len);
    if (bytes.len > 0)
        memcpy(at, bytes.at, bytes.len);
    memcpy(at + bytes.len, "\r\n", 2);
    buf_wrote(out, (size_t)(at - to) + bytes.len + 2);
}

size_t resp_bulk_begin(struct buf *out)
{
    size_t begin;

    buf_byte(out, '$');
    begin = buf_int_later(out);
    buf_text(out, "\r\n");
    return begin;
}

void resp_bulk_end(struct buf *out, size_t begin)
{
    const size_t body = begin + BUF_LATER + 2;

    if (!out->failed)
        buf_int_known(out, begin, out->len - body);
    buf_text(out, "\r\n");
}

void resp_array(struct buf *out, size_t count)
{
    put_header(out, '*', (int64_t)count);
}

void resp_numbers(struct buf *out, size_t count, const int64_t *numbers, size_t n)
{
    char *to = buf_room(out, (1 + n) * HEADER_MOST), *at = to;

    if (!to)
        return;
    at = resp_write_header(at, '*', (int64_t)count);
    for (size_t i = 0; i < n; i++)
        at = resp_write_header(at, ':', numbers[i]);
    buf_wrote(out, (size_t)(at - to));
}

void resp_null(struct buf *out, int version)
{
    buf_text(out, version >= 3 ? "_\r\n" : "$-1\r\n");
}

void resp_map(struct buf *out, size_t pairs, int version)
{
    if (version >= 3)
        put_header(out, '%', (int64_t)pairs);
    else
        put_header(out, '*', (int64_t)pairs * 2);
}
