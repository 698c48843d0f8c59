/* hex.h - hexadecimal digits, and bytes that are written by two of them. */
#ifndef WEIR_BASE_HEX_H
#define WEIR_BASE_HEX_H

#include <stdbool.h>
#include <stddef.h>

/* -1: it is none. */
static inline int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Returns where it ends; there is no NUL. */
static inline char *hex_write(char *to, const void *bytes, size_t n)
{
    const unsigned char *at = bytes;

    for (size_t i = 0; i < n; i++) {
        *to++ = "0123456789abcdef"[at[i] >> 4];
        *to++ = "0123456789abcdef"[at[i] & 15];
    }
    return to;
}

/* Twice as many digits as bytes, and nothing behind them. */
static inline bool hex_read(const char *text, void *bytes, size_t n)
{
    unsigned char *to = bytes;

    for (size_t i = 0; i < 2 * n; i++) {
        const int digit = hex_digit(text[i]);

        if (digit < 0)
            return false;
        to[i / 2] = (unsigned char)(i % 2 == 0 ? digit << 4 : to[i / 2] | digit);
    }
    return text[2 * n] == '\0';
}

#endif
