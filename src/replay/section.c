/* section.c - what stands under `replay:` in a policy file: how logs are read and mapped. */
#include "replay/section.h"

#include "base/buf.h"
#include "base/diag.h"
#include "base/printable.h"
#include "policy/reader.h"

enum { MAP, SKIP_STATUS, FIELDS, FORMAT, TIME_ZONE, KEY_COUNT };
static const char *const words[KEY_COUNT] = { "map", "skip_status", "fields", "format",
                                              "time_zone" };

struct reading {
    struct reader reader;
    struct section *section;
};

void section_init(struct section *s, struct mapping *mapping)
{
    const weir_allocator allocator = alloc_or_default((weir_allocator){ 0 });

    *s = (struct section){ .mapping = mapping };
    arena_init(&s->texts, &allocator);
}

void section_done(struct section *s)
{
    arena_done(&s->texts);
}

static void read_map(struct reading *r, const struct yaml *node)
{
    weir_diag diag;

    if (!wants(&r->reader, node, YAML_LIST, "map", "['POST /login => login']"))
        return;
    for (const struct yaml *line = node->first; line; line = line->next)
        if (wants(&r->reader, line, YAML_TEXT, "a line of map", "'POST /login => login'") &&
            mapping_add(r->section->mapping, line->text, &diag))
            complain(&r->reader, line, "%s", diag.text);
}

static weir_err add_alias(struct section *s, struct span field, struct span name, weir_diag *diag)
{
    struct log_alias *const a = &s->aliases[s->alias_count];

    if (s->alias_count == SECTION_MOST_ALIASES)
        return diag_fail(diag, WEIR_EOPTION, "more than %d fields are named", SECTION_MOST_ALIASES);
    if (field.len == 0 || name.len == 0 || name.len >= LOG_MOST_NAME)
        return diag_fail(diag, WEIR_EOPTION,
                         "a field and its name in the log are of the form time=ts");
    a->field = arena_text(&s->texts, field);
    a->name = arena_text(&s->texts, name);
    if (!a->field || !a->name)
        return diag_fail(diag, WEIR_ENOMEM, "out of memory");
    s->alias_count++;
    return WEIR_OK;
}

weir_err section_add_fields(struct section *s, const char *text, weir_diag *diag)
{
    weir_err err = WEIR_OK;

    while (*text && !err) {
        const size_t len = strcspn(text, " ,");
        const char *const equal = memchr(text, '=', len);
        const struct span field = { text, equal ? (size_t)(equal - text) : 0 };

        if (len > 0)
            err = add_alias(s, field,
                            (struct span){ text + field.len + 1, equal ? len - field.len - 1 : 0 },
                            diag);
        text += len + (text[len] != '\0');
    }
    return err;
}

static void read_fields(struct reading *r, const struct yaml *node)
{
    weir_diag diag;

    if (!wants(&r->reader, node, YAML_MAPPING, "fields", "{time: ts, ip: client.addr}"))
        return;
    for (const struct yaml *key = node->first; key; key = key->next)
        if (wants(&r->reader, key->value, YAML_TEXT, "the name of a field", "client.addr") &&
            add_alias(r->section, key->text, key->value->text, &diag))
            complain(&r->reader, key, "%s", diag.text);
}

static const char *read_text(struct reading *r, const struct yaml *key, const char *example)
{
    if (!key || !wants(&r->reader, key->value, YAML_TEXT, "this", example))
        return NULL;
    return arena_text(&r->section->texts, key->value->text);
}

static void read_section(struct reading *r, const struct yaml *node)
{
    const struct yaml *keys[KEY_COUNT];
    enum access_format format;

    if (yaml_is_null(node) ||
        !wants(&r->reader, node, YAML_MAPPING, "replay", "{map: ['POST /login => login']}"))
        return;
    read_keys(&r->reader, node, "replay", words, KEY_COUNT, (1u << KEY_COUNT) - 1, keys);
    if (keys[MAP])
        read_map(r, keys[MAP]->value);
    if (keys[SKIP_STATUS])
        read_whole(&r->reader, keys[SKIP_STATUS]->value, "skip_status", 100, 999,
                   &r->section->mapping->skip_status);
    if (keys[FIELDS])
        read_fields(r, keys[FIELDS]->value);
    r->section->format = read_text(r, keys[FORMAT], "combined");
    if (r->section->format && !access_format_by_name(span_of(r->section->format), &format))
        complain(&r->reader, keys[FORMAT]->value,
                 "there is no format '%s': say combined, haproxy, alb, nginx-json, caddy, envoy, "
                 "json or csv",
                 printable(span_of(r->section->format)).text);
    r->section->time_zone = read_text(r, keys[TIME_ZONE], "Europe/Berlin");
}

/* What the tree has of it. */
static void read_root(struct reading *r, const struct yaml *root)
{
    if (root->kind != YAML_MAPPING)
        return;
    for (const struct yaml *key = root->first; key; key = key->next)
        if (span_is(key->text, "replay"))
            read_section(r, key->value);
}

void section_lint(const char *file, struct span text, struct problems *problems)
{
    const weir_allocator allocator = alloc_or_default((weir_allocator){ 0 });
    struct mapping *mapping = mapping_new();
    struct problems others; /* of the YAML itself: those are told already */
    struct section s;
    struct reading r = { { file, problems }, &s };
    struct arena tree;
    struct yaml *root = NULL;

    if (!mapping)
        return;
    section_init(&s, mapping);
    problems_init(&others, &allocator);
    arena_init(&tree, &allocator);
    if (!yaml_read(file, text, &tree, &others, &root))
        read_root(&r, root);
    arena_done(&tree);
    problems_done(&others);
    section_done(&s);
    mapping_free(mapping);
}

weir_err section_read(struct section *s, const char *policy_file, weir_diag *diag)
{
    const weir_allocator allocator = alloc_or_default((weir_allocator){ 0 });
    struct problems problems;
    struct reading r = { { policy_file, &problems }, s };
    struct arena tree;
    struct yaml *root = NULL;
    struct buf bytes;
    weir_err err;

    problems_init(&problems, &allocator);
    arena_init(&tree, &allocator);
    buf_init(&bytes, &allocator);
    err = reader_read_file(&r.reader, policy_file, &bytes);
    if (!err)
        err = yaml_read(policy_file, buf_span(&bytes), &tree, &problems, &root);
    if (!err)
        read_root(&r, root);
    if (!err && problems.count > 0)
        err = WEIR_EPOLICY;
    if (err == WEIR_ENOMEM || problems.lines.failed)
        err = diag_fail(diag, WEIR_ENOMEM, "out of memory");
    else if (err)
        problems_to_diag(&problems, diag);
    buf_done(&bytes);
    arena_done(&tree);
    problems_done(&problems);
    return err;
}
