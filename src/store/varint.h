/* varint.h - numbers of any size in as few bytes as they need: seven bits a byte. */
#ifndef WEIR_STORE_VARINT_H
#define WEIR_STORE_VARINT_H

#include <stdint.h>

#include "store/history.h"

/* The most that one number, and that the counts of one entry take. */
enum { NUMBER_MOST = 10, COUNTS_MOST = 1 + HISTORY_COUNTS * NUMBER_MOST };

static inline size_t number_put(char *to, uint64_t n)
{
    char *at = to;

    for (; n >= 128; n >>= 7)
        *at++ = (char)(n | 128);
    *at++ = (char)n;
    return (size_t)(at - to);
}

/* Passes over it. False: it does not end, or is too large. */
static inline bool number_take(struct span *from, uint64_t *out)
{
    uint64_t n = 0;

    for (size_t i = 0; i < from->len && i < NUMBER_MOST; i++) {
        const unsigned char byte = (unsigned char)from->at[i];

        if (i == NUMBER_MOST - 1 && byte > 1)
            return false;
        n |= (uint64_t)(byte & 127) << (7 * i);
        if (byte < 128) {
            *out = n;
            *from = (struct span){ from->at + i + 1, from->len - i - 1 };
            return true;
        }
    }
    return false;
}

/* Which of the counts are not zero, and those. */
static inline size_t counts_put(char *to, const uint64_t counts[HISTORY_COUNTS])
{
    size_t len = 1;

    to[0] = 0;
    for (int i = 0; i < HISTORY_COUNTS; i++)
        if (counts[i] > 0) {
            to[0] = (char)(to[0] | 1 << i);
            len += number_put(to + len, counts[i]);
        }
    return len;
}

static inline bool counts_take(struct span *from, uint64_t counts[HISTORY_COUNTS])
{
    unsigned char which;

    if (from->len == 0)
        return false;
    which = (unsigned char)*from->at;
    *from = (struct span){ from->at + 1, from->len - 1 };
    for (int i = 0; i < HISTORY_COUNTS; i++) {
        counts[i] = 0;
        if ((which & 1 << i) && !number_take(from, &counts[i]))
            return false;
    }
    return which >> HISTORY_COUNTS == 0;
}

#endif
