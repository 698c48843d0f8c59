/* diff.c - `weir policy diff`: what a reload with a file would change. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/secret.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/policy/file.h"
#include "cli/terminal.h"
#include "cli/told.h"
#include "policy/policies_json.h"
#include "server/policies_diff.h"

enum { SERVER, TOKEN_FILE, JSON, OPTION_COUNT };

static const struct option options[OPTION_COUNT] = {
    [SERVER] = { "server", 's', "URL", "default: $WEIR_SERVER, or " SERVER_URL_DEFAULT },
    [TOKEN_FILE] = { "token-file", 0, "FILE", "default: $WEIR_TOKEN_FILE" },
    [JSON] = { "json", 'j', NULL, "one JSON object" },
};

/* ---- what there is -------------------------------------------------------------------------- */

/* A list of policies; NULL: it was said on stderr why there is none. */
static json_t *read_file(const char *path)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    struct policy_file f = { .path = path };
    json_t *list = NULL;
    struct buf text;
    weir_diag diag;
    int status;

    if (secret_random(&f.secret, &diag)) { /* no hash is shown */
        trouble("%s", diag.text);
        return NULL;
    }
    status = policy_file_load(&f, false);
    if (status == STATUS_NO)
        policy_file_print_problems(&f);
    if (status == STATUS_YES) {
        buf_init(&text, &usual);
        policies_json(&text, f.set);
        list = json_loadb(buf_span(&text).at, text.len, 0, NULL);
        if (!list)
            trouble("%s", weir_err_text(WEIR_ENOMEM));
        buf_done(&text);
    }
    policy_file_done(&f);
    return list;
}

static json_t *ask(const struct arguments *a)
{
    struct client c = { .fd = -1 };
    json_t *root = NULL, *list = NULL;
    weir_diag diag;

    if (!client_open(&c, a->values[SERVER], a->values[TOKEN_FILE])) {
        client_close(&c);
        return NULL;
    }
    if (!client_call(&c, "GET", "/v1/policies", (struct span){ "", 0 }, &diag)) {
        trouble("%s", diag.text);
    } else if (c.reply.status != 200) {
        client_explain(&c, &diag);
        trouble("%s", diag.text);
    } else {
        root = told_read(c.reply.body);
        list = json_incref(json_object_get(root, "policies"));
        if (!json_is_array(list))
            trouble("cannot parse the answer of %s: is it a weir server?", c.url.text);
    }
    json_decref(root);
    client_close(&c);
    return list;
}

/* ---- telling -------------------------------------------------------------------------------- */

static void print_value(const json_t *value)
{
    char *text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;

    if (json_is_string(value))
        printf("%s", json_string_value(value));
    else
        printf("%s", text ? text : "none");
    free(text);
}

static void print_members(const json_t *was, const json_t *is)
{
    const json_t *sides[] = { was, is };

    for (int side = 0; side < 2; side++)
        for (void *m = json_object_iter((json_t *)sides[side]); m;
             m = json_object_iter_next((json_t *)sides[side], m)) {
            const char *name = json_object_iter_key(m);

            if (side == 1 && json_object_get(was, name))
                continue;
            printf("    %s: ", name);
            print_value(json_object_get(was, name));
            printf(" -> ");
            print_value(json_object_get(is, name));
            putchar('\n');
        }
}

static void print_rule_numbers(const json_t *rule)
{
    const int64_t window = json_integer_value(json_object_get(rule, "window_ms"));

    printf(" (%" PRId64 "%s%s)", (int64_t)json_integer_value(json_object_get(rule, "limit")),
           window ? " per " : " at once", window ? duration_text(window).text : "");
}

static void print_change(const json_t *one)
{
    const char *change = json_string_value(json_object_get(one, "change"));
    const char *rule = json_string_value(json_object_get(one, "rule"));
    const bool is_change = strcmp(change, "changed") == 0,
               is_removal = strcmp(change, "removed") == 0;
    const json_t *was = json_object_get(one, "was"), *is = json_object_get(one, "is");

    printf("%s%-8s%s %s%s%s",
           colour(is_change    ? YELLOW
                  : is_removal ? RED
                               : GREEN),
           change, colour(PLAIN), json_string_value(json_object_get(one, "policy")),
           rule ? "/" : "", rule ? rule : "");
    if (!is_change && rule)
        print_rule_numbers(is_removal ? was : is);
    putchar('\n');
    if (is_change)
        print_members(was, is);
}

static int tell(const json_t *diff, const struct arguments *a)
{
    const json_t *one;
    size_t i;

    if (a->values[JSON]) {
        json_t *root = json_pack("{s:s, s:b, s:O}", "file", a->operands[0], "same",
                                 json_array_size(diff) == 0, "changes", diff);

        json_dumpf(root, stdout, JSON_COMPACT);
        putchar('\n');
        json_decref(root);
    } else if (json_array_size(diff) == 0) {
        puts("no policy would change");
    } else {
        json_array_foreach(diff, i, one) print_change(one);
    }
    return json_array_size(diff) == 0 ? STATUS_YES : STATUS_NO;
}

static int run(const struct arguments *a)
{
    json_t *file, *server = NULL, *diff = NULL;
    int status = STATUS_TROUBLE;

    if (a->operand_count != 1)
        return trouble("the file is missing: name one, or '-' for standard input");
    file = read_file(a->operands[0]);
    if (file)
        server = ask(a);
    if (json_is_array(server)) {
        diff = policies_diff(server, file);
        status = diff ? tell(diff, a) : trouble("%s", weir_err_text(WEIR_ENOMEM));
    }
    json_decref(diff);
    json_decref(server);
    json_decref(file);
    return status;
}

const struct command policy_diff_command = {
    .name = "policy diff",
    .stands_with_last = true,
    .summary = "Show what a reload with a file would change.",
    .usage = "[OPTION]... FILE",
    .options = options,
    .option_count = OPTION_COUNT,
    .notes = "Compares the policies of FILE with those of a server: what is added, removed and\n"
             "changed, with the old and the new limits. Variables such as\n"
             "WEIR_POLICY_LOGIN_LIMIT, exemptions and alerts are not compared.\n"
             "\n"
             "Exit status: 0 they are the same, 1 they differ, 2 error.\n",
    .run = run,
};
