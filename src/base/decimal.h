/* decimal.h - whole numbers as digits, eight at a time. */
#ifndef WEIR_BASE_DECIMAL_H
#define WEIR_BASE_DECIMAL_H

#include <stdint.h>
#include <string.h>

enum { DECIMAL_MOST = 20 }; /* bytes of a number, with its sign */

#define DECIMAL_EIGHT UINT32_C(100000000) /* the first number of more digits than that */

/* Eight digits as the bytes of a word, the first of them lowest. Each step splits what stands in
 * the parts of the word in two: by 100, then by 10, with a product and a shift for each division. */
static inline uint64_t decimal_digits(uint32_t number)
{
    const uint64_t fours = number / 10000 | (uint64_t)(number % 10000) << 32;
    const uint64_t hundreds = (fours * 10486 >> 20) & UINT64_C(0x7f0000007f);
    const uint64_t pairs = hundreds | (fours - hundreds * 100) << 16;
    const uint64_t tens = (pairs * 103 >> 10) & UINT64_C(0x000f000f000f000f);

    return tens | (pairs - tens * 10) << 8;
}

static inline void decimal_put(char *to, uint64_t bytes)
{
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    bytes = __builtin_bswap64(bytes);
#endif
    memcpy(to, &bytes, sizeof bytes);
}

char *decimal_write_long(char *to, int64_t number); /* for decimal_write() */

/* Without a NUL. Returns the end. There is room for DECIMAL_MOST bytes, and those behind the end may
 * change. */
static inline char *decimal_write(char *to, int64_t number)
{
    uint64_t digits;
    unsigned zeros;

    if (number >= 0 && number < 10) { /* most are */
        *to = (char)('0' + number);
        return to + 1;
    }
    if (number < 0 || number >= DECIMAL_EIGHT)
        return decimal_write_long(to, number);
    digits = decimal_digits((uint32_t)number);
    zeros = (unsigned)__builtin_ctzll(digits) / 8;
    decimal_put(to, (digits | UINT64_C(0x3030303030303030)) >> 8 * zeros);
    return to + 8 - zeros;
}

#endif
