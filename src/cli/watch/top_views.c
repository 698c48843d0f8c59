/* top_views.c - the views of `weir top`: what each asks for, and its table. */
#include "cli/watch/top_views.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/told.h"

#define BIT(doc) (1u << TOP_DOC_##doc)

/* ---- policies ------------------------------------------------------------------------------- */

static const json_t *find_policy(const struct top_data *d, const char *name)
{
    const json_t *one;
    size_t i;

    json_array_foreach(json_object_get(d->docs[TOP_DOC_POLICIES], "policies"), i,
                       one) if (strcmp(told_text(one, "policy"), name) == 0) return one;
    return NULL;
}

/* One that an operator has set stands out. */
static void put_mode(struct top_table_row *r, size_t column, const json_t *policy,
                     const json_t *rule)
{
    const json_t *live = json_object_get(policy, "live_mode");

    if (rule)
        top_cell_text(r, column, "%s", told_text(rule, "mode"));
    else if (json_is_object(live))
        top_cell_text(r, column, "%s*", told_text(live, "mode"));
    else
        top_cell_text(r, column, "%s", told_text(policy, "mode"));
    r->cells[column].colour = !rule && json_is_object(live) ? YELLOW : PLAIN;
}

/* Of a rule, allowed is left out: it is the policy's. */
static void add_policy(struct top_table *to, const struct top_data *d, const struct top_row *counts)
{
    struct top_table_row *r = top_table_add(to);
    const bool is_rule = *counts->rule;

    if (!r)
        return;
    r->is_part = is_rule;
    r->item = find_policy(d, counts->policy);
    snprintf(r->id, sizeof r->id, "%s%s%s", counts->policy, is_rule ? "/" : "", counts->rule);
    top_cell_text(r, 0, "%s%s", is_rule ? "  " : "", is_rule ? counts->rule : counts->policy);
    if (!is_rule) {
        top_cell_rate(r, 1, counts->allowed_rate, PLAIN);
        top_cell_count(r, 4, counts->allowed);
    }
    top_cell_rate(r, 2, counts->denied_rate, RED);
    top_cell_rate(r, 3, counts->shadow_rate, YELLOW);
    top_cell_count(r, 5, counts->denied);
    put_mode(r, 6, r->item, is_rule ? top_data_rule(d, counts->policy, counts->rule) : NULL);
}

static void fill_policies(const struct top_data *d, struct top_table *into)
{
    static const struct top_column columns[TOP_COLUMNS] = {
        { "POLICY", 0, false, 0, 0 },   { "allowed/s", 11, true, 0, 0 },
        { "denied/s", 10, true, 0, 0 }, { "shadow/s", 10, true, 2, 0 },
        { "allowed", 11, true, 4, 0 },  { "denied", 11, true, 3, 0 },
        { "mode", 9, false, 1, 0 },
    };

    top_table_init(into, columns, "there is no policy: limits come with requests");
    for (size_t i = 0; i < d->stats.row_count; i++)
        add_policy(into, d, &d->stats.rows[i]);
}

/* ---- the most denied ------------------------------------------------------------------------- */

static void add_denied(struct top_table *to, const struct top_data *d, const json_t *item)
{
    const char *policy = told_text(item, "policy"), *rule = told_text(item, "rule"),
               *tag = told_text(item, "tag");
    const json_t *override = top_data_override(d, policy, rule, tag);
    const int64_t ago = d->stats.now_ms - told_int(item, "last_ms");
    struct top_table_row *r = top_table_add(to);

    if (!r)
        return;
    r->item = item;
    snprintf(r->id, sizeof r->id, "%s/%s %s", policy, rule, tag);
    top_cell_text(r, 0, "%s/%s", policy, rule);
    top_cell_text(r, 1, "%s", tag);
    top_cell_count(r, 2, told_int(item, "denied") - told_int(item, "error"));
    top_cell_text(r, 3, "%s ago", top_age(ago).text);
    r->cells[3].number = -(double)ago;
    if (override)
        top_cell_text(r, 4, "%s", top_effect(override).text);
    r->cells[4].colour = YELLOW;
}

static void fill_denied(const struct top_data *d, struct top_table *into)
{
    static const struct top_column columns[TOP_COLUMNS] = {
        { "DENIED MOST", 0, false, 0, 0 }, { "tag", 32, false, 0, 12 },
        { "at least", 10, true, 0, 0 },    { "last", 12, true, 2, 0 },
        { "override", 14, false, 1, 0 },
    };
    const json_t *one;
    size_t i;

    top_table_init(into, columns, "no identity is denied");
    json_array_foreach(json_object_get(d->docs[TOP_DOC_TOP], "top"), i, one)
        add_denied(into, d, one);
}

