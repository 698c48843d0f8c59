/* hiredis.c - asks a server through hiredis: one by one, in a pipeline, and asynchronously.
 *
 *     hiredis_client PORT TOKEN       the server has `pipelined: {limit: 500 …}` and the like
 *
 * Prints what it heard; what it is to be stands in test_clients. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hiredis/adapters/libuv.h>
#include <hiredis/hiredis.h>

enum { QUESTIONS = 1000 };

struct heard {
    int allowed, refused, others;
};

static _Noreturn void fail(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static void note(struct heard *h, const redisReply *r)
{
    if (!r || r->type != REDIS_REPLY_ARRAY || r->elements != 7)
        h->others++;
    else if (r->element[0]->integer == 1)
        h->allowed++;
    else
        h->refused++;
}

static void print(const char *how, const struct heard *h)
{
    printf("%s: %d allowed, %d refused, %d others\n", how, h->allowed, h->refused, h->others);
}

static redisContext *come(int port, const char *token)
{
    redisContext *c = redisConnect("127.0.0.1", port);
    redisReply *r;

    if (!c || c->err)
        fail("cannot connect", c ? c->errstr : "no memory");
    r = redisCommand(c, "AUTH %s", token);
    if (!r || r->type != REDIS_REPLY_STATUS)
        fail("AUTH", r ? r->str : c->errstr);
    freeReplyObject(r);
    return c;
}

static void ask_one_by_one(redisContext *c)
{
    struct heard h = { 0 };

    for (int i = 0; i < 10; i++) {
        redisReply *r = redisCommand(c, "WEIR.CHECK login %s", "192.0.2.1");

        note(&h, r);
        freeReplyObject(r);
    }
    print("one by one", &h);
}

static void ask_in_a_pipeline(redisContext *c)
{
    struct heard h = { 0 };

    for (int i = 0; i < QUESTIONS; i++)
        redisAppendCommand(c, "WEIR.CHECK pipelined %b", "a", (size_t)1);
    for (int i = 0; i < QUESTIONS; i++) {
        void *r = NULL;

        if (redisGetReply(c, &r) != REDIS_OK)
            fail("in a pipeline", c->errstr);
        note(&h, r);
        freeReplyObject(r);
    }
    print("in a pipeline", &h);
}

/* ---- asynchronously ---- */

static int unanswered = QUESTIONS;

static void answered(redisAsyncContext *c, void *reply, void *heard)
{
    note(heard, reply);
    if (--unanswered == 0)
        redisAsyncDisconnect(c);
}

static void ask_asynchronously(int port, const char *token)
{
    redisAsyncContext *c = redisAsyncConnect("127.0.0.1", port);
    struct heard h = { 0 };
    uv_loop_t loop;

    uv_loop_init(&loop);
    if (!c || c->err || redisLibuvAttach(c, &loop) != REDIS_OK)
        fail("cannot connect asynchronously", c ? c->errstr : "no memory");
    redisAsyncCommand(c, NULL, NULL, "AUTH %s", token);
    for (int i = 0; i < QUESTIONS; i++)
        redisAsyncCommand(c, answered, &h, "WEIR.CHECK asynchronous a");
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    print("asynchronously", &h);
}

int main(int argc, char **argv)
{
    redisContext *c;

    if (argc != 3)
        fail("usage", "hiredis_client PORT TOKEN");
    c = come(atoi(argv[1]), argv[2]);
    ask_one_by_one(c);
    ask_in_a_pipeline(c);
    redisFree(c);
    ask_asynchronously(atoi(argv[1]), argv[2]);
    return 0;
}
