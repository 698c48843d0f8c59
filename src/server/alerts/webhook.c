/* webhook.c - one POST to a webhook, waited for. */
#include "server/alerts/webhook.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/diag.h"
#include "base/url.h"
#include "net/tls.h"
#include "proto/http_response_parser.h"

enum { MOST_REPLY = 64 * 1024 };

struct post {
    struct url url;
    int fd, cancel;
    int64_t deadline; /* ms of the clock that never steps */
    struct tls_context *context;
    struct tls *tls;
    struct buf cipher, in;
    weir_diag *diag;
};

static weir_err fail(struct post *p, const char *why)
{
    return diag_fail(p->diag, WEIR_EIO, "%s port %s: %s", p->url.host, p->url.port, why);
}

/* Until the socket is ready, or there is no use in waiting. */
static weir_err wait_for(struct post *p, short events)
{
    struct pollfd fds[2] = { { .fd = p->fd, .events = events },
                             { .fd = p->cancel, .events = POLLIN } };
    int n;

    do {
        const int64_t left = p->deadline - clock_monotonic_ms();

        if (left <= 0)
            return fail(p, "no answer in time");
        n = poll(fds, 2, (int)left);
    } while (n == 0 || (n < 0 && errno == EINTR));
    if (n < 0)
        return fail(p, strerror(errno));
    return fds[1].revents ? fail(p, "the server ends") : WEIR_OK;
}

/* ---- connecting ----------------------------------------------------------------------------- */

static weir_err connect_to(struct post *p, const struct addrinfo *address)
{
    int why = 0;
    socklen_t len = sizeof why;
    weir_err err = WEIR_OK;

    p->fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (p->fd < 0)
        return fail(p, strerror(errno));
    if (connect(p->fd, address->ai_addr, address->ai_addrlen) != 0)
        why = errno;
    if (why == EINPROGRESS) {
        err = wait_for(p, POLLOUT);
        if (!err && getsockopt(p->fd, SOL_SOCKET, SO_ERROR, &why, &len) != 0)
            why = errno;
    }
    if (!err && why)
        err = fail(p, strerror(why));
    if (err) {
        close(p->fd);
        p->fd = -1;
    }
    return err;
}

static weir_err connect_host(struct post *p)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG };
    struct addrinfo *found;
    const int why = getaddrinfo(p->url.host, p->url.port, &hints, &found);
    weir_err err = WEIR_EIO;

    if (why)
        return fail(p, gai_strerror(why));
    for (const struct addrinfo *at = found; at && err; at = at->ai_next)
        err = connect_to(p, at);
    freeaddrinfo(found);
    return err;
}

/* ---- talking -------------------------------------------------------------------------------- */

static weir_err send_all(struct post *p, struct span bytes)
{
    weir_err err = WEIR_OK;

    while (bytes.len > 0 && !err) {
        const ssize_t n = send(p->fd, bytes.at, bytes.len, MSG_NOSIGNAL);

        if (n > 0)
            bytes = (struct span){ bytes.at + n, bytes.len - (size_t)n };
        else if (errno == EAGAIN)
            err = wait_for(p, POLLOUT);
        else if (errno != EINTR)
            err = fail(p, strerror(errno));
    }
    return err;
}

static weir_err send_cipher(struct post *p)
{
    const weir_err err = send_all(p, buf_span(&p->cipher));

    p->cipher.len = 0;
    return err;
}

static weir_err send_request(struct post *p, struct span request)
{
    weir_diag why;

    if (!p->url.is_tls)
        return send_all(p, request);
    if (tls_client_context_new(&p->context, &why))
        return fail(p, why.text);
    p->tls = tls_new_client(p->context, p->url.host);
    if (!p->tls)
        return fail(p, weir_err_text(WEIR_ENOMEM));
    if (tls_receive(p->tls, (struct span){ 0 }, &p->in, &p->cipher) != TLS_OK ||
        tls_send(p->tls, request, &p->cipher) != TLS_OK)
        return fail(p, tls_problem(p->tls));
    return send_cipher(p);
}

/* Append what has come. *is_end: the other side says no more. */
static weir_err receive_some(struct post *p, bool *is_end)
{
    char bytes[4096];
    enum tls_result result;
    ssize_t n;
    weir_err err = wait_for(p, POLLIN);

    if (err)
        return err;
    n = recv(p->fd, bytes, sizeof bytes, 0);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? WEIR_OK : fail(p, strerror(errno));
    *is_end = n == 0;
    if (!p->tls) {
        buf_add(&p->in, (struct span){ bytes, (size_t)n });
        return WEIR_OK;
    }
    result = n == 0 ? TLS_CLOSED
                    : tls_receive(p->tls, (struct span){ bytes, (size_t)n }, &p->in, &p->cipher);
    *is_end = result == TLS_CLOSED;
    err = send_cipher(p);
    return result == TLS_FAILED ? fail(p, tls_problem(p->tls)) : err;
}

/* Only its status matters, so the body need not have come. */
static weir_err receive_status(struct post *p, int *status)
{
    struct http_reply reply = { 0 };
    const char *why = "";
    size_t consumed;
    bool is_end = false;

    while (reply.status == 0) {
        weir_err err = receive_some(p, &is_end);

        if (err)
            return err;
        if (p->in.failed || p->in.len > MOST_REPLY)
            return fail(p, "the answer is too long");
        if (p->in.len > 0 &&
            http_reply_parse(p->in.at, p->in.len, &reply, &consumed, &why) == PARSE_BAD)
            return fail(p, why);
        if (is_end && reply.status == 0)
            return fail(p, "it closed the connection without an answer");
    }
    *status = reply.status;
    return WEIR_OK;
}

static weir_err talk(struct post *p, const struct buf *request)
{
    int status = 0;
    char text[48];
    weir_err err = request->failed ? fail(p, weir_err_text(WEIR_ENOMEM)) : connect_host(p);

    if (!err)
        err = send_request(p, buf_span(request));
    if (!err)
        err = receive_status(p, &status);
    if (err || (status >= 200 && status < 300))
        return err;
    snprintf(text, sizeof text, "it answers with status %d", status);
    return fail(p, text);
}

weir_err webhook_post(const char *url, struct span body, int cancel, int64_t timeout_ms,
                      weir_diag *diag)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    struct post p = {
        .fd = -1, .cancel = cancel, .deadline = clock_monotonic_ms() + timeout_ms, .diag = diag
    };
    const char *wrong = url_read(span_of(url), &p.url);
    struct buf request;
    weir_err err;

    if (wrong)
        return diag_fail(diag, WEIR_EOPTION, "the webhook is no URL: %s", wrong);
    buf_init(&p.cipher, &usual);
    buf_init(&p.in, &usual);
    buf_init(&request, &usual);
    buf_text(&request, "POST ");
    if (p.url.path.len == 0 || *p.url.path.at != '/')
        buf_byte(&request, '/');
    buf_add(&request, p.url.path);
    buf_text(&request, " HTTP/1.1\r\nHost: ");
    buf_add(&request, p.url.authority);
    buf_printf(&request,
               "\r\nUser-Agent: weir/%s\r\nContent-Type: application/json\r\n"
               "Content-Length: %zu\r\nConnection: close\r\n\r\n",
               weir_version(), body.len);
    buf_add(&request, body);
    err = talk(&p, &request);
    buf_done(&request);
    buf_done(&p.in);
    buf_done(&p.cipher);
    tls_free(p.tls);
    tls_context_unref(p.context);
    if (p.fd >= 0)
        close(p.fd);
    return err;
}
