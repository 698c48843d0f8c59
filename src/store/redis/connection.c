/* connection.c - a lane's connection to a Redis server, and what goes over it.
 *
 * A batch is one call of a script, or in a cluster one for each slot. Questions about reservations
 * are of another script: so each run of them is a call of its own. They go in a pipeline with what
 * else is to be said: ASKING before a call, WAIT after the last. Replies come in the same order. */
#include "store/redis/connection.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "store/redis/node.h"
#include "store/redis/reserve_codec.h"
#include "store/redis/session.h"
#include "store/redis/split.h"

enum { ROOM = 64 * 1024 };

/* What a reply will be to. */
enum expectation { OF_CALL, OF_RESERVATIONS, OF_WAIT, OF_NOTHING };

struct expected {
    enum expectation what;
    uint16_t from, count; /* of a call: which numbers of its envelope */
};

/* A batch on its way. */
struct envelope {
    uint16_t numbers[BATCH_MOST]; /* of its questions, those of a call side by side */
    size_t open;                  /* replies that are to come */
    bool is_refused;
    enum refusal refusal;
    char why[128];
};

struct connection {
    struct redis_node *node;
    struct link *link;
    struct reactor *reactor;
    struct connect_request *request; /* NULL: it has ended */
    struct redis_stream stream;
    struct watch *watch;
    struct redis_reader *reader;
    struct call_writer writer;
    struct buf out; /* to be sent, from `sent` on */
    size_t sent;
    struct buf expected; /* of struct expected, from `met` bytes on */
    size_t met;
    struct envelope envelopes[BATCHES_ON_LINK]; /* the oldest is at `oldest` */
    size_t oldest, envelope_count;
    bool sends_script[SCRIPT_COUNT]; /* with its next call, as the server does not have it */
    bool is_reading, is_closed;      /* closed while it was read from */
};

/* ---- sending --------------------------------------------------------------------------------- */

/* False: the connection is lost. */
static bool flush(struct connection *c)
{
    while (c->sent < c->out.len) {
        const ssize_t n = redis_stream_write(
            &c->stream, (struct span){ c->out.at + c->sent, c->out.len - c->sent });

        if (n < 0)
            return false;
        if (n == 0)
            break;
        c->sent += (size_t)n;
    }
    if (c->sent == c->out.len)
        c->sent = c->out.len = 0;
    c->reactor->rewatch(c->watch, c->out.len > 0 ? REACTOR_READ | REACTOR_WRITE : REACTOR_READ);
    return true;
}

static void expect(struct connection *c, enum expectation what, size_t from, size_t count)
{
    const struct expected e = { what, (uint16_t)from, (uint16_t)count };

    if (c->met == c->expected.len)
        c->met = c->expected.len = 0;
    buf_add(&c->expected, (struct span){ (const char *)&e, sizeof e });
}

static void say(struct connection *c, const char *const *words, size_t count)
{
    redis_command(&c->out, words, count);
    expect(c, OF_NOTHING, 0, 0);
}

static bool write_call(struct connection *c, struct envelope *e, struct batch *b, size_t from,
                       size_t count)
{
    const struct call call = { b, e->numbers + from, count };
    const bool reserves = b->questions[e->numbers[from]]->reserving;
    const enum script_name script = reserves ? SCRIPT_RESERVE : SCRIPT_JUDGE;
    const struct call_options options = { c->node->common->brings_now, c->sends_script[script] };

    c->sends_script[script] = false;
    e->open++;
    expect(c, reserves ? OF_RESERVATIONS : OF_CALL, from, count);
    return reserves ? reserve_call_write(&c->writer, &call, options, &c->out)
                    : call_write(&c->writer, &call, options, &c->out);
}

/* One call for those of one slot; see split_order(). */
static bool write_calls(struct connection *c, struct envelope *e, struct batch *b)
{
    bool is_written = true;

    split_order(b, e->numbers);
    for (size_t from = 0, to; from < b->count && is_written; from = to) {
        to = split_group_end(b, e->numbers, from);
        if (part_of(b->questions[e->numbers[from]])->is_asking)
            say(c, (const char *[]){ "ASKING" }, 1);
        is_written = write_call(c, e, b, from, to - from);
    }
    return is_written;
}

