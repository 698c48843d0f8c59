/* client.h - calls to the HTTP API of a server, one after the other, each waited for. */
#ifndef WEIR_CLI_CLIENT_H
#define WEIR_CLI_CLIENT_H

#include "base/buf.h"
#include "cli/server_url.h"
#include "proto/http_response_parser.h"

enum { CLIENT_TIMEOUT_MS = 10 * 1000 }; /* unless a caller sets another after client_open() */

struct client {
    struct server_url url;
    char usual_url[SERVER_URL_USUAL]; /* what `url` borrows if none was given */
    char *token;                      /* "": none */
    int fd;                           /* -1: not connected */
    int64_t timeout_ms;               /* for each thing that is waited for */
    struct tls_context *tls_context;
    struct tls *tls;            /* NULL: plain */
    struct buf out, in, cipher; /* a request, its answer, and what TLS sends */
    struct http_reply reply;    /* to the last call; its body lives until the next one */
};

/* `url` NULL: server_url_usual(); `token_file` NULL: $WEIR_TOKEN_FILE, or $WEIR_TOKEN, or none.
 * Connects when it must. False: it was said on stderr why. */
bool client_open(struct client *c, const char *url, const char *token_file);
void client_close(struct client *c);

/* A call: any answer is one, whatever its status. False: there was none, and the diag says why. */
bool client_call(struct client *c, const char *method, const char *path, struct span body,
                 weir_diag *diag);

/* Of a call that was not answered with 200: what the server said is wrong. */
void client_explain(const struct client *c, weir_diag *diag);

/* Is there what was asked for? If not, the diag says why. */
bool client_get(struct client *c, const char *path, weir_diag *diag);

/* Part of a path or of a query, with escapes where they belong. */
void url_add(struct buf *path, const char *text);

/* `?name=value`, or `&name=value` behind another; NULL: nothing. */
void url_add_parameter(struct buf *path, const char *name, const char *value);

struct arguments;

/* GET this path, and return the exit status that `print` has for the answer. */
int client_show(const struct arguments *a, const char *server, const char *token_file,
                const char *path, int (*print)(const struct client *c, const struct arguments *a));

#endif
