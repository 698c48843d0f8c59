/* top_terminal.h - a terminal taken over by a page: its size, its keys, and how it is given back. */
#ifndef WEIR_CLI_WATCH_TOP_TERMINAL_H
#define WEIR_CLI_WATCH_TOP_TERMINAL_H

#include "base/span.h"
#include "weir.h"

/* A key is the byte that it sends, or one of these. */
enum top_key {
    TOP_KEY_NONE = 0, /* it is time, or a signal has come */
    TOP_KEY_TAB = '\t',
    TOP_KEY_ENTER = '\n',
    TOP_KEY_ESCAPE = 0x1b,
    TOP_KEY_BACKSPACE = 0x7f,
    TOP_KEY_UP = 0x100,
    TOP_KEY_DOWN,
    TOP_KEY_RIGHT,
    TOP_KEY_LEFT,
    TOP_KEY_PAGE_UP,
    TOP_KEY_PAGE_DOWN,
    TOP_KEY_HOME,
    TOP_KEY_END,
    TOP_KEY_BACK_TAB,
    TOP_KEY_F1,
    TOP_KEY_GONE, /* the terminal has gone */
};

struct top_size {
    int width, height;
};

/* False: the diag says why. Signals that end or stop the process come from then on only while a key
 * is waited for. */
bool top_terminal_take(weir_diag *diag);
void top_terminal_give_back(void);

struct top_size top_terminal_size(void);
void top_terminal_write(struct span page);

/* The next key until then. A process that was stopped meanwhile has its screen back. */
int top_terminal_key(int64_t until_ms);

/* Was the process told to end? */
bool top_terminal_is_ended(void);

/* After the terminal was given back: end as the signal wanted it, unless it was ^C. */
void top_terminal_obey(void);

#endif
