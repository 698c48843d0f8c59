/* reply.c - requests on their way through the server, and the replies they will get. */
#include "server/reply.h"

#include <stdlib.h>
#include <string.h>

#include "engine/answer.h"
#include "engine/descriptors.h"
#include "engine/tag.h"
#include "server/envoy/ruling.h"
#include "server/http2/http2.h"
#include "server/server.h"

enum {
    KEPT_TEXT = 4096,    /* a longer text is given back with its reply */
    KEPT_REPLIES = 1024, /* for reuse; more are given back */
    CALLS_TOGETHER = 64,
    ANY_REPLY = 64,  /* about how many bytes a reply is, without its text … */
    HTTP_CALL = 384, /* … and the answer to a check */
    RESP_CALL = 128,
};

/* What every request comes through is one function, and what few do is apart from it. */
#define ON_THE_WAY static inline __attribute__((always_inline))
#define APART static __attribute__((noinline))

struct call_block {
    struct call_block *next;
    struct call calls[CALLS_TOGETHER];
    struct check_room rooms[CALLS_TOGETHER];
};

/* ---- replies ----------------------------------------------------------------------------- */

APART struct reply *make_reply(void)
{
    struct reply *r = malloc(sizeof *r);
    weir_allocator usual;

    if (!r)
        return NULL;
    usual = alloc_or_default((weir_allocator){ 0 });
    buf_init(&r->text, &usual);
    return r;
}

ON_THE_WAY struct reply *new_reply(struct loop *loop)
{
    struct reply *r = loop->free_replies;

    if (!r)
        return make_reply();
    loop->free_replies = r->next;
    loop->free_reply_count--;
    return r;
}

ON_THE_WAY void add_weight(struct reply *r, struct session *s, size_t bytes)
{
    r->weight += bytes;
    s->owed += bytes;
}

ON_THE_WAY size_t weight_of_answer(const struct session *s)
{
    return s->protocol == PROTOCOL_RESP ? RESP_CALL : HTTP_CALL;
}

static void put_last(struct session *s, struct reply *r)
{
    r->next = NULL;
    if (s->last)
        s->last->next = r;
    else
        s->first = r;
    s->last = r;
}

ON_THE_WAY struct reply *begin_reply(struct loop *loop, struct session *s,
                                     void (*encode)(struct reply *, struct buf *))
{
    struct reply *r = new_reply(loop);

    if (!r) {
        session_abort(s);
        return NULL;
    }
    r->session = s;
    r->first = r->last = NULL;
    r->waiting = 1;
    r->encode = encode;
    r->resp_version = s->resp_version;
    r->deny_status = r->http_minor = 0;
    r->keep_alive = true;
    r->is_head_only = r->is_grpc = false;
    r->most_ms = 0;
    r->trace.is_set = false;
    r->ruling = NULL;
    r->checks = 0;
    r->lasting = (struct span){ 0 };
    r->weight = ANY_REPLY;
    s->owed += ANY_REPLY;
    if (s->http2)
        http2_replied(r);
    else
        put_last(s, r);
    s->reply_count++;
    s->was_served = true;
    return r;
}

struct reply *reply_begin(struct session *s, void (*encode)(struct reply *, struct buf *))
{
    return begin_reply(s->loop, s, encode);
}

static void is_complete(struct reply *r)
{
    struct session *s = r->session;

    if (s->protocol == PROTOCOL_HTTP2)
        put_last(s, r);
    if (!s->will_send)
        turn_send_later(s->loop, s);
}

static void waits_for_one_less(struct reply *r)
{
    if (--r->waiting == 0)
        is_complete(r);
}

void reply_end(struct reply *r)
{
    if (!r->encode) {
        add_weight(r, r->session, r->text.len);
        r->session->loop->turn.texts += sizeof *r + r->text.room;
    }
    waits_for_one_less(r);
}

/* The first is what reply_begin() has it wait for. */
void reply_add_check(struct reply *r, size_t bytes)
{
    struct session *s = r->session;

    if (r->checks > 0)
        r->waiting++;
    r->checks++;
    s->loop->turn.in_flight++;
    add_weight(r, s, bytes ? bytes : weight_of_answer(s));
}

void reply_check_done(struct reply *r)
{
    waits_for_one_less(r);
}

static void reuse_text(struct buf *text)
{
    if (text->room > KEPT_TEXT || text->failed)
        buf_done(text);
    text->len = 0;
}

static void free_reply(struct reply *r)
{
    buf_done(&r->text);
    free(r);
}

void reply_take_first(struct session *s)
{
    s->first = s->first->next;
    if (!s->first)
        s->last = NULL;
}

void reply_drop_first(struct session *s)
{
    struct reply *r = s->first;
    struct loop *loop = s->loop;

    reply_take_first(s);
    s->reply_count--;
    s->owed -= r->weight;
    while (r->first) {
        struct call *call = r->first;

        r->first = call->next;
        if (call->problem)
            free(call->problem);
        loop->turn.in_flight--;
        call->next = loop->free_calls;
        loop->free_calls = call;
    }
    loop->turn.in_flight -= r->checks;
    if (r->text.room > 0 || r->text.failed)
        reuse_text(&r->text);
    if (r->ruling)
        ruling_free(r->ruling);
    if (loop->free_reply_count >= KEPT_REPLIES) {
        free_reply(r);
        return;
    }
    r->next = loop->free_replies;
    loop->free_replies = r;
    loop->free_reply_count++;
}

