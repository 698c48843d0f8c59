/* reply.c - what a Redis server answers, read from bytes by hiredis. */
#include "store/redis/reply.h"

#include <hiredis/hiredis.h>

enum { BUFFER_KEPT = 64 * 1024 }; /* what the reader may keep for later replies */

struct redis_reader *redis_reader_new(void)
{
    redisReader *r = redisReaderCreate();

    if (r)
        r->maxbuf = BUFFER_KEPT;
    return (struct redis_reader *)r;
}

void redis_reader_free(struct redis_reader *r)
{
    if (r)
        redisReaderFree((redisReader *)r);
}

bool redis_reader_feed(struct redis_reader *r, struct span bytes)
{
    return redisReaderFeed((redisReader *)r, bytes.at, bytes.len) == REDIS_OK;
}

bool redis_reader_next(struct redis_reader *r, struct redis_reply **out)
{
    void *reply = NULL;
    const bool is_fine = redisReaderGetReply((redisReader *)r, &reply) == REDIS_OK;

    *out = reply;
    return is_fine;
}

void redis_reply_free(struct redis_reply *r)
{
    if (r)
        freeReplyObject(r);
}

static const redisReply *inside(const struct redis_reply *r)
{
    return (const redisReply *)r;
}

enum redis_reply_kind redis_reply_kind(const struct redis_reply *r)
{
    switch (inside(r)->type) {
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
        return REPLY_TEXT;
    case REDIS_REPLY_ERROR:
        return REPLY_ERROR;
    case REDIS_REPLY_INTEGER:
        return REPLY_NUMBER;
    case REDIS_REPLY_ARRAY:
        return REPLY_LIST;
    default:
        return REPLY_NIL;
    }
}

struct span redis_reply_text(const struct redis_reply *r)
{
    const enum redis_reply_kind kind = redis_reply_kind(r);

    return kind == REPLY_TEXT || kind == REPLY_ERROR
               ? (struct span){ inside(r)->str, (size_t)inside(r)->len }
               : (struct span){ "", 0 };
}

int64_t redis_reply_number(const struct redis_reply *r)
{
    return redis_reply_kind(r) == REPLY_NUMBER ? inside(r)->integer : 0;
}

size_t redis_reply_count(const struct redis_reply *r)
{
    return redis_reply_kind(r) == REPLY_LIST ? inside(r)->elements : 0;
}

const struct redis_reply *redis_reply_at(const struct redis_reply *r, size_t i)
{
    return (const struct redis_reply *)inside(r)->element[i];
}
