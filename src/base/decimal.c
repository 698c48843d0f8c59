/* decimal.c - whole numbers as digits, eight at a time: those that are negative or long. */
#include "base/decimal.h"

/* All eight, with the zeros before them. */
static char *write_eight(char *to, uint64_t number)
{
    decimal_put(to, decimal_digits((uint32_t)number) | UINT64_C(0x3030303030303030));
    return to + 8;
}

char *decimal_write_long(char *to, int64_t number)
{
    uint64_t left = number < 0 ? -(uint64_t)number : (uint64_t)number, first;

    if (number < 0)
        *to++ = '-';
    if (left < DECIMAL_EIGHT)
        return decimal_write(to, (int64_t)left);
    first = left / DECIMAL_EIGHT;
    to = first < DECIMAL_EIGHT ? decimal_write(to, (int64_t)first)
                               : decimal_write_long(to, (int64_t)first);
    return write_eight(to, left % DECIMAL_EIGHT);
}
