/* envoy_read.c - the files that were written for envoyproxy/ratelimit become trees of descriptors.
 *
 * Complaints that its tests assert have its words. Like there, a key that is known but stands where
 * it has no meaning is passed over; unlike there, all that is wrong is told at once. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/printable.h"
#include "base/truth.h"
#include "policy/envoy_reading.h"

enum {
    DOMAIN,
    KEY,
    VALUE,
    DESCRIPTORS,
    RATE_LIMIT,
    UNIT,
    REQUESTS_PER_UNIT,
    UNLIMITED,
    SHADOW_MODE,
    QUOTA_MODE,
    NAME,
    REPLACES,
    DETAILED_METRIC,
    VALUE_TO_METRIC,
    SHARE_THRESHOLD,
    METADATA,
    ALGORITHM, /* weir's own */
    KEY_COUNT
};

static const char *const words[KEY_COUNT] = {
    "domain",
    "key",
    "value",
    "descriptors",
    "rate_limit",
    "unit",
    "requests_per_unit",
    "unlimited",
    "shadow_mode",
    "quota_mode",
    "name",
    "replaces",
    "detailed_metric",
    "value_to_metric",
    "share_threshold",
    "metadata",
    "algorithm",
};

/* ---- keys and values ------------------------------------------------------------------------ */

/* The keys of a mapping, by their place in `words`. */
static void sort_keys(struct loader *l, const struct yaml *mapping, const struct yaml **keys)
{
    for (size_t i = 0; i < KEY_COUNT; i++)
        keys[i] = NULL;
    for (const struct yaml *key = mapping->first; key; key = key->next) {
        size_t i = 0;

        while (i < KEY_COUNT && !span_is(key->text, words[i]))
            i++;
        if (i < KEY_COUNT)
            keys[i] = key;
        else if (envoy_scalar_kind(key) != VALUE_TEXT)
            complain(&l->reader, key, "config error, key is not of type string: %s",
                     printable(key->text).text);
        else
            complain(&l->reader, key, "config error, unknown key '%s'", printable(key->text).text);
    }
}

/* A text, as far as there is one: numbers and truths are texts as they are written. */
static struct span text_of(struct loader *l, const struct yaml *key)
{
    const struct yaml *node = key ? key->value : NULL;

    if (!node || yaml_is_null(node) || node->kind == YAML_BROKEN)
        return (struct span){ "", 0 };
    if (node->kind != YAML_TEXT)
        complain(&l->reader, node, "error loading config file: %s must be a text, not %s",
                 printable(key->text).text, yaml_kind_name(node));
    else if (envoy_scalar_is_float(node))
        complain(&l->reader, node,
                 "error checking config: '%s' is no whole number: put quotes around a text",
                 printable(node->text).text);
    else
        return node->text;
    return (struct span){ "", 0 };
}

static bool truth_of(struct loader *l, const struct yaml *key)
{
    const struct yaml *node = key ? key->value : NULL;
    bool value = false;

    if (!node || yaml_is_null(node) || node->kind == YAML_BROKEN)
        return false;
    if (node->kind != YAML_TEXT || node->quoted || envoy_scalar_kind(node) != VALUE_BOOL ||
        !truth_read(node->text.at, &value))
        complain(&l->reader, node, "error loading config file: %s must be true or false, not %s",
                 printable(key->text).text,
                 node->kind == YAML_TEXT ? printable(node->text).text : yaml_kind_name(node));
    return value;
}

/* Underscores may stand between digits. */
static uint32_t number_of(struct loader *l, const struct yaml *key)
{
    const struct yaml *node = key ? key->value : NULL;
    uint64_t number = 0;
    size_t digits = 0;

    if (!node || yaml_is_null(node) || node->kind == YAML_BROKEN)
        return 0;
    for (size_t i = 0; node->kind == YAML_TEXT && i < node->text.len; i++) {
        const char c = node->text.at[i];

        if (c == '_' && digits > 0)
            continue;
        if (c < '0' || c > '9' || number > UINT32_MAX) {
            digits = 0;
            break;
        }
        number = number * 10 + (uint64_t)(c - '0');
        digits++;
    }
    if (digits == 0 || number > UINT32_MAX) {
        complain(&l->reader, node, "%s: %s must be a whole number from 0 to %u, not %s",
                 node->kind == YAML_TEXT && envoy_scalar_is_float(node)
                     ? "error checking config"
                     : "error loading config file",
                 words[REQUESTS_PER_UNIT], UINT32_MAX,
                 node->kind == YAML_TEXT ? printable(node->text).text : yaml_kind_name(node));
        return 0;
    }
    return (uint32_t)number;
}