/* One call for all, but for a change of the script. */
static bool write_few_calls(struct connection *c, struct envelope *e, struct batch *b)
{
    bool is_written = true;

    for (size_t i = 0; i < b->count; i++)
        e->numbers[i] = (uint16_t)i;
    for (size_t from = 0, to = 0; from < b->count && is_written; from = to) {
        while (to < b->count && !b->questions[to]->reserving == !b->questions[from]->reserving)
            to++;
        is_written = write_call(c, e, b, from, to - from);
    }
    return is_written;
}

static void write_wait(struct connection *c, struct envelope *e)
{
    const struct redis_uri *uri = &c->node->common->uri;
    char replicas[24], patience[24];

    snprintf(replicas, sizeof replicas, "%" PRId64, uri->wait_replicas);
    snprintf(patience, sizeof patience, "%" PRId64, uri->deadline);
    redis_command(&c->out, (const char *[]){ "WAIT", replicas, patience }, 3);
    e->open++;
    expect(c, OF_WAIT, 0, 0);
}

static bool send_batch(void *connection, const struct batch *batch)
{
    struct connection *c = connection;
    struct batch *b = (struct batch *)batch; /* whose questions are to be filled in */
    struct envelope *e = &c->envelopes[(c->oldest + c->envelope_count++) % BATCHES_ON_LINK];
    bool is_written;

    e->open = 0;
    e->is_refused = false;
    is_written = c->node->common->refused ? write_calls(c, e, b) : write_few_calls(c, e, b);
    if (c->node->common->uri.wait_replicas > 0)
        write_wait(c, e);
    return is_written && !c->out.failed && !c->expected.failed && flush(c);
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool has(struct span text, const char *word)
{
    return memmem(text.at, text.len, word, strlen(word));
}

static bool begins(struct span text, const char *with)
{
    return text.len >= strlen(with) && memcmp(text.at, with, strlen(with)) == 0;
}

/* Before Redis 7, an error of a command in a script has its code in the middle. */
static enum refusal refusal_of(struct span error)
{
    if (begins(error, "NOSCRIPT") || begins(error, "BUSY ") || begins(error, "LOADING"))
        return REFUSAL_UNDONE;
    if (has(error, "READONLY ") || begins(error, "MASTERDOWN"))
        return REFUSAL_ELSEWHERE;
    return REFUSAL_FINAL;
}

static void refuse(struct envelope *e, enum refusal refusal, struct span why)
{
    e->is_refused = true;
    e->refusal = refusal;
    snprintf(e->why, sizeof e->why, "%.*s", (int)(why.len < 120 ? why.len : 120), why.at);
}

/* In a cluster each question has an outcome of its own; else the batch has. */
static void refuse_call(struct connection *c, struct envelope *e, const struct call *call,
                        enum script_name script, struct span error)
{
    if (begins(error, "NOSCRIPT"))
        c->sends_script[script] = true;
    if (!c->node->common->refused) {
        refuse(e, refusal_of(error), error);
        return;
    }
    for (size_t i = 0; i < call->count; i++)
        if (call->numbers[i] >= call->batch->first)
            c->node->common->refused(c->node, call->batch->questions[call->numbers[i]], error);
}

static void take_call(struct connection *c, struct envelope *e, struct batch *b,
                      const struct expected *met, const struct redis_reply *r)
{
    const struct call call = { b, e->numbers + met->from, met->count };
    const bool reserves = met->what == OF_RESERVATIONS;
    const enum script_name script = reserves ? SCRIPT_RESERVE : SCRIPT_JUDGE;
    const struct span text = redis_reply_text(r);

    if (redis_reply_kind(r) == REPLY_ERROR)
        refuse_call(c, e, &call, script, text);
    else if (!(reserves ? reserve_call_read(text, &call, &c->node->common->allocator)
                        : call_read(text, &call)))
        refuse_call(c, e, &call, script, span_of("the script gave an unexpected answer"));
}

static void take_wait(struct connection *c, struct envelope *e, struct batch *b,
                      const struct redis_reply *r)
{
    const struct call all = { b, e->numbers, b->count };

    if (redis_reply_kind(r) != REPLY_NUMBER)
        refuse_call(c, e, &all, SCRIPT_JUDGE, span_of("WAIT is not available"));
    else if (redis_reply_number(r) < c->node->common->uri.wait_replicas)
        refuse_call(c, e, &all, SCRIPT_JUDGE,
                    span_of("fewer replicas have it than wait_replicas asks for"));
}

static void end_batch(struct connection *c, struct envelope *e)
{
    c->oldest = (c->oldest + 1) % BATCHES_ON_LINK;
    c->envelope_count--;
    if (e->is_refused)
        link_refused(c->link, e->refusal, e->why);
    else
        link_answered(c->link);
}

/* False: nothing has asked for it. */
static bool take_reply(struct connection *c, const struct redis_reply *r)
{
    struct envelope *e = &c->envelopes[c->oldest];
    struct batch *b = link_next(c->link);
    struct expected met;

    if (c->met == c->expected.len)
        return false;
    memcpy(&met, c->expected.at + c->met, sizeof met);
    c->met += sizeof met;
    if (met.what == OF_NOTHING)
        return true;
    if (!b || c->envelope_count == 0)
        return false;
    if (met.what == OF_WAIT)
        take_wait(c, e, b, r);
    else
        take_call(c, e, b, &met, r);
    if (--e->open == 0)
        end_batch(c, e);
    return true;
}

/* False: the connection is lost. */
static bool take_replies(struct connection *c)
{
    while (!c->is_closed) {
        struct redis_reply *r;
        bool is_expected;

        if (!redis_reader_next(c->reader, &r))
            return false;
        if (!r)
            return true;
        is_expected = take_reply(c, r);
        redis_reply_free(r);
        if (!is_expected)
            return false;
    }
    return true;
}

/* False: the connection is lost. */
static bool read_all(struct connection *c)
{
    char room[ROOM];
    ssize_t n;

    do {
        errno = 0;
        n = redis_stream_read(&c->stream, room, sizeof room);
        if (n < 0)
            return false;
        if (n > 0 &&
            (!redis_reader_feed(c->reader, (struct span){ room, (size_t)n }) || !take_replies(c)))
            return false;
    } while (n == sizeof room && !c->is_closed);
    return true;
}

static void free_connection(struct connection *c)
{
    const weir_allocator allocator = c->node->common->allocator;

    redis_stream_close(&c->stream);
    redis_reader_free(c->reader);
    call_writer_done(&c->writer);
    buf_done(&c->out);
    buf_done(&c->expected);
    alloc_free(&allocator, c);
}

static void lose(struct connection *c, const char *why)
{
    struct redis_node *node = c->node;

    link_down(c->link, why);
    if (node->common->lost)
        node->common->lost(node);
}

static void read_connection(void *connection)
{
    struct connection *c = connection;
    bool is_there;

    if (c->is_reading)
        return;
    c->is_reading = true;
    is_there = read_all(c);
    if (!c->is_closed && (!is_there || !flush(c))) {
        const char *why;

        (void)redis_stream_problem(&c->stream, &why);
        lose(c, why);
    }
    c->is_reading = false;
    if (c->is_closed)
        free_connection(c);
}

static void socket_ready(void *ctx, unsigned events)
{
    (void)events;
    read_connection(ctx);
}

/* ---- coming and going ------------------------------------------------------------------------ */

static void connected(void *ctx, void *session, const char *why)
{
    struct connection *c = ctx;

    c->request = NULL;
    if (session) {
        c->stream = redis_session_leave(session);
        c->watch = c->reactor->watch(c->reactor, c->stream.fd, REACTOR_READ, socket_ready, c);
        why = weir_err_text(WEIR_ENOMEM);
    }
    if (c->watch)
        link_up(c->link);
    else
        lose(c, why);
}

static void close_connection(void *connection)
{
    struct connection *c = connection;

    c->reactor->unwatch(c->watch);
    c->watch = NULL;
    connect_request_drop(c->request);
    c->request = NULL;
    if (c->is_reading)
        c->is_closed = true;
    else
        free_connection(c);
}

static void *open_connection(void *backend, struct link *link, struct reactor *reactor)
{
    struct redis_node *node = backend;
    struct redis_common *common = node->common;
    struct connection *c = alloc_zeroed(&common->allocator, sizeof *c);

    if (!c)
        return NULL;
    c->node = node;
    c->link = link;
    c->reactor = reactor;
    c->stream.fd = -1;
    call_writer_init(&c->writer, &common->allocator);
    buf_init(&c->out, &common->allocator);
    buf_init(&c->expected, &common->allocator);
    c->reader = redis_reader_new();
    if (c->reader)
        c->request = connect_request_new(&common->connector, node, reactor, connected, c);
    if (!c->request) {
        free_connection(c);
        return NULL;
    }
    return c;
}

const struct backend_ops redis_connection_ops = {
    .open = open_connection,
    .send = send_batch,
    .read = read_connection,
    .close = close_connection,
};
