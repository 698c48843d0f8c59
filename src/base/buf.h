/* buf.h - bytes that grow, and remember if they once could not.
 *
 * Append as often as needed and look at `failed` once at the end. */
#ifndef WEIR_BASE_BUF_H
#define WEIR_BASE_BUF_H

#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/span.h"

struct buf {
    weir_allocator allocator;
    char *at; /* a NUL follows the bytes; NULL before the first append */
    size_t len, room;
    bool failed;
};

void buf_init(struct buf *b, const weir_allocator *allocator);
void buf_done(struct buf *b);

char *buf_grow(struct buf *b, size_t more); /* for buf_room() */

/* Where `more` bytes and a NUL can be written, to be counted by buf_wrote(). NULL: it has
 * failed. */
static inline char *buf_room(struct buf *b, size_t more)
{
    if (b->room - b->len > more && !b->failed) /* false while room is 0 */
        return b->at + b->len;
    return buf_grow(b, more);
}

static inline void buf_wrote(struct buf *b, size_t len)
{
    b->len += len;
    b->at[b->len] = '\0';
}

/* Inline, as most of what is added is a literal, whose length the compiler knows. */
static inline void buf_add(struct buf *b, struct span bytes)
{
    char *to = buf_room(b, bytes.len);

    if (!to)
        return;
    if (bytes.len > 0)
        memcpy(to, bytes.at, bytes.len);
    buf_wrote(b, bytes.len);
}

static inline void buf_text(struct buf *b, const char *text)
{
    buf_add(b, span_of(text));
}

static inline void buf_byte(struct buf *b, char byte)
{
    buf_add(b, (struct span){ &byte, 1 });
}

void buf_int(struct buf *b, int64_t number);

/* Blanks for a length that is not known yet; returns where they are. The number goes there later,
 * and what is too much of them goes: returns how many bytes. Not after a failure. */
enum { BUF_LATER = 9 };
size_t buf_int_later(struct buf *b);
size_t buf_int_known(struct buf *b, size_t at, size_t number);

void buf_printf(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

static inline struct span buf_span(const struct buf *b)
{
    return (struct span){ b->at ? b->at : "", b->len };
}

#endif
