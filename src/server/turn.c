/* turn.c - the turn of a loop: read, decode, ask, commit, encode, send.
 *
 * run_turn() is the whole way of a request. The steps live in conn_input.c (read), session.c
 * (decode, encode, send), reply.c and the routes and commands (ask), and the engine (commit).
 *
 * RULES
 *   T1  No byte of a reply is sent before the commit behind its checks.
 *   T2  One commit, and so one sync, serves all checks that were asked before it.
 *   T3  A turn sends at most MOST_PAGES pages, and serves a client that pipelines at most
 *       MOST_ROUNDS times and about MOST_NS; then all other connections are read from first.
 *
 * WHY NOT one request after the other: a system call drives code and data out of the processor's
 * caches. With one request a connection, changing between reading, deciding and sending for each
 * costs more than deciding does. */
#include "server/turn.h"

#include <stdlib.h>

#include "base/clock.h"
#include "server/server.h"

enum {
    MOST_ROUNDS = 4,      /* of a turn; then the other connections are read from */
    MOST_PAGES = 8,       /* sent by a turn: for each, the kernel copies it while others wait */
    TIMED = 8,            /* requests of one connection between two looks at the clock */
    MOST_NS = 100 * 1000, /* that one connection may take longer than its first TIMED requests */
    SENT_TOGETHER = 64 * 1024, /* bytes that are encoded before the first is sent */
    KEPT_OUT = 1024 * 1024,    /* a larger buffer of encoded replies is given back */
};

void turn_init(struct turn *t)
{
    const weir_allocator allocator = alloc_or_default((weir_allocator){ 0 });

    buf_init(&t->out, &allocator);
}

void turn_done(struct turn *t)
{
    while (t->free_pins) {
        struct pin *pin = t->free_pins;

        t->free_pins = pin->next;
        free(pin);
    }
    buf_done(&t->out);
}

/* ---- asking -------------------------------------------------------------------------------- */

static struct pin *new_pin(struct loop *loop)
{
    struct pin *pin = loop->turn.free_pins;

    if (pin)
        loop->turn.free_pins = pin->next;
    else
        pin = malloc(sizeof *pin);
    if (!pin)
        return NULL;
    *pin = (struct pin){
        .visit = published_enter(&loop->server->weir->policies),
        .calls = 1, /* the turn itself */
        .began_ns = clock_monotonic_ns(),
    };
    if (pin->visit.current)
        pin->edition = policies_edition(pin->visit.current);
    return pin;
}

void turn_end_pin(struct loop *loop, struct pin *pin)
{
    published_leave(&loop->server->weir->policies, pin->visit);
    pin->next = loop->turn.free_pins;
    loop->turn.free_pins = pin;
}

bool turn_begin_asking(struct loop *loop)
{
    const weir *w = loop->server->weir;
    struct turn *t = &loop->turn;

    if (t->is_asking)
        return true;
    t->pin = new_pin(loop);
    if (!t->pin)
        return false;
    t->is_asking = true;
    t->tokens = tokens_edition(loop->server->tokens);
    t->now = w->clock(w->clock_ctx);
    return true;
}

static void ask_prepared(struct loop *loop)
{
    struct engine *engine = loop_engine(loop);
    struct turn *t = &loop->turn;

    for (size_t i = 0; i < t->prepared_count && t->prepared_count > 1; i++)
        if (engine_looks_beside(engine, &t->prepared[i]->check))
            engine_prefetch(engine, &t->prepared[i]->check, PREFETCH_BESIDE);
    if (engine->denials)
        t->pending.steady = clock_steady_ms();
    for (size_t i = 0; i < t->prepared_count; i++)
        engine_ask(engine, &t->pending, &t->prepared[i]->check, t->now);
    t->pending.steady = 0; /* what comes later is asked later */
    t->asked += t->prepared_count;
    t->prepared_count = 0;
}

