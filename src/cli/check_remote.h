/* check_remote.h - a limiter that is behind the HTTP API of a server. */
#ifndef WEIR_CLI_CHECK_REMOTE_H
#define WEIR_CLI_CHECK_REMOTE_H

#include "cli/client.h"

struct check_server {
    struct client client;
    struct json_t *answer; /* the last one: names in a weir_answer point into it */
    bool tells_json;       /* what a server says is wrong goes to stdout, too, as JSON */
};

/* See client_open(). */
bool check_server_open(struct check_server *s, const char *url, const char *token_file);
void check_server_close(struct check_server *s);

/* `verb` is the name of a route: check, commit. False: there is no answer, and it was said why. */
bool check_server_ask(struct check_server *s, const char *verb, const weir_request *r,
                      weir_answer *a);

#endif
