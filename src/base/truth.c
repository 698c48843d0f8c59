/* truth.c - "true" and "false" in the words that people write into variables. */
#include "base/truth.h"

#include <stddef.h>
#include <strings.h>

bool truth_read(const char *text, bool *out)
{
    static const char *const words[] = { "true", "1", "yes", "on", "false", "0", "no", "off" };
    enum { COUNT = sizeof words / sizeof *words };

    for (size_t i = 0; i < COUNT; i++)
        if (strcasecmp(text, words[i]) == 0) {
            *out = i < COUNT / 2;
            return true;
        }
    return false;
}
