/* protobuf_vector.h - messages in hex, as protoc has written them, for tests of what reads and writes them.
 *
 *     protoc -I proto --encode=envoy.service.ratelimit.v3.RateLimitRequest \
 *         envoy/service/ratelimit/v3/rls.proto <<< 'domain: "shop"' | xxd -p */
#ifndef WEIR_TESTS_PROTOBUF_VECTOR_H
#define WEIR_TESTS_PROTOBUF_VECTOR_H

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "base/span.h"

/* In memory of just its size, so that a sanitizer sees what is read or written beside it. */
static inline struct span message_of(const char *hex)
{
    const size_t len = strlen(hex) / 2;
    char *bytes = malloc(len > 0 ? len : 1);

    assert(bytes);
    for (size_t i = 0; i < len; i++)
        bytes[i] = (char)(hex_digit(hex[2 * i]) << 4 | hex_digit(hex[2 * i + 1]));
    return (struct span){ bytes, len };
}

static inline struct span cut_of(struct span whole, size_t len)
{
    char *bytes = malloc(len > 0 ? len : 1);

    assert(bytes);
    memcpy(bytes, whole.at, len);
    return (struct span){ bytes, len };
}

static inline void message_free(struct span message)
{
    free((char *)message.at);
}

#endif
