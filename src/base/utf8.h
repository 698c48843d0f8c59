/* utf8.h - is this text? */
#ifndef WEIR_BASE_UTF8_H
#define WEIR_BASE_UTF8_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/span.h"

/* Valid UTF-8 (RFC 3629: no overlong forms, no surrogates) without a NUL byte. */
bool utf8_is_text(struct span bytes);

/* Eight bytes of ASCII, and no NUL among them? */
static inline bool utf8_are_plain(uint64_t eight)
{
    const uint64_t ones = 0x0101010101010101, highs = 0x8080808080808080;

    return ((eight | (eight - ones)) & highs) == 0;
}

/* The same of 8 to 16 bytes: the first and the last eight, some of which are both. False may be
 * text even so. */
static inline bool utf8_is_plain(struct span bytes)
{
    uint64_t first, last;

    if (bytes.len < sizeof first || bytes.len > 2 * sizeof first)
        return false;
    memcpy(&first, bytes.at, sizeof first);
    memcpy(&last, bytes.at + bytes.len - sizeof last, sizeof last);
    return utf8_are_plain(first) && utf8_are_plain(last);
}

#endif
