/* yaml.c - a YAML text as a tree of nodes that know their place.
 *
 * The tree is built from libyaml's events and not by its document API, which resolves
 * aliases without a trace: they could then not be refused, and may form cycles. */
#include "policy/yaml.h"

#include <stdlib.h>
#include <yaml.h>

#include "base/printable.h"

enum {
    MAX_DEPTH = 16,
    MAX_ENVOY_DEPTH = 64, /* a list and a mapping for each level of descriptors */
};

struct anchor {
    const char *name;
    const struct yaml *node;
    const struct anchor *next;
};

struct reader {
    yaml_parser_t parser;
    const char *file;
    struct span text;
    struct arena *arena;
    struct problems *problems;
    bool is_envoy;
    const struct anchor *anchors; /* the newest first */
    size_t anchor_count;
    size_t merged; /* keys, by `<<` */
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
    COMPLAIN(r, mark, r->is_envoy ? "error loading config file: yaml: %s" : "not YAML text: %s",
             r->parser.problem);
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
    else if (r->is_envoy)
        COMPLAIN(r, p->problem_mark, "error loading config file: yaml: line %d: %s",
                 from_one(p->problem_mark.line), p->problem);
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

/* ---- of files that were written for envoyproxy/ratelimit ----------------------------------- */

static weir_err keep_anchor(struct reader *r, const yaml_event_t *event, const yaml_char_t *name,
                            const struct yaml *node)
{
    struct anchor *a;

    if (!name || !r->is_envoy)
        return WEIR_OK;
    if (++r->anchor_count > YAML_MOST_ANCHORS) {
        COMPLAIN(r, event->start_mark, "there are more than %d anchors", YAML_MOST_ANCHORS);
        return WEIR_EPOLICY;
    }
    a = arena_take(r->arena, sizeof *a);
    if (!a)
        return WEIR_ENOMEM;
    a->name = arena_text(r->arena, span_of((const char *)name));
    a->node = node;
    a->next = r->anchors;
    r->anchors = a;
    return a->name ? WEIR_OK : WEIR_ENOMEM;
}

/* A node of its own, with the text or the children of the other. */
static void resolve_alias(struct reader *r, const yaml_event_t *event, struct yaml *node)
{
    const char *name = (const char *)event->data.alias.anchor;
    const struct anchor *a = r->anchors;
    const int line = node->line, column = node->column;

    while (a && strcmp(a->name, name) != 0)
        a = a->next;
    if (!a) {
        COMPLAIN(r, event->start_mark,
                 "error loading config file: yaml: unknown anchor '%s' referenced",
                 printable(span_of(name)).text);
        node->kind = YAML_BROKEN;
        return;
    }
    *node = *a->node;
    node->line = line;
    node->column = column;
    node->next = NULL;
    node->value = NULL;
}

static bool has_key(const struct yaml *mapping, struct span text)
{
    for (const struct yaml *key = mapping->first; key; key = key->next)
        if (span_equal(key->text, text))
            return true;
    return false;
}

/* What the mapping has itself stays; of several that are merged, the first has a say. */
static weir_err merge_one(struct reader *r, struct yaml *into, const struct yaml *from)
{
    struct yaml **end = &into->first;

    if (from->kind != YAML_MAPPING) {
        if (from->kind != YAML_BROKEN)
            problems_add(r->problems, r->file, from->line, from->column,
                         "error loading config file: yaml: map merge requires map or sequence of "
                         "maps as the value");
        return WEIR_OK;
    }
    while (*end)
        end = &(*end)->next;
    for (const struct yaml *key = from->first; key; key = key->next) {
        struct yaml *copy;

        if (has_key(into, key->text))
            continue;
        if (++r->merged > YAML_MOST_MERGED) {
            problems_add(r->problems, r->file, into->line, into->column,
                         "more than %d keys are merged by '<<'", YAML_MOST_MERGED);
            return WEIR_EPOLICY;
        }
        copy = arena_take(r->arena, sizeof *copy);
        if (!copy)
            return WEIR_ENOMEM;
        *copy = *key;
        copy->next = NULL;
        *end = copy;
        end = &copy->next;
        into->count++;
    }
    return WEIR_OK;
}

static weir_err merge_keys(struct reader *r, struct yaml *mapping)
{
    struct yaml **link = &mapping->first;
    const struct yaml *from;
    weir_err err = WEIR_OK;

    while (*link && ((*link)->quoted || !span_is((*link)->text, "<<")))
        link = &(*link)->next;
    if (!*link)
        return WEIR_OK;
    from = (*link)->value;
    *link = (*link)->next;
    mapping->count--;
    if (from->kind != YAML_LIST)
        return merge_one(r, mapping, from);
    for (const struct yaml *item = from->first; item && !err; item = item->next)
        err = merge_one(r, mapping, item);
    return err;
}

/* -------------------------------------------------------------------------------------------- */

static weir_err read_node(struct reader *r, const yaml_event_t *event, int depth,
                          struct yaml **out);

static weir_err end_mapping(struct reader *r, struct yaml *mapping)
{
    const weir_err err = drop_duplicates(r, mapping);

    return err || !r->is_envoy ? err : merge_keys(r, mapping);
}

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
            return end == YAML_MAPPING_END_EVENT ? end_mapping(r, parent) : WEIR_OK;
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
    if (anchor && !r->is_envoy)
        COMPLAIN(r, event->start_mark,
                 "anchors (&%s) are not supported: write out the value each time",
                 printable(span_of((const char *)anchor)).text);
    if (tag)
        COMPLAIN(r, event->start_mark, "tags (%s) are not supported: leave it out",
                 printable(span_of((const char *)tag)).text);
}

