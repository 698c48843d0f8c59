/* json.c - writes JSON to a file, with commas and escapes where they belong. */
#include "cli/json.h"

#include <inttypes.h>

#include "base/utf8.h"

/* How many bytes the character at `text` has; 0: it is not UTF-8. */
static size_t character(struct span text)
{
    for (size_t len = 1; len <= 4 && len <= text.len; len++)
        if (utf8_is_text((struct span){ text.at, len }))
            return len;
    return 0;
}

static void write_quoted(FILE *to, struct span text)
{
    putc('"', to);
    while (text.len > 0) {
        const unsigned char c = (unsigned char)*text.at;
        size_t len = character(text);

        if (c < 0x20) {
            fprintf(to, "\\u%04x", c);
            len = 1;
        } else if (len == 0) {
            fputs("\\ufffd", to);
            len = 1;
        } else {
            if (c == '"' || c == '\\')
                putc('\\', to);
            fwrite(text.at, 1, len, to);
        }
        text.at += len;
        text.len -= len;
    }
    putc('"', to);
}

static void begin_value(struct json *j, const char *name)
{
    if (j->wants_comma)
        putc(',', j->to);
    j->wants_comma = true;
    if (name) {
        write_quoted(j->to, span_of(name));
        putc(':', j->to);
    }
}

void json_open(struct json *j, const char *name, char bracket)
{
    begin_value(j, name);
    putc(bracket, j->to);
    j->wants_comma = false;
}

void json_close(struct json *j, char bracket)
{
    putc(bracket, j->to);
    j->wants_comma = true;
}

void json_span(struct json *j, const char *name, struct span text)
{
    begin_value(j, name);
    write_quoted(j->to, text);
}

void json_text(struct json *j, const char *name, const char *text)
{
    if (text) {
        json_span(j, name, span_of(text));
    } else {
        begin_value(j, name);
        fputs("null", j->to);
    }
}

void json_int(struct json *j, const char *name, int64_t number)
{
    begin_value(j, name);
    fprintf(j->to, "%" PRId64, number);
}

void json_bool(struct json *j, const char *name, bool value)
{
    begin_value(j, name);
    fputs(value ? "true" : "false", j->to);
}

void json_end(struct json *j)
{
    putc('\n', j->to);
    j->wants_comma = false;
}
