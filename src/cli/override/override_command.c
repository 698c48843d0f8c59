/* override_command.c - what the commands for operators have in common. */
#include "cli/override/override_command.h"

#include <inttypes.h>
#include <jansson.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/diag.h"
#include "cli/terminal.h"
#include "cli/told.h"

/* ---- printing -------------------------------------------------------------------------------- */

static void add_time(struct buf *out, int64_t ms)
{
    const time_t seconds = (time_t)(ms / 1000);
    char text[32];
    struct tm utc;

    gmtime_r(&seconds, &utc);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    buf_text(out, text);
}

/* What it does, in a few words. */
static void add_effect(struct buf *out, const json_t *entry)
{
    const json_t *limit = json_object_get(entry, "limit"), *burst = json_object_get(entry, "burst");

    if (json_object_get(entry, "plan") || json_object_get(entry, "mode"))
        buf_printf(out, "%s %s", told_text(entry, "effect"),
                   json_object_get(entry, "plan") ? told_text(entry, "plan")
                                                  : told_text(entry, "mode"));
    else if (limit || burst)
        buf_printf(out, "%s", "");
    else
        buf_text(out, told_text(entry, "effect"));
    if (json_object_get(entry, "cost"))
        buf_printf(out, " %" PRId64, told_int(entry, "cost"));
    if (limit)
        buf_printf(out, "limit %" PRId64, (int64_t)json_integer_value(limit));
    if (burst)
        buf_printf(out, "%sburst %" PRId64, limit ? ", " : "", (int64_t)json_integer_value(burst));
}

/* Whose, or where: "ip 60c03639286c…" */
static void add_identity(struct buf *out, const json_t *entry)
{
    const json_t *by = json_object_get(entry, "by"), *name;
    size_t i;

    buf_text(out, told_text(entry, "instance")); /* of a reload */
    if (!by)
        return;
    json_array_foreach(by, i, name)
        buf_printf(out, "%s%s", i > 0 ? "," : "", json_string_value(name));
    if (i == 0)
        buf_text(out, "all");
    buf_printf(out, " %s", told_text(entry, "tag"));
}

static void add_row(struct buf *out, const json_t *entry)
{
    const char *policy = told_text(entry, "policy"), *rule = told_text(entry, "rule");
    const char *none = json_object_get(entry, "instance") ? "-" : "all";
    struct buf part;

    buf_init(&part, &out->allocator);
    buf_printf(out, "%6" PRId64 "  ", told_int(entry, "id"));
    add_time(out, told_int(entry, "at_ms"));
    buf_printf(&part, "%s%s%s", policy[0] ? policy : none, rule[0] ? "/" : "", rule);
    buf_printf(out, "  %-10s  %-20s", told_text(entry, "kind"), buf_span(&part).at);
    part.len = 0;
    add_identity(&part, entry);
    buf_printf(out, "  %-39s", part.len > 0 ? part.at : "");
    part.len = 0;
    add_effect(&part, entry);
    buf_printf(out, "  %-16s  ", part.len > 0 ? part.at : "");
    if (told_int(entry, "expires_ms") > 0)
        add_time(out, told_int(entry, "expires_ms"));
    else
        buf_printf(out, "%-20s", "-");
    buf_printf(out, "  %s%s%s", told_text(entry, "who"), told_text(entry, "reason")[0] ? ": " : "",
               told_text(entry, "reason"));
    buf_done(&part);
}

static void print_head(void)
{
    printf("%6s  %-20s  %-10s  %-20s  %-39s  %-16s  %-20s  %s\n", "id", "at", "kind", "policy",
           "by, and tag", "effect", "expires", "who: reason");
}

static void print_nothing(const char *member)
{
    puts(strcmp(member, "overrides") == 0 ? "no override is in force"
         : strcmp(member, "plans") == 0   ? "no plan is assigned"
                                          : "no such change");
}

static bool print_rows(const json_t *list)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    const json_t *entry;
    size_t i;

    if (!json_is_array(list))
        return false;
    json_array_foreach(list, i, entry)
    {
        struct buf row;

        buf_init(&row, &usual);
        add_row(&row, entry);
        terminal_line(&row);
    }
    return true;
}

/* ---- asking --------------------------------------------------------------------------------- */

static bool call(struct client *c, const struct arguments *a, const char *method, const char *path,
                 struct span body)
{
    weir_diag diag;

