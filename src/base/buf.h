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

void buf_add(struct buf *b, struct span bytes);
void buf_text(struct buf *b, const char *text);
void buf_int(struct buf *b, int64_t number);
void buf_printf(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

static inline struct span buf_span(const struct buf *b)
{
    return (struct span){ b->at ? b->at : "", b->len };
}

#endif