/* The first item; NULL: it is left out, or not a list. Items that are no mappings are complained
 * of, and passed over by those who walk. */
static const struct yaml *items_of(struct loader *l, const struct yaml *key)
{
    const struct yaml *node = key ? key->value : NULL;

    if (!node || yaml_is_null(node) || node->kind == YAML_BROKEN)
        return NULL;
    if (node->kind != YAML_LIST) {
        complain(&l->reader, node, "error loading config file: %s must be a list, not %s",
                 printable(key->text).text, yaml_kind_name(node));
        return NULL;
    }
    for (const struct yaml *item = node->first; item; item = item->next)
        if (item->kind != YAML_MAPPING && item->kind != YAML_BROKEN)
            complain(&l->reader, item,
                     "config error, yaml file contains list of type other than map: %s",
                     item->kind == YAML_TEXT ? printable(item->text).text : yaml_kind_name(item));
    return node->first;
}

static bool has_star(struct span text)
{
    return text.len > 0 && memchr(text.at, '*', text.len);
}

/* ---- limits --------------------------------------------------------------------------------- */

static enum envoy_unit unit_of(struct span text)
{
    for (int unit = ENVOY_SECOND; unit < ENVOY_UNITS; unit++)
        if (text.len == strlen(envoy_unit_names[unit]) &&
            strncasecmp(text.at, envoy_unit_names[unit], text.len) == 0)
            return (enum envoy_unit)unit;
    return ENVOY_UNKNOWN;
}

static void read_unit(struct loader *l, const struct yaml *at, const struct yaml *key,
                      struct envoy_limit *out)
{
    const struct span text = text_of(l, key);
    const struct yaml *place = key ? key->value : at;

    out->unit = unit_of(text);
    if (out->is_unlimited && out->unit != ENVOY_UNKNOWN)
        complain(&l->reader, place, "should not specify rate limit unit when unlimited");
    else if (!out->is_unlimited && out->unit == ENVOY_UNKNOWN)
        complain(&l->reader, place, "invalid rate limit unit '%s'", printable(text).text);
}

static const char *kept_name(struct loader *l, struct span name)
{
    const char *kept_once = intern_keep(l->source->names, name);

    l->out_of_memory |= !kept_once;
    return kept_once ? kept_once : "";
}

static void read_replaces(struct loader *l, const struct yaml *key, struct envoy_limit *out)
{
    const struct yaml *first = items_of(l, key);
    const struct yaml *keys[KEY_COUNT];
    const char **names;

    if (!first)
        return;
    names = loader_take(l, key->value->count, sizeof(*names));
    if (!names)
        return;
    out->replaces = names;
    for (const struct yaml *item = first; item; item = item->next) {
        struct span name;

        if (item->kind != YAML_MAPPING)
            continue;
        sort_keys(l, item, keys);
        name = text_of(l, keys[NAME]);
        if (name.len == 0)
            complain(&l->reader, item, "should not have an empty replaces entry");
        else if (span_is(name, out->name))
            complain(&l->reader, keys[NAME]->value,
                     "replaces should not contain name of same descriptor");
        names[out->replaces_count++] = kept_name(l, name);
    }
}