/* ---- budgets --------------------------------------------------------------------------------- */

static const json_t *find_held(const json_t *list, const char *policy)
{
    const json_t *one;
    size_t i;

    json_array_foreach(list, i, one) if (strcmp(told_text(one, "policy"), policy) == 0) return one;
    return NULL;
}

static void add_amounts(struct top_table *to, const json_t *amounts, const char *policy)
{
    const json_t *one;
    size_t i;

    json_array_foreach(amounts, i, one)
    {
        struct top_table_row *r;

        if (strcmp(told_text(one, "policy"), policy) != 0 || !(r = top_table_add(to)))
            continue;
        r->is_part = true;
        snprintf(r->id, sizeof r->id, "%s/%s", policy, told_text(one, "rule"));
        top_cell_text(r, 0, "  %s, %s", told_text(one, "rule"), told_text(one, "counts"));
        top_cell_count(r, 1, told_int(one, "held"));
    }
}

static void fill_budgets(const struct top_data *d, struct top_table *into)
{
    static const struct top_column columns[TOP_COLUMNS] = {
        { "POLICY", 0, false, 0, 0 },   { "held", 9, true, 0, 0 },
        { "reserved", 11, true, 1, 0 }, { "committed", 11, true, 2, 0 },
        { "released", 11, true, 3, 0 }, { "expired", 9, true, 4, 0 },
    };
    const json_t *held = json_object_get(d->numbers, "held"), *one,
                 *now = json_object_get(held, "reservations");
    size_t i;

    top_table_init(into, columns, "no reservations yet");
    json_array_foreach(json_object_get(d->numbers, "reservations"), i, one)
    {
        const char *policy = told_text(one, "policy");
        const json_t *waiting = find_held(now, policy);
        struct top_table_row *r = top_table_add(into);

        if (!r)
            return;
        snprintf(r->id, sizeof r->id, "%s", policy);
        top_cell_text(r, 0, "%s", policy);
        top_cell_count(r, 1, told_int(waiting, "held"));
        if (!json_is_object(held)) /* the store could not be asked */
            top_cell_text(r, 1, "unknown");
        top_cell_count(r, 2, told_int(one, "reserved"));
        top_cell_count(r, 3, told_int(one, "committed"));
        top_cell_count(r, 4, told_int(one, "released"));
        top_cell_count(r, 5, told_int(waiting, "expired"));
        r->cells[5].colour = told_int(waiting, "expired") > 0 ? YELLOW : PLAIN;
        add_amounts(into, json_object_get(held, "amounts"), policy);
    }
}

/* ---- leases and the store -------------------------------------------------------------------- */

static void fill_leases(const struct top_data *d, struct top_table *into)
{
    static const struct top_column columns[TOP_COLUMNS] = { { "STORE", 0, false, 0, 0 },
                                                            { "now", 20, true, 0, 0 } };
    static const struct {
        const char *text, *member;
    } facts[] = {
        { "leases held", "leases" },
        { "units leased", "leases_granted" },
        { "units of leases spent", "leases_spent" },
        { "units of leases returned", "leases_returned" },
        { "units of leases stranded", "leases_stranded" },
        { "checks answered from leases", "lease_checks" },
        { "requests to the store for leases", "lease_requests" },
        { "settlements that wait", "settlements_waiting" },
        { "settlements dropped", "settlements_dropped" },
        { "denials from the cache of them", "deny_cache_hits" },
        { "keys", "keys" },
        { "keys evicted", "evicted_keys" },
        { "failures", "failures" },
    };
    const json_t *store = json_object_get(d->numbers, "store");

    top_table_init(into, columns, "the server does not say");
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        const json_t *value = json_object_get(store, facts[i].member);
        struct top_table_row *r = value ? top_table_add(into) : NULL;

        if (!r)
            continue;
        snprintf(r->id, sizeof r->id, "%s", facts[i].member);
        top_cell_text(r, 0, "%s", facts[i].text);
        top_cell_count(r, 1, json_integer_value(value));
        if (!json_is_integer(value))
            top_cell_text(r, 1, "unknown");
    }
}

/* ---- one identity ---------------------------------------------------------------------------- */