void turn_ask_all(struct loop *loop)
{
    reply_runs_ask(loop); /* R1 of reply_run.c: one of both has nothing to ask */
    ask_prepared(loop);
}

void turn_ask(struct loop *loop, struct call *call)
{
    struct turn *t = &loop->turn;

    if (loop->reply_runs.gathered)
        reply_runs_ask(loop);
    engine_prefetch(loop_engine(loop), &call->check, PREFETCH_PLACE);
    t->prepared[t->prepared_count++] = call;
    if (t->prepared_count == TURN_ASKED_TOGETHER)
        ask_prepared(loop);
}

bool turn_has_asked(const struct loop *loop, const struct call *call)
{
    const struct turn *t = &loop->turn;

    return t->prepared_count == 0 || t->prepared[t->prepared_count - 1] != call;
}

/* Does a commit wait for nothing? Of a shared store that is so if all was answered from leases. */
static bool commits_at_once(const struct loop *loop)
{
    const struct turn *t = &loop->turn;

    return loop_engine(loop)->store->commits_at_once ||
           (t->asked > 0 && t->pin->answered == t->asked);
}

/* Without a commit or a send, this turn would hold too much. */
static bool has_asked_enough(const struct loop *loop)
{
    const struct turn *t = &loop->turn;

    return t->asked >= LOOP_MOST_ASKED || t->texts >= LOOP_MOST_TEXTS ||
           (t->in_flight >= LOOP_MOST_ANSWERED && commits_at_once(loop));
}

/* ---- committing ---------------------------------------------------------------------------- */

static void note_times(struct loop *loop, const struct pin *pin, size_t answered)
{
    const uint64_t now = clock_monotonic_ns();

    struct tracing *tracing = loop_tracing(loop);

    observer_time(loop->observer, now - pin->began_ns, answered);
    if (tracing)
        tracing_decided(tracing, now);
    if (pin->answered == pin->asked)
        observer_commit(loop->observer, now - pin->committed_ns, pin->asked);
}

void turn_note_answered(struct loop *loop, struct pin *pin)
{
    note_times(loop, pin, 1);
}

/* The barrier between the last decision and the first byte of a reply. */
static void commit(struct loop *loop)
{
    struct turn *t = &loop->turn;
    struct pin *pin = t->pin;
    uint64_t before;

    if (!t->is_asking)
        return;
    turn_ask_all(loop);
    before = clock_monotonic_ns();
    pin->asked = t->asked;
    t->asked = 0;
    engine_commit(loop_engine(loop), &t->pending);
    pin->committed_ns = before;
    pin->answered += loop->reply_runs.asked;
    note_times(loop, pin, pin->answered);
    reply_runs_answer(loop);
    observer_end_runs(loop->observer, &loop->runs);
    t->is_asking = false;
    turn_unpin(loop, pin);
}

/* Enough for a commit of their own, while they are in the processor's caches. */
static bool is_worth_a_commit(const struct loop *loop)
{
    const struct turn *t = &loop->turn;

    return t->asked + t->prepared_count + reply_runs_gathered(loop) >= LOOP_DECIDED_TOGETHER &&
           commits_at_once(loop);
}

/* ---- replies ------------------------------------------------------------------------------- */

void turn_send_later(struct loop *loop, struct session *s)
{
    struct turn *t = &loop->turn;

    if (s->will_send)
        return;
    s->will_send = true;
    s->next_to_send = NULL;
    if (t->first)
        t->last->next_to_send = s;
    else
        t->first = s;
    t->last = s;
    if (!t->unencoded)
        t->unencoded = s;
    if (!t->unsent)
        t->unsent = s;
}

static void send_encoded(struct turn *t)
{
    for (; t->unsent != t->unencoded; t->unsent = t->unsent->next_to_send)
        session_send(t->unsent, &t->out);
    t->out.len = 0;
}