/* Windows are aligned to the epoch, unless another of weir's algorithms is asked for. */
static void read_algorithm(struct loader *l, const struct yaml *key, struct envoy_limit *out)
{
    weir_diag diag;
    size_t chosen;

    out->numbers = (struct rule){ .algorithm = WEIR_FIXED_WINDOW,
                                  .limit = out->requests_per_unit,
                                  .window = envoy_unit_ms(out->unit) };
    if (key && read_choice(&l->reader, key->value, "algorithm", algorithm_names, ALGORITHM_COUNTED,
                           &chosen))
        out->numbers.algorithm = (weir_algorithm)(chosen + 1);
    if (out->unit != ENVOY_UNKNOWN && rule_check(&out->numbers, &diag))
        complain(&l->reader, key, "%s", diag.text);
}

/* By which levels it counts. */
static void find_varying(struct loader *l, const struct yaml *at, struct envoy_limit *out)
{
    size_t count = 0;

    for (const struct envoy_node *n = out->node; n->parent; n = n->parent) {
        const bool is_pattern = n->is_pattern || n->value.len == 0;
        const uint16_t bit = (uint16_t)(1u << n->level);

        out->is_shared |= n->is_shared;
        if (n->shows_value && !n->is_shared)
            out->shown |= bit;
        if (!is_pattern || n->is_shared)
            continue;
        out->varies |= bit;
        if (has_star(n->key))
            out->is_wild |= bit;
        count++;
    }
    if (count > POLICY_MAX_BY)
        complain(&l->reader, at, "the limit counts by %zu entries: at most %d", count,
                 POLICY_MAX_BY);
}

static void read_limit(struct loader *l, const struct yaml *key, struct envoy_node *node)
{
    const struct yaml *keys[KEY_COUNT];
    struct envoy_limit *out;

    if (yaml_is_null(key->value) || key->value->kind == YAML_BROKEN)
        return;
    if (key->value->kind != YAML_MAPPING) {
        complain(&l->reader, key->value,
                 "error loading config file: rate_limit must be a mapping, not %s",
                 yaml_kind_name(key->value));
        return;
    }
    out = loader_take(l, 1, sizeof *out);
    if (!out)
        return;
    sort_keys(l, key->value, keys);
    out->is_unlimited = truth_of(l, keys[UNLIMITED]);
    read_unit(l, key->value, keys[UNIT], out);
    out->requests_per_unit = number_of(l, keys[REQUESTS_PER_UNIT]);
    out->name = kept_name(l, text_of(l, keys[NAME]));
    read_replaces(l, keys[REPLACES], out);
    read_algorithm(l, keys[ALGORITHM], out);
    out->is_quota = node->is_quota;
    out->is_detailed = node->is_detailed;
    out->node = node;
    node->limit = out;
    find_varying(l, key, out);
    if (!out->is_unlimited)
        l->set->envoy_limits++;
}

/* ---- descriptors ---------------------------------------------------------------------------- */

void envoy_path(struct buf *out, const struct envoy_domain *domain, const struct envoy_node *node)
{
    if (node->parent && node->parent != &domain->root) {
        envoy_path(out, domain, node->parent);
    } else {
        buf_add(out, domain->name);
    }
    buf_byte(out, '.');
    buf_add(out, node->key);
    if (node->value.len > 0) {
        buf_byte(out, '_');
        buf_add(out, node->value);
    }
}

static void complain_of_twin(void *ctx, const struct envoy_node *node)
{
    struct envoy_reading *r = ctx;
    struct loader *l = r->loader;
    struct buf path;

    buf_init(&path, &l->set->arena.allocator);
    envoy_path(&path, r->domain, node);
    problems_add(l->reader.problems, l->reader.file, node->line, node->column,
                 "duplicate descriptor composite key '%s'", printable(buf_span(&path)).text);
    l->out_of_memory |= path.failed;
    buf_done(&path);
}

static void read_flags(struct loader *l, const struct yaml *const *keys, struct envoy_node *node)
{
    node->is_shadow = truth_of(l, keys[SHADOW_MODE]);
    node->is_quota = truth_of(l, keys[QUOTA_MODE]);
    node->is_detailed = truth_of(l, keys[DETAILED_METRIC]);
    node->shows_value = truth_of(l, keys[VALUE_TO_METRIC]);
    node->is_shared = truth_of(l, keys[SHARE_THRESHOLD]);
    if (node->is_shared && !node->is_pattern)
        complain(&l->reader, keys[SHARE_THRESHOLD],
                 "share_threshold can only be used with wildcard values (containing '*'), but "
                 "found key '%s%s%s'",
                 printable(node->key).text, node->value.len > 0 ? "_" : "",
                 printable(node->value).text);
}