/* ---- calls ------------------------------------------------------------------------------- */

/* From now on it has its answer only, which points at nothing but names, and those stay. When its
 * reply is encoded depends on those before it, and they may wait for any thread: the policies must
 * not wait for that. */
static void let_policies_go(struct call *call)
{
    if (call->pin)
        turn_unpin(call->reply->session->loop, call->pin);
    call->pin = NULL;
}

static void note_unanswered(struct session *s, bool is_grpc, enum problem problem, const char *text)
{
    const weir *w = s->loop->server->weir;
    const enum asked_by by = is_grpc                        ? ASKED_BY_GRPC
                             : s->protocol == PROTOCOL_RESP ? ASKED_BY_RESP
                                                            : ASKED_BY_HTTP;

    observer_unanswered(s->loop->observer, by, problem, text, w->clock(w->clock_ctx));
}

void session_unanswered(struct session *s, enum problem problem, const char *text)
{
    note_unanswered(s, s->is_grpc, problem, text);
}

bool answer_is_of_several(const weir_answer *a)
{
    for (size_t i = 1; i < a->rule_count; i++)
        if (a->rules[i].policy != a->rules[0].policy)
            return true;
    return false;
}

const char *call_problem(const struct call *call)
{
    return call->problem ? call->problem : weir_err_text(call->answer.err);
}

bool call_tag(const struct call *call, size_t i, char tag[TAG_HEX + 1])
{
    const struct key *tags = call->check.room->tags;

    if (!call->wants_tag || (tags[i].low == 0 && tags[i].high == 0))
        return false;
    tag_write(tags[i], tag);
    return true;
}

static void count_unanswered(const struct call *call)
{
    if (verb_decides(call->check.verb) && !call->check.peek)
        note_unanswered(call->reply->session, call->reply->is_grpc, problem_of(call->answer.err),
                        call_problem(call));
}

/* One that has no answer, or is traced, or whose tags are wanted. */
APART void answered_specially(struct call *call, struct loop *loop)
{
    struct tracing *tracing = loop_tracing(loop);
    struct check *check = &call->check;
    const struct traceparent *trace = NULL;

    if (check->answer->err) {
        const char *why = answer_why(check);

        if (why)
            call->problem = strdup(why);
        count_unanswered(call);
        return;
    }
    if (tracing)
        trace = tracing_answer(tracing, loop_engine(loop), check, &call->reply->trace,
                               call->pin->began_ns);
    observer_run(loop->observer, &loop->runs, check, trace, loop->turn.now);
    if (call->wants_tag)
        check_note_tags(loop_engine(loop), check);
}

static void answered(struct check *check)
{
    struct call *call = check->ctx;
    struct reply *r = call->reply;
    struct loop *loop = r->session->loop;

    if (check->answer->err || call->wants_tag || loop_tracing(loop))
        answered_specially(call, loop);
    else
        observer_run(loop->observer, &loop->runs, check, NULL, loop->turn.now);
    turn_answered(loop, call->pin);
    turn_unpin(loop, call->pin);
    call->pin = NULL;
    waits_for_one_less(r);
}

/* Calls are made many at a time, with the room that few of them need apart: those of a turn are
 * close together. */
APART void make_calls(struct loop *loop)
{
    struct call_block *block = malloc(sizeof *block);

    if (!block)
        return;
    block->next = loop->call_blocks;
    loop->call_blocks = block;
    for (size_t i = CALLS_TOGETHER; i > 0; i--) {
        struct call *call = &block->calls[i - 1];

        call->check.room = &block->rooms[i - 1];
        call->check.answer = &call->answer;
        call->check.done = answered;
        call->check.ctx = call;
        call->check.like = NULL;
        call->check.made_by = 0;
        call->next = loop->free_calls;
        loop->free_calls = call;
    }
}

ON_THE_WAY struct call *new_call(struct loop *loop, struct session *s, struct reply *r)
{
    struct call *call;

    if (!loop->free_calls)
        make_calls(loop);
    call = loop->free_calls;
    if (!call) {
        session_abort(s);
        return NULL;
    }
    loop->free_calls = call->next;
    loop->turn.in_flight++;
    call->problem = NULL;
    call->wants_tag = false;
    call->pin = NULL;
    call->reply = r;
    call->next = NULL;
    if (r->last)
        r->last->next = call;
    else
        r->first = call;
    r->last = call;
    r->waiting++;
    add_weight(r, s, weight_of_answer(s));
    return call;
}

APART void refuse(struct call *call, const char *problem)
{
    call->problem = strdup(problem);
    count_unanswered(call);
    let_policies_go(call);
    waits_for_one_less(call->reply);
}

struct call *reply_refuse(struct reply *r, weir_err err, const char *problem)
{
    struct call *call = new_call(r->session->loop, r->session, r);

