/* serve.c - `weir serve`: the settings of the file, what lies over them, and then the server. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/printable.h"
#include "cli/command.h"
#include "cli/serve_check.h"
#include "cli/serve_options.h"
#include "cli/terminal.h"
#include "server/server.h"

/* What to serve by: decided once, as a reload must not find another file. */
struct intention {
    struct arguments arguments; /* and the environment, where there is no flag */
    const char *config;         /* NULL: there is none */
    bool is_found;              /* in the working directory: no option named it */
    struct buf warnings;
};

static struct intention intention_of(const struct arguments *a)
{
    static const char *const usual[] = { "weir.yaml", "policies.yaml" };
    const weir_allocator allocator = alloc_or_default((weir_allocator){ 0 });
    struct intention i = { .arguments = *a };

    options_add_variables(&i.arguments, SERVE_OPTION_COUNT);
    buf_init(&i.warnings, &allocator);
    serve_environment_warnings(&i.warnings);
    i.config = i.arguments.values[SERVE_CONFIG];
    for (size_t k = 0; k < sizeof usual / sizeof *usual && !i.config; k++)
        if (access(usual[k], F_OK) == 0) {
            i.config = usual[k];
            i.is_found = true;
        }
    return i;
}

/* What is wrong with a flag is printed where it is found, and there is nothing in the diag. */
static weir_err read_settings(void *intention, struct server_settings *out, weir_diag *diag)
{
    const struct intention *i = intention;
    weir_err err = settings_load(out, i->config, diag);

    if (err)
        return err;
    out->config_is_found = i->is_found;
    if (i->warnings.len > 0 && !i->warnings.failed)
        out->warnings = i->warnings.at;
    if (serve_options_read(&i->arguments, out))
        return WEIR_OK;
    settings_done(out);
    return diag_fail(diag, WEIR_EOPTION, "%s", "");
}

/* How to make a token, for the operator who was refused for want of one. Where the address is set
 * by a variable, the token can be, too: there may be no shell, as in a container. */
static void offer_token(const struct intention *i, const struct server_settings *s)
{
    const char *listen = settings_open_listener(s);

    if (listen && i->arguments.from_variable[SERVE_LISTEN])
        trouble("set WEIR_TOKEN_FILE to a file that has a token in it, or WEIR_TOKEN to the token: "
                "make one with 'openssl rand -hex 32'");
    else if (listen)
        trouble("make a token:  (umask 077; head -c 32 /dev/urandom | base64 >weir.token)\n"
                "and then:  weir serve --listen %s --token-file check,admin,metrics:weir.token",
                listen);
}

/* The file is linted apart: all that is wrong with it is told at once. */
static int check(struct intention *i)
{
    struct server_settings settings;
    int status = serve_check_file(i->config), worse;
    weir_diag diag;

    if (status == STATUS_TROUBLE) /* its settings are as wrong for who reads them again */
        i->config = NULL;
    if (read_settings(i, &settings, &diag)) {
        if (diag.text[0])
            trouble("%s", diag.text);
        return STATUS_TROUBLE;
    }
    worse = serve_check_settings(&settings);
    offer_token(i, &settings);
    if (status == STATUS_YES)
        status = worse;
    if (status == STATUS_YES)
        serve_print_settings(&settings, &i->arguments);
    settings_done(&settings);
    return status;
}

static int serve(struct intention *i)
{
    const struct settings_source source = { read_settings, i };
    struct server_settings settings;
    weir_diag diag;
    int status = STATUS_TROUBLE;

    if (read_settings(i, &settings, &diag))
        return diag.text[0] ? trouble("%s", diag.text) : STATUS_TROUBLE;
    if (settings_check(&settings, &diag)) {
        trouble("%s", diag.text);
        offer_token(i, &settings);
    } else {
        status = server_run(&settings, &source, i->arguments.argv);
    }
    settings_done(&settings);
    return status;
}

static int run(const struct arguments *a)
{
    struct intention intention;
    int status;

    if (a->operand_count > 0)
        return trouble("serve takes options only, not '%s': did you mean --config?",
                       printable(span_of(a->operands[0])).text);
    intention = intention_of(a);
    if (intention.config && strcmp(intention.config, "-") == 0)
        status = trouble("policies cannot come from standard input: the server must be able to "
                         "read them again");
    else
        status = (a->values[SERVE_CHECK] ? check : serve)(&intention);
    buf_done(&intention.warnings);
    return status;
}

const struct command serve_command = {
    .name = "serve",
    .summary = "Serve HTTP and RESP on one port until SIGTERM.",
    .usage = "[OPTION]...",
    .options = serve_options,
    .option_count = SERVE_OPTION_COUNT,
    .notes = "Options override variables (--max-keys: WEIR_MAX_KEYS); those override the file,\n"
             "which is ./weir.yaml or ./policies.yaml by default.\n",
    .run = run,
};