static weir_err read_node(struct reader *r, const yaml_event_t *event, int depth, struct yaml **out)
{
    const int max_depth = r->is_envoy ? MAX_ENVOY_DEPTH : MAX_DEPTH;
    struct yaml *node = arena_take(r->arena, sizeof *node);
    weir_err err;

    *out = node;
    if (!node)
        return WEIR_ENOMEM;
    node->line = from_one(event->start_mark.line);
    node->column = from_one(event->start_mark.column);
    if (depth > max_depth) {
        COMPLAIN(r, event->start_mark, "nested more than %d deep", max_depth);
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
        return node->text.at ? keep_anchor(r, event, event->data.scalar.anchor, node) : WEIR_ENOMEM;
    case YAML_SEQUENCE_START_EVENT:
        refuse_extras(r, event, event->data.sequence_start.anchor, event->data.sequence_start.tag);
        node->kind = YAML_LIST;
        err = read_children(r, node, YAML_SEQUENCE_END_EVENT, depth);
        return err ? err : keep_anchor(r, event, event->data.sequence_start.anchor, node);
    case YAML_MAPPING_START_EVENT:
        refuse_extras(r, event, event->data.mapping_start.anchor, event->data.mapping_start.tag);
        node->kind = YAML_MAPPING;
        err = read_children(r, node, YAML_MAPPING_END_EVENT, depth);
        return err ? err : keep_anchor(r, event, event->data.mapping_start.anchor, node);
    default:
        if (r->is_envoy) {
            resolve_alias(r, event, node);
            return WEIR_OK;
        }
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

static weir_err read_text(struct reader *r, struct yaml **out)
{
    weir_err err;

    *out = NULL;
    if (!yaml_parser_initialize(&r->parser))
        return WEIR_ENOMEM;
    yaml_parser_set_input_string(&r->parser, (const unsigned char *)r->text.at, r->text.len);
    err = read_stream(r, out);
    yaml_parser_delete(&r->parser);
    return err;
}

weir_err yaml_read(const char *file, struct span text, struct arena *arena,
                   struct problems *problems, struct yaml **out)
{
    struct reader r = { .file = file, .text = text, .arena = arena, .problems = problems };
    weir_err err = read_text(&r, out);

    if (!err && !*out) {
        problems_add(problems, file, 1, 1, "the file is empty: it must begin with 'version: 1'");
        err = WEIR_EPOLICY;
    }
    return err;
}

weir_err yaml_read_envoy(const char *file, struct span text, struct arena *arena,
                         struct problems *problems, struct yaml **out)
{
    struct reader r = {
        .file = file, .text = text, .arena = arena, .problems = problems, .is_envoy = true
    };

    return read_text(&r, out);
}
