/* reply_run.c - requests that are like one another and come one after the other: asked, answered and
 * written as one.
 *
 * RULES
 *   R1  What is gathered is asked before anything else is, and is not gathered while anything else
 *       waits to be asked: so all is decided in the order in which it came.
 *   R2  All is answered when its commit returns. So until then its policies stand still, and the
 *       request that the others are like is not forgotten.
 *   R3  A run of a few costs more than they do by themselves. So one begins where at least FEW requests
 *       came that are like it, just before or the last time that there were some. */
#include "server/reply_run.h"

#include <stdlib.h>

#include "server/server.h"

enum {
    LONG_ENOUGH = 1536, /* bytes of a reply: then another is begun */
    FEW = 8,
    KEPT_RUNS = 128, /* for reuse; more are given back */
};

/* A reply with one call, for those who write answers: it is of each check in turn. */
struct teller {
    struct reply reply;
    struct call call;
    struct check_room room;
};

/* ---- gathering ----------------------------------------------------------------------------- */

static bool has_teller(struct reply_runs *all)
{
    struct teller *t = all->teller;

    if (t)
        return true;
    all->teller = t = calloc(1, sizeof *t);
    if (!t)
        return false;
    t->reply.first = t->reply.last = &t->call;
    t->reply.keep_alive = true;
    t->call.reply = &t->reply;
    t->call.check.room = &t->room;
    t->call.check.answer = &t->call.answer;
    return true;
}

static struct reply_run *take_free(struct reply_runs *all)
{
    struct reply_run *run = all->free;

    if (!run) {
        run = malloc(sizeof *run);
        if (run)
            run_init(&run->run);
        return run;
    }
    all->free = run->next;
    all->free_count--;
    return run;
}

static void give_back(struct reply_runs *all, struct reply_run *run)
{
    if (all->free_count == KEPT_RUNS) {
        free(run);
        return;
    }
    run->next = all->free;
    all->free = run;
    all->free_count++;
}

/* Where the next one like this goes. NULL: out of memory. */
static struct reply_run *run_for(struct loop *loop, struct reply_like *like)
{
    struct reply_runs *all = &loop->reply_runs;

    if (all->gathered && all->gathered->like == like)
        return all->gathered;
    turn_ask_all(loop); /* R1 */
    all->gathered = has_teller(all) ? take_free(all) : NULL;
    if (!all->gathered)
        return NULL;
    all->gathered->like = like;
    like->runs++;
    run_begin(&all->gathered->run, &like->pattern);
    return all->gathered;
}

static void encode_run(struct reply *r, struct buf *out)
{
    buf_add(out, buf_span(&r->text));
    out->failed = out->failed || r->text.failed;
}

/* The reply of the requests before, if there is nothing in between. NULL: out of memory, the session is
 * ended. */
static struct reply *reply_for(struct session *s)
{
    struct reply *last = s->last;

    if (last && last->encode == encode_run && last->waiting > 0 && last->weight < LONG_ENOUGH)
        return last;
    return reply_begin(s, encode_run);
}

/* R3 */
static bool is_worth_a_run(struct reply_runs *all, struct reply_like *like)
{
    if (all->before != like) {
        reply_runs_break_off(all);
        all->before = like;
        all->in_a_row = 0;
    }
    return ++all->in_a_row > FEW || like->in_a_row >= FEW;
}

bool reply_run_put(struct session *s, struct reply_like *like, const struct pattern_words *words)
{
    struct loop *loop = s->loop;
    struct reply_runs *all = &loop->reply_runs;
    const bool is_worth = is_worth_a_run(all, like);
    struct reply_run *run;
    struct reply *r;

    if (!is_worth || !run_takes(&like->pattern, words->key) || loop_tracing(loop))
        return false;
    run = run_for(loop, like);
    if (!run)
        return false;
    r = reply_for(s);
    if (!r)
        return true;
    reply_add_check(r, like->bytes);
    run->replies[run->run.count] = r;
    run_put(loop->engine, &run->run, words->key);
    if (run_is_full(&run->run))
        reply_runs_ask(loop);
    return true;
}

size_t reply_runs_gathered(const struct loop *loop)
{
    return loop->reply_runs.gathered ? loop->reply_runs.gathered->run.count : 0;
}

/* ---- asking -------------------------------------------------------------------------------- */

static void put_last(struct reply_runs *all, struct reply_run *run)
{
    run->next = NULL;
    if (all->last)
        all->last->next = run;
    else
        all->first = run;
    all->last = run;
}

void reply_runs_ask(struct loop *loop)
{
    struct reply_runs *all = &loop->reply_runs;
    struct turn *t = &loop->turn;
    struct reply_run *run = all->gathered;

    if (!run)
        return;
    run_ask(loop->engine, &t->pending, &run->run, t->pin->visit.current, t->now);
    t->asked += run->run.count;
    all->asked += run->run.count;
    put_last(all, run);
    all->gathered = NULL;
}

/* ---- answering ----------------------------------------------------------------------------- */

static void encode_answer(struct loop *loop, struct reply_like *like, struct teller *teller,
                          struct reply *r)
{
    const size_t before = r->text.len;

    teller->reply.session = r->session;
    teller->reply.resp_version = r->resp_version;
    like->encode(&teller->reply, &r->text);
    like->bytes = r->text.len - before;
    loop->turn.texts += like->bytes;
}

static void answer(struct loop *loop, struct reply_run *run, struct teller *teller)
{
    struct check *check = &teller->call.check;

    teller->reply.deny_status = run->like->deny_status;
    teller->reply.http_minor = run->like->http_minor;
    check->policies = loop->turn.pin->visit.current;
    run_begin_telling(loop->engine, &run->run, check);
    for (size_t i = 0; i < run->run.count; i++) {
        struct reply *r = run->replies[i];

        run_tell(&run->run, i, check);
        observer_run(loop->observer, &loop->runs, check, NULL, loop->turn.now);
        if (!r->session->is_gone)
            encode_answer(loop, run->like, teller, r);
        reply_check_done(r);
    }
    run->like->runs--;
}

void reply_runs_answer(struct loop *loop)
{
    struct reply_runs *all = &loop->reply_runs;

    while (all->first) {
        struct reply_run *run = all->first;

        answer(loop, run, all->teller);
        all->first = run->next;
        give_back(all, run);
    }
    all->last = NULL;
    all->asked = 0;
}

void reply_runs_free(struct loop *loop)
{
    struct reply_runs *all = &loop->reply_runs;

    while (all->free) {
        struct reply_run *run = all->free;

        all->free = run->next;
        free(run);
    }
    free(all->teller);
}