    if (!client_open(c, a->values[OVERRIDE_COMMAND_SERVER], a->values[OVERRIDE_COMMAND_TOKEN_FILE]))
        return false;
    if (!client_call(c, method, path, body, &diag)) {
        trouble("%s", diag.text);
        return false;
    }
    if (c->reply.status == 200)
        return true;
    client_explain(c, &diag);
    trouble("%s", diag.text);
    return false;
}

static bool print_reply(const struct client *c, const struct arguments *a, const char *member)
{
    const struct span body = c->reply.body;
    json_t *root;
    bool is_good;

    if (a->values[OVERRIDE_COMMAND_JSON]) {
        told_print(body);
        return true;
    }
    root = told_read(body);
    is_good = json_is_object(root);
    if (is_good && member) {
        const json_t *list = json_object_get(root, member);

        if (json_is_array(list) && json_array_size(list) == 0)
            print_nothing(member);
        else
            print_head();
        is_good = print_rows(list);
    } else if (is_good) {
        json_t *alone = json_pack("[O]", root);

        print_head();
        is_good = print_rows(alone);
        json_decref(alone);
    }
    if (!is_good)
        trouble("cannot parse the answer of %s: is it a weir server?", c->url.text);
    json_decref(root);
    return is_good;
}

int override_command_list(const struct arguments *args, const char *path, const char *member,
                          const char *policy, const char *tag)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    struct client c = { .fd = -1 };
    struct buf whole;
    bool is_good;

    buf_init(&whole, &usual);
    buf_text(&whole, path);
    url_add_parameter(&whole, "policy", policy);
    url_add_parameter(&whole, "tag", tag);
    if (whole.failed)
        return trouble("%s", weir_err_text(WEIR_ENOMEM));
    is_good = call(&c, args, "GET", whole.at, (struct span){ "", 0 }) &&
              print_reply(&c, args, member);
    buf_done(&whole);
    client_close(&c);
    return is_good ? STATUS_YES : STATUS_TROUBLE;
}

const char *override_command_user(void)
{
    const char *name = getenv("SUDO_USER");
    const struct passwd *user;

    if (name && name[0])
        return name;
    user = getpwuid(getuid());
    return user ? user->pw_name : "unknown";
}

void override_command_begin(struct override_command *r, const struct arguments *args, bool has_end)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    const char *who = args->values[OVERRIDE_COMMAND_WHO],
               *reason = args->values[OVERRIDE_COMMAND_REASON];

    r->args = args;
    buf_init(&r->body, &usual);
    r->json = (struct json){ .to = &r->body };
    json_open(&r->json, NULL, '{');
    json_text(&r->json, "who", who ? who : override_command_user());
    if (reason)
        json_text(&r->json, "reason", reason);
    if (has_end && args->values[OVERRIDE_COMMAND_FOR])
        json_text(&r->json, "for", args->values[OVERRIDE_COMMAND_FOR]);
}

void override_command_tag(struct override_command *r, const char *tag, const char *by)
{
    if (tag)
        json_text(&r->json, "tag", tag);
    if (!by)
        return;
    json_open(&r->json, "by", '[');
    while (*by) {
        const size_t len = strcspn(by, ",");

        json_span(&r->json, NULL, (struct span){ by, len });
        by += len + (by[len] == ',');
    }
    json_close(&r->json, ']');
}

void override_command_subject(struct override_command *r, const struct subject *s)
{
    if (s->has_key)
        json_span(&r->json, "key", buf_span(&s->key));
    if (s->attribute_count == 0)
        return;
    json_open(&r->json, "attributes", '{');
    for (size_t i = 0; i < s->attribute_count; i++)
        json_text(&r->json, s->attributes[i].name, s->attributes[i].value);
    json_close(&r->json, '}');
}

int override_command_send(struct override_command *r, const char *method, const char *path)
{
    struct client c = { .fd = -1 };
    bool is_good;

    json_close(&r->json, '}');
    if (r->body.failed) {
        buf_done(&r->body);
        return trouble("%s", weir_err_text(WEIR_ENOMEM));
    }
    is_good = call(&c, r->args, method, path, buf_span(&r->body)) && print_reply(&c, r->args, NULL);
    client_close(&c);
    buf_done(&r->body);
    return is_good ? STATUS_YES : STATUS_TROUBLE;
}
