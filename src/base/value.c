/* value.c - a value as JSON has them: a tree that is written once. */
#include "base/value.h"

#include <stdio.h>

static void put_last(struct value *to, struct value *v)
{
    struct value **end = &to->first;

    while (*end)
        end = &(*end)->next;
    *end = v;
}

static bool copy_text(struct arena *arena, struct span text, struct span *out)
{
    *out = (struct span){ arena_text(arena, text), text.len };
    return out->at;
}

struct value *value_add(struct arena *arena, struct value *to, struct span key,
                        enum value_kind kind)
{
    struct value *v = to ? arena_take(arena, sizeof *v) : NULL;

    if (!v || !copy_text(arena, key, &v->key))
        return NULL;
    v->kind = kind;
    put_last(to, v);
    return v;
}

struct value *value_add_text(struct arena *arena, struct value *to, struct span key,
                             struct span text)
{
    struct value *v = value_add(arena, to, key, VALUE_TEXT);

    return v && copy_text(arena, text, &v->text) ? v : NULL;
}

static struct value *find(const struct value *in, struct span key)
{
    struct value *v = in->first;

    while (v && !span_equal(v->key, key))
        v = v->next;
    return v;
}

/* All of it, at the end of `to`. */
static bool add_copy(struct arena *arena, struct value *to, const struct value *from)
{
    struct value *v = value_add(arena, to, from->key, from->kind);

    if (!v || !copy_text(arena, from->text, &v->text))
        return false;
    v->number = from->number;
    for (const struct value *inside = from->first; inside; inside = inside->next)
        if (!add_copy(arena, v, inside))
            return false;
    return true;
}

bool value_merge(struct arena *arena, struct value *into, const struct value *from)
{
    for (const struct value *v = from->first; v; v = v->next) {
        struct value *known = find(into, v->key);

        if (!known && !add_copy(arena, into, v))
            return false;
        if (known && known->kind == VALUE_MAP && v->kind == VALUE_MAP &&
            !value_merge(arena, known, v))
            return false;
    }
    return true;
}

static void write_inside(struct json *j, const char *name, const struct value *v)
{
    const char open = v->kind == VALUE_MAP ? '{' : '[', close = v->kind == VALUE_MAP ? '}' : ']';

    json_open(j, name, open);
    for (const struct value *inside = v->first; inside; inside = inside->next)
        value_json(j, v->kind == VALUE_MAP ? inside->key.at : NULL, inside);
    json_close(j, close);
}

void value_json(struct json *j, const char *name, const struct value *v)
{
    char digits[32];

    switch (v->kind) {
    case VALUE_NULL:
        json_text(j, name, NULL);
        break;
    case VALUE_BOOL:
        json_bool(j, name, v->number != 0);
        break;
    case VALUE_NUMBER:
        snprintf(digits, sizeof digits, "%.17g", v->number);
        json_raw(j, name, span_of(digits));
        break;
    case VALUE_TEXT:
        json_span(j, name, v->text);
        break;
    case VALUE_LIST:
    case VALUE_MAP:
        write_inside(j, name, v);
        break;
    }
}
