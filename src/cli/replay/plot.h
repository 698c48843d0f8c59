/* plot.h - the drawings of a page: SVG that is as wide as there is room, and labels beside it.
 *
 * The SVG has no letters: it is stretched, and they would be, too. */
#ifndef WEIR_CLI_REPLAY_PLOT_H
#define WEIR_CLI_REPLAY_PLOT_H

#include "replay/report.h"
#include "replay/suggest.h"

enum {
    PLOT_MOST_BARS = 120, /* over time; each stands for some points of a timeline */
    PLOT_MOST_BINS = 64,  /* of a histogram */
};

/* A rule as one set of policies has it, and as the other has it; either may be NULL. */
struct rule_pair {
    const struct report_row *of[2];
    const struct suggestion *suggested; /* for its own window, then for others; of a sole set */
    size_t suggested_count;
};

/* Requests and what was denied of them over time: by one set, or by both in the same scale. */
void plot_timeline(struct buf *to, const struct rule_pair *pair);

/* How many identities asked for how much in a window at most, and where the limits are. */
void plot_peaks(struct buf *to, const struct rule_pair *pair);

#endif