static void add_standing(struct top_table *to, const struct top_data *d, const json_t *policy,
                         const json_t *rule)
{
    const char *name = told_text(policy, "policy"), *of = told_text(rule, "rule");
    const json_t *override = top_data_override(d, name, of, told_text(rule, "tag")), *by;
    struct top_table_row *r = top_table_add(to);
    size_t i, len = 0;

    if (!r)
        return;
    r->item = rule;
    r->of = policy;
    snprintf(r->id, sizeof r->id, "%s/%s", name, of);
    top_cell_text(r, 0, "%s/%s", name, of);
    json_array_foreach(json_object_get(rule, "by"), i, by)
        len += (size_t)snprintf(r->cells[1].text + len, len < TOP_CELL ? TOP_CELL - len : 0, "%s%s",
                                i ? "," : "", json_string_value(by) ? json_string_value(by) : "");
    if (json_object_get(rule, "used")) {
        const int64_t resets = told_int(rule, "reset_after_ms");

        top_cell_count(r, 2, told_int(rule, "limit"));
        top_cell_count(r, 3, told_int(rule, "used"));
        top_cell_count(r, 4, told_int(rule, "left"));
        r->cells[4].colour = told_int(rule, "left") == 0 ? RED : PLAIN;
        top_cell_text(r, 5, "%s", resets ? top_age(resets).text : "-");
        r->cells[5].number = (double)resets;
    } else {
        top_cell_text(r, 5, "not counted");
    }
    if (override)
        top_cell_text(r, 6, "%s", top_effect(override).text);
    r->cells[6].colour = YELLOW;
}

static void add_missing(struct top_table *to, const json_t *policy)
{
    struct top_table_row *r = top_table_add(to);

    if (!r)
        return;
    snprintf(r->id, sizeof r->id, "%s", told_text(policy, "policy"));
    top_cell_text(r, 0, "%s: give %s, too", told_text(policy, "policy"),
                  told_text(policy, "missing"));
    r->cells[0].colour = FAINT;
}

static void fill_lookup(const struct top_data *d, struct top_table *into)
{
    static const struct top_column columns[TOP_COLUMNS] = {
        { "POLICY", 0, false, 0, 0 },    { "by", 10, false, 3, 0 }, { "limit", 8, true, 2, 0 },
        { "used", 8, true, 1, 0 },       { "left", 8, true, 0, 0 }, { "resets in", 12, true, 0, 0 },
        { "override", 14, false, 0, 0 },
    };
    const json_t *policy, *rule;
    size_t i, k;

    top_table_init(into, columns,
                   d->lookup.len == 0 ? "press L to look up a value" : "no policy counts by it");
    json_array_foreach(json_object_get(d->docs[TOP_DOC_LOOKUP], "policies"), i, policy)
    {
        if (*told_text(policy, "missing"))
            add_missing(into, policy);
        json_array_foreach(json_object_get(policy, "rules"), k, rule)
            add_standing(into, d, policy, rule);
    }
}

/* ---------------------------------------------------------------------------------------------- */

static const struct {
    const char *title;
    unsigned docs;
    void (*fill)(const struct top_data *d, struct top_table *into);
} views[TOP_VIEWS] = {
    [TOP_VIEW_POLICIES] = { "Policies", BIT(POLICIES), fill_policies },
    [TOP_VIEW_DENIED] = { "Denied", BIT(TOP) | BIT(POLICIES) | BIT(OVERRIDES), fill_denied },
    [TOP_VIEW_IN_FORCE] = { "In force", BIT(OVERRIDES) | BIT(PLANS) | BIT(POLICIES),
                            top_view_in_force },
    [TOP_VIEW_BUDGETS] = { "Budgets", 0, fill_budgets },
    [TOP_VIEW_LEASES] = { "Leases", 0, fill_leases },
    [TOP_VIEW_CHANGES] = { "Changes", BIT(AUDIT), top_view_changes },
    [TOP_VIEW_LOOKUP] = { "Lookup", BIT(LOOKUP) | BIT(POLICIES) | BIT(OVERRIDES), fill_lookup },
};

const char *top_view_title(enum top_view view)
{
    return views[view].title;
}

unsigned top_view_docs(enum top_view view)
{
    return views[view].docs;
}

void top_view_fill(enum top_view view, const struct top_data *d, struct top_table *into)
{
    views[view].fill(d, into);
    if (view == TOP_VIEW_LOOKUP && !top_data_may(d, "admin"))
        into->none = "a token with scope admin is needed to look up values";
    for (size_t i = 0; i < TOP_DOC_COUNT; i++)
        if ((views[view].docs & 1u << i) && d->is_refused[i] && view != TOP_VIEW_POLICIES &&
            view != TOP_VIEW_LOOKUP)
            into->none = "a token with scope admin or view is needed to see them";
}
