/* truth.h - "true" and "false" in the words that people write into variables. */
#ifndef WEIR_BASE_TRUTH_H
#define WEIR_BASE_TRUTH_H

#include <stdbool.h>

#define TRUTH_WORDS "true nor false (nor 1, 0, yes, no, on, off)"

/* In upper or lower case. False: it is none of them, and *out is as it was. */
bool truth_read(const char *text, bool *out);

#endif
