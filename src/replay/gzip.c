/* gzip.c - files of gzip, also several behind each other. */
#include "replay/decoder.h"

static bool is_gzip(struct span first)
{
    return first.len >= 2 && memcmp(first.at, "\x1f\x8b", 2) == 0;
}

#ifdef WEIR_WITH_ZLIB
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <zlib.h>

static void *open_gzip(void)
{
    z_stream *z = calloc(1, sizeof *z);

    if (z && inflateInit2(z, 16 + MAX_WBITS) != Z_OK) {
        free(z);
        return NULL;
    }
    return z;
}

static void close_gzip(void *state)
{
    if (state)
        (void)inflateEnd(state);
    free(state);
}

static enum decoded run(void *state, struct span *in, char *to, size_t room, size_t *wrote)
{
    z_stream *z = state;
    const uInt given = in->len < INT_MAX ? (uInt)in->len : INT_MAX;
    const uInt space = room < INT_MAX ? (uInt)room : INT_MAX;
    int result;

    z->next_in = (unsigned char *)(uintptr_t)in->at; /* it is only read */
    z->avail_in = given;
    z->next_out = (unsigned char *)to;
    z->avail_out = space;
    result = inflate(z, Z_NO_FLUSH);
    in->at += given - z->avail_in;
    in->len -= given - z->avail_in;
    *wrote = space - z->avail_out;
    if (result == Z_STREAM_END)
        return inflateReset(z) == Z_OK ? DECODED_WHOLE : DECODED_BROKEN;
    return result == Z_OK || result == Z_BUF_ERROR ? DECODED_MORE : DECODED_BROKEN;
}

const struct decoder gzip_decoder = { "gzip", is_gzip, open_gzip, close_gzip, run };
#else
const struct decoder gzip_decoder = { .name = "gzip", .is_for = is_gzip };
#endif
