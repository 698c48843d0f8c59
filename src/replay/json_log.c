/* json_log.c - logs with one JSON object a line: nginx, Caddy, Envoy, and others by their names.
 *
 * A value is known by the names on the way to it, with points between them: request.uri. Names are
 * compared without regard to case. A list stands for its first item, as headers are lists. */
#include "replay/log_names.h"
#include "replay/scan.h"

struct reading {
    struct log_parser *p;
    struct record *out;
    const char *at, *end;
    char path[LOG_MOST_NAME];
    size_t path_len; /* more than it has room for: nothing below is looked for */
    uint8_t ranks[64];
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static void skip_blanks(struct reading *r)
{
    while (r->at < r->end && is_blank(*r->at))
        r->at++;
}

static bool take(struct reading *r, char c)
{
    skip_blanks(r);
    if (r->at >= r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

/* ---- texts --------------------------------------------------------------------------------- */

static int hex_of(const char *at)
{
    int value = 0;

    for (int i = 0; i < 4; i++) {
        const char c = at[i], lower = (char)(c | 0x20);

        if (scan_is_digit(c))
            value = value * 16 + c - '0';
        else if (lower >= 'a' && lower <= 'f')
            value = value * 16 + lower - 'a' + 10;
        else
            return -1;
    }
    return value;
}

static size_t put_utf8(unsigned code, char *to)
{
    if (code < 0x80) {
        to[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        to[0] = (char)(0xc0 | code >> 6);
        to[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code < 0x10000) {
        to[0] = (char)(0xe0 | code >> 12);
        to[1] = (char)(0x80 | (code >> 6 & 0x3f));
        to[2] = (char)(0x80 | (code & 0x3f));
        return 3;
    }
    to[0] = (char)(0xf0 | code >> 18);
    to[1] = (char)(0x80 | (code >> 12 & 0x3f));
    to[2] = (char)(0x80 | (code >> 6 & 0x3f));
    to[3] = (char)(0x80 | (code & 0x3f));
    return 4;
}

/* What is behind \u, of which there may be two. Returns how many bytes; 0: it is none. */
static size_t read_code(const char *at, const char *end, unsigned *code)
{
    const int high = end - at >= 4 ? hex_of(at) : -1;
    int low;

    if (high < 0)
        return 0;
    *code = (unsigned)high;
    if (high < 0xd800 || high > 0xdfff)
        return 4;
    low = high < 0xdc00 && end - at >= 10 && at[4] == '\\' && at[5] == 'u' ? hex_of(at + 6) : -1;
    if (low < 0xdc00 || low > 0xdfff)
        return 0;
    *code = 0x10000 + ((unsigned)(high - 0xd800) << 10) + (unsigned)(low - 0xdc00);
    return 10;
}

/* A text with backslashes, into the scratch memory. False: it is none, or there is no room. */
static bool unescape(struct log_parser *p, struct span text, struct span *out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *at = text.at, *const end = at + text.len;
    char *write = p->scratch + p->scratch_len;

    if (text.len > sizeof p->scratch - p->scratch_len)
        return false;
    out->at = write;
    while (at < end) {
        const char *known;
        unsigned code;
        size_t len;

        if (*at != '\\') {
            *write++ = *at++;
            continue;
        }
        if (++at == end)
            return false;
        if (*at == 'u') {
            len = read_code(at + 1, end, &code);
            if (len == 0)
                return false;
            write += put_utf8(code, write);
            at += 1 + len;
            continue;
        }
        known = *at ? strchr(from, *at) : NULL;
        if (!known)
            return false;
        *write++ = to[known - from];
        at++;
    }
    out->len = (size_t)(write - out->at);
    p->scratch_len += out->len;
    return true;
}

/* What is between the marks, as it stands. */
static bool read_text(struct reading *r, struct span *out)
{
    const char *stop;

    if (!take(r, '"'))
        return false;
    stop = scan_quote(r->at, r->end);
    if (!stop)
        return false;
    *out = (struct span){ r->at, (size_t)(stop - r->at) };
    r->at = stop + 1;
    return true;
}

/* ---- values -------------------------------------------------------------------------------- */

static bool read_value(struct reading *r, int depth);

/* What is at the path. `is_text`: it was between marks. */
static bool put(struct reading *r, struct span value, bool is_text)
{
    const struct log_name *name = r->path_len > sizeof r->path
                                      ? NULL
                                      : log_names_find(r->p, (struct span){ r->path, r->path_len });

    if (!name || (!is_text && span_is(value, "null")))
        return true;
    if (is_text && memchr(value.at, '\\', value.len) && !unescape(r->p, value, &value))
        return false;
    return log_names_put(r->p, name, value, r->ranks, r->out);
}

static void enter(struct reading *r, struct span key)
{
    if (r->path_len > 0 && r->path_len < sizeof r->path)
        r->path[r->path_len++] = '.';
    if (key.len > sizeof r->path - (r->path_len < sizeof r->path ? r->path_len : sizeof r->path)) {
        r->path_len = sizeof r->path + 1;
        return;
    }
    for (size_t i = 0; i < key.len; i++)
        r->path[r->path_len + i] = log_name_lower(key.at[i]);
    r->path_len += key.len;
}

static bool read_object(struct reading *r, int depth)
{
    const size_t before = r->path_len;
    struct span key;

    if (take(r, '}'))
        return true;
    do {
        if (!read_text(r, &key) || !take(r, ':'))
            return false;
        enter(r, key);
        if (!read_value(r, depth))
            return false;
        r->path_len = before;
    } while (take(r, ','));
    return take(r, '}');
}

static bool read_list(struct reading *r, int depth)
{
    const size_t path = r->path_len;
    bool is_first = true;

    if (take(r, ']'))
        return true;
    do {
        r->path_len = is_first ? path : sizeof r->path + 1;
        is_first = false;
        if (!read_value(r, depth))
            return false;
    } while (take(r, ','));
    r->path_len = path;
    return take(r, ']');
}

static bool read_value(struct reading *r, int depth)
{
    struct span value;

    if (depth == LOG_MOST_DEPTH)
        return false;
    skip_blanks(r);
    if (r->at >= r->end)
        return false;
    switch (*r->at) {
    case '{':
        r->at++;
        return read_object(r, depth + 1);
    case '[':
        r->at++;
        return read_list(r, depth + 1);
    case '"':
        return read_text(r, &value) && put(r, value, true);
    default:
        value.at = r->at;
        while (r->at < r->end && *r->at != ',' && *r->at != '}' && *r->at != ']' &&
               !is_blank(*r->at))
            r->at++;
        value.len = (size_t)(r->at - value.at);
        return value.len > 0 && put(r, value, false);
    }
}

enum parsed_line json_log_parse(struct log_parser *p, struct span line, struct record *out)
{
    struct reading r = { .p = p, .out = out, .at = line.at, .end = line.at + line.len };

    memset(r.ranks, 0xff, sizeof r.ranks);
    p->scratch_len = 0;
    if (!take(&r, '{') || !read_object(&r, 0))
        return LINE_BROKEN;
    skip_blanks(&r);
    return r.at == r.end && r.ranks[LOG_TIME_FIELD] != 0xff ? LINE_RECORD : LINE_BROKEN;
}
