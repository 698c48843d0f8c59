/* top_line.h - a line of a screen, and how numbers are written in it. */
#ifndef WEIR_CLI_WATCH_TOP_LINE_H
#define WEIR_CLI_WATCH_TOP_LINE_H

#include "base/buf.h"
#include "cli/terminal.h"

/* Cut where the screen ends; a character outside of ASCII counts as one. Colours take no room. */
struct top_line {
    struct buf *out;
    int room;
};

void top_put(struct top_line *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
void top_put_coloured(struct top_line *l, enum colour as, const char *text);

/* Cut, or filled with blanks, to so many columns; numbers are at the right. */
void top_put_cell(struct top_line *l, const char *text, int width, bool is_right);

struct top_number {
    char text[24];
};
struct top_number top_bytes(int64_t n);
struct top_number top_nanoseconds(int64_t n);
struct top_number top_rate(double per_second);

/* To the minute, or to the second if it is young. */
struct duration_text top_age(int64_t ms);

#endif
