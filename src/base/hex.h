/* hex.h - what a hexadecimal digit stands for. */
#ifndef WEIR_BASE_HEX_H
#define WEIR_BASE_HEX_H

/* -1: it is none. */
static inline int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

#endif
