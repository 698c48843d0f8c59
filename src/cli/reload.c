/* reload.c - `weir reload`: have a server read its policies, tokens and certificates again. */
#include <jansson.h>
#include <stdio.h>

#include "cli/client.h"
#include "cli/command.h"
#include "cli/override/override_command.h"
#include "cli/terminal.h"
#include "cli/told.h"

enum { SERVER, TOKEN_FILE, JSON, OPTION_COUNT };

static const struct option options[OPTION_COUNT] = {
    [SERVER] = { "server", 's', "URL", "default: $WEIR_SERVER, or " SERVER_URL_DEFAULT },
    [TOKEN_FILE] = { "token-file", 0, "FILE", "default: $WEIR_TOKEN_FILE" },
    [JSON] = { "json", 'j', NULL, "JSON, as the server sends it" },
};

static void print(struct span body)
{
    json_t *root = told_read(body);
    const char *changes = json_string_value(json_object_get(root, "changes"));

    printf("%sreloaded%s%s%s\n", colour(GREEN), colour(PLAIN), changes ? ": " : "",
           changes ? changes : "");
    json_decref(root);
}

static int run(const struct arguments *a)
{
    struct client c = { .fd = -1 };
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    int status = STATUS_TROUBLE;
    struct json json;
    struct buf body;
    weir_diag diag;

    if (a->operand_count > 0)
        return trouble("reload takes no arguments: the server reads its own files again");
    if (!client_open(&c, a->values[SERVER], a->values[TOKEN_FILE])) {
        client_close(&c);
        return STATUS_TROUBLE;
    }
    buf_init(&body, &usual);
    json = (struct json){ .to = &body };
    json_open(&json, NULL, '{');
    json_text(&json, "who", override_command_user());
    json_close(&json, '}');
    if (!client_call(&c, "POST", "/v1/reload", buf_span(&body), &diag)) {
        trouble("%s", diag.text);
    } else if (c.reply.status != 200) {
        client_explain(&c, &diag);
        trouble("%s", diag.text);
    } else {
        if (a->values[JSON])
            told_print(c.reply.body);
        else
            print(c.reply.body);
        status = STATUS_YES;
    }
    buf_done(&body);
    client_close(&c);
    return status;
}

const struct command reload_command = {
    .name = "reload",
    .summary = "Make a server read its files again.",
    .usage = "[OPTION]...",
    .options = options,
    .option_count = OPTION_COUNT,
    .notes = "Prints what is wrong with a file; the settings of that file stay as they were.\n"
             "SIGHUP does the same, and so does a change of the policy file.\n"
             "\n"
             "Exit status: 0 all files were read, 2 not all of them.\n",
    .run = run,
};
