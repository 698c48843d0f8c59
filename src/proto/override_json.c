/* override_json.c - the JSON body of an operator's change, by jansson. */
#include "proto/override_json.h"

#include <inttypes.h>
#include <jansson.h>
#include <stddef.h>

#include "base/diag.h"
#include "base/printable.h"
#include "base/suggest.h"

enum wants { WANTS_TEXT, WANTS_IDENTITY, WANTS_NUMBER, WANTS_BOOL, WANTS_ATTRIBUTES, WANTS_NAMES };

static const struct member {
    const char *name;
    enum wants wants;
    size_t at;
} members[] = {
    { "policy", WANTS_TEXT, offsetof(struct override_json, policy) },
    { "named", WANTS_BOOL, offsetof(struct override_json, named) },
    { "rule", WANTS_TEXT, offsetof(struct override_json, rule) },
    { "key", WANTS_IDENTITY, offsetof(struct override_json, key) },
    { "attributes", WANTS_ATTRIBUTES, 0 },
    { "tag", WANTS_TEXT, offsetof(struct override_json, tag) },
    { "by", WANTS_NAMES, 0 },
    { "effect", WANTS_TEXT, offsetof(struct override_json, effect) },
    { "limit", WANTS_NUMBER, offsetof(struct override_json, limit) },
    { "burst", WANTS_NUMBER, offsetof(struct override_json, burst) },
    { "plan", WANTS_TEXT, offsetof(struct override_json, plan) },
    { "mode", WANTS_TEXT, offsetof(struct override_json, mode) },
    { "for", WANTS_TEXT, offsetof(struct override_json, duration) },
    { "expires_ms", WANTS_NUMBER, offsetof(struct override_json, expires_ms) },
    { "who", WANTS_TEXT, offsetof(struct override_json, who) },
    { "reason", WANTS_TEXT, offsetof(struct override_json, reason) },
    { "id", WANTS_NUMBER, offsetof(struct override_json, id) },
};
enum { MEMBERS = sizeof members / sizeof *members };

static weir_err unknown_member(const char *name, weir_diag *diag)
{
    const char *names[MEMBERS], *near;

    for (size_t i = 0; i < MEMBERS; i++)
        names[i] = members[i].name;
    near = suggest(span_of(name), names, MEMBERS);
    return diag_fail(diag, WEIR_EREQUEST, "there is no member '%s'%s%s%s",
                     printable(span_of(name)).text, near ? ": did you mean '" : "",
                     near ? near : "", near ? "'?" : "");
}

static weir_err read_number(const char *name, const json_t *value, int64_t *out, weir_diag *diag)
{
    const int64_t number = json_integer_value(value);

    if (!json_is_integer(value) || number < 0 || number > WEIR_MAX_AMOUNT)
        return diag_fail(diag, WEIR_EREQUEST, "'%s' must be a whole number from 0 to 2^53", name);
    *out = number;
    return WEIR_OK;
}

/* The text of a value, or of the number that takes its place; it lives as long as the tree. */
static weir_err read_identity(const char *name, json_t *object, json_t *value, const char **out,
                              weir_diag *diag)
{
    char digits[24];

    if (json_is_integer(value)) {
        snprintf(digits, sizeof digits, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        value = json_string(digits);
        if (!value || json_object_set_new(object, name, value))
            return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    }
    if (!json_is_string(value))
        return diag_fail(diag, WEIR_EREQUEST, "'%s' must be a string or a whole number",
                         printable(span_of(name)).text);
    *out = json_string_value(value);
    return WEIR_OK;
}

static weir_err read_attributes(struct override_json *c, json_t *object, weir_diag *diag)
{
    void *i, *next;
    weir_err err = WEIR_OK;

    if (!json_is_object(object))
        return diag_fail(diag, WEIR_EREQUEST, "'attributes' must be an object");
    for (i = json_object_iter(object); i && !err; i = next) {
        const char *name = json_object_iter_key(i), *text = NULL;

        next = json_object_iter_next(object, i);
        if (json_is_null(json_object_iter_value(i)))
            continue;
        if (c->attribute_count == WEIR_MAX_ATTRIBUTES)
            return diag_fail(diag, WEIR_EREQUEST, "there are too many attributes: at most %d",
                             WEIR_MAX_ATTRIBUTES);
        err = read_identity(name, object, json_object_iter_value(i), &text, diag);
        if (!err)
            c->attributes[c->attribute_count++] = (weir_attribute){ .name = name, .value = text };
    }
    return err;
}

/* A name, or a list of them. */
static weir_err read_names(struct override_json *c, const json_t *value, weir_diag *diag)
{
    const size_t n = json_is_array(value) ? json_array_size(value) : 1;

    for (size_t i = 0; i < n; i++) {
        const json_t *name = json_is_array(value) ? json_array_get(value, i) : value;

        if (!json_is_string(name) || i == CHANGE_JSON_MAX_BY)
            return diag_fail(diag, WEIR_EREQUEST,
                             "'by' must be the name of an attribute, or a list of at most %d",
                             CHANGE_JSON_MAX_BY);
        c->by[c->by_count++] = json_string_value(name);
    }
    return WEIR_OK;
}

static weir_err read_member(struct override_json *c, const char *name, json_t *value,
                            weir_diag *diag)
{
    const struct member *m = members;

    while (m < members + MEMBERS && strcmp(m->name, name) != 0)
        m++;
    if (m == members + MEMBERS)
        return unknown_member(name, diag);
    if (json_is_null(value))
        return WEIR_OK;
    switch (m->wants) {
    case WANTS_NUMBER:
        return read_number(name, value, (int64_t *)(void *)((char *)c + m->at), diag);
    case WANTS_BOOL:
        if (!json_is_boolean(value))
            return diag_fail(diag, WEIR_EREQUEST, "'%s' must be true or false", name);
        *(bool *)((char *)c + m->at) = json_is_true(value);
        return WEIR_OK;
    case WANTS_ATTRIBUTES:
        return read_attributes(c, value, diag);
    case WANTS_NAMES:
        return read_names(c, value, diag);
    case WANTS_TEXT:
        if (!json_is_string(value))
            return diag_fail(diag, WEIR_EREQUEST, "'%s' must be a string", name);
        break;
    case WANTS_IDENTITY:
        break;
    }
    return read_identity(name, c->tree, value, (const char **)(void *)((char *)c + m->at), diag);
}

weir_err override_json_open(struct override_json *c, struct span body, weir_diag *diag)
{
    json_error_t error;
    void *i, *next;
    weir_err err = WEIR_OK;

    *c = (struct override_json){ .limit = -1, .burst = -1, .expires_ms = -1, .id = -1 };
    if (body.len == 0)
        return WEIR_OK;
    c->tree = json_loadb(body.at, body.len, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(c->tree))
        return diag_fail(diag, WEIR_EREQUEST,
                         "the body must be a JSON object, with each member once (line %d)",
                         c->tree ? 1 : error.line);
    for (i = json_object_iter(c->tree); i && !err; i = next) {
        const char *name = json_object_iter_key(i);

        next = json_object_iter_next(c->tree, i);
        err = read_member(c, name, json_object_iter_value(i), diag);
    }
    return err;
}

void override_json_close(struct override_json *c)
{
    json_decref(c->tree);
    c->tree = NULL;
}
