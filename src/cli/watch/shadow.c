/* shadow.c - `weir shadow`: what limits in shadow would have denied, as a server has seen it. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/client.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "cli/told.h"
#include "policy/rate.h"

enum { SERVER, TOKEN_FILE, JSON, OPTION_COUNT };

static const struct option options[OPTION_COUNT] = {
    [SERVER] = { "server", 's', "URL", "default: $WEIR_SERVER, or " SERVER_URL_DEFAULT },
    [TOKEN_FILE] = { "token-file", 0, "FILE", "default: $WEIR_TOKEN_FILE" },
    [JSON] = { "json", 'j', NULL, "JSON, as the server sends it" },
};

static void print_side(const char *name, const json_t *side)
{
    printf("  %-22s %12" PRId64 " %12" PRId64 " %7.2f%% %12" PRId64 " %12" PRId64 " %7.2f%%\n",
           name, told_int(side, "checks"), told_int(side, "denied"),
           json_number_value(json_object_get(side, "denied_percent")), told_int(side, "identities"),
           told_int(side, "denied_identities"),
           json_number_value(json_object_get(side, "denied_identities_percent")));
}

/* What is in shadow, and what it is beside. */
static void print_trial(const json_t *trial)
{
    static const struct {
        const char *kind, *tried, *live;
    } names[] = {
        { "mode", "in shadow", "the policy" },
        { "rollout", "not reached yet", "reached" },
        { "shadow_limit", "shadow_limit", "the enforced limit" },
    };
    const time_t since = (time_t)(told_int(trial, "since_ms") / 1000);
    char when[32] = "no checks yet", window[32];
    struct tm tm;
    size_t i = 0;

    while (i < 2 && strcmp(names[i].kind, told_text(trial, "kind")) != 0)
        i++;
    if (since > 0 && gmtime_r(&since, &tm))
        strftime(when, sizeof when, "since %Y-%m-%dT%H:%MZ", &tm);
    duration_write(told_int(trial, "window_ms"), window);
    printf("%s%s %s%s: %" PRId64 " %s%s%s%s, %s\n", colour(BOLD), told_text(trial, "policy"),
           told_text(trial, "rule"), colour(PLAIN), told_int(trial, "limit"),
           told_int(trial, "window_ms") ? "per " : "at once",
           told_int(trial, "window_ms") ? window : "",
           *told_text(trial, "rollout") ? ", rolled out to " : "", told_text(trial, "rollout"),
           when);
    printf("  %-22s %12s %12s %8s %12s %12s %8s\n", "", "checks", "denied", "", "identities",
           "denied", "");
    print_side(names[i].tried, json_object_get(trial, "shadow"));
    print_side(names[i].live, json_object_get(trial, "enforced"));
    if (json_object_get(trial, "denied_by_both"))
        printf("  denied by both %" PRId64 ", only in shadow %" PRId64 ", only enforced %" PRId64
               "\n",
               told_int(trial, "denied_by_both"), told_int(trial, "denied_by_shadow_only"),
               told_int(trial, "denied_by_enforced_only"));
}

static int print(const struct client *c, const struct arguments *a)
{
    const struct span body = c->reply.body;
    json_t *root, *shadow_stats, *trial;
    int status = STATUS_YES;
    size_t i, shown = 0;

    if (a->values[JSON] && a->operand_count == 0) {
        told_print(body);
        return STATUS_YES;
    }
    root = told_read(body);
    shadow_stats = json_object_get(root, "limits");
    if (!json_is_array(shadow_stats))
        status = trouble("cannot parse the answer of %s: is it a weir server?", c->url.text);
    json_array_foreach(shadow_stats, i, trial)
    {
        if (a->operand_count > 0 && strcmp(told_text(trial, "policy"), a->operands[0]) != 0)
            continue;
        if (a->values[JSON])
            json_dumpf(trial, stdout, JSON_COMPACT);
        else
            print_trial(trial);
        if (a->values[JSON])
            putchar('\n');
        shown++;
    }
    if (shown == 0 && status == STATUS_YES)
        puts("no limit is in shadow");
    json_decref(root);
    return status;
}

static int run(const struct arguments *a)
{
    if (a->operand_count > 1)
        return trouble("shadow takes one policy: see 'weir help shadow'");
    return client_show(a, a->values[SERVER], a->values[TOKEN_FILE], "/v1/shadow", print);
}

const struct command shadow_command = {
    .name = "shadow",
    .summary = "Compare limits in shadow with the enforced ones.",
    .usage = "[OPTION]... [POLICY]",
    .options = options,
    .option_count = OPTION_COUNT,
    .notes = "In shadow are rules with 'mode: shadow' or a 'rollout', every 'shadow_limit', and\n"
             "policies and named limits that operators have put into shadow: see weir mode.\n"
             "The numbers are those of one server: ask each server that shares a store.\n",
    .joint_summary = "Compare limits in shadow; list the alerts.",
    .run = run,
};
