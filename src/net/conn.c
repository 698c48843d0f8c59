/* conn.c - a connection: accepting, sending, closing. conn_input.c has the way in.
 *
 * Bytes are sent at once, or with the others of the turn by uring.c. What the socket does not take is copied and sent by libuv. Once more
 * than conn_most_unsent() waits, the connection is choked until all of it is sent. */
#include "net/conn.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "net/poller.h"
#include "net/uring.h"

enum {
    LINGER_MS = 1000,        /* how long the other side has to end as well … */
    HURRIED_LINGER_MS = 100, /* … and in a hurry: more than a round trip */
    KEEP_ALIVE_S = 60,       /* of TCP: finds peers that vanished */
};

/* ---- closing ----------------------------------------------------------------------------- */

static void closed(uv_handle_t *handle)
{
    struct conn *c = handle->data;

    conn_input_forget(c);
    conn_pool_leave(c);
    tls_free(c->tls);
    buf_done(&c->rest);
    buf_done(&c->sending);
    buf_done(&c->unsent);
    c->pool->events->closed(c);
}

void conn_close(struct conn *c)
{
    if (c->is_closing)
        return;
    conn_pool_part(c);
    c->is_closing = true;
    if (c->is_reading)
        uring_reconsider(c);
    if (c->is_queued)
        uring_settle_soon(c->pool->uring);
    conn_let_go(c);
}

void conn_let_go(struct conn *c)
{
    if (!c->is_closing || c->is_reading || c->is_queued || c->is_listed ||
        uv_is_closing(&c->handle))
        return;
    poller_remove(c);
    uring_remove(c);
    uv_close(&c->handle, closed);
}

void conn_expire_in(struct conn *c, int64_t ms)
{
    c->deadline = uv_now(c->pool->uv) + (uint64_t)ms;
}

/* ---- writing ----------------------------------------------------------------------------- */

static void send_unsent(struct conn *c);

/* Shut our side first: closing with bytes unread would reset the connection under the last ones
 * that were sent. */
static void half_close(uv_shutdown_t *shutdown, int status)
{
    struct conn *c = shutdown->handle->data;

    (void)status;
    free(shutdown);
    if (c->has_ended)
        conn_close(c);
    else
        conn_expire_in(c, c->pool->is_hurried ? HURRIED_LINGER_MS : LINGER_MS);
}

static void close_politely(struct conn *c)
{
    uv_shutdown_t *shutdown;

    c->is_paused = c->is_choked = false;
    if (c->tls) {
        c->pool->cipher.len = 0;
        tls_shutdown(c->tls, &c->pool->cipher);
        if (c->pool->cipher.len > 0) {
            uv_buf_t last = uv_buf_init(c->pool->cipher.at, (unsigned)c->pool->cipher.len);

            uv_try_write(&c->stream, &last, 1); /* if there is no room, it does without */
        }
    }
    shutdown = malloc(sizeof *shutdown);
    if (!shutdown || uv_shutdown(shutdown, &c->stream, half_close) != 0) {
        free(shutdown);
        conn_close(c);
        return;
    }
    conn_read_or_stop(c); /* what still comes is dropped */
}

static void all_sent(struct conn *c)
{
    buf_done(&c->sending);
    buf_done(&c->unsent);
    conn_pool_account(c);
    if (c->closes_when_sent) {
        close_politely(c);
        return;
    }
    if (c->is_choked) {
        c->is_choked = false;
        conn_input_resume(c);
    }
    c->pool->events->emptied(c);
}

static void sent(uv_write_t *write, int status)
{
    struct conn *c = write->handle->data;

    free(write);
    c->is_sending = false;
    if (c->is_closing)
        return;
    if (status < 0)
        conn_close(c);
    else if (c->unsent.len > 0 || c->lasting.len > 0)
        send_unsent(c);
    else
        all_sent(c);
}