static void add_below(struct envoy_node *parent, struct envoy_node *node)
{
    if (parent->last)
        parent->last->next = node;
    else
        parent->first = node;
    parent->last = node;
    parent->count++;
    if (!node->is_pattern)
        return;
    if (parent->last_pattern)
        parent->last_pattern->next_pattern = node;
    else
        parent->patterns = node;
    parent->last_pattern = node;
}

static void read_descriptors(struct envoy_reading *r, const struct yaml *key,
                             struct envoy_node *parent, size_t level);

static void read_descriptor(struct envoy_reading *r, const struct yaml *item,
                            struct envoy_node *parent, size_t level)
{
    struct loader *l = r->loader;
    const struct yaml *keys[KEY_COUNT];
    struct envoy_node *node = loader_take(l, 1, sizeof *node);

    if (!node)
        return;
    sort_keys(l, item, keys);
    *node = (struct envoy_node){
        .key = loader_text(l, text_of(l, keys[KEY])),
        .value = loader_text(l, text_of(l, keys[VALUE])),
        .parent = parent,
        .level = level,
        .line = item->line,
        .column = item->column,
        .is_new = true,
    };
    node->is_pattern = has_star(node->key) || has_star(node->value);
    if (node->key.len == 0)
        complain(&l->reader, item, "descriptor has empty key");
    read_flags(l, keys, node);
    if (keys[RATE_LIMIT])
        read_limit(l, keys[RATE_LIMIT], node);
    if (keys[METADATA] && node->limit)
        node->limit->metadata = envoy_read_metadata(l, keys[METADATA]->value);
    add_below(parent, node);
    if (keys[DESCRIPTORS])
        read_descriptors(r, keys[DESCRIPTORS], node, level + 1);
}

static void read_descriptors(struct envoy_reading *r, const struct yaml *key,
                             struct envoy_node *parent, size_t level)
{
    struct loader *l = r->loader;
    const struct yaml *first = items_of(l, key);

    if (first && level == ENVOY_MOST_LEVELS) {
        complain(&l->reader, key, "descriptors are nested more than %d deep", ENVOY_MOST_LEVELS);
        return;
    }
    for (const struct yaml *item = first; item && !r->is_full; item = item->next) {
        if (item->kind != YAML_MAPPING)
            continue;
        if (++r->count > ENVOY_MOST_DESCRIPTORS) {
            complain(&l->reader, item, "there are more than %d descriptors",
                     ENVOY_MOST_DESCRIPTORS);
            r->is_full = true;
            return;
        }
        read_descriptor(r, item, parent, level);
    }
    if (parent->count > 0 && !envoy_index_nodes(parent, &l->set->arena, complain_of_twin, r))
        l->out_of_memory = true;
}

/* ---- domains -------------------------------------------------------------------------------- */

static struct envoy_domain *find_domain(struct policies *set, struct span name)
{
    struct envoy_domain *d = set->domains;

    while (d && !span_equal(d->name, name))
        d = d->next;
    return d;
}

static struct envoy_domain *add_domain(struct loader *l, struct span name)
{
    struct envoy_domain *d = loader_take(l, 1, sizeof *d), **end = &l->set->domains;

    if (!d)
        return NULL;
    d->name = loader_text(l, name);
    while (*end)
        end = &(*end)->next;
    *end = d;
    return d;
}

