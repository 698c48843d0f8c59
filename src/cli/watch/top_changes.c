/* top_changes.c - the views of what was changed: what is in force, and the audit log. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/told.h"
#include "cli/watch/top_views.h"

struct top_effect top_effect(const json_t *entry)
{
    const char *name = told_text(entry, "effect");
    struct top_effect e;

    if (strcmp(name, "plan") == 0)
        snprintf(e.text, sizeof e.text, "plan %s", told_text(entry, "plan"));
    else if (strcmp(name, "mode") == 0)
        snprintf(e.text, sizeof e.text, "mode %s", told_text(entry, "mode"));
    else if (json_object_get(entry, "limit"))
        snprintf(e.text, sizeof e.text, "limit %" PRId64, told_int(entry, "limit"));
    else if (json_object_get(entry, "burst"))
        snprintf(e.text, sizeof e.text, "burst %" PRId64, told_int(entry, "burst"));
    else if (json_object_get(entry, "cost"))
        snprintf(e.text, sizeof e.text, "%s %" PRId64, name, told_int(entry, "cost"));
    else
        snprintf(e.text, sizeof e.text, "%s", name);
    return e;
}

/* In the zone of the terminal. */
static struct moment_text local_time(int64_t ms)
{
    const time_t seconds = (time_t)(ms / 1000);
    struct moment_text t = { "" };
    struct tm tm;

    if (ms > 0 && localtime_r(&seconds, &tm))
        strftime(t.text, sizeof t.text, "%Y-%m-%d %H:%M", &tm);
    return t;
}

static void put_subject(struct top_table_row *r, size_t column, const json_t *entry)
{
    const char *policy = told_text(entry, "policy"), *rule = told_text(entry, "rule");
    const char *none = json_object_get(entry, "instance") ? "-" : "all";

    top_cell_text(r, column, "%s%s%s", *policy ? policy : none, *rule ? "/" : "", rule);
}

static void put_reason(struct top_table_row *r, size_t column, const json_t *entry)
{
    const char *reason = told_text(entry, "reason"), *instance = told_text(entry, "instance");

    top_cell_text(r, column, "%s%s%s%s%s", told_text(entry, "who"), *instance ? " on " : "",
                  instance, *reason ? ": " : "", reason);
}

static void name_row(struct top_table_row *r, const json_t *entry)
{
    r->item = entry;
    snprintf(r->id, sizeof r->id, "%s %" PRId64 " %s", told_text(entry, "kind"),
             told_int(entry, "id"), told_text(entry, "tag"));
}

/* ---- in force ------------------------------------------------------------------------------- */

static void add_in_force(struct top_table *to, const json_t *entry)
{
    struct top_table_row *r = top_table_add(to);

    if (!r)
        return;
    name_row(r, entry);
    put_subject(r, 0, entry);
    top_cell_text(r, 1, "%s", told_text(entry, "tag"));
    top_cell_text(r, 2, "%s", top_effect(entry).text);
    r->cells[2].colour = strcmp(told_text(entry, "effect"), "block") == 0 ? RED : YELLOW;
    top_cell_text(r, 3, "%s",
                  told_int(entry, "expires_ms") ? local_time(told_int(entry, "expires_ms")).text
                                                : "no end");
    put_reason(r, 4, entry);
}

void top_view_in_force(const struct top_data *d, struct top_table *into)
{
    static const struct top_column columns[TOP_COLUMNS] = {
        { "POLICY", 20, false, 0, 0 },      { "tag", 32, false, 0, 12 },
        { "effect", 14, false, 0, 0 },      { "until", 16, false, 2, 0 },
        { "who and why", 0, false, 1, 24 },
    };
    const json_t *one;
    size_t i;

    top_table_init(into, columns, "no override and no plan is in force");
    json_array_foreach(json_object_get(d->docs[TOP_DOC_OVERRIDES], "overrides"), i, one)
        add_in_force(into, one);
    json_array_foreach(json_object_get(d->docs[TOP_DOC_PLANS], "plans"), i, one)
        add_in_force(into, one);
}

/* ---- all of them ---------------------------------------------------------------------------- */

static void add_change(struct top_table *to, const json_t *entry)
{
    struct top_table_row *r = top_table_add(to);

    if (!r)
        return;
    name_row(r, entry);
    top_cell_count(r, 0, told_int(entry, "id"));
    top_cell_text(r, 1, "%s", local_time(told_int(entry, "at_ms")).text);
    put_subject(r, 2, entry);
    top_cell_text(r, 3, "%s", told_text(entry, "tag"));
    top_cell_text(r, 4, "%s", top_effect(entry).text);
    top_cell_text(r, 5, "%s", local_time(told_int(entry, "expires_ms")).text);
    put_reason(r, 6, entry);
}

void top_view_changes(const struct top_data *d, struct top_table *into)
{
    static const struct top_column columns[TOP_COLUMNS] = {
        { "ID", 6, true, 0, 0 },
        { "when", 16, false, 3, 0 },
        { "policy", 16, false, 0, 0 },
        { "tag", 32, false, 2, 12 },
        { "effect", 14, false, 0, 0 },
        { "until", 16, false, 4, 0 },
        { "who and why", 0, false, 1, 24 },
    };
    const json_t *list = json_object_get(d->docs[TOP_DOC_AUDIT], "entries");

    top_table_init(into, columns, "no changes yet");
    for (size_t i = json_array_size(list); i > 0; i--)
        add_change(into, json_array_get(list, i - 1));
}
