/* yaml.c - a YAML text as a tree of nodes that know their place.
 *
 * The tree is built from libyaml's events and not by its document API, which resolves
 * aliases without a trace: they could then not be refused, and may form cycles. */
#include "policy/yaml.h"

#include <stdlib.h>
#include <yaml.h>

#include "base/printable.h"

enum { MAX_DEPTH = 16 };

struct reader {
    yaml_parser_t parser;
    const char *file;
    struct span text;
    struct arena *arena;
    struct problems *problems;
};

bool yaml_is_null(const struct yaml *node)
{
    return node->kind == YAML_TEXT && !node->quoted &&
           (node->text.len == 0 || span_is(node->text, "~") || span_is(node->text, "null"));
}

const char *yaml_kind_name(const struct yaml *node)
{
    switch (node->kind) {
    case YAML_LIST:
        return "a list";
    case YAML_MAPPING:
        return "a mapping";
    case YAML_TEXT:
    case YAML_BROKEN:
        break;
    }
    return yaml_is_null(node) ? "nothing" : "a text";
}

static int from_one(size_t n)
{
    return (int)n + 1;
}

#define COMPLAIN(r, mark, ...)                                                                     \
    problems_add((r)->problems, (r)->file, from_one((mark).line), from_one((mark).column),         \
                 __VA_ARGS__)

/* Bytes that are not text have an offset but no line. */
static void complain_of_bytes(struct reader *r)
{
    size_t offset = r->parser.problem_offset < r->text.len ? r->parser.problem_offset : r->text.len;
    yaml_mark_t mark = { .index = offset };

    for (size_t i = 0; i < offset; i++) {
        mark.column++;
        if (r->text.at[i] == '\n') {
            mark.line++;
            mark.column = 0;
        }
    }
    COMPLAIN(r, mark, "not YAML text: %s", r->parser.problem);
}

static weir_err next_event(struct reader *r, yaml_event_t *event)
{
    const yaml_parser_t *p = &r->parser;

    if (yaml_parser_parse(&r->parser, event))
        return WEIR_OK;
    if (p->error == YAML_MEMORY_ERROR)
        return WEIR_ENOMEM;
    if (p->error == YAML_READER_ERROR)
        complain_of_bytes(r);
    else if (p->context)
        COMPLAIN(r, p->problem_mark, "not valid YAML: %s %s (from line %d on)", p->problem,
                 p->context, from_one(p->context_mark.line));
    else
        COMPLAIN(r, p->problem_mark, "not valid YAML: %s", p->problem);
    return WEIR_EPOLICY;
}

static int compare_keys(const void *left, const void *right)
{
    const struct yaml *a = *(struct yaml *const *)left, *b = *(struct yaml *const *)right;
    size_t len = a->text.len < b->text.len ? a->text.len : b->text.len;
    int order = len > 0 ? memcmp(a->text.at, b->text.at, len) : 0;

    if (order == 0 && a->text.len != b->text.len)
        order = a->text.len < b->text.len ? -1 : 1;
    if (order == 0)
        order = a->line != b->line ? a->line - b->line : a->column - b->column;
    return order;
}

/* The first of two keys stays. */
static weir_err drop_duplicates(struct reader *r, struct yaml *mapping)
{
    struct yaml **keys, **link, *key;
    size_t n = 0;

    if (mapping->count < 2)
        return WEIR_OK;
    keys = arena_take(r->arena, mapping->count * sizeof(*keys));
    if (!keys)
        return WEIR_ENOMEM;
    for (key = mapping->first; key; key = key->next)
        keys[n++] = key;
    qsort(keys, n, sizeof(*keys), compare_keys);
    for (size_t i = 1, first = 0; i < n; i++) {
        if (!span_equal(keys[i]->text, keys[first]->text)) {
            first = i;
            continue;
        }
        problems_add(r->problems, r->file, keys[i]->line, keys[i]->column,
                     "'%s' is given twice: the first is at line %d, column %d",
                     printable(keys[i]->text).text, keys[first]->line, keys[first]->column);
        keys[i]->kind = YAML_BROKEN;
    }
    for (link = &mapping->first; *link;) {
        if ((*link)->kind == YAML_BROKEN) {
            *link = (*link)->next;
            mapping->count--;
        } else {
            link = &(*link)->next;
        }
    }
    return WEIR_OK;
}

static weir_err read_node(struct reader *r, const yaml_event_t *event, int depth,
                          struct yaml **out);

