/* json.h - writes JSON to a file, with commas and escapes where they belong. */
#ifndef WEIR_CLI_JSON_H
#define WEIR_CLI_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/span.h"

struct json {
    FILE *to;
    bool wants_comma;
};

/* `name` is NULL for what is in a list or stands alone. */
void json_open(struct json *j, const char *name, char bracket);     /* '{' or '[' */
void json_close(struct json *j, char bracket);                      /* '}' or ']' */
void json_text(struct json *j, const char *name, const char *text); /* NULL: null */
void json_span(struct json *j, const char *name, struct span text);
void json_int(struct json *j, const char *name, int64_t number);
void json_bool(struct json *j, const char *name, bool value);

/* After the outermost is closed: the next one begins a line of its own. */
void json_end(struct json *j);

#endif
