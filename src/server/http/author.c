/* author.c - who makes a change, for the audit log. */
#include "server/http/author.h"

#include <stdio.h>

#include "server/http/access.h"

static const char *unnamed(const struct server *s)
{
    return tokens_without(s->tokens) & SCOPE_ADMIN ? "a client on this machine"
                                                   : "a holder of the admin token";
}

struct author author_of(const struct exchange *x, const char *claimed)
{
    char token[SETTINGS_MOST_TOKEN_NAME + 1];
    const bool is_claimed = claimed && claimed[0], is_shown = http_token_name(x, token);
    struct author a;

    if (is_claimed && is_shown)
        snprintf(a.text, sizeof a.text, "%s (token %s)", claimed, token);
    else if (is_shown)
        snprintf(a.text, sizeof a.text, "token %s", token);
    else
        snprintf(a.text, sizeof a.text, "%s", is_claimed ? claimed : unnamed(exchange_server(x)));
    return a;
}
