/* fuzz_traceparent.c - what is read of a traceparent is what was written in it. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "proto/traceparent.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const unsigned char zeros[TRACE_ID];
    struct traceparent t = { .is_set = true };
    char *exact = malloc(size > 0 ? size : 1), written[TRACEPARENT_LEN];
    bool is_read;

    assert(exact);
    if (size > 0)
        memcpy(exact, data, size);
    is_read = traceparent_read((struct span){ exact, size }, &t);
    assert(is_read == t.is_set);
    if (is_read) {
        assert(size == TRACEPARENT_LEN || (size > TRACEPARENT_LEN && size <= TRACEPARENT_MAX));
        assert(memcmp(t.trace_id, zeros, TRACE_ID) != 0 && memcmp(t.span_id, zeros, SPAN_ID) != 0);
        memcpy(written, exact, 3);
        *hex_write(written + 3, t.trace_id, TRACE_ID) = '-';
        *hex_write(written + 36, t.span_id, SPAN_ID) = '-';
        assert(memcmp(written, exact, 53) == 0);
        assert(t.is_sampled == ((hex_digit(exact[54]) & 1) != 0));
    }
    free(exact);
    return 0;
}
