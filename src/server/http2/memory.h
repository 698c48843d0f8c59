/* memory.h - blocks of memory for nghttp2, used again by all connections of a loop. */
#ifndef WEIR_SERVER_HTTP2_MEMORY_H
#define WEIR_SERVER_HTTP2_MEMORY_H

#include <stddef.h>
#include <stdint.h>

enum { MEMORY_SIZES = 9 }; /* up to 512 bytes */

struct block;

struct http2_memory {
    struct block *free[MEMORY_SIZES];
    size_t count[MEMORY_SIZES];
};

void http2_memory_done(struct http2_memory *m); /* when no connection uses it */

extern const struct http2_memory_calls {
    void *(*malloc)(size_t len, void *m);
    void (*free)(void *at, void *m);
    void *(*calloc)(size_t n, size_t len, void *m);
    void *(*realloc)(void *at, size_t len, void *m);
} http2_memory_calls;

#endif
