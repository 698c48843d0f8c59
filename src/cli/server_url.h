/* server_url.h - where a server is, as people write it, and a socket to it.
 *
 *     http://HOST[:PORT]  https://HOST[:PORT]  unix:PATH        HTTP
 *     resp://HOST[:PORT]  resp+unix:PATH                        RESP */
#ifndef WEIR_CLI_SERVER_URL_H
#define WEIR_CLI_SERVER_URL_H

#include <stdbool.h>
#include <sys/socket.h>

#include "weir.h"

#define SERVER_URL_DEFAULT "http://127.0.0.1:7878"

enum { SERVER_URL_ADDRESSES = 4, SERVER_URL_USUAL = 320 };

struct server_url {
    const char *text; /* as given */
    bool is_resp, is_tls;
    char host[256]; /* without the brackets of an IPv6 address; "" for a Unix socket */
    char port[8];
    char name[272]; /* HOST[:PORT], for the Host header */

    /* What it stands for; "localhost" is two. */
    struct server_address {
        struct sockaddr_storage socket;
        socklen_t len;
    } addresses[SERVER_URL_ADDRESSES];
    size_t address_count;
};

/* Where the server is if no option says it: $WEIR_SERVER, or an address of $WEIR_LISTEN, which is
 * what the server in the same container listens on, or the default. Returns `room` or a text that
 * lives on. */
const char *server_url_usual(char room[SERVER_URL_USUAL]);

/* Borrows the text. False: it was said on stderr what is wrong. */
bool server_url_read(struct server_url *u, const char *text);
bool server_url_resolve(struct server_url *u);

/* A connected socket that gives up after timeout_ms, or -1: the diag says why. The address that
 * answered is the first one from then on. */
int server_url_connect(struct server_url *u, int64_t timeout_ms, weir_diag *diag);

/* "cannot reach http://…: Connection refused: is the server running?" */
void server_url_explain(const struct server_url *u, int error, weir_diag *diag);

/* The token in the file `path`; if that is NULL, in that of $WEIR_TOKEN_FILE, or $WEIR_TOKEN
 * itself; "" if there is none.
 * Freed by the caller; NULL: it was said why. */
char *server_token_read(const char *path);

#endif
