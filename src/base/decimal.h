/* decimal.h - whole numbers as digits, two at a time. */
#ifndef WEIR_BASE_DECIMAL_H
#define WEIR_BASE_DECIMAL_H

#include <stdint.h>

enum { DECIMAL_MOST = 20 }; /* bytes of a number, with its sign */

/* Without a NUL. Returns the end. */
char *decimal_write(char *to, int64_t number);

#endif
