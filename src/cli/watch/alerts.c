/* alerts.c - `weir alerts`: what a server watches for, and what of it holds now. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

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

struct amount {
    char text[48];
};

/* A share, for how long, or how often. */
static struct amount amount(const json_t *alert, const json_t *of, const char *name)
{
    const json_t *value = json_object_get(of, name);
    struct amount out;

    if (strcmp(told_text(alert, "condition"), "deny_rate") == 0)
        snprintf(out.text, sizeof out.text, "%.4g %%", json_number_value(value));
    else if (strcmp(told_text(alert, "condition"), "breaker_open") == 0)
        snprintf(out.text, sizeof out.text, "%s", duration_text(json_integer_value(value)).text);
    else
        snprintf(out.text, sizeof out.text, "%" PRId64, (int64_t)json_integer_value(value));
    return out;
}

static void print_row(const json_t *alert, int64_t now)
{
    const bool is_firing = strcmp(told_text(alert, "state"), "firing") == 0;
    const int64_t lasts = now - told_int(alert, "since_ms");
    const json_t *one;
    size_t i;

    printf("%-20s  %-16s  %s%-6s%s  %8s  %9s  %-7s  %s\n", told_text(alert, "alert"),
           told_text(alert, "condition"), colour(is_firing ? RED : GREEN),
           told_text(alert, "state"), colour(PLAIN), amount(alert, alert, "value").text,
           amount(alert, alert, "over").text, duration_text(told_int(alert, "window_ms")).text,
           is_firing ? duration_text(lasts > 1000 ? lasts / 1000 * 1000 : 1000).text : "");
    json_array_foreach(json_object_get(alert, "firing"), i, one)
        printf("  %s%s%s%s%s %s\n", told_text(one, "policy"), told_text(one, "code"),
               *told_text(one, "rule") ? "/" : "", told_text(one, "rule"),
               *told_text(one, "tag") ? "," : ":",
               *told_text(one, "tag") ? told_text(one, "tag") : amount(alert, one, "value").text);
}

static int print(const struct client *c, const struct arguments *a)
{
    const struct span body = c->reply.body;
    json_t *root = told_read(body), *alert;
    const json_t *alerts = json_object_get(root, "alerts");
    int status = STATUS_YES;
    size_t i;

    if (!json_is_array(alerts))
        status = trouble("cannot parse the answer of %s: is it a weir server?", c->url.text);
    else if (a->values[JSON])
        told_print(body);
    else if (json_array_size(alerts) == 0)
        puts("there are no alerts: define them under 'alerts:' in the policy file");
    else
        printf("%-20s  %-16s  %-6s  %8s  %9s  %-7s  %s\n", "alert", "condition", "state", "value",
               "threshold", "in", "for");
    json_array_foreach(alerts, i, alert)
    {
        if (!a->values[JSON])
            print_row(alert, told_int(root, "now_ms"));
        if (strcmp(told_text(alert, "state"), "firing") == 0)
            status = STATUS_NO;
    }
    json_decref(root);
    return status;
}

static int run(const struct arguments *a)
{
    if (a->operand_count > 0)
        return trouble("alerts takes options only: see 'weir help alerts'");
    return client_show(a, a->values[SERVER], a->values[TOKEN_FILE], "/v1/alerts", print);
}

const struct command alerts_command = {
    .name = "alerts",
    .summary = "Show the alerts of a server and their states.",
    .usage = "[OPTION]...",
    .options = options,
    .option_count = OPTION_COUNT,
    .notes = "Exit status: 0 none is firing, 1 some are, 2 error.\n",
    .stands_with_last = true,
    .run = run,
};
