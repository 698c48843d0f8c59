/* terminal.h - how the tool speaks: answers on stdout, trouble on stderr. */
#ifndef WEIR_CLI_TERMINAL_H
#define WEIR_CLI_TERMINAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

enum { STATUS_YES = 0, STATUS_NO = 1, STATUS_TROUBLE = 2 };

/* "weir: ..." on stderr, each of its lines. Returns STATUS_TROUBLE. */
int trouble(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Before anything is opened: a closed stdout must stay one that cannot be written to. */
void terminal_begin(void);

/* `status`, or STATUS_TROUBLE if not all could be written to stdout. */
int terminal_end(int status);
bool terminal_failed(void); /* stdout is gone: there is no use in going on */

/* A line on stdout: the bytes and a newline. Frees them. */
void terminal_line(struct buf *bytes);

/* Escape codes, or "" unless stdout is a terminal and NO_COLOR is unset. */
enum colour { PLAIN, GREEN, RED, YELLOW, BOLD, FAINT };
const char *colour(enum colour colour);

/* A duration for people: "14m59.987s". */
struct duration_text {
    char text[48];
};
struct duration_text duration_text(int64_t ms);

/* A time since 1970 in UTC, as strftime(3) writes it. */
struct moment_text {
    char text[48];
};
struct moment_text moment_text(int64_t ms, const char *format)
    __attribute__((format(strftime, 2, 0)));

#endif
