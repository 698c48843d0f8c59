/* alerts.c - `weir alerts`: what a server watches for, and what of it holds now. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/client.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "policy/rate.h"

enum { SERVER, TOKEN_FILE, JSON, OPTION_COUNT };

static const struct option options[OPTION_COUNT] = {
    [SERVER] = { "server", 's', "URL", "default: $WEIR_SERVER, or " SERVER_URL_DEFAULT },
    [TOKEN_FILE] = { "token-file", 0, "FILE", "default: $WEIR_TOKEN_FILE" },
    [JSON] = { "json", 'j', NULL, "JSON, as the server sends it" },
};

static int64_t number(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

static const char *text(const json_t *object, const char *name)
{
    const char *found = json_string_value(json_object_get(object, name));

    return found ? found : "";
}

struct amount {
    char text[48];
};

/* A share, for how long, or how often. */
static struct amount amount(const json_t *alert, const json_t *of, const char *name)
{
    const json_t *value = json_object_get(of, name);
    struct amount out;

    if (strcmp(text(alert, "condition"), "deny_rate") == 0)
        snprintf(out.text, sizeof out.text, "%.4g %%", json_number_value(value));
    else if (strcmp(text(alert, "condition"), "breaker_open") == 0)
        snprintf(out.text, sizeof out.text, "%s", duration_text(json_integer_value(value)).text);
    else
        snprintf(out.text, sizeof out.text, "%" PRId64, (int64_t)json_integer_value(value));
    return out;
}

static void print_row(const json_t *alert, int64_t now)
{
    const bool is_firing = strcmp(text(alert, "state"), "firing") == 0;
    const int64_t lasts = now - number(alert, "since_ms");
    const json_t *one;
    size_t i;

    printf("%-20s  %-16s  %s%-6s%s  %8s  %9s  %-7s  %s\n", text(alert, "alert"),
           text(alert, "condition"), colour(is_firing ? RED : GREEN), text(alert, "state"),
           colour(PLAIN), amount(alert, alert, "value").text, amount(alert, alert, "over").text,
           duration_text(number(alert, "window_ms")).text,
           is_firing ? duration_text(lasts > 1000 ? lasts / 1000 * 1000 : 1000).text : "");
    json_array_foreach(json_object_get(alert, "firing"), i, one)
        printf("  %s%s%s%s%s %s\n", text(one, "policy"), text(one, "code"),
               *text(one, "rule") ? "/" : "", text(one, "rule"), *text(one, "tag") ? "," : ":",
               *text(one, "tag") ? text(one, "tag") : amount(alert, one, "value").text);
}

static int print(const struct client *c, const struct arguments *a)
{
    const struct span body = c->reply.body;
    json_t *root = json_loadb(body.at, body.len, 0, NULL), *alert;
    const json_t *alerts = json_object_get(root, "alerts");
    int status = STATUS_YES;
    size_t i;

    if (!json_is_array(alerts))
        status = trouble("cannot parse the answer of %s: is it a weir server?", c->url.text);
    else if (a->values[JSON])
        fwrite(body.at, 1, body.len, stdout);
    else if (json_array_size(alerts) == 0)
        puts("there are no alerts: define them under 'alerts:' in the policy file");
    else
        printf("%-20s  %-16s  %-6s  %8s  %9s  %-7s  %s\n", "alert", "condition", "state", "value",
               "threshold", "in", "for");
    json_array_foreach(alerts, i, alert)
    {
        if (!a->values[JSON])
            print_row(alert, number(root, "now_ms"));
        if (strcmp(text(alert, "state"), "firing") == 0)
            status = STATUS_NO;
    }
    json_decref(root);
    return status;
}

static int run(const struct arguments *a)
{
    struct client client = { .fd = -1 };
    int status = STATUS_TROUBLE;
    weir_diag diag;

    if (a->operand_count > 0)
        return trouble("alerts takes options only: see 'weir help alerts'");
    if (client_open(&client, a->values[SERVER], a->values[TOKEN_FILE]))
        status = client_get(&client, "/v1/alerts", &diag) ? print(&client, a)
                                                          : trouble("%s", diag.text);
    client_close(&client);
    return status;
}

const struct command alerts_command = {
    .name = "alerts",
    .summary = "Show the alerts of a server and their states.",
    .usage = "[OPTION]...",
    .options = options,
    .option_count = OPTION_COUNT,
    .notes = "Exit status: 0 none is firing, 1 some are, 2 error.\n",
    .run = run,
};