    if (!call)
        return NULL;
    call->check.verb = VERB_CHECK;
    call->check.peek = false;
    call->check.live = call->check.shadow = 0;
    call->check.made_by = 0;
    call->answer = (weir_answer){ .err = err };
    refuse(call, problem);
    return call;
}

/* One for which the policies stand still: the turn is asking. */
ON_THE_WAY struct call *pinned_call(struct loop *loop, struct session *s, struct reply *r)
{
    struct pin *const pin = loop->turn.pin;
    struct call *call = new_call(loop, s, r);

    if (!call)
        return NULL;
    call->pin = pin;
    pin->calls++;
    call->check.policies = pin->visit.current;
    return call;
}

/* NULL: out of memory, the session is ended. */
static struct call *begin_call(struct reply *r)
{
    struct loop *loop = r->session->loop;

    reply_runs_break_off(&loop->reply_runs);
    if (loop->turn.is_asking || turn_begin_asking(loop))
        return pinned_call(loop, r->session, r);
    session_abort(r->session);
    return NULL;
}

ON_THE_WAY void ask_or_refuse(struct call *call, weir_err err, const weir_diag *diag)
{
    call->check.most_ms = call->reply->most_ms;
    if (err)
        refuse(call, diag->text);
    else
        turn_ask(call->reply->session->loop, call);
}

struct call *reply_ask(struct reply *r, enum verb verb, const struct parsed_request *asked)
{
    struct call *call = begin_call(r);
    weir_diag diag;

    if (!call)
        return NULL;
    call->check.request = &asked->request;
    call->check.verb = verb;
    call->check.peek = asked->peek;
    call->check.is_release = asked->is_release;
    call->wants_tag = asked->wants_tag;
    ask_or_refuse(call, engine_prepare(loop_engine(r->session->loop), &call->check, &diag), &diag);
    return call;
}

void reply_serve_like(struct session *s, struct reply_like *like, const struct pattern_words *words)
{
    struct loop *loop = s->loop;
    struct reply *r;
    struct call *call;
    weir_diag diag;

    if (!like->pattern.may_run)
        reply_runs_break_off(&loop->reply_runs);
    else if (reply_run_put(s, like, words))
        return;
    r = begin_reply(loop, s, like->encode);
    if (!r)
        return;
    call = pinned_call(loop, s, r);
    if (!call) { /* the session is ended when its replies are complete */
        waits_for_one_less(r);
        return;
    }
    r->http_minor = like->http_minor;
    r->deny_status = like->deny_status;
    r->waiting = 1; /* for the call: nothing more will be asked */
    if (engine_prepare_like(loop->engine, &call->check, &like->pattern, words, &loop->known_keys,
                            &diag))
        refuse(call, diag.text);
    else
        turn_ask(loop, call);
}

struct call *reply_ask_cell(struct reply *r, struct span key, const struct rule *rule,
                            int64_t quantity)
{
    struct call *call = begin_call(r);
    weir_diag diag;

    if (!call)
        return NULL;
    call->check.request = NULL;
    ask_or_refuse(call,
                  engine_prepare_cell(loop_engine(r->session->loop), &call->check, key, rule,
                                      quantity, &diag),
                  &diag);
    return call;
}

struct call *reply_ask_counter(struct reply *r, struct span key, const struct rule *rule,
                               enum verb verb, int64_t amount)
{
    struct call *call = begin_call(r);
    weir_diag diag;

    if (!call)
        return NULL;
    call->check.request = NULL;
    ask_or_refuse(call,
                  engine_prepare_counter(loop_engine(r->session->loop), &call->check, key, rule,
                                         verb, amount, &diag),
                  &diag);
    return call;
}

struct call *reply_ask_counter_again(struct reply *r, const struct call *of, enum verb verb,
                                     int64_t amount)
{
    struct call *call = begin_call(r);

    if (!call)
        return NULL;
    call->check.request = NULL;
    engine_prepare_again(&call->check, &of->check, verb, amount);
    call->check.most_ms = r->most_ms;
    turn_ask(r->session->loop, call);
    return call;
}

struct call *reply_ask_limits(struct reply *r, const struct limits_way *way, struct limit_ask *asks,
                              size_t n)
{
    struct call *call = begin_call(r);
    weir_diag diag;

    if (!call)
        return NULL;
    call->check.request = NULL;
    call->check.verb = way->verb;
    call->check.peek = way->peek;
    call->check.is_judged = way->is_judged;
    call->check.has_no_limit = way->has_no_limit;
    call->check.is_release = false;
    ask_or_refuse(
        call, engine_prepare_limits(loop_engine(r->session->loop), &call->check, asks, n, &diag),
        &diag);
    return call;
}

void calls_free(struct loop *loop)
{
    while (loop->call_blocks) {
        struct call_block *block = loop->call_blocks;

        loop->call_blocks = block->next;
        free(block);
    }
    while (loop->free_replies) {
        struct reply *r = loop->free_replies;

        loop->free_replies = r->next;
        free_reply(r);
    }
}
