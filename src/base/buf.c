/* buf.c - bytes that grow, and remember if they once could not. */
#include "base/buf.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void buf_init(struct buf *b, const weir_allocator *allocator)
{
    *b = (struct buf){ .allocator = *allocator };
}

void buf_done(struct buf *b)
{
    alloc_free(&b->allocator, b->at);
    *b = (struct buf){ .allocator = b->allocator };
}

/* Room for `more` bytes and a NUL. */
static bool make_room(struct buf *b, size_t more)
{
    size_t room = b->room ? b->room : 64;
    char *at;

    if (b->failed)
        return false;
    if (b->room - b->len > more) /* also false while room is 0 */
        return true;
    while (room - b->len <= more) {
        if (room > SIZE_MAX / 4) {
            b->failed = true;
            return false;
        }
        room *= 2;
    }
    at = alloc_resize(&b->allocator, b->at, room);
    if (!at) {
        b->failed = true;
        return false;
    }
    b->at = at;
    b->room = room;
    return true;
}

void buf_add(struct buf *b, struct span bytes)
{
    if (!make_room(b, bytes.len))
        return;
    if (bytes.len > 0)
        memcpy(b->at + b->len, bytes.at, bytes.len);
    b->len += bytes.len;
    b->at[b->len] = '\0';
}

void buf_text(struct buf *b, const char *text)
{
    buf_add(b, span_of(text));
}

void buf_int(struct buf *b, int64_t number)
{
    char digits[24];
    int len = snprintf(digits, sizeof digits, "%" PRId64, number);

    buf_add(b, (struct span){ digits, (size_t)len });
}

void buf_printf(struct buf *b, const char *format, ...)
{
    va_list args, again;
    int len;

    va_start(args, format);
    va_copy(again, args);
    len = vsnprintf(NULL, 0, format, args);
    if (len >= 0 && make_room(b, (size_t)len)) {
        vsnprintf(b->at + b->len, (size_t)len + 1, format, again);
        b->len += (size_t)len;
    }
    va_end(again);
    va_end(args);
}
