/* memory.c - blocks of memory for nghttp2, used again by all connections of a loop.
 *
 * It takes eight for each request, all of them small, and gives them back when the stream is closed. A
 * block has its size in front of it, and goes to the list of that size. */
#include "server/http2/memory.h"

#include <stdlib.h>
#include <string.h>

enum {
    STEP = 64,          /* bytes between two sizes */
    KEPT_BLOCKS = 1024, /* of each size; more are given back */
};

struct block {
    size_t size; /* of what follows, in steps; from MEMORY_SIZES on it is of no list */
    struct block *next;
};

static void *take(struct http2_memory *m, size_t len)
{
    const size_t size = (len + STEP - 1) / STEP;
    struct block *b = size < MEMORY_SIZES ? m->free[size] : NULL;

    if (b) {
        m->free[size] = b->next;
        m->count[size]--;
        return b + 1;
    }
    if (size > SIZE_MAX / STEP - 1)
        return NULL;
    b = malloc(sizeof *b + size * STEP);
    if (!b)
        return NULL;
    b->size = size;
    return b + 1;
}

static void *take_cleared(struct http2_memory *m, size_t n, size_t len)
{
    void *at;

    if (len > 0 && n > SIZE_MAX / 2 / len)
        return NULL;
    at = take(m, n * len);
    if (at)
        memset(at, 0, n * len);
    return at;
}

static void give(struct http2_memory *m, void *at)
{
    struct block *b;

    if (!at)
        return;
    b = (struct block *)at - 1;
    if (b->size >= MEMORY_SIZES || m->count[b->size] >= KEPT_BLOCKS) {
        free(b);
        return;
    }
    b->next = m->free[b->size];
    m->free[b->size] = b;
    m->count[b->size]++;
}

static void *take_more(struct http2_memory *m, void *at, size_t len)
{
    const size_t had = at ? ((struct block *)at - 1)->size * STEP : 0;
    void *more;

    if (at && len <= had)
        return at;
    more = take(m, len);
    if (more && at) {
        memcpy(more, at, had);
        give(m, at);
    }
    return more;
}

void http2_memory_done(struct http2_memory *m)
{
    for (size_t size = 0; size < MEMORY_SIZES; size++)
        while (m->free[size]) {
            struct block *b = m->free[size];

            m->free[size] = b->next;
            free(b);
        }
}

/* ---- as nghttp2 calls it --------------------------------------------------------------------- */

static void *do_malloc(size_t len, void *m)
{
    return take(m, len);
}

static void do_free(void *at, void *m)
{
    give(m, at);
}

static void *do_calloc(size_t n, size_t len, void *m)
{
    return take_cleared(m, n, len);
}

static void *do_realloc(void *at, size_t len, void *m)
{
    return take_more(m, at, len);
}

const struct http2_memory_calls http2_memory_calls = { do_malloc, do_free, do_calloc, do_realloc };
