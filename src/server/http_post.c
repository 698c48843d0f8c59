/* http_post.c - one POST of JSON to another server, waited for. */
#include "server/http_post.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/diag.h"
#include "base/url.h"
#include "net/tls.h"
#include "proto/http_response_parser.h"

struct posting {
    const struct http_post *post;
    struct url url;
    int fd;
    int64_t deadline;            /* ms of the clock that never steps */
    struct tls_context *context; /* of its own, if the post brings none */
    struct tls *tls;
    struct buf cipher, in;
    weir_diag *diag;
};

static weir_err fail(struct posting *p, const char *why)
{
    return diag_fail(p->diag, WEIR_EIO, "%s port %s: %s", p->url.host, p->url.port, why);
}

/* Until the socket is ready, or there is no use in waiting. */
static weir_err wait_for(struct posting *p, short events)
{
    struct pollfd fds[2] = { { .fd = p->fd, .events = events },
                             { .fd = p->post->cancel, .events = POLLIN } };
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

static weir_err connect_to(struct posting *p, const struct addrinfo *address)
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

static weir_err connect_host(struct posting *p)
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

static weir_err send_all(struct posting *p, struct span bytes)
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

static weir_err send_cipher(struct posting *p)
{
    const weir_err err = send_all(p, buf_span(&p->cipher));

    p->cipher.len = 0;
    return err;
}

/* Append what has come. *is_end: the other side says no more. */
static weir_err receive_some(struct posting *p, bool *is_end)
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

/* A request may be longer than what is kept for the end of a handshake. */
static weir_err shake_hands(struct posting *p)
{
    struct tls_context *context = p->post->tls;
    bool is_end = false;
    weir_diag why;
    weir_err err;

    if (!context && tls_client_context_new(NULL, &p->context, &why))
        return fail(p, why.text);
    p->tls = tls_new_client(context ? context : p->context, p->url.host);
    if (!p->tls)
        return fail(p, weir_err_text(WEIR_ENOMEM));
    if (tls_receive(p->tls, (struct span){ 0 }, &p->in, &p->cipher) != TLS_OK)
        return fail(p, tls_problem(p->tls));
    err = send_cipher(p);
    while (!err && !tls_is_connected(p->tls)) {
        err = receive_some(p, &is_end);
        if (!err && is_end)
            err = fail(p, "it closed the connection during the TLS handshake");
    }
    return err;
}

static weir_err send_request(struct posting *p, struct span request)
{
    weir_err err;

    if (!p->url.is_tls)
        return send_all(p, request);
    err = shake_hands(p);
    if (!err && tls_send(p->tls, request, &p->cipher) != TLS_OK)
        err = fail(p, tls_problem(p->tls));
    return err ? err : send_cipher(p);
}

/* A body that is not wanted need not have come. */
static weir_err receive_reply(struct posting *p, bool wants_body, struct http_reply *reply)
{
    const char *why = "";
    enum parse parsed = PARSE_MORE;
    bool is_end = false;
    size_t consumed;

    while (parsed == PARSE_MORE && (reply->status == 0 || (wants_body && !is_end))) {
        weir_err err = receive_some(p, &is_end);

        if (err)
            return err;
        if (p->in.failed || p->in.len > HTTP_POST_MOST_REPLY)
            return fail(p, "the answer is too long");
        if (p->in.len > 0)
            parsed = http_reply_parse(p->in.at, p->in.len, reply, &consumed, &why);
        if (parsed == PARSE_BAD)
            return fail(p, why);
        if (is_end && reply->status == 0)
            return fail(p, "it closed the connection without an answer");
    }
    return WEIR_OK;
}

int64_t http_retry_after_read(struct span value, int64_t now_s)
{
    const char date[] = "%a, %d %b %Y %H:%M:%S GMT";
    char text[64], *end;
    struct tm tm = { 0 };
    int64_t seconds;

    if (value.len == 0 || value.len >= sizeof text)
        return -1;
    memcpy(text, value.at, value.len);
    text[value.len] = '\0';
    if (strspn(text, "0123456789") == value.len)
        return value.len <= 9 ? atoi(text) * INT64_C(1000) : INT64_MAX;
    end = strptime(text, date, &tm);
    if (!end || *end)
        return -1;
    seconds = timegm(&tm) - now_s;
    return seconds > 0 ? seconds * 1000 : 0;
}

static weir_err talk(struct posting *p, const struct buf *request, struct http_post_reply *out,
                     struct buf *body)
{
    struct http_reply reply = { 0 };
    weir_err err = request->failed ? fail(p, weir_err_text(WEIR_ENOMEM)) : connect_host(p);

    if (!err)
        err = send_request(p, buf_span(request));
    if (!err)
        err = receive_reply(p, body != NULL, &reply);
    if (err)
        return err;
    *out = (struct http_post_reply){ reply.status, -1 };
    if (reply.retry_after.at)
        out->retry_after_ms = http_retry_after_read(reply.retry_after, clock_wall_ms() / 1000);
    if (body)
        buf_add(body, reply.body);
    return WEIR_OK;
}

static void write_request(struct buf *out, const struct url *url, const struct http_post *post)
{
    buf_text(out, "POST ");
    if (url->path.len == 0 || *url->path.at != '/')
        buf_byte(out, '/');
    buf_add(out, url->path);
    if (post->path)
        buf_text(out, post->path);
    buf_text(out, " HTTP/1.1\r\nHost: ");
    buf_add(out, url->authority);
    buf_printf(out,
               "\r\nUser-Agent: weir/%s\r\nContent-Type: application/json\r\n"
               "Content-Length: %zu\r\nConnection: close\r\n",
               weir_version(), post->body.len);
    if (post->headers)
        buf_text(out, post->headers);
    buf_text(out, "\r\n");
    buf_add(out, post->body);
}

weir_err http_post_send(const struct http_post *post, struct http_post_reply *reply,
                        struct buf *body, weir_diag *diag)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    struct posting p = {
        .post = post, .fd = -1, .deadline = clock_monotonic_ms() + post->timeout_ms, .diag = diag
    };
    const char *wrong = url_read(span_of(post->url), &p.url);
    struct buf request;
    weir_err err;

    if (wrong)
        return diag_fail(diag, WEIR_EOPTION, "the address is no URL: %s", wrong);
    buf_init(&p.cipher, &usual);
    buf_init(&p.in, &usual);
    buf_init(&request, &usual);
    write_request(&request, &p.url, post);
    err = talk(&p, &request, reply, body);
    buf_done(&request);
    buf_done(&p.in);
    buf_done(&p.cipher);
    tls_free(p.tls);
    tls_context_unref(p.context);
    if (p.fd >= 0)
        close(p.fd);
    return err;
}

weir_err http_post_expect(const struct http_post *post, int status, weir_diag *diag)
{
    struct url url;

    if (status >= 200 && status < 300)
        return WEIR_OK;
    if (url_read(span_of(post->url), &url))
        url = (struct url){ .is_tls = false };
    return diag_fail(diag, WEIR_EIO, "%s port %s: it answers with status %d", url.host, url.port,
                     status);
}

weir_err http_post_deliver(const struct http_post *post, weir_diag *diag)
{
    struct http_post_reply reply;
    weir_err err = http_post_send(post, &reply, NULL, diag);

    return err ? err : http_post_expect(post, reply.status, diag);
}
