/* serve_check.c - `weir serve --check`: what is wrong with what a server is to run by. */
#include "cli/serve_check.h"

#include <stdio.h>
#include <string.h>

#include "base/secret.h"
#include "cli/policy/file.h"
#include "cli/terminal.h"
#include "engine/handle.h"
#include "net/tls.h"
#include "policy/envoy.h"
#include "server/telemetry/telemetry_config.h"
#include "server/tokens.h"
#include "store/store.h"

int serve_check_file(const char *path)
{
    struct policy_file f = { .path = path };
    weir_diag diag;
    int status;

    if (!path)
        return STATUS_YES;
    if (secret_random(&f.secret, &diag)) /* no hash is shown */
        return trouble("%s", diag.text);
    status = policy_file_lint(&f, true);
    if (status == STATUS_NO)
        policy_file_print_problems(&f);
    else if (status == STATUS_YES)
        printf("%-20s%zu, with %zu rules\n", "policies", policies_count(f.set),
               policy_file_rules(&f));
    policy_file_done(&f);
    return status == STATUS_YES ? STATUS_YES : STATUS_TROUBLE;
}

/* As at the start: nothing of it is kept. */
static int check_files(const struct server_settings *s)
{
    struct tls_context *tls = NULL;
    struct tokens *tokens = NULL;
    struct telemetry_config *telemetry = NULL;
    int status = STATUS_YES;
    weir_diag diag;

    if (tokens_load(s, &tokens, &diag))
        status = trouble("%s", diag.text);
    else if (diag.text[0])
        trouble("warning: %s", diag.text);
    tokens_free(tokens);
    if (s->tls_cert && s->tls_key &&
        tls_context_new(s->tls_cert, s->tls_key, s->tls_client_ca, &tls, &diag))
        status = trouble("%s", diag.text);
    else if (tls && tls_context_warning(tls))
        trouble("warning: %s", tls_context_warning(tls));
    tls_context_unref(tls);
    if (telemetry_config_new(&s->telemetry, "", &telemetry, &diag))
        status = trouble("%s", diag.text);
    else if (diag.text[0])
        trouble("warning: %s", diag.text);
    telemetry_config_free(telemetry);
    return status;
}

/* What a server would count by, without the file that is linted apart. */
static int check_envoy(const struct envoy_settings *e)
{
    const weir_options options = { .flags = WEIR_NO_THREAD | WEIR_IGNORE_ENVIRONMENT };
    const struct envoy_files files = envoy_files_at(e->config, e->merges_domains);
    weir_diag diag;
    weir *w;

    if (!e->config)
        return STATUS_YES;
    if (handle_open(&w, &options, &files, &diag))
        return trouble("%s", diag.text);
    weir_close(w);
    return STATUS_YES;
}

int serve_check_settings(struct server_settings *s)
{
    int status = STATUS_YES;
    weir_diag diag;

    if (s->warnings)
        trouble("warning: %s", s->warnings);
    if (settings_check(s, &diag))
        status = trouble("%s", diag.text);
    if (store_check_uri(s->store, &diag))
        status = trouble("%s", diag.text);
    if (check_envoy(&s->envoy) != STATUS_YES)
        status = STATUS_TROUBLE;
    return check_files(s) == STATUS_YES ? status : STATUS_TROUBLE;
}
