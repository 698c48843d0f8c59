/* top_screen.h - what `weir top` prints if it is not on a terminal, and the head of its screen. */
#ifndef WEIR_CLI_WATCH_TOP_SCREEN_H
#define WEIR_CLI_WATCH_TOP_SCREEN_H

#include "base/buf.h"
#include "cli/watch/top_stats.h"

struct top_page {
    const char *server; /* its URL */
    int width;
    const char *line_end;
};

/* Append the lines above the tables; the first has what matters most. */
void top_screen_head(const struct top_page *p, const struct top_stats *s, struct buf *out);

/* Append the page, of 80 columns. */
void top_screen_draw(const struct top_page *p, const struct top_stats *s, struct buf *out);

#endif
