/* history.c - `weir history`: what a server has decided over the last days, drawn or as a table. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "cli/client.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "cli/told.h"
#include "cli/watch/history_plot.h"
#include "policy/rate.h"

enum { SERVER, TOKEN_FILE, SINCE, UNTIL, STEP, RULE, RULES, JSON, OPTION_COUNT };

static const struct option options[OPTION_COUNT] = {
    [SERVER] = { "server", 's', "URL", "default: $WEIR_SERVER, or " SERVER_URL_DEFAULT },
    [TOKEN_FILE] = { "token-file", 0, "FILE", "default: $WEIR_TOKEN_FILE" },
    [SINCE] = { "since", 0, "TIME", "how long ago it begins; default: 24h" },
    [UNTIL] = { "until", 0, "TIME", "how long ago it ends; default: now" },
    [STEP] = { "step", 0, "TIME", "time per row, as in 1h; default: as fits" },
    [RULE] = { "rule", 'r', "NAME", "decisions of this rule" },
    [RULES] = { "rules", 0, NULL, "decisions of each rule too" },
    [JSON] = { "json", 'j', NULL, "JSON, as the server sends it" },
};

/* ---- asking -------------------------------------------------------------------------------- */

static bool ask(struct client *c, const struct arguments *a, weir_diag *diag)
{
    static const struct {
        const char *name;
        int option;
    } sent[] = { { "since", SINCE }, { "until", UNTIL }, { "step", STEP }, { "rule", RULE } };
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    struct buf path;
    bool is_good;

    buf_init(&path, &usual);
    buf_text(&path, "/v1/history");
    url_add_parameter(&path, "policy", a->operand_count > 0 ? a->operands[0] : NULL);
    for (size_t i = 0; i < sizeof sent / sizeof *sent; i++)
        url_add_parameter(&path, sent[i].name, a->values[sent[i].option]);
    is_good = !path.failed && client_call(c, "GET", path.at, (struct span){ "", 0 }, diag);
    buf_done(&path);
    if (is_good && c->reply.status != 200) {
        client_explain(c, diag);
        is_good = false;
    }
    return is_good;
}

/* ---- a table ------------------------------------------------------------------------------- */

static void print_row(const char *policy, const char *rule, const json_t *point)
{
    const time_t at = (time_t)(json_integer_value(json_array_get(point, 0)) / 1000);
    struct tm tm;
    char when[32];

    gmtime_r(&at, &tm);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%MZ", &tm);
    printf("%-17s  %-20s  %-12s", when, policy, rule);
    for (size_t i = 1; i <= HISTORY_PLOT_COUNTS; i++)
        printf("  %*" PRId64, i == 3 ? 13 : 10, /* as wide as shadow-denied */
               (int64_t)json_integer_value(json_array_get(point, i)));
    putchar('\n');
}

static void print_table(const json_t *list)
{
    const json_t *series, *point;
    size_t i, k;

    printf("%-17s  %-20s  %-12s  %10s  %10s  %13s  %10s  %10s\n", "time", "policy", "rule",
           "allowed", "denied", "shadow-denied", "fallback", "charges");
    json_array_foreach(list, i, series)
        json_array_foreach(json_object_get(series, "points"), k, point)
            print_row(json_string_value(json_object_get(series, "policy")),
                      history_rule(series) ? history_rule(series) : "(check)", point);
}

/* -------------------------------------------------------------------------------------------- */

static int screen_width(void)
{
    struct winsize size = { .ws_col = 0 };

    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40 ? size.ws_col : 80;
}

/* Adds the series of a member to the list. False: there is something else. */
static bool add_series(const json_t *root, const char *member, json_t *list)
{
    const json_t *all = json_object_get(root, member);
    json_t *one;
    size_t i;

    if (!json_is_array(all))
        return false;
    json_array_foreach(all, i, one)
    {
        if (!json_is_string(json_object_get(one, "policy")))
            return false;
        json_array_append(list, one);
    }
    return true;
}

static int compare_series(const void *left, const void *right)
{
    const json_t *a = *(json_t *const *)left, *b = *(json_t *const *)right;
    const int order = strcmp(json_string_value(json_object_get(a, "policy")),
                             json_string_value(json_object_get(b, "policy")));

    if (order != 0 || !history_rule(a) || !history_rule(b))
        return order != 0 ? order : (history_rule(a) != NULL) - (history_rule(b) != NULL);
    return strcmp(history_rule(a), history_rule(b));
}

/* Whole checks, or one rule, or all of it: each policy followed by its rules. NULL: this is no
 * history. */
static json_t *chosen_series(const json_t *root, const struct arguments *a)
{
    json_t *list = json_array(), *sorted = json_array();
    const size_t most = json_array_size(json_object_get(root, "checks")) +
                        json_array_size(json_object_get(root, "rules"));
    json_t **all = calloc(most + 1, sizeof(json_t *));
    const bool is_good = all && json_integer_value(json_object_get(root, "step_ms")) > 0 &&
                         (a->values[RULE] || add_series(root, "checks", list)) &&
                         (!(a->values[RULE] || a->values[RULES]) ||
                          add_series(root, "rules", list));

    for (size_t i = 0; is_good && i < json_array_size(list); i++)
        all[i] = json_array_get(list, i);
    if (is_good)
        qsort(all, json_array_size(list), sizeof *all, compare_series);
    for (size_t i = 0; is_good && i < json_array_size(list); i++)
        json_array_append(sorted, all[i]);
    json_decref(list);
    free(all);
    if (is_good)
        return sorted;
    json_decref(sorted);
    return NULL;
}

static int print(const struct client *c, const struct arguments *a)
{
    const struct span body = c->reply.body;
    json_t *root, *list;
    int status = STATUS_YES;

    if (a->values[JSON]) {
        told_print(body);
        return STATUS_YES;
    }
    root = told_read(body);
    list = chosen_series(root, a);
    if (!list)
        status = trouble("cannot parse the answer of %s: is it a weir server?", c->url.text);
    else if (json_array_size(list) == 0)
        puts("no checks in this time");
    else if (isatty(STDOUT_FILENO))
        history_plot(root, list, screen_width());
    else
        print_table(list);
    json_decref(list);
    json_decref(root);
    return status;
}

static bool read_duration(const struct arguments *a, int option)
{
    weir_diag diag;
    int64_t ms;

    if (!a->values[option] || !duration_read(span_of(a->values[option]), &ms, &diag))
        return true;
    trouble("--%s: %s", options[option].name, diag.text);
    return false;
}

static int run(const struct arguments *a)
{
    struct client client = { .fd = -1 };
    int status = STATUS_TROUBLE;
    weir_diag diag;

    if (a->operand_count > 1)
        return trouble("history takes one policy, or none for all: see 'weir help history'");
    if (!read_duration(a, SINCE) || !read_duration(a, UNTIL) || !read_duration(a, STEP))
        return STATUS_TROUBLE;
    if (client_open(&client, a->values[SERVER], a->values[TOKEN_FILE]))
        status = ask(&client, a, &diag) ? print(&client, a) : trouble("%s", diag.text);
    client_close(&client);
    return status;
}

const struct command history_command = {
    .name = "history",
    .summary = "Show the decisions of the last days.",
    .usage = "[OPTION]... [POLICY]",
    .options = options,
    .option_count = OPTION_COUNT,
    .notes = "A chart on a terminal; elsewhere a table, in UTC. Minutes are kept for three\n"
             "days, hours for ninety.\n",
    .run = run,
};
