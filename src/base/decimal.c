/* decimal.c - whole numbers as digits, two at a time. */
#include "base/decimal.h"

#include <string.h>

static const char pairs[] = "00010203040506070809"
                            "10111213141516171819"
                            "20212223242526272829"
                            "30313233343536373839"
                            "40414243444546474849"
                            "50515253545556575859"
                            "60616263646566676869"
                            "70717273747576777879"
                            "80818283848586878889"
                            "90919293949596979899";

static const uint64_t powers[] = { 0,
                                   10,
                                   100,
                                   1000,
                                   10000,
                                   100000,
                                   1000000,
                                   10000000,
                                   100000000,
                                   1000000000,
                                   10000000000,
                                   100000000000,
                                   1000000000000,
                                   10000000000000,
                                   100000000000000,
                                   1000000000000000,
                                   10000000000000000,
                                   100000000000000000,
                                   1000000000000000000,
                                   10000000000000000000u };

/* A bit is 0.301 of a digit: that may be one too few, never more. */
static unsigned count_digits(uint64_t number)
{
    const unsigned bits = 64 - (unsigned)__builtin_clzll(number | 1), least = bits * 1233 >> 12;

    return least + (number >= powers[least]);
}

char *decimal_write(char *to, int64_t number)
{
    uint64_t wide = number < 0 ? -(uint64_t)number : (uint64_t)number;
    uint32_t left;
    char *end, *at;

    if (number < 0)
        *to++ = '-';
    end = at = to + count_digits(wide);
    for (; wide > UINT32_MAX; wide /= 100) {
        at -= 2;
        memcpy(at, pairs + wide % 100 * 2, 2);
    }
    for (left = (uint32_t)wide; left >= 100; left /= 100) { /* takes half as many steps */
        at -= 2;
        memcpy(at, pairs + left % 100 * 2, 2);
    }
    if (left >= 10)
        memcpy(at - 2, pairs + left * 2, 2);
    else
        at[-1] = (char)('0' + left);
    return end;
}
