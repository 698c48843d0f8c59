/* conn.c - a connection: bytes in, bytes out, time limits and back pressure.
 *
 * IN   libuv reads into the pool's room, where the bytes of several connections gather: to read
 *      them all and then take them all is quicker. bytes() takes whole requests from there; only an
 *      unfinished one is copied, to `rest`. While the connection is paused or choked nothing is
 *      read, so what is kept is at most one room and one unfinished request.
 * OUT  is tried at once. What the socket does not take is copied and sent by libuv; once more than
 *      conn_most_unsent() waits, the connection is choked until all of it is sent.
 * TIME a request must be whole request_timeout after its first byte; between two of them, and while
 *      something is sent, idle_timeout may pass: for a stranger no more than request_timeout. */
#include "net/conn.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum {
    LINGER_MS = 1000,        /* how long the other side has to end as well … */
    HURRIED_LINGER_MS = 100, /* … and in a hurry: more than a round trip */
    KEEP_ALIVE_S = 60,       /* of TCP: finds peers that vanished */
    TLS_HANDSHAKE = 22,      /* the first byte of a record that begins a session */
};

/* ---- closing ----------------------------------------------------------------------------- */

static void closed(uv_handle_t *handle)
{
    struct conn *c = handle->data;

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
    uv_close(&c->handle, closed);
}

void conn_expire_in(struct conn *c, int64_t ms)
{
    c->deadline = uv_now(c->pool->uv) + (uint64_t)ms;
}

/* ---- writing ----------------------------------------------------------------------------- */

static void send_unsent(struct conn *c);
static void read_or_not(struct conn *c);
static void feed_rest(struct conn *c);

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
    read_or_not(c); /* and pass over what comes */
}

static void all_sent(struct conn *c)
{
    buf_done(&c->sending);
    buf_done(&c->unsent);
    conn_pool_account(c);
    if (c->closes_when_sent) {
        close_politely(c);
    } else if (c->is_choked) {
        c->is_choked = false;
        feed_rest(c);
    }
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

/* Who is not known has as long to take an answer as to say what it wants. */
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

    if (n < 0 && errno != EAGAIN && errno != ENOBUFS && errno != EINTR) {
        conn_close(c);
        return false;
    }
    cut_front(bytes, &taken);
    cut_front(lasting, &taken);
    return true;
}

/* Not through libuv: write() takes the kernel longer than send(). */
static void write_raw(struct conn *c, struct span bytes, struct span lasting)
{
    if (!c->is_sending && !send_now(c, &bytes, &lasting))
        return;
    if (bytes.len == 0 && lasting.len == 0)
        return;
    buf_add(&c->unsent, c->lasting);
    buf_add(&c->unsent, bytes);
    c->lasting = lasting;
    if (c->unsent.failed) {
        conn_close(c);
        return;
    }
    if (c->unsent.len + c->sending.len > conn_most_unsent(c) || lasting.len > 0)
        c->is_choked = true;
    if (!c->is_sending)
        send_unsent(c);
    conn_pool_account(c);
}

/* What was needed for a moment, and is too large to be kept for the next. */
static void give_back(struct buf *scratch)
{
    if (scratch->room > CONN_KEPT_SCRATCH)
        buf_done(scratch);
}

static void write_encrypted(struct conn *c, struct span bytes)
{
    struct buf *cipher = &c->pool->cipher;

    cipher->len = 0;
    if (tls_send(c->tls, bytes, cipher) != TLS_OK || cipher->failed)
        conn_close(c);
    else if (cipher->len > 0)
        write_raw(c, buf_span(cipher), (struct span){ 0 });
    give_back(cipher);
}

void conn_write_lasting(struct conn *c, struct span bytes, struct span lasting)
{
    if (c->is_closing || c->closes_when_sent || bytes.len + lasting.len == 0)
        return;
    if (!c->tls) {
        write_raw(c, bytes, lasting);
    } else {
        if (bytes.len > 0)
            write_encrypted(c, bytes);
        if (lasting.len > 0 && !c->is_closing)
            write_encrypted(c, lasting);
    }
    if (!c->is_feeding)
        read_or_not(c);
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
    if (!c->is_sending)
        close_politely(c);
}

/* ---- reading ----------------------------------------------------------------------------- */

static bool wants_bytes(const struct conn *c)
{
    return !c->is_paused && !c->is_choked && !c->is_closing;
}

static void give_room(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    struct conn *c = handle->data;

    (void)suggested;
    *out = uv_buf_init(c->pool->room + c->pool->room_used,
                       c->standing == CONN_KNOWN ? CONN_ROOM : CONN_UNKNOWN_ROOM);
}

/* A request must be whole some time after its first byte; bytes of it in between change nothing. A
 * stranger has no longer than that between two of them. */
static void set_deadline(struct conn *c, bool has_begun_anew)
{
    if (conn_holds(c) != c->held)
        conn_pool_account(c);
    if (c->rest.len == 0 && c->standing != CONN_STRANGER)
        conn_expire_in(c, c->pool->idle_timeout_ms);
    else if (c->rest.len == 0)
        conn_expire_in(c, c->pool->request_timeout_ms);
    else if (has_begun_anew)
        conn_expire_in(c, c->pool->request_timeout_ms);
}

static void tell_end(struct conn *c)
{
    if (!c->has_ended || c->has_told_end || c->is_closing)
        return;
    c->has_told_end = true;
    c->pool->events->ended(c);
}

