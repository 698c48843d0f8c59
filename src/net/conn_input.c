/* conn_input.c - the bytes of a connection on their way in, and its deadlines.
 *
 * IN   All is read into the pool's room, where the bytes of several connections gather: to read
 *      from all and then decode all is quicker. conn_input_next() hands them out one connection
 *      after the other. Only an unfinished request is copied, to `rest`. While a connection is
 *      paused or choked nothing is read, so it keeps one room and one unfinished request at most.
 * TIME a request must be whole request_timeout after its first byte. Between two requests, and
 *      while a reply is sent, idle_timeout may pass; for a stranger no more than
 *      request_timeout. */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "net/conn.h"
#include "net/poller.h"
#include "net/uring.h"

enum { TLS_HANDSHAKE = 22 }; /* the first byte of a record that begins a TLS session */

static bool wants_bytes(const struct conn *c)
{
    return !c->is_paused && !c->is_choked && !c->is_resumed && !c->is_closing;
}

/* ---- those that have bytes ----------------------------------------------------------------- */

static struct conn **next_in(const struct conn_queue *q, struct conn *c)
{
    return q == &c->pool->arrived ? &c->next_arrived : &c->next_resumed;
}

static void push(struct conn_queue *q, struct conn *c)
{
    *next_in(q, c) = NULL;
    if (q->last)
        *next_in(q, q->last) = c;
    else
        q->first = c;
    q->last = c;
}

static struct conn *pop(struct conn_queue *q)
{
    struct conn *c = q->first;

    if (!c)
        return NULL;
    q->first = *next_in(q, c);
    if (!q->first)
        q->last = NULL;
    return c;
}

static void queue_rest(struct conn *c)
{
    c->is_resumed = true;
    push(&c->pool->resumed, c);
}

void conn_input_forget(struct conn *c)
{
    struct conn_queue kept = { 0 };
    struct conn *other;

    if (!c->is_resumed)
        return;
    while ((other = pop(&c->pool->resumed)))
        if (other != c)
            push(&kept, other);
    c->pool->resumed = kept;
}

/* ---- reading ------------------------------------------------------------------------------- */

static size_t most_at_once(const struct conn *c)
{
    return c->standing == CONN_KNOWN ? CONN_ROOM : CONN_UNKNOWN_ROOM;
}

static void tell_end(struct conn *c)
{
    if (!c->has_ended || c->has_told_end || c->is_closing)
        return;
    c->has_told_end = true;
    c->pool->events->ended(c);
}

static void go_on_reading(struct conn *c)
{
    if (c->is_closing)
        return;
    if (c->has_ended && c->closes_when_sent && !conn_is_sending(c))
        conn_close(c);
    else if (wants_bytes(c))
        tell_end(c);
    conn_read_or_stop(c);
}

/* What is read of one connection in a row is in one piece. */
static void add_arrived(struct conn *c, size_t len)
{
    struct conn_pool *p = c->pool;

    if (c->arrived_len == 0) {
        c->arrived = p->room + p->room_used;
        push(&p->arrived, c);
    }
    c->arrived_len += len;
    p->room_used += len;
}

static void gather(struct conn_pool *p)
{
    p->events->gathered(p);
    assert(p->room_used == 0); /* else the next read could go beyond the room */
}

void conn_read(struct conn *c)
{
    struct conn_pool *p = c->pool;
    const size_t most = most_at_once(c);
    const ssize_t n = recv(c->fd, p->room + p->room_used, most, MSG_DONTWAIT);
    const bool may_pass = n < 0 && (errno == EAGAIN || errno == EINTR);

    c->has_more = n > 0 ? (size_t)n == most || c->reads_to_end : may_pass && errno == EINTR;
    if (n > 0) {
        add_arrived(c, (size_t)n);
        if (p->room_used >= CONN_READ_TOGETHER)
            gather(p);
    } else if (!may_pass) {
        conn_receive_end(c, n == 0);
    }
}

void conn_receive_end(struct conn *c, bool is_well)
{
    if (c->is_closing)
        return;
    c->pool->events->gathered(c->pool); /* what came before the end */
    if (is_well)
        c->has_ended = true;
    else
        conn_close(c);
    go_on_reading(c);
}

/* Is there room behind its last bytes, for as much as is read at once? */
static bool goes_on(const struct conn *c, size_t len)
{
    const struct conn_pool *p = c->pool;

    return c->arrived_len > 0 && c->arrived + c->arrived_len == p->room + p->room_used &&
           c->arrived_len + len <= most_at_once(c);
}

void conn_receive(struct conn *c, struct span bytes)
{
    struct conn_pool *p = c->pool;

    if (!goes_on(c, bytes.len) && (c->arrived_len > 0 || p->room_used >= CONN_READ_TOGETHER))
        gather(p);
    if (c->is_closing)
        return;
    memcpy(p->room + p->room_used, bytes.at, bytes.len);
    add_arrived(c, bytes.len);
}

bool conn_should_read(const struct conn *c)
{
    return wants_bytes(c) && !c->has_ended;
}

void conn_read_or_stop(struct conn *c)
{
    if (c->pool->poller)
        poller_reconsider(c);
    else if (!c->is_closing && conn_should_read(c) != c->is_reading)
        uring_reconsider(c);
}

