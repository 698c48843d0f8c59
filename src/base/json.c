/* json.c - writes JSON into a buf, with commas and escapes where they belong. */
#include "base/json.h"

#include "base/utf8.h"

/* How many bytes the character at `text` has; 0: it is not UTF-8. */
static size_t character(struct span text)
{
    for (size_t len = 2; len <= 4 && len <= text.len; len++)
        if (utf8_is_text((struct span){ text.at, len }))
            return len;
    return 0;
}

/* The first character of `text`, which is not plain. Returns how many bytes of it that was. */
static size_t add_escaped(struct buf *to, struct span text)
{
    static const char hex[] = "0123456789abcdef";
    const unsigned char c = (unsigned char)*text.at;
    size_t len = 1;

    if (c == '"' || c == '\\') {
        buf_add(to, (struct span){ (char[]){ '\\', (char)c }, 2 });
    } else if (c == '\n') {
        buf_text(to, "\\n");
    } else if (c < 0x20) {
        buf_add(to, (struct span){ (char[]){ '\\', 'u', '0', '0', hex[c >> 4], hex[c & 15] }, 6 });
    } else {
        len = character(text);
        if (len == 0) {
            buf_text(to, "\\ufffd");
            return 1;
        }
        buf_add(to, (struct span){ text.at, len });
    }
    return len;
}

static void add_quoted(struct buf *to, struct span text)
{
    size_t plain = json_plain(text.at, text.len);
    char *at = buf_room(to, plain + 2);

    if (!at)
        return;
    at[0] = '"';
    memcpy(at + 1, text.len > 0 ? text.at : "", plain);
    if (plain == text.len) {
        at[plain + 1] = '"';
        buf_wrote(to, plain + 2);
        return;
    }
    buf_wrote(to, plain + 1);
    while (plain < text.len) {
        struct span rest = { text.at + plain, text.len - plain };

        rest.len = json_plain(rest.at, rest.len);
        buf_add(to, rest);
        plain += rest.len;
        if (plain < text.len)
            plain += add_escaped(to, (struct span){ text.at + plain, text.len - plain });
    }
    buf_byte(to, '"');
}

static void begin_value(struct json *j, const char *name)
{
    if (j->wants_comma)
        buf_byte(j->to, ',');
    j->wants_comma = true;
    if (name) {
        add_quoted(j->to, span_of(name));
        buf_byte(j->to, ':');
    }
}

void json_open(struct json *j, const char *name, char bracket)
{
    begin_value(j, name);
    buf_byte(j->to, bracket);
    j->wants_comma = false;
}

void json_close(struct json *j, char bracket)
{
    buf_byte(j->to, bracket);
    j->wants_comma = true;
}

void json_span(struct json *j, const char *name, struct span text)
{
    begin_value(j, name);
    add_quoted(j->to, text);
}

void json_text(struct json *j, const char *name, const char *text)
{
    if (text)
        json_span(j, name, span_of(text));
    else
        json_raw(j, name, span_of("null"));
}

void json_int(struct json *j, const char *name, int64_t number)
{
    begin_value(j, name);
    buf_int(j->to, number);
}

void json_bool(struct json *j, const char *name, bool value)
{
    json_raw(j, name, span_of(value ? "true" : "false"));
}

void json_raw(struct json *j, const char *name, struct span value)
{
    begin_value(j, name);
    buf_add(j->to, value);
}
