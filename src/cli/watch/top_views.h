/* top_views.h - the views of `weir top`: what each asks for, and its table. */
#ifndef WEIR_CLI_WATCH_TOP_VIEWS_H
#define WEIR_CLI_WATCH_TOP_VIEWS_H

#include "cli/watch/top_data.h"
#include "cli/watch/top_table.h"

enum top_view {
    TOP_VIEW_POLICIES,
    TOP_VIEW_DENIED,
    TOP_VIEW_IN_FORCE,
    TOP_VIEW_BUDGETS,
    TOP_VIEW_LEASES,
    TOP_VIEW_CHANGES,
    TOP_VIEW_LOOKUP,
    TOP_VIEWS
};

const char *top_view_title(enum top_view view);
unsigned top_view_docs(enum top_view view); /* for top_data_look() */

/* Its rows borrow from the data. */
void top_view_fill(enum top_view view, const struct top_data *d, struct top_table *into);

/* top_changes.c: what a change does, in a few words: "limit 50", "mode off". */
struct top_effect {
    char text[TOP_CELL];
};
struct top_effect top_effect(const struct json_t *entry);

void top_view_in_force(const struct top_data *d, struct top_table *into);
void top_view_changes(const struct top_data *d, struct top_table *into);

#endif
