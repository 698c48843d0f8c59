/* history_plot.h - a history as a small drawing on a terminal. */
#ifndef WEIR_CLI_WATCH_HISTORY_PLOT_H
#define WEIR_CLI_WATCH_HISTORY_PLOT_H

#include <jansson.h>

enum { HISTORY_PLOT_COUNTS = 5 }; /* numbers of a point, behind its time */

/* What GET /v1/history answers, and which series of it, for a screen of so many columns. */
void history_plot(const json_t *root, const json_t *list, int width);

const char *history_rule(const json_t *series); /* NULL: it is of whole checks */

#endif
