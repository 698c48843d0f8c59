/* top_screen.h - what `weir top` shows: a page of text, as wide and high as there is room. */
#ifndef WEIR_CLI_WATCH_TOP_SCREEN_H
#define WEIR_CLI_WATCH_TOP_SCREEN_H

#include "base/buf.h"
#include "cli/watch/top_stats.h"

struct top_page {
    const char *server;  /* its URL */
    const char *problem; /* it could not be reached: the numbers are old; NULL: they are not */
    int width, height;   /* height 0: as long as it takes */
    const char *line_end;
};

/* Append the page. `s` may be empty: then there is only a problem to tell. */
void top_screen_draw(const struct top_page *p, const struct top_stats *s, struct buf *out);

#endif
