/* told.c - what a server has told, fit for a terminal. */
#include "cli/told.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/printable.h"

static bool clean_text(json_t *text)
{
    const size_t len = json_string_length(text);
    const struct span as_it_is = { json_string_value(text), len };
    char *copy;
    bool is_good;

    if (is_printable(as_it_is))
        return true;
    copy = malloc(len + 1);
    if (!copy)
        return false;
    memcpy(copy, as_it_is.at, len);
    printable_all(copy, len);
    is_good = json_string_setn(text, copy, len) == 0;
    free(copy);
    return is_good;
}

/* jansson has bounded how deep it is. */
static bool clean(json_t *value)
{
    bool is_good = true;
    void *member;
    json_t *item;
    size_t i;

    if (json_is_string(value))
        return clean_text(value);
    json_array_foreach(value, i, item) is_good = is_good && clean(item);
    for (member = json_object_iter(value); member; member = json_object_iter_next(value, member))
        is_good = is_good && clean(json_object_iter_value(member));
    return is_good;
}

json_t *told_read(struct span body)
{
    json_t *root = json_loadb(body.at ? body.at : "", body.len, 0, NULL);

    if (root && !clean(root)) {
        json_decref(root);
        return NULL;
    }
    return root;
}

int64_t told_int(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

const char *told_text(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text ? text : "";
}

void told_print(struct span body)
{
    char *line = NULL;

    if (!isatty(STDOUT_FILENO)) {
        fwrite(body.at, 1, body.len, stdout);
        return;
    }
    while (body.len > 0) {
        const char *end = memchr(body.at, '\n', body.len);
        const size_t len = end ? (size_t)(end - body.at) : body.len;
        char *more = realloc(line, len + 1);

        if (!more)
            break;
        line = more;
        memcpy(line, body.at, len);
        printable_all(line, len);
        fwrite(line, 1, len, stdout);
        if (end)
            putchar('\n');
        body = (struct span){ body.at + len + (end != NULL), body.len - len - (end != NULL) };
    }
    free(line);
}
