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

static unsigned count_digits(uint64_t number)
{
    unsigned n = 1;

    for (; number >= 10000; number /= 10000)
        n += 4;
    return n + (number >= 10) + (number >= 100) + (number >= 1000);
}

char *decimal_write(char *to, int64_t number)
{
    uint64_t left = number < 0 ? -(uint64_t)number : (uint64_t)number;
    char *end, *at;

    if (number < 0)
        *to++ = '-';
    end = at = to + count_digits(left);
    for (; left >= 100; left /= 100) {
        at -= 2;
        memcpy(at, pairs + left % 100 * 2, 2);
    }
    if (left >= 10)
        memcpy(at - 2, pairs + left * 2, 2);
    else
        at[-1] = (char)('0' + left);
    return end;
}
