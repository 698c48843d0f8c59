/* top_subject.h - whom or what a row of a view is about, as a request names it. */
#ifndef WEIR_CLI_WATCH_TOP_SUBJECT_H
#define WEIR_CLI_WATCH_TOP_SUBJECT_H

#include "cli/watch/top_act.h"

/* Can what holds for one identity be set from here? */
bool top_subject_is_identity(enum top_view view, const struct top_table_row *row);

/* The plans of the row's policy, at most TOP_CHOICES; `into` may be NULL. Returns how many. */
size_t top_subject_plans(enum top_view view, const struct top_table_row *row,
                         const struct top_data *d, const char **into);

/* Subject, path, name and what is used, for act->action. */
void top_subject_read(struct top_act *act, enum top_view view, const struct top_table_row *row,
                      const struct top_data *d);

#endif
