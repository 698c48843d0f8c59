/* reply.h - what a Redis server answers, read from bytes. */
#ifndef WEIR_STORE_REDIS_REPLY_H
#define WEIR_STORE_REDIS_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"

struct redis_reader; /* bytes that have come, and the replies in them */
struct redis_reply;

enum redis_reply_kind {
    REPLY_NIL,
    REPLY_TEXT, /* a string or a status */
    REPLY_ERROR,
    REPLY_NUMBER,
    REPLY_LIST,
};

struct redis_reader *redis_reader_new(void); /* NULL: out of memory */
void redis_reader_free(struct redis_reader *r);

/* False: out of memory, or that is no reply; there is no use in going on. */
bool redis_reader_feed(struct redis_reader *r, struct span bytes);
bool redis_reader_next(struct redis_reader *r, struct redis_reply **out); /* NULL: not whole yet */

void redis_reply_free(struct redis_reply *r); /* NULL is fine; parts of a list go with it */
enum redis_reply_kind redis_reply_kind(const struct redis_reply *r);
struct span redis_reply_text(const struct redis_reply *r); /* of a text or an error; else "" */
int64_t redis_reply_number(const struct redis_reply *r);   /* else 0 */
size_t redis_reply_count(const struct redis_reply *r);     /* of a list; else 0 */
const struct redis_reply *redis_reply_at(const struct redis_reply *r, size_t i);

#endif
