/* top_subject.c - whom or what a row of a view is about, as a request names it. */
#include "cli/watch/top_subject.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "cli/told.h"

#define UNNAMED "(unnamed)" /* limits of requests that have no name */

enum { TAG_SHOWN = 12 };

static const char *policy_of(enum top_view view, const struct top_table_row *row)
{
    return told_text(view == TOP_VIEW_LOOKUP ? row->of : row->item, "policy");
}

bool top_subject_is_identity(enum top_view view, const struct top_table_row *row)
{
    switch (view) {
    case TOP_VIEW_DENIED:
        return strcmp(policy_of(view, row), UNNAMED) != 0;
    case TOP_VIEW_IN_FORCE:
        return strcmp(told_text(row->item, "kind"), "override") == 0;
    case TOP_VIEW_LOOKUP:
        return json_array_size(json_object_get(row->item, "by")) > 0;
    case TOP_VIEW_POLICIES:
    case TOP_VIEW_BUDGETS:
    case TOP_VIEW_LEASES:
    case TOP_VIEW_CHANGES:
    case TOP_VIEWS:
        break;
    }
    return false;
}

static bool has_plan(const char *const *plans, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(plans[i], name) == 0)
            return true;
    return false;
}

size_t top_subject_plans(enum top_view view, const struct top_table_row *row,
                         const struct top_data *d, const char **into)
{
    const json_t *policy, *rule, *plan;
    const char *found[TOP_CHOICES];
    size_t n = 0, i, k, m;

    json_array_foreach(json_object_get(d->docs[TOP_DOC_POLICIES], "policies"), i, policy)
    {
        if (strcmp(told_text(policy, "policy"), policy_of(view, row)) != 0)
            continue;
        json_array_foreach(json_object_get(policy, "rules"), k, rule) json_array_foreach(
            json_object_get(rule, "plans"), m,
            plan) if (n < TOP_CHOICES && !has_plan(found, n, told_text(plan, "plan")))
            found[n++] = told_text(plan, "plan");
    }
    if (into && n > 0)
        memcpy(into, found, n * sizeof *found);
    return n;
}

/* ---- as a request names it ------------------------------------------------------------------- */

static void add_by(struct json *j, const json_t *by)
{
    const json_t *name;
    size_t i;

    json_open(j, "by", '[');
    json_array_foreach(by, i, name) json_text(j, NULL, json_string_value(name));
    json_close(j, ']');
}

/* A limit that comes with requests has no rule in the file: there its tag says enough. */
static void add_tag(struct json *j, enum top_view view, const json_t *item,
                    const struct top_data *d)
{
    const char *policy = told_text(item, "policy"), *rule = told_text(item, "rule");
    const json_t *of_file = top_data_rule(d, policy, rule);

    json_text(j, "policy", policy);
    json_text(j, "tag", told_text(item, "tag"));
    if (view == TOP_VIEW_IN_FORCE) {
        add_by(j, json_object_get(item, "by"));
        if (*rule)
            json_text(j, "rule", rule);
    } else if (of_file) {
        add_by(j, json_object_get(of_file, "by"));
    }
}

/* What was looked up stands for each attribute, unless these were given one by one. */
static void add_attribute(struct json *j, const json_t *asked, const char *name)
{
    const json_t *value = json_object_get(json_object_get(asked, "attributes"), name);

    json_text(j, name, json_string_value(value ? value : json_object_get(asked, "key")));
}

static bool is_new(const json_t *rules, size_t before, const char *name)
{
    const json_t *other;
    size_t i;

    for (size_t k = 0; k < before; k++)
        json_array_foreach(json_object_get(json_array_get(rules, k), "by"), i,
                           other) if (strcmp(json_string_value(other), name) == 0) return false;
    return true;
}

/* What is set is for what one rule counts by; what is counted belongs to all rules of the policy. */
static void add_attributes(struct json *j, const struct top_act *act,
                           const struct top_table_row *row, const struct top_data *d)
{
    const bool is_count = act->action == TOP_ACTION_RESET || act->action == TOP_ACTION_REFUND;
    const json_t *rules = json_object_get(row->of, "rules"), *name;
    json_t *asked = json_loadb(d->lookup.at, d->lookup.len, 0, NULL);
    size_t i;

    json_text(j, "policy", told_text(row->of, "policy"));
    json_open(j, "attributes", '{');
    for (size_t k = 0; k < json_array_size(rules); k++) {
        const json_t *rule = json_array_get(rules, k);

        if (is_count || rule == row->item)
            json_array_foreach(json_object_get(rule, "by"), i,
                               name) if (!is_count || is_new(rules, k, json_string_value(name)))
                add_attribute(j, asked, json_string_value(name));
    }
    json_close(j, '}');
    json_decref(asked);
}

/* A charge puts back what a reset took if all rules had counted the same. */
static int64_t used_by_all(const json_t *rules)
{
    int64_t used = -1;
    const json_t *rule;
    size_t i;

    json_array_foreach(rules, i, rule)
    {
        if (!json_object_get(rule, "used"))
            continue;
        if (used >= 0 && used != told_int(rule, "used"))
            return -1;
        used = told_int(rule, "used");
    }
    return used;
}

/* Whom, for people. */
static void call_it(struct top_act *act, enum top_view view, const struct top_table_row *row,
                    const struct top_data *d)
{
    const json_t *item = row->item;
    json_t *asked;

    if (view == TOP_VIEW_POLICIES) {
        snprintf(act->called, sizeof act->called, "%s", told_text(item, "policy"));
    } else if (view == TOP_VIEW_LOOKUP) {
        asked = told_read(buf_span(&d->lookup));
        snprintf(act->called, sizeof act->called, "%.80s in %s",
                 *told_text(asked, "key") ? told_text(asked, "key") : "this identity",
                 told_text(row->of, "policy"));
        json_decref(asked);
    } else {
        snprintf(act->called, sizeof act->called, "%.*s in %s", TAG_SHOWN, told_text(item, "tag"),
                 *told_text(item, "policy") ? told_text(item, "policy") : "all policies");
    }
}

void top_subject_read(struct top_act *act, enum top_view view, const struct top_table_row *row,
                      const struct top_data *d)
{
    struct json j = { .to = &act->subject };
    const bool is_count = act->action == TOP_ACTION_RESET || act->action == TOP_ACTION_REFUND;

    act->subject.len = act->path.len = 0;
    act->used = -1;
    call_it(act, view, row, d);
    if (act->action == TOP_ACTION_MODE) {
        buf_text(&act->path, "/v1/policies/");
        url_add(&act->path, told_text(row->item, "policy"));
        buf_text(&act->path, "/mode");
    } else if (act->action == TOP_ACTION_REMOVE) {
        buf_printf(&act->path, "/v1/%ss?id=%" PRId64, told_text(row->item, "kind"),
                   told_int(row->item, "id"));
    } else {
        buf_text(&act->path, is_count ? "/v1/corrections" : "/v1/overrides");
        if (view == TOP_VIEW_LOOKUP)
            add_attributes(&j, act, row, d);
        else
            add_tag(&j, view, row->item, d);
        act->used = used_by_all(json_object_get(row->of, "rules"));
    }
}
