/* errand.c - a job for a reply that may wait for a disk or a network, in libuv's thread pool. */
#include "server/errand.h"

#include "server/loop.h"

static struct loop *loop_of(const struct errand *e)
{
    return session_loop(e->reply->session);
}

static void run(uv_work_t *work)
{
    struct errand *e = work->data;

    e->run(e);
}

static void ended(uv_work_t *work, int status)
{
    struct errand *e = work->data;
    struct loop *loop = loop_of(e);
    struct reply *reply = e->reply;

    if (e->previous)
        e->previous->next = e->next;
    else
        loop->errands = e->next;
    if (e->next)
        e->next->previous = e->previous;
    e->done(e, status != 0);
    reply_end(reply);
}

void errand_send(struct errand *e, struct reply *reply)
{
    struct loop *loop;

    e->reply = reply;
    e->work.data = e;
    loop = loop_of(e);
    e->previous = NULL;
    e->next = loop->errands;
    if (e->next)
        e->next->previous = e;
    loop->errands = e;
    if (uv_queue_work(&loop->uv, &e->work, run, ended))
        ended(&e->work, UV_ECANCELED);
}

void errands_drop(struct loop *loop)
{
    for (struct errand *e = loop->errands; e; e = e->next)
        uv_cancel((uv_req_t *)&e->work); /* ended() is called in a later turn; busy ones go on */
}
