/* decoder.h - what was compressed, as it was before: gzip and zstd.
 *
 * One file a library; a decoder that was not built in has no `open`. */
#ifndef WEIR_REPLAY_DECODER_H
#define WEIR_REPLAY_DECODER_H

#include "base/span.h"

enum decoded {
    DECODED_MORE,  /* call again, with more bytes in or more room */
    DECODED_WHOLE, /* what came so far is complete: the file may end here, or go on */
    DECODED_BROKEN,
};

struct decoder {
    const char *name;
    bool (*is_for)(struct span first); /* the first bytes of a file, or all of a shorter one */
    void *(*open)(void);               /* NULL: out of memory */
    void (*close)(void *state);
    /* Takes from `in` and writes to `to`; *wrote says how much. */
    enum decoded (*run)(void *state, struct span *in, char *to, size_t room, size_t *wrote);
};

extern const struct decoder gzip_decoder, zstd_decoder;

#endif