static void read_root(struct envoy_reading *r, const struct yaml *root)
{
    struct loader *l = r->loader;
    const struct yaml nothing = { .kind = YAML_MAPPING, .line = 1, .column = 1 };
    const struct yaml *keys[KEY_COUNT];
    struct span name;

    if (!root || yaml_is_null(root))
        root = &nothing;
    if (root->kind != YAML_MAPPING) {
        complain(&l->reader, root, "error loading config file: it must be a mapping, not %s",
                 yaml_kind_name(root));
        return;
    }
    sort_keys(l, root, keys);
    name = text_of(l, keys[DOMAIN]);
    if (name.len == 0)
        complain(&l->reader, root, "config file cannot have empty domain");
    r->domain = find_domain(l->set, name);
    if (r->domain && name.len > 0 && !l->source->envoy.merges_domains) {
        complain(&l->reader, keys[DOMAIN]->value, "duplicate domain '%s' in config file",
                 printable(name).text);
        r->domain = NULL; /* what else is wrong is told as if it were another's */
    }
    if (!r->domain)
        r->domain = add_domain(l, name);
    if (r->domain && keys[DESCRIPTORS])
        read_descriptors(r, keys[DESCRIPTORS], &r->domain->root, 0);
}

/* ---- files ---------------------------------------------------------------------------------- */

static void read_file(void *ctx, const char *path)
{
    struct envoy_reading *r = ctx;
    struct loader *l = r->loader;
    const struct reader policies = l->reader;
    const size_t before = l->reader.problems->count;
    struct yaml *root = NULL;
    struct buf bytes;
    weir_err err;

    buf_init(&bytes, &l->scratch.allocator);
    l->reader.file = path;
    err = reader_read_file(&l->reader, path, &bytes);
    if (!err)
        err = yaml_read_envoy(path, buf_span(&bytes), &l->scratch, l->reader.problems, &root);
    if (!err && !r->is_full)
        read_root(r, root);
    l->out_of_memory |= err == WEIR_ENOMEM;
    problems_order(l->reader.problems, before);
    l->reader = policies;
    buf_done(&bytes);
}

static int compare_texts(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

static bool is_config(const char *name)
{
    const char *dot = strrchr(name, '.');

    return name[0] != '.' && dot && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0);
}

/* The names in a directory, sorted; the caller frees them. */
static size_t list_names(DIR *dir, char **names)
{
    const struct dirent *e;
    size_t n = 0;

    while (n <= ENVOY_MOST_FILES && (e = readdir(dir)))
        if (is_config(e->d_name) && (names[n] = strdup(e->d_name)))
            n++;
    qsort(names, n, sizeof(*names), compare_texts);
    return n;
}

bool envoy_each_file(const char *path, envoy_file *each, void *ctx, weir_diag *problem)
{
    char *names[ENVOY_MOST_FILES + 1], file[4096];
    struct stat found;
    size_t n;
    DIR *dir;

    if (stat(path, &found) != 0) {
        snprintf(problem->text, sizeof problem->text, "cannot read it: %s", strerror(errno));
        return false;
    }
    if (!S_ISDIR(found.st_mode)) {
        each(ctx, path);
        return true;
    }
    dir = opendir(path);
    if (!dir) {
        snprintf(problem->text, sizeof problem->text, "cannot read it: %s", strerror(errno));
        return false;
    }
    n = list_names(dir, names);
    closedir(dir);
    for (size_t i = 0; i < n && n <= ENVOY_MOST_FILES; i++) {
        snprintf(file, sizeof file, "%s%s%s", path, path[strlen(path) - 1] == '/' ? "" : "/",
                 names[i]);
        each(ctx, file);
    }
    for (size_t i = 0; i < n; i++)
        free(names[i]);
    if (n > 0 && n <= ENVOY_MOST_FILES)
        return true;
    if (n == 0)
        snprintf(problem->text, sizeof problem->text, "there is no file *.yaml in this directory");
    else
        snprintf(problem->text, sizeof problem->text, "there are more than %d files",
                 ENVOY_MOST_FILES);
    return false;
}

void envoy_read(struct loader *l)
{
    struct envoy_reading r = { .loader = l };
    weir_diag problem;

    if (!envoy_each_file(l->source->envoy.path, read_file, &r, &problem))
        problems_add(l->reader.problems, l->source->envoy.path, 0, 0, "%s", problem.text);
}
