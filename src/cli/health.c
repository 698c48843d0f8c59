/* health.c - `weir health`: is a server alive, or ready? For containers that have no curl. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/client.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "cli/told.h"

enum { READY, TIMEOUT, OPTION_COUNT };
enum { USUAL_TIMEOUT_MS = 2000 };

static const struct option options[OPTION_COUNT] = {
    [READY] = { "ready", 0, NULL, "is it ready for requests? By default: is it alive?" },
    [TIMEOUT] = { "timeout", 0, "TIME", "for an answer; default: 2s" },
};

/* What of the answer makes a server not ready. */
static const char *reason_of(const json_t *root)
{
    const char *detail = told_text(root, "detail"); /* of an error */

    if (json_is_true(json_object_get(root, "draining")))
        return "it is stopping";
    if (strcmp(told_text(root, "store"), "failed") == 0)
        return "the store has failed";
    return *detail ? detail : "is it a weir server?";
}

static int print(const struct client *c, bool is_ready_wanted)
{
    json_t *root = told_read(c->reply.body);
    const char *state = is_ready_wanted ? "ready" : "alive";
    const bool is_healthy = c->reply.status == 200 && json_is_true(json_object_get(root, state));

    if (is_healthy)
        printf("%s%s%s\n", colour(GREEN), state, colour(PLAIN));
    else
        printf("%snot %s%s: %s (status %d)\n", colour(RED), state, colour(PLAIN), reason_of(root),
               c->reply.status);
    json_decref(root);
    return is_healthy ? STATUS_YES : STATUS_NO;
}

static int run(const struct arguments *a)
{
    const bool is_ready_wanted = a->values[READY] != NULL;
    const char *url = a->operand_count > 0 ? a->operands[0] : NULL;
    int64_t timeout = USUAL_TIMEOUT_MS;
    struct client c;
    weir_diag diag;
    int status;

    if (a->operand_count > 1)
        return trouble("health takes one server: see 'weir help health'");
    if (!option_time(a, TIMEOUT, &timeout))
        return STATUS_TROUBLE;
    /* No token is needed, so a token file that cannot be read is no reason to be unhealthy. */
    if (!client_open(&c, url, "")) {
        status = c.url.host[0] && c.token ? STATUS_NO
                                          : STATUS_TROUBLE; /* a name that is not found */
    } else {
        c.timeout_ms = timeout;
        if (client_call(&c, "GET", is_ready_wanted ? "/readyz" : "/healthz", (struct span){ "", 0 },
                        &diag)) {
            status = print(&c, is_ready_wanted);
        } else {
            trouble("%s", diag.text);
            status = STATUS_NO;
        }
    }
    client_close(&c);
    return status;
}

const struct command health_command = {
    .name = "health",
    .summary = "Ask whether a server is alive, or ready.",
    .usage = "[OPTION]... [URL]",
    .options = options,
    .option_count = OPTION_COUNT,
    .notes =
        "URL is http://HOST:PORT, https://HOST:PORT or unix:PATH. By default it is $WEIR_SERVER,\n"
        "or an address of $WEIR_LISTEN, or " SERVER_URL_DEFAULT ".\n"
        "\n"
        "Exit status: 0 yes, 1 no, or no answer.\n",
    .run = run,
};