/* Items up to the end of a list; or keys, each with its value, up to the end of a mapping. */
static weir_err read_children(struct reader *r, struct yaml *parent, yaml_event_type_t end,
                              int depth)
{
    struct yaml **link = &parent->first, *child, *value;
    yaml_event_t event;
    weir_err err = WEIR_OK;

    while (!err) {
        bool ended;

        err = next_event(r, &event);
        if (err)
            return err;
        ended = event.type == end;
        if (!ended)
            err = read_node(r, &event, depth + 1, &child);
        yaml_event_delete(&event);
        if (ended)
            return end == YAML_MAPPING_END_EVENT ? drop_duplicates(r, parent) : WEIR_OK;
        if (!err && end == YAML_MAPPING_END_EVENT) {
            err = next_event(r, &event);
            if (err)
                return err;
            err = read_node(r, &event, depth + 1, &value);
            yaml_event_delete(&event);
            child->value = value;
            if (!err && child->kind != YAML_TEXT) {
                if (child->kind != YAML_BROKEN)
                    problems_add(r->problems, r->file, child->line, child->column,
                                 "a key must be a text, not %s", yaml_kind_name(child));
                continue;
            }
        }
        if (!err) {
            *link = child;
            link = &child->next;
            parent->count++;
        }
    }
    return err;
}

static void refuse_extras(struct reader *r, const yaml_event_t *event, const yaml_char_t *anchor,
                          const yaml_char_t *tag)
{
    if (anchor)
        COMPLAIN(r, event->start_mark,
                 "anchors (&%s) are not supported: write out the value each time",
                 printable(span_of((const char *)anchor)).text);
    if (tag)
        COMPLAIN(r, event->start_mark, "tags (%s) are not supported: leave it out",
                 printable(span_of((const char *)tag)).text);
}

static weir_err read_node(struct reader *r, const yaml_event_t *event, int depth, struct yaml **out)
{
    struct yaml *node = arena_take(r->arena, sizeof *node);

    *out = node;
    if (!node)
        return WEIR_ENOMEM;
    node->line = from_one(event->start_mark.line);
    node->column = from_one(event->start_mark.column);
    if (depth > MAX_DEPTH) {
        COMPLAIN(r, event->start_mark, "nested more than %d deep", MAX_DEPTH);
        return WEIR_EPOLICY;
    }
    switch ((int)event->type) { /* libyaml's list; most of it cannot stand here */
    case YAML_SCALAR_EVENT:
        refuse_extras(r, event, event->data.scalar.anchor, event->data.scalar.tag);
        node->kind = YAML_TEXT;
        node->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
        node->text = (struct span){ (const char *)event->data.scalar.value,
                                    event->data.scalar.length };
        node->text.at = arena_text(r->arena, node->text);
        return node->text.at ? WEIR_OK : WEIR_ENOMEM;
    case YAML_SEQUENCE_START_EVENT:
        refuse_extras(r, event, event->data.sequence_start.anchor, event->data.sequence_start.tag);
        node->kind = YAML_LIST;
        return read_children(r, node, YAML_SEQUENCE_END_EVENT, depth);
    case YAML_MAPPING_START_EVENT:
        refuse_extras(r, event, event->data.mapping_start.anchor, event->data.mapping_start.tag);
        node->kind = YAML_MAPPING;
        return read_children(r, node, YAML_MAPPING_END_EVENT, depth);
    default:
        COMPLAIN(r, event->start_mark, "aliases (*%s) are not supported: write out the value",
                 printable(span_of((const char *)event->data.alias.anchor)).text);
        node->kind = YAML_BROKEN;
        return WEIR_OK;
    }
}

/* stream start, document start, the tree, document end, stream end */
static weir_err read_stream(struct reader *r, struct yaml **out)
{
    bool seen = false;
    weir_err err = WEIR_OK;

    while (!err) {
        yaml_event_t event;
        yaml_event_type_t type;

        err = next_event(r, &event);
        if (err)
            break;
        type = event.type;
        if (type == YAML_DOCUMENT_START_EVENT && seen) {
            COMPLAIN(r, event.start_mark,
                     "a second document begins here: a file may have only one");
            err = WEIR_EPOLICY;
        } else if (type == YAML_DOCUMENT_START_EVENT) {
            seen = true;
        } else if (type != YAML_STREAM_START_EVENT && type != YAML_DOCUMENT_END_EVENT &&
                   type != YAML_STREAM_END_EVENT) {
            err = read_node(r, &event, 1, out);
        }
        yaml_event_delete(&event);
        if (type == YAML_STREAM_END_EVENT)
            break;
    }
    return err;
}

weir_err yaml_read(const char *file, struct span text, struct arena *arena,
                   struct problems *problems, struct yaml **out)
{
    struct reader r = { .file = file, .text = text, .arena = arena, .problems = problems };
    weir_err err;

    *out = NULL;
    if (!yaml_parser_initialize(&r.parser))
        return WEIR_ENOMEM;
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text.at, text.len);
    err = read_stream(&r, out);
    yaml_parser_delete(&r.parser);
    if (!err && !*out) {
        problems_add(problems, file, 1, 1, "the file is empty: it must begin with 'version: 1'");
        err = WEIR_EPOLICY;
    }
    return err;
}