/* A client without a token has as long to read a reply as to send a request. */
static int64_t patience(const struct conn *c)
{
    return c->standing == CONN_KNOWN ? c->pool->idle_timeout_ms : c->pool->request_timeout_ms;
}

static void send_unsent(struct conn *c)
{
    const struct buf was_sent = c->sending;
    uv_write_t *write = malloc(sizeof *write);
    uv_buf_t parts[2];
    unsigned n = 0;

    c->sending = c->unsent;
    c->unsent = was_sent;
    c->unsent.len = 0;
    if (c->sending.len > 0)
        parts[n++] = uv_buf_init(c->sending.at, (unsigned)c->sending.len);
    if (c->lasting.len > 0)
        parts[n++] = uv_buf_init((char *)c->lasting.at, (unsigned)c->lasting.len);
    c->lasting = (struct span){ 0 };
    conn_expire_in(c, patience(c));
    if (!write || uv_write(write, &c->stream, parts, n, sent) != 0) {
        free(write);
        conn_close(c);
    } else {
        c->is_sending = true;
    }
}

static void cut_front(struct span *bytes, size_t *n)
{
    const size_t cut = *n < bytes->len ? *n : bytes->len;

    if (cut == 0)
        return; /* there may be no bytes, and no pointer to add to */
    bytes->at += cut;
    bytes->len -= cut;
    *n -= cut;
}

static bool may_pass(int err)
{
    return err == EAGAIN || err == ENOBUFS || err == EINTR;
}

/* False: the connection is closed. */
static bool send_now(struct conn *c, struct span *bytes, struct span *lasting)
{
    struct iovec parts[2] = { { (char *)bytes->at, bytes->len },
                              { (char *)lasting->at, lasting->len } };
    const struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
    const int flags = MSG_DONTWAIT | MSG_NOSIGNAL;
    const ssize_t n = lasting->len > 0 ? sendmsg(c->fd, &message, flags)
                                       : send(c->fd, bytes->at, bytes->len, flags);
    size_t taken = n > 0 ? (size_t)n : 0;

    if (n < 0 && !may_pass(errno)) {
        conn_close(c);
        return false;
    }
    cut_front(bytes, &taken);
    cut_front(lasting, &taken);
    return true;
}

static void send_later(struct conn *c)
{
    if (c->unsent.failed) {
        conn_close(c);
        return;
    }
    if (c->unsent.len + c->sending.len > conn_most_unsent(c) || c->lasting.len > 0)
        c->is_choked = true;
    if (c->is_queued)
        uring_settle_soon(c->pool->uring);
    else if (!c->is_sending)
        send_unsent(c);
    conn_pool_account(c);
}

/* Not through libuv: write() takes the kernel longer than send(). */
void conn_write_raw(struct conn *c, struct span bytes, struct span lasting)
{
    if (c->pool->uring && !c->is_sending && lasting.len == 0 && uring_send(c, bytes))
        return;
    if (!conn_is_sending(c) && !send_now(c, &bytes, &lasting))
        return;
    if (bytes.len == 0 && lasting.len == 0)
        return;
    buf_add(&c->unsent, c->lasting);
    buf_add(&c->unsent, bytes);
    c->lasting = lasting;
    send_later(c);
}

void conn_taken(struct conn *c)
{
    if (c->unsent.len > 0 || c->lasting.len > 0)
        send_unsent(c);
    else if (c->is_choked || c->closes_when_sent)
        all_sent(c);
}

void conn_taken_in_part(struct conn *c, struct span bytes, int result)
{
    size_t taken = result > 0 ? (size_t)result : 0;
    struct buf behind = c->unsent;

    if (result < 0 && !may_pass(-result)) {
        conn_close(c);
        return;
    }
    cut_front(&bytes, &taken);
    buf_init(&c->unsent, &behind.allocator);
    buf_add(&c->unsent, bytes);
    buf_add(&c->unsent, buf_span(&behind));
    buf_done(&behind);
    send_later(c);
}

