/* scan.h - finding bytes in a line. */
#ifndef WEIR_REPLAY_SCAN_H
#define WEIR_REPLAY_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* NULL: there is none. */
static inline const char *scan_for(const char *at, const char *end, char c)
{
    return memchr(at, c, (size_t)(end - at));
}

/* The quotation mark that ends the text which begins at `at`; one with an odd number of backslashes
 * before it is part of the text. NULL: there is none. */
static inline const char *scan_quote(const char *at, const char *end)
{
    for (const char *from = at;; from++) {
        const char *slash;

        from = scan_for(from, end, '"');
        if (!from)
            return NULL;
        slash = from;
        while (slash > at && slash[-1] == '\\')
            slash--;
        if ((from - slash) % 2 == 0)
            return from;
    }
}

static inline bool scan_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

#endif