/* Bytes that are in nobody's hands but ours. */
static void feed(struct conn *c, char *at, size_t len)
{
    size_t taken = 0;

    if (c->closes_when_sent)
        return;
    if (wants_bytes(c)) {
        c->is_feeding = true;
        taken = c->pool->events->bytes(c, at, len);
        c->is_feeding = false;
    }
    if (c->is_closing || c->closes_when_sent)
        return;
    if (taken < len) {
        buf_add(&c->rest, (struct span){ at + taken, len - taken });
        if (c->rest.failed) {
            conn_close(c);
            return;
        }
    }
    set_deadline(c, true);
}

static void feed_rest(struct conn *c)
{
    size_t taken;

    while (c->rest.len > 0 && wants_bytes(c) && !c->closes_when_sent) {
        c->is_feeding = true;
        taken = c->pool->events->bytes(c, c->rest.at, c->rest.len);
        c->is_feeding = false;
        if (c->is_closing || c->closes_when_sent)
            return;
        c->rest.len -= taken;
        if (taken > 0 && c->rest.len > 0)
            memmove(c->rest.at, c->rest.at + taken, c->rest.len);
        if (c->rest.len == 0)
            buf_done(&c->rest);
        set_deadline(c, taken > 0);
        if (taken == 0)
            break;
    }
    if (wants_bytes(c))
        tell_end(c);
    read_or_not(c);
}

static void take_plain(struct conn *c, char *at, size_t len)
{
    if (c->rest.len == 0) {
        feed(c, at, len);
        return;
    }
    if (c->closes_when_sent)
        return;
    buf_add(&c->rest, (struct span){ at, len });
    if (c->rest.failed)
        conn_close(c);
    else
        feed_rest(c);
}

static void take_cipher(struct conn *c, const char *at, size_t len)
{
    struct conn_pool *p = c->pool;
    enum tls_result result;

    p->plain.len = p->cipher.len = 0;
    result = tls_receive(c->tls, (struct span){ at, len }, &p->plain, &p->cipher);
    if (p->cipher.len > 0)
        write_raw(c, buf_span(&p->cipher), (struct span){ 0 });
    if (p->plain.failed || p->cipher.failed)
        result = TLS_FAILED;
    if (p->plain.len > 0 && !c->is_closing)
        take_plain(c, p->plain.at, p->plain.len);
    if (result == TLS_FAILED)
        conn_close(c);
    else if (result == TLS_CLOSED)
        c->has_ended = true;
    give_back(&p->plain);
    give_back(&p->cipher);
}

static void sniff(struct conn *c, const char *at)
{
    struct tls_context *context;

    c->has_sniffed = true;
    if (at[0] != TLS_HANDSHAKE)
        return;
    context = c->pool->tls(c->pool);
    if (!context)
        return;
    c->tls = tls_new(context);
    tls_context_unref(context);
    conn_expire_in(c, c->pool->request_timeout_ms);
    if (!c->tls)
        conn_close(c);
}

static void go_on_reading(struct conn *c)
{
    if (c->is_closing)
        return;
    if (c->has_ended && c->closes_when_sent && !c->is_sending)
        conn_close(c);
    else if (wants_bytes(c))
        tell_end(c);
    read_or_not(c);
}

static void take_arrived(struct conn *c)
{
    const size_t len = c->arrived_len;

    c->arrived_len = 0;
    if (!c->has_sniffed && !c->is_closing)
        sniff(c, c->arrived);
    if (c->is_closing)
        return;
    if (c->tls)
        take_cipher(c, c->arrived, len);
    else
        take_plain(c, c->arrived, len);
    go_on_reading(c);
}

void conn_pool_feed(struct conn_pool *p)
{
    struct conn *c = p->first_arrived, *next;

    p->first_arrived = p->last_arrived = NULL;
    for (; c; c = next) {
        next = c->next_arrived;
        take_arrived(c);
    }
    p->room_used = 0;
}

/* What libuv reads of one connection in a row is in one piece. */
static void keep_arrived(struct conn *c, char *at, size_t len)
{
    struct conn_pool *p = c->pool;

    if (c->arrived_len == 0) {
        c->arrived = at;
        c->next_arrived = NULL;
        if (p->last_arrived)
            p->last_arrived->next_arrived = c;
        else
            p->first_arrived = c;
        p->last_arrived = c;
    }
    c->arrived_len += len;
    p->room_used += len;
    if (p->room_used >= CONN_READ_TOGETHER)
        conn_pool_feed(p);
}

static void received(uv_stream_t *stream, ssize_t n, const uv_buf_t *bytes)
{
    struct conn *c = stream->data;

    if (n == 0 || c->is_closing)
        return;
    if (n > 0) {
        keep_arrived(c, bytes->base, (size_t)n);
        return;
    }
    conn_pool_feed(c->pool);
    if (n == UV_EOF)
        c->has_ended = true;
    else
        conn_close(c);
    go_on_reading(c);
}

static void read_or_not(struct conn *c)
{
    const bool should = wants_bytes(c) && !c->has_ended;

    if (c->is_closing || should == c->is_reading)
        return;
    c->is_reading = should;
    if (!should)
        uv_read_stop(&c->stream);
    else if (uv_read_start(&c->stream, give_room, received) != 0)
        conn_close(c);
}

void conn_pause(struct conn *c)
{
    c->is_paused = true;
    if (!c->is_feeding)
        read_or_not(c);
}

void conn_resume(struct conn *c)
{
    c->is_paused = false;
    if (!c->is_feeding)
        feed_rest(c);
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
    conn_expire_in(c, pool->request_timeout_ms);
    if (uv_accept(listener, &c->stream) != 0 || uv_fileno(&c->handle, &c->fd) != 0) {
        conn_close(c);
        return false;
    }
    if (!c->is_local) {
        uv_tcp_nodelay(&c->tcp, 1);
        uv_tcp_keepalive(&c->tcp, 1, KEEP_ALIVE_S);
    }
    note_peer(c);
    read_or_not(c);
    return !c->is_closing;
}