static void write_encrypted(struct conn *c, struct span bytes)
{
    struct buf *cipher = &c->pool->cipher;

    cipher->len = 0;
    if (tls_send(c->tls, bytes, cipher) != TLS_OK || cipher->failed)
        conn_close(c);
    else if (cipher->len > 0)
        conn_write_raw(c, buf_span(cipher), (struct span){ 0 });
    conn_trim_scratch(cipher);
}

void conn_write_lasting(struct conn *c, struct span bytes, struct span lasting)
{
    if (c->is_closing || c->closes_when_sent || bytes.len + lasting.len == 0)
        return;
    if (!c->tls) {
        conn_write_raw(c, bytes, lasting);
    } else {
        if (bytes.len > 0)
            write_encrypted(c, bytes);
        if (lasting.len > 0 && !c->is_closing)
            write_encrypted(c, lasting);
    }
    if (!c->is_feeding)
        conn_read_or_stop(c);
}

void conn_write(struct conn *c, struct span bytes)
{
    conn_write_lasting(c, bytes, (struct span){ 0 });
}

void conn_close_when_sent(struct conn *c)
{
    if (c->is_closing || c->closes_when_sent)
        return;
    c->closes_when_sent = true;
    buf_done(&c->rest);
    conn_pool_account(c);
    if (c->is_queued)
        uring_settle_soon(c->pool->uring);
    else if (!c->is_sending)
        close_politely(c);
}

/* ---- accepting --------------------------------------------------------------------------- */

static void note_peer(struct conn *c)
{
    static const unsigned char mapped[12] = { [10] = 0xff, [11] = 0xff };
    struct sockaddr_storage address;
    int len = sizeof address;

    if (c->is_local || uv_tcp_getpeername(&c->tcp, (struct sockaddr *)&address, &len) != 0)
        return;
    if (address.ss_family == AF_INET6) {
        memcpy(c->peer, &((struct sockaddr_in6 *)&address)->sin6_addr, 16);
    } else if (address.ss_family == AF_INET) {
        memcpy(c->peer, mapped, 12);
        memcpy(c->peer + 12, &((struct sockaddr_in *)&address)->sin_addr, 4);
    }
}

/* Clients that came together, as after a restart, are not to come again together. */
static uint64_t age(struct conn_pool *p)
{
    const uint64_t most = (uint64_t)p->most_age_ms;

    p->random ^= p->random << 13; /* xorshift64 */
    p->random ^= p->random >> 7;
    p->random ^= p->random << 17;
    return most - p->random % (most / 10 + 1);
}

bool conn_accept(struct conn *c, struct conn_pool *pool, uv_stream_t *listener)
{
    const weir_allocator allocator = alloc_or_default((weir_allocator){ 0 });

    c->is_local = listener->type == UV_NAMED_PIPE;
    if (c->is_local)
        uv_pipe_init(pool->uv, &c->pipe, 0);
    else
        uv_tcp_init(pool->uv, &c->tcp);
    c->handle.data = c;
    buf_init(&c->rest, &allocator);
    buf_init(&c->sending, &allocator);
    buf_init(&c->unsent, &allocator);
    conn_pool_enter(pool, c);
    c->came = uv_now(pool->uv);
    c->ages = c->came + age(pool);
    conn_expire_in(c, pool->request_timeout_ms);
    if (uv_accept(listener, &c->stream) != 0 || uv_fileno(&c->handle, &c->fd) != 0 ||
        (pool->poller && !poller_add(c))) {
        conn_close(c);
        return false;
    }
    if (!c->is_local) {
        uv_tcp_nodelay(&c->tcp, 1);
        uv_tcp_keepalive(&c->tcp, 1, KEEP_ALIVE_S);
    }
    note_peer(c);
    conn_read_or_stop(c);
    return !c->is_closing;
}
