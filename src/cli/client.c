/* client.c - calls to the HTTP API of a server, one after the other, each waited for. */
#include "cli/client.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/diag.h"
#include "cli/terminal.h"
#include "cli/told.h"
#include "net/tls.h"

bool client_open(struct client *c, const char *url, const char *token_file)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    weir_diag diag;

    *c = (struct client){ .fd = -1, .timeout_ms = CLIENT_TIMEOUT_MS };
    buf_init(&c->out, &usual);
    buf_init(&c->in, &usual);
    buf_init(&c->cipher, &usual);
    if (!server_url_read(&c->url, url ? url : server_url_usual(c->usual_url)))
        return false;
    if (c->url.is_resp) {
        trouble("%s: this command uses HTTP: give http:// or unix:PATH", c->url.text);
        return false;
    }
    if (c->url.is_tls && tls_client_context_new(NULL, &c->tls_context, &diag)) {
        trouble("%s", diag.text);
        return false;
    }
    c->token = server_token_read(token_file);
    return c->token && server_url_resolve(&c->url);
}

static void disconnect(struct client *c)
{
    tls_free(c->tls);
    c->tls = NULL;
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
}

void client_close(struct client *c)
{
    disconnect(c);
    buf_done(&c->out);
    buf_done(&c->in);
    buf_done(&c->cipher);
    tls_context_unref(c->tls_context);
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

enum { ENDED = -1, NOT_HTTP = -2, NO_TLS = -3 }; /* what can go wrong beside errno */

static int send_all(struct client *c, struct span bytes)
{
    while (bytes.len > 0) {
        const ssize_t n = send(c->fd, bytes.at, bytes.len, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno;
        bytes = (struct span){ bytes.at + n, bytes.len - (size_t)n };
    }
    return 0;
}

static int send_cipher(struct client *c)
{
    const int error = send_all(c, buf_span(&c->cipher));

    c->cipher.len = 0;
    return error;
}

/* With TLS, it may be sent only when there is an answer to wait for. */
static int send_request(struct client *c)
{
    c->in.len = 0;
    if (!c->tls)
        return send_all(c, buf_span(&c->out));
    if (tls_receive(c->tls, (struct span){ 0 }, &c->in, &c->cipher) != TLS_OK ||
        tls_send(c->tls, buf_span(&c->out), &c->cipher) != TLS_OK)
        return NO_TLS;
    return send_cipher(c);
}

/* Append what has come. */
static int receive_some(struct client *c)
{
    char bytes[16 * 1024];
    enum tls_result result;
    ssize_t n;
    int error;

    do
        n = recv(c->fd, bytes, sizeof bytes, 0);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno;
    if (n == 0)
        return ENDED;
    if (!c->tls) {
        buf_add(&c->in, (struct span){ bytes, (size_t)n });
        return c->in.failed ? ENOMEM : 0;
    }
    result = tls_receive(c->tls, (struct span){ bytes, (size_t)n }, &c->in, &c->cipher);
    error = send_cipher(c); /* if that fails, why it failed is what matters */
    return result == TLS_FAILED ? NO_TLS : result == TLS_CLOSED && c->in.len == 0 ? ENDED : error;
}

static int receive_reply(struct client *c, const char **why)
{
    size_t consumed;

    for (;;) {
        const int error = receive_some(c);

        if (error == ENDED && c->reply.ends_at_close && c->in.len > 0)
            return 0;
        if (error != 0)
            return error;
        if (c->in.len == 0)
            continue;
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
    switch (error) {
    case NO_TLS:
        diag_set(diag, "cannot reach %s by TLS: %s", c->url.text, tls_problem(c->tls));
        break;
    case ENDED:
        diag_set(diag, "%s closed the connection without an answer", c->url.text);
        break;
    case NOT_HTTP:
        diag_set(diag, "cannot read the answer of %s: %s", c->url.text, why);
        break;
    default:
        server_url_explain(&c->url, error, diag);
    }
    disconnect(c);
    return false;
}

static bool connect_client(struct client *c, weir_diag *diag)
{
    if (c->fd >= 0)
        return true;
    c->cipher.len = 0;
    c->fd = server_url_connect(&c->url, c->timeout_ms, diag);
    if (c->fd < 0)
        return false;
    if (!c->url.is_tls)
        return true;
    c->tls = tls_new_client(c->tls_context, c->url.host);
    return c->tls || refuse(c, ENOMEM, NULL, diag);
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
        if (!connect_client(c, diag))
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
    if (!c->reply.keep_alive)
        disconnect(c);
    return true;
}

/* Where a token would help, or another one. */
static const char *hint_of(const struct client *c)
{
    if (c->reply.status == 401 && !*c->token)
        return "\n"
               "give a token: --token-file FILE, or set WEIR_TOKEN_FILE to the file";
    if (c->reply.status == 401 || (c->reply.status == 403 && *c->token))
        return "\n"
               "give another token: --token-file FILE, or set WEIR_TOKEN_FILE to the file";
    return "";
}

void client_explain(const struct client *c, weir_diag *diag)
{
    json_t *problem = told_read(c->reply.body);
    const char *detail = json_string_value(json_object_get(problem, "detail"));

    if (!detail)
        detail = json_string_value(json_object_get(problem, "title"));
    if (detail)
        diag_set(diag, "%s%s", detail, hint_of(c));
    else
        diag_set(diag, "%s answered with status %d: is it a weir server?", c->url.text,
                 c->reply.status);
    json_decref(problem);
}

bool client_get(struct client *c, const char *path, weir_diag *diag)
{
    if (!client_call(c, "GET", path, (struct span){ "", 0 }, diag))
        return false;
    if (c->reply.status == 200)
        return true;
    client_explain(c, diag);
    return false;
}

void url_add(struct buf *path, const char *text)
{
    for (; *text; text++)
        if (strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._", *text))
            buf_byte(path, *text);
        else
            buf_printf(path, "%%%02X", (unsigned)(unsigned char)*text);
}

void url_add_parameter(struct buf *path, const char *name, const char *value)
{
    if (!value)
        return;
    buf_byte(path, strchr(path->at, '?') ? '&' : '?');
    buf_text(path, name);
    buf_byte(path, '=');
    url_add(path, value);
}

int client_show(const struct arguments *a, const char *server, const char *token_file,
                const char *path, int (*print)(const struct client *c, const struct arguments *a))
{
    struct client client = { .fd = -1 };
    int status = STATUS_TROUBLE;
    weir_diag diag;

    if (client_open(&client, server, token_file))
        status = client_get(&client, path, &diag) ? print(&client, a) : trouble("%s", diag.text);
    client_close(&client);
    return status;
}
