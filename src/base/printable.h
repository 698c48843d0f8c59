/* printable.h - text from outside, made fit for a message: short, on one line, printable. */
#ifndef WEIR_BASE_PRINTABLE_H
#define WEIR_BASE_PRINTABLE_H

#include "base/span.h"

struct printable {
    char text[72];
};

/* For printf: `printable(key).text`. What is cut off ends in "..."; control characters and what
 * is not UTF-8 become '?'. */
struct printable printable(struct span text);

/* All of a text likewise, where it stands; and whether that would change nothing. */
void printable_all(char *text, size_t len);
bool is_printable(struct span text);

#endif
