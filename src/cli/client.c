/* client.c - calls to the HTTP API of a server, one after the other, each waited for. */
#include "cli/client.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/diag.h"
#include "cli/terminal.h"

bool client_open(struct client *c, const char *url, const char *token_file)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });

    *c = (struct client){ .fd = -1 };
    buf_init(&c->out, &usual);
    buf_init(&c->in, &usual);
    if (!url)
        url = getenv("WEIR_SERVER");
    if (!server_url_read(&c->url, url && *url ? url : SERVER_URL_DEFAULT))
        return false;
    if (c->url.is_tls) {
        trouble("%s: this program speaks no TLS as a client: use http:// or unix:PATH on the "
                "server's machine",
                c->url.text);
        return false;
    }
    if (c->url.is_resp) {
        trouble("%s: this is asked by HTTP: use http:// or unix:PATH", c->url.text);
        return false;
    }
    c->token = server_token_read(token_file);
    return c->token && server_url_resolve(&c->url);
}

static void disconnect(struct client *c)
{
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
    c->in.len = 0;
}

void client_close(struct client *c)
{
    disconnect(c);
    buf_done(&c->out);
    buf_done(&c->in);
    if (c->token)
        explicit_bzero(c->token, strlen(c->token));
    free(c->token);
}

static void write_request(struct client *c, const char *method, const char *path, struct span body)
{
    c->out.len = 0;
    buf_printf(&c->out, "%s %s HTTP/1.1\r\nHost: %s\r\nAccept: application/json\r\n", method, path,
               c->url.name);
    if (*c->token)
        buf_printf(&c->out, "Authorization: Bearer %s\r\n", c->token);
    if (body.len > 0)
        buf_printf(&c->out, "Content-Type: application/json\r\nContent-Length: %zu\r\n", body.len);
    buf_text(&c->out, "\r\n");
    buf_add(&c->out, body);
}

/* 0, or what went wrong. */
static int send_request(struct client *c)
{
    for (size_t sent = 0; sent < c->out.len;) {
        const ssize_t n = send(c->fd, c->out.at + sent, c->out.len - sent, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno;
        sent += (size_t)n;
    }
    return 0;
}

enum { ENDED = -1, NOT_HTTP = -2 }; /* beside errno */

static int receive_reply(struct client *c, const char **why)
{
    size_t consumed;

    c->in.len = 0;
    for (;;) {
        char *room = buf_room(&c->in, 16 * 1024);
        ssize_t n;

        if (!room)
            return ENOMEM;
        n = recv(c->fd, room, 16 * 1024, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno;
        if (n == 0)
            return c->reply.ends_at_close && c->in.len > 0 ? 0 : ENDED;
        buf_wrote(&c->in, (size_t)n);
        switch (http_reply_parse(c->in.at, c->in.len, &c->reply, &consumed, why)) {
        case PARSE_DONE:
            return 0;
        case PARSE_BAD:
            return NOT_HTTP;
        case PARSE_MORE:
            break;
        }
    }
}

static bool refuse(struct client *c, int error, const char *why, weir_diag *diag)
{
    disconnect(c);
    switch (error) {
    case ENDED:
        diag_set(diag, "%s closed the connection without an answer", c->url.text);
        break;
    case NOT_HTTP:
        diag_set(diag, "cannot read the answer of %s: %s", c->url.text, why);
        break;
    default:
        server_url_explain(&c->url, error, diag);
    }
    return false;
}

bool client_call(struct client *c, const char *method, const char *path, struct span body,
                 weir_diag *diag)
{
    const char *why = NULL;
    bool may_repeat = c->fd >= 0 && strcmp(method, "GET") == 0;
    int error;

    write_request(c, method, path, body);
    if (c->out.failed)
        return refuse(c, ENOMEM, NULL, diag);
    for (;;) {
        if (c->fd < 0 && (c->fd = server_url_connect(&c->url, CLIENT_TIMEOUT_MS, diag)) < 0)
            return false;
        c->reply = (struct http_reply){ .status = 0 };
        error = send_request(c);
        if (error == 0)
            error = receive_reply(c, &why);
        /* A server may close a connection that was idle just when it is used again. A check is not
         * repeated: it could have been charged. */
        if (may_repeat && c->in.len == 0 &&
            (error == ENDED || error == EPIPE || error == ECONNRESET)) {
            disconnect(c);
            may_repeat = false;
            continue;
        }
        break;
    }
    if (error != 0)
        return refuse(c, error, why, diag);
    if (!c->reply.keep_alive) {
        close(c->fd);
        c->fd = -1;
    }
    return true;
}

void client_explain(const struct client *c, weir_diag *diag)
{
    json_t *problem = json_loadb(c->reply.body.at, c->reply.body.len, 0, NULL);
    const char *detail = json_string_value(json_object_get(problem, "detail"));

    if (!detail)
        detail = json_string_value(json_object_get(problem, "title"));
    if (detail)
        diag_set(diag, "%s", detail);
    else
        diag_set(diag, "%s answered with status %d: is it a server of weir?", c->url.text,
                 c->reply.status);
    json_decref(problem);
}