void conn_input_resume(struct conn *c)
{
    if (c->rest.len > 0 && !c->closes_when_sent && wants_bytes(c))
        queue_rest(c);
    else if (wants_bytes(c))
        tell_end(c);
    conn_read_or_stop(c);
}

void conn_pause(struct conn *c)
{
    c->is_paused = true;
    if (!c->is_feeding)
        conn_read_or_stop(c);
}

void conn_resume(struct conn *c)
{
    c->is_paused = false;
    if (!c->is_feeding)
        conn_input_resume(c);
}

/* ---- to the session ------------------------------------------------------------------------ */

/* The first byte tells TLS from plain text. */
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

static void decrypt(struct conn_input *in)
{
    struct conn *c = in->conn;
    struct conn_pool *p = c->pool;

    p->plain.len = p->cipher.len = 0;
    in->tls = tls_receive(c->tls, (struct span){ in->at, in->len }, &p->plain, &p->cipher);
    if (p->cipher.len > 0)
        conn_write_raw(c, buf_span(&p->cipher), (struct span){ 0 });
    if (p->plain.failed || p->cipher.failed)
        in->tls = TLS_FAILED;
    in->at = p->plain.at;
    in->len = p->plain.len;
}

/* A request must be whole some time after its first byte; more bytes of it change nothing. A
 * stranger has no longer than that between two requests. */
static void set_deadline(struct conn *c, bool has_begun_anew)
{
    if (conn_holds(c) != c->held)
        conn_pool_account(c);
    if (c->rest.len == 0 && c->standing != CONN_STRANGER)
        conn_expire_in(c, c->pool->idle_timeout_ms);
    else if (c->rest.len == 0 || has_begun_anew)
        conn_expire_in(c, c->pool->request_timeout_ms);
    if (c->due > 0 && c->due < c->deadline)
        c->deadline = c->due;
}

static void cut_rest(struct conn *c, size_t used)
{
    c->rest.len -= used;
    if (used > 0 && c->rest.len > 0)
        memmove(c->rest.at, c->rest.at + used, c->rest.len);
    if (c->rest.len == 0)
        buf_done(&c->rest);
}

static void keep_rest(struct conn_input *in)
{
    struct conn *c = in->conn;

    if (c->is_closing || c->closes_when_sent)
        return;
    if (in->is_rest)
        cut_rest(c, in->used);
    else if (in->used < in->len)
        buf_add(&c->rest, (struct span){ in->at + in->used, in->len - in->used });
    if (c->rest.failed)
        conn_close(c);
    else
        set_deadline(c, !in->is_rest || in->used > 0);
}

static void end_decryption(const struct conn_input *in)
{
    struct conn *c = in->conn;

    if (in->tls == TLS_FAILED)
        conn_close(c);
    else if (in->tls == TLS_CLOSED)
        c->has_ended = true;
    conn_trim_scratch(&c->pool->plain);
    conn_trim_scratch(&c->pool->cipher);
}

void conn_input_done(struct conn_input *in, bool at_once)
{
    struct conn *c = in->conn;

    c->is_feeding = false;
    if (in->len > 0)
        keep_rest(in);
    if (c->tls)
        end_decryption(in);
    if (at_once && c->rest.len > 0 && wants_bytes(c))
        queue_rest(c);
    go_on_reading(c);
}

/* Bytes behind an unfinished request are joined with it. */
static void join_rest(struct conn_input *in)
{
    struct conn *c = in->conn;

    if (c->rest.len == 0 || in->len == 0)
        return;
    buf_add(&c->rest, (struct span){ in->at, in->len });
    if (c->rest.failed)
        conn_close(c);
    in->is_rest = true;
    in->at = c->rest.at;
    in->len = c->rest.len;
}

/* False: nothing of it is for the session now. */
static bool take_arrived(struct conn *c, struct conn_input *in)
{
    *in = (struct conn_input){ .conn = c, .at = c->arrived, .len = c->arrived_len };
    c->arrived_len = 0;
    if (!c->has_sniffed && !c->is_closing)
        sniff(c, in->at);
    if (c->is_closing)
        return false;
    if (c->tls)
        decrypt(in);
    if (!c->is_closing && !c->closes_when_sent)
        join_rest(in);
    c->is_feeding = in->len > 0 && wants_bytes(c) && !c->closes_when_sent;
    if (!c->is_feeding)
        conn_input_done(in, false);
    return c->is_feeding;
}

static bool take_rest(struct conn *c, struct conn_input *in)
{
    c->is_resumed = false;
    *in = (struct conn_input){ .conn = c, .at = c->rest.at, .len = c->rest.len, .is_rest = true };
    c->is_feeding = in->len > 0 && wants_bytes(c) && !c->closes_when_sent;
    if (!c->is_feeding)
        go_on_reading(c);
    return c->is_feeding;
}

bool conn_input_next(struct conn_pool *p, struct conn_input *in)
{
    struct conn *c;

    while ((c = pop(&p->arrived))) {
        if (!p->arrived.first)
            p->room_used =
                0; /* the last of it is handed out: nothing is read before that is used */
        if (take_arrived(c, in))
            return true;
    }
    while ((c = pop(&p->resumed)))
        if (take_rest(c, in))
            return true;
    return false;
}
