/* show.h - somebody else's text, made fit for a message: short, on one line, printable. */
#ifndef WEIR_BASE_SHOW_H
#define WEIR_BASE_SHOW_H

#include "base/span.h"

struct shown {
    char text[72];
};

/* For printf: `show(key).text`. What is cut off ends in "..."; control characters and what
 * is not UTF-8 become '?'. */
struct shown show(struct span text);

/* All of a text likewise, where it stands; and whether that would change nothing. */
void show_all(char *text, size_t len);
bool is_shown_as_it_is(struct span text);

#endif
