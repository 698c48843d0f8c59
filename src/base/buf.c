/* buf.c - bytes that grow, and remember if they once could not. */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/decimal.h"

void buf_init(struct buf *b, const weir_allocator *allocator)
{
    *b = (struct buf){ .allocator = *allocator };
}

void buf_done(struct buf *b)
{
    alloc_free(&b->allocator, b->at);
    *b = (struct buf){ .allocator = b->allocator };
}

char *buf_grow(struct buf *b, size_t more)
{
    size_t room = b->room ? b->room : 64;
    char *at;

    if (b->failed)
        return NULL;
    while (room - b->len <= more) {
        if (room > SIZE_MAX / 4) {
            b->failed = true;
            return NULL;
        }
        room *= 2;
    }
    at = alloc_resize(&b->allocator, b->at, room);
    if (!at) {
        b->failed = true;
        return NULL;
    }
    b->at = at;
    b->room = room;
    return at + b->len;
}

void buf_int(struct buf *b, int64_t number)
{
    char *to = buf_room(b, DECIMAL_MOST);

    if (to)
        buf_wrote(b, (size_t)(decimal_write(to, number) - to));
}

size_t buf_int_later(struct buf *b)
{
    const size_t at = b->len;

    buf_add(b, (struct span){ "         ", BUF_LATER });
    return at;
}

size_t buf_int_known(struct buf *b, size_t at, size_t number)
{
    char *const room = b->at + at;
    size_t left = number, digit = BUF_LATER;

    do
        room[--digit] = (char)('0' + left % 10);
    while ((left /= 10) > 0);
    b->len -= digit;
    memmove(room, room + digit, b->len - at + 1); /* with the NUL behind it */
    return digit;
}

void buf_printf(struct buf *b, const char *format, ...)
{
    va_list args, again;
    int len;

    va_start(args, format);
    va_copy(again, args);
    len = vsnprintf(NULL, 0, format, args);
    if (len >= 0 && buf_room(b, (size_t)len)) {
        vsnprintf(b->at + b->len, (size_t)len + 1, format, again);
        b->len += (size_t)len;
    }
    va_end(again);
    va_end(args);
}
