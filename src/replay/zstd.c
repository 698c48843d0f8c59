/* zstd.c - files of zstd, also several frames behind each other. */
#include "replay/decoder.h"

/* A frame, or one to be passed over, which programs that compress in parallel write first. */
static bool is_zstd(struct span first)
{
    return first.len >= 4 &&
           (memcmp(first.at, "\x28\xb5\x2f\xfd", 4) == 0 ||
            ((first.at[0] & 0xf0) == 0x50 && memcmp(first.at + 1, "\x2a\x4d\x18", 3) == 0));
}

#ifdef WEIR_WITH_ZSTD
#include <zstd.h>

static void *open_zstd(void)
{
    return ZSTD_createDCtx();
}

static void close_zstd(void *state)
{
    (void)ZSTD_freeDCtx(state);
}

static enum decoded run(void *state, struct span *in, char *to, size_t room, size_t *wrote)
{
    ZSTD_inBuffer given = { in->at, in->len, 0 };
    ZSTD_outBuffer space = { to, room, 0 };
    const size_t result = ZSTD_decompressStream(state, &space, &given);

    in->at += given.pos;
    in->len -= given.pos;
    *wrote = space.pos;
    if (ZSTD_isError(result))
        return DECODED_BROKEN;
    return result == 0 ? DECODED_WHOLE : DECODED_MORE;
}

const struct decoder zstd_decoder = { "zstd", is_zstd, open_zstd, close_zstd, run };
#else
const struct decoder zstd_decoder = { .name = "zstd", .is_for = is_zstd };
#endif
