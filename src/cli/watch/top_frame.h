/* top_frame.h - the screen of `weir top`: head, views, the table, a form or the help, the keys. */
#ifndef WEIR_CLI_WATCH_TOP_FRAME_H
#define WEIR_CLI_WATCH_TOP_FRAME_H

#include "cli/watch/top_act.h"
#include "cli/watch/top_terminal.h"

struct top_frame {
    struct top_size size;
    const char
        *problem;     /* the server could not be asked: the numbers are old; NULL: they are not */
    const char *said; /* what came of the last key; "": nothing */
    bool is_bad;      /* … and it was not done */
    enum top_view view;
    const char *filter;    /* "": all rows */
    bool is_filtering;     /* keys are for the filter */
    struct top_form *form; /* NULL: no question is open */
    bool shows_help;
    size_t first, selected;
    int sort;
    bool is_turned;
};

/* So many rows of the table fit. */
size_t top_frame_rows(const struct top_frame *f, const struct top_data *d);

/* All of the screen, with what moves the cursor. */
void top_frame_draw(const struct top_frame *f, const struct top_data *d,
                    const struct top_table *table, struct buf *out);

#endif
