/* log_format.c - how a line of the log looks. */
#include "server/log/log_format.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/json.h"

const char *const log_level_names[LOG_LEVELS] = { "debug", "info", "warn", "error" };
const char *const log_format_names[LOG_FORMATS] = { "auto", "json", "text" };

enum log_level log_level_of(const char *name)
{
    for (int i = 0; i < LOG_LEVELS; i++)
        if (strcmp(name, log_level_names[i]) == 0)
            return (enum log_level)i;
    return LOG_INFO;
}

struct moment {
    char text[40];
};

static struct moment moment_now(void)
{
    const int64_t now = clock_wall_ms();
    const time_t second = now / 1000;
    struct moment m;
    struct tm tm;
    size_t len;

    gmtime_r(&second, &tm);
    len = strftime(m.text, sizeof m.text, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(m.text + len, sizeof m.text - len, ".%03dZ", (int)(now % 1000));
    return m;
}

void log_format_json(struct buf *line, const char *level, const char *event, const char *message,
                     const char *members)
{
    struct json j = { .to = line };

    json_open(&j, NULL, '{');
    json_text(&j, "time", moment_now().text);
    json_text(&j, "level", level);
    json_text(&j, "event", event);
    json_text(&j, "message", message);
    if (*members) {
        buf_text(line, ",");
        buf_text(line, members);
    }
    json_close(&j, '}');
    buf_text(line, "\n");
}

/* Behind the value of a member that begins here. */
static const char *value_end(const char *at)
{
    bool is_text = false;
    int depth = 0;

    for (; *at && (is_text || depth > 0 || *at != ','); at++) {
        if (is_text && *at == '\\' && at[1])
            at++;
        else if (*at == '"')
            is_text = !is_text;
        else if (!is_text)
            depth += (*at == '{' || *at == '[') - (*at == '}' || *at == ']');
    }
    return at;
}

/* A text of one word needs no quotes. */
static void put_value(struct buf *line, const char *at, size_t len)
{
    if (len > 2 && *at == '"' && !memchr(at, ' ', len) && !memchr(at, '\\', len)) {
        at++;
        len -= 2;
    }
    buf_add(line, (struct span){ at, len });
}

/* Those of JSON as ` policy=login tag=…`. */
static void put_members(struct buf *line, const char *at)
{
    while (*at == '"') {
        const char *colon = strstr(at, "\":"), *end;

        if (!colon)
            return;
        end = value_end(colon + 2);
        buf_byte(line, ' ');
        buf_add(line, (struct span){ at + 1, (size_t)(colon - at - 1) });
        buf_byte(line, '=');
        put_value(line, colon + 2, (size_t)(end - colon - 2));
        at = *end == ',' ? end + 1 : end;
    }
}

/* What is no text becomes '?': a terminal does what control characters say. */
static void put_message(struct buf *line, const char *message)
{
    for (; *message; message++)
        buf_byte(line, (unsigned char)*message < ' ' || *message == 0x7f ? '?' : *message);
}

void log_format_text(struct buf *line, const char *level, const char *event, const char *message,
                     const char *members)
{
    buf_printf(line, "%s %-5s %s: ", moment_now().text, level, event);
    put_message(line, message);
    put_members(line, members);
    buf_text(line, "\n");
}