/* False: there was none left. */
static bool encode_some(struct turn *t)
{
    for (; t->unencoded && t->out.len < SENT_TOGETHER; t->unencoded = t->unencoded->next_to_send)
        session_encode(t->unencoded, &t->out);
    return t->unsent != t->unencoded;
}

static void encode_early(struct turn *t)
{
    if (t->out.len >= SENT_TOGETHER)
        send_encoded(t);
    encode_some(t);
}

/* What was encoded early goes first: its sessions may have more replies since. */
static void send_early(struct turn *t)
{
    send_encoded(t);
    t->unsent = t->unencoded = t->first;
}

static void resume_sessions(struct turn *t)
{
    struct session *s = t->first, *next;

    t->first = t->last = NULL;
    t->texts = 0;
    if (t->out.room > KEPT_OUT)
        buf_done(&t->out);
    for (; s; s = next) {
        next = s->next_to_send;
        session_resume(s);
    }
}

/* ---- the turn ------------------------------------------------------------------------------ */

bool turn_has_work(const struct loop *loop)
{
    return conn_pool_has_input(&loop->conns) || loop->turn.is_asking || loop->turn.first;
}

/* Has this connection taken so long that others are read from first? */
static bool has_taken_long(size_t served, uint64_t *since)
{
    if (served % TIMED != 0)
        return false;
    if (served == TIMED)
        *since = clock_monotonic_ns();
    return clock_monotonic_ns() - *since > MOST_NS;
}

enum served { SERVED, SERVED_TURN_FULL, SERVED_TOO_LONG };

/* Decode and ask what one connection has sent. */
static enum served serve_one(struct loop *loop, struct conn_input *in)
{
    struct session *s = session_of(in->conn);
    struct request request;
    enum served end = SERVED;
    uint64_t since = 0;
    size_t n = 1;

    for (; end == SERVED && session_decode(s, in, &request); n++) { /* decode */
        session_ask(s, &request);                                   /* ask */
        if (has_asked_enough(loop))
            end = SERVED_TURN_FULL;
        else if (has_taken_long(n, &since))
            end = SERVED_TOO_LONG;
    }
    conn_input_done(in, end != SERVED);
    loop->turn.work.requests += n - 1;
    loop->turn.work.connections++;
    loop->turn.work.served_before += look_again_serves(&loop->look_again, s->id);
    return end;
}

/* A round serves the connections that have bytes, and sends all replies that are ready. That may
 * resume paused connections, whose next requests are for the next round. With no round to go, what
 * has arrived is still taken, and is sent later unless the turn holds too much. After a connection
 * that took too long there is no other round.
 * False: there is more to do. */
static bool run_turn(struct loop *loop, size_t rounds, size_t pages)
{
    struct turn *t = &loop->turn;
    struct conn_pool *conns = &loop->conns;
    struct conn_input in;
    enum served end;

    t->pages_left = pages;
    for (size_t n = 0; conn_pool_has_arrived(conns) || (n < rounds && turn_has_work(loop)); n++) {
        end = SERVED;
        while (end == SERVED && conn_input_next(conns, &in)) { /* read */
            end = serve_one(loop, &in);
            if (is_worth_a_commit(loop)) {
                commit(loop);
                encode_early(t);
            }
        }
        if (rounds == 0 && end == SERVED)
            break;
        commit(loop); /* commit */
        send_early(t);
        while (encode_some(t)) /* encode */
            send_encoded(t);   /* send */
        resume_sessions(t);
        if (end == SERVED_TOO_LONG && rounds < SIZE_MAX)
            rounds = 0;
    }
    return !turn_has_work(loop);
}

void turn_gathered(struct conn_pool *pool)
{
    run_turn(pool->uv->data, 0, MOST_PAGES);
}

bool turn_end(struct loop *loop)
{
    return run_turn(loop, MOST_ROUNDS, MOST_PAGES);
}

void turn_finish(struct loop *loop)
{
    run_turn(loop, SIZE_MAX, SIZE_MAX);
}
