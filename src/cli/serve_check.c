/* serve_check.c - `weir serve --check`: what is wrong with what a server is to run by. */
#include "cli/serve_check.h"

#include <stdio.h>
#include <string.h>

#include "base/secret.h"
#include "cli/policy/file.h"
#include "cli/terminal.h"
#include "net/tls.h"
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
        printf("policies     %zu, with %zu rules\n", policies_count(f.set), policy_file_rules(&f));
    policy_file_done(&f);
    return status == STATUS_YES ? STATUS_YES : STATUS_TROUBLE;
}

/* As at the start: nothing of it is kept. */
static int check_files(const struct server_settings *s)
{
    struct tls_context *tls = NULL;
    struct tokens *tokens = NULL;
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
    return status;
}

int serve_check_settings(struct server_settings *s)
{
    int status = STATUS_YES;
    weir_diag diag;

    if (settings_check(s, &diag))
        status = trouble("%s", diag.text);
    if (store_check_uri(s->store, &diag))
        status = trouble("%s", diag.text);
    return check_files(s) == STATUS_YES ? status : STATUS_TROUBLE;
}

static void print_scopes(unsigned scopes)
{
    const char *between = "";

    static const struct {
        unsigned scope;
        const char *name;
    } all[] = { { SCOPE_CHECK, "check" }, { SCOPE_ADMIN, "admin" }, { SCOPE_METRICS, "metrics" } };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (scopes & all[i].scope) {
            printf("%s%s", between, all[i].name);
            between = ",";
        }
}

/* Without a password, nor what is behind a '?', where one may be. */
static void print_store(const char *uri)
{
    const int len = (int)strcspn(uri, "?");
    const char *at = memchr(uri, '@', (size_t)len), *from = strstr(uri, "://");
    const char *colon = at && from && from < at ? memchr(from + 3, ':', (size_t)(at - from - 3))
                                                : NULL;

    if (colon)
        printf("store        %.*s:***%.*s\n", (int)(colon - uri), uri, (int)(uri + len - at), at);
    else
        printf("store        %.*s\n", len, uri);
}

void serve_print_settings(const struct server_settings *s)
{
    printf("config       %s%s\n",
           s->config ? s->config : "none: only limits that come with requests",
           s->config_is_found ? ", found in the working directory" : "");
    print_store(s->store);
    for (size_t i = 0; i < s->listen_count; i++)
        printf("listen       %s\n", s->listen[i]);
    for (size_t i = 0; i < s->token_count; i++) {
        printf("token        ");
        print_scopes(s->tokens[i].scopes);
        printf(":%s\n", s->tokens[i].path);
    }
    if (s->token_count == 0)
        printf("token        none: every client that can connect may do everything\n");
    printf("tls          %s%s%s\n", s->tls_cert ? s->tls_cert : "none",
           s->tls_client_ca ? ", clients by " : "", s->tls_client_ca ? s->tls_client_ca : "");
    if (s->threads > 0)
        printf("threads      %d\n", s->threads);
    else
        printf("threads      one per core\n");
    printf("log          %s\n", s->log_file ? s->log_file : "stderr");
    printf("%sok%s\n", colour(GREEN), colour(PLAIN));
}
