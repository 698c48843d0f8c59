/* utf8.c - is this text? */
#include "base/utf8.h"

/* The length of the sequence at `s`, which is not ASCII; 0: not valid. The second byte has
 * narrower bounds after E0, ED, F0 and F4: overlong forms, surrogates, beyond U+10FFFF. */
static size_t sequence_len(const unsigned char *s, size_t left)
{
    unsigned char low = 0x80, high = 0xBF;
    size_t len;

    if (s[0] >= 0xC2 && s[0] <= 0xDF)
        len = 2;
    else if (s[0] >= 0xE0 && s[0] <= 0xEF)
        len = 3;
    else if (s[0] >= 0xF0 && s[0] <= 0xF4)
        len = 4;
    else
        return 0;
    if (left < len)
        return 0;
    if (s[0] == 0xE0)
        low = 0xA0;
    else if (s[0] == 0xED)
        high = 0x9F;
    else if (s[0] == 0xF0)
        low = 0x90;
    else if (s[0] == 0xF4)
        high = 0x8F;
    if (s[1] < low || s[1] > high)
        return 0;
    for (size_t i = 2; i < len; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    return len;
}

static bool is_plain(const unsigned char *at)
{
    uint64_t eight;

    memcpy(&eight, at, 8);
    return utf8_are_plain(eight);
}

/* The same of four to seven bytes: the first four, and the last four, some of which are both. */
static bool is_short_plain(const unsigned char *at, size_t len)
{
    uint32_t first, last;

    memcpy(&first, at, 4);
    memcpy(&last, at + len - 4, 4);
    return utf8_are_plain((uint64_t)first << 32 | last);
}

bool utf8_is_text(struct span bytes)
{
    const unsigned char *at = (const unsigned char *)bytes.at, *end;

    if (bytes.len == 0) /* then the pointer may be NULL */
        return true;
    if (bytes.len >= 4 && bytes.len < 8 && is_short_plain(at, bytes.len))
        return true;
    end = at + bytes.len;
    while (at < end) {
        if (end - at >= 8) {
            if (is_plain(at)) {
                at += 8;
                continue;
            }
        } else if (bytes.len >= 8 && is_plain(end - 8)) { /* looks at some bytes twice */
            return true;
        }
        if (*at == 0)
            return false;
        if (*at < 0x80) {
            at++;
        } else {
            size_t len = sequence_len(at, (size_t)(end - at));

            if (len == 0)
                return false;
            at += len;
        }
    }
    return true;
}
