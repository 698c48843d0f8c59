/* policies_diff.c - what differs between two sets of policies, by their JSON. */
#include "server/policies_diff.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xxh.h"

/* ---- comparing ------------------------------------------------------------------------------- */

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text ? text : "";
}

/* Mostly it is where it was. */
static json_t *find(const json_t *list, const char *member, const char *name, size_t place)
{
    json_t *item = json_array_get(list, place);
    size_t i;

    if (item && strcmp(text_of(item, member), name) == 0)
        return item;
    json_array_foreach(list, i, item) if (strcmp(text_of(item, member), name) == 0) return item;
    return NULL;
}

/* Where it is written says nothing about what it does. */
static void forget_lines(json_t *value)
{
    json_t *item;
    size_t i;

    json_object_del(value, "line");
    json_object_del(value, "live_mode");
    json_array_foreach(value, i, item) forget_lines(item);
    for (void *m = json_object_iter(value); m; m = json_object_iter_next(value, m))
        forget_lines(json_object_iter_value(m));
}

static bool note(json_t *out, const char *policy, const char *rule, const char *change, json_t *was,
                 json_t *is)
{
    return json_array_append_new(out,
                                 json_pack("{s:s, s:s?, s:s, s:o, s:o}", "policy", policy, "rule",
                                           rule, "change", change, "was", was, "is", is)) == 0;
}

/* The members of one that are others in the other. */
static json_t *unlike(const json_t *one, const json_t *other)
{
    json_t *found = json_object();

    for (void *m = json_object_iter((json_t *)one); m;
         m = json_object_iter_next((json_t *)one, m)) {
        const char *name = json_object_iter_key(m);
        json_t *value = json_object_iter_value(m);

        if (strcmp(name, "rules") != 0 && !json_equal(value, json_object_get(other, name)))
            json_object_set(found, name, value);
    }
    return found;
}

static bool compare(json_t *out, const char *policy, const char *rule, const json_t *before,
                    const json_t *after)
{
    json_t *was = unlike(before, after), *is = unlike(after, before);

    if (json_object_size(was) + json_object_size(is) > 0)
        return note(out, policy, rule, "changed", was, is);
    json_decref(was);
    json_decref(is);
    return true;
}

static bool compare_rules(json_t *out, const char *policy, const json_t *before,
                          const json_t *after)
{
    bool is_good = true;
    json_t *rule;
    size_t i;

    json_array_foreach(before, i, rule)
    {
        const char *name = text_of(rule, "rule");
        const json_t *next = find(after, "rule", name, i);

        is_good = is_good &&
                  (next ? compare(out, policy, name, rule, next)
                        : note(out, policy, name, "removed", json_incref(rule), json_object()));
    }
    json_array_foreach(after, i,
                       rule) if (is_good && !find(before, "rule", text_of(rule, "rule"), i))
        is_good = note(out, policy, text_of(rule, "rule"), "added", json_object(),
                       json_incref(rule));
    return is_good;
}

static bool compare_all(json_t *out, const json_t *before, const json_t *after)
{
    bool is_good = true;
    json_t *policy;
    size_t i;

    json_array_foreach(before, i, policy)
    {
        const char *name = text_of(policy, "policy");
        const json_t *next = find(after, "policy", name, i);

        if (next)
            is_good = is_good && compare(out, name, NULL, policy, next) &&
                      compare_rules(out, name, json_object_get(policy, "rules"),
                                    json_object_get(next, "rules"));
        else
            is_good = is_good &&
                      note(out, name, NULL, "removed", json_incref(policy), json_object());
    }
    json_array_foreach(after, i,
                       policy) if (is_good && !find(before, "policy", text_of(policy, "policy"), i))
        is_good = note(out, text_of(policy, "policy"), NULL, "added", json_object(),
                       json_incref(policy));
    return is_good;
}

json_t *policies_diff(const json_t *before, const json_t *after)
{
    json_t *a = json_deep_copy(before), *b = json_deep_copy(after), *out = json_array();
    bool is_good = json_is_array(a) && json_is_array(b) && out;

    if (is_good) {
        forget_lines(a);
        forget_lines(b);
        is_good = compare_all(out, a, b);
    }
    json_decref(a);
    json_decref(b);
    if (is_good)
        return out;
    json_decref(out);
    return NULL;
}

/* ---- telling --------------------------------------------------------------------------------- */

static void list_changes(const json_t *diff, const char *change, struct buf *out)
{
    size_t i, count = 0;
    json_t *one;

    json_array_foreach(diff, i, one)
    {
        const char *rule = json_string_value(json_object_get(one, "rule"));

        if (strcmp(text_of(one, "change"), change) != 0 || ++count > POLICIES_DIFF_NAMES)
            continue;
        if (count == 1)
            buf_printf(out, "%s%s ", out->len > 0 ? "; " : "", change);
        buf_printf(out, "%s%s%s%s", count > 1 ? ", " : "", text_of(one, "policy"), rule ? "/" : "",
                   rule ? rule : "");
    }
    if (count > POLICIES_DIFF_NAMES)
        buf_printf(out, " and %zu more", count - POLICIES_DIFF_NAMES);
}

void policies_diff_sentence(const json_t *diff, struct buf *out)
{
    struct buf text;

    buf_init(&text, &out->allocator);
    list_changes(diff, "added", &text);
    list_changes(diff, "removed", &text);
    list_changes(diff, "changed", &text);
    if (text.len == 0)
        buf_text(&text, "no policy has changed");
    out->failed = out->failed || text.failed;
    buf_add(out, buf_span(&text));
    buf_done(&text);
}

static int add_text(const char *text, size_t len, void *out)
{
    buf_add(out, (struct span){ text, len });
    return 0;
}

void policies_diff_texts(struct span before, struct span after, struct buf *out, struct buf *list)
{
    json_t *was = json_loadb(before.at, before.len, 0, NULL);
    json_t *is = json_loadb(after.at, after.len, 0, NULL), *diff = policies_diff(was, is);

    if (diff)
        policies_diff_sentence(diff, out);
    if (diff && list && json_dump_callback(diff, add_text, list, JSON_COMPACT) != 0)
        list->failed = true;
    json_decref(diff);
    json_decref(is);
    json_decref(was);
}

bool policies_checksum(struct span policies, char out[POLICIES_CHECKSUM + 1])
{
    json_t *list = json_loadb(policies.at, policies.len, 0, NULL);
    char *text;
    bool is_known;

    forget_lines(list);
    text = json_dumps(list, JSON_COMPACT | JSON_SORT_KEYS);
    is_known = text;
    if (is_known)
        snprintf(out, POLICIES_CHECKSUM + 1, "%016" PRIx64,
                 (uint64_t)XXH3_64bits(text, strlen(text)));
    free(text);
    json_decref(list);
    return is_known;
}
