/* progress.h - how far a replay is, and how long it will take, on stderr. */
#ifndef WEIR_CLI_REPLAY_PROGRESS_H
#define WEIR_CLI_REPLAY_PROGRESS_H

#include "replay/replay.h"

struct progress {
    bool is_shown;
    bool is_drawn;     /* there is a line on the screen */
    int64_t began, at; /* by clock_monotonic_ms(): the last time it was drawn */
    int64_t pass_began;
    int64_t lines; /* the last number; a smaller one is of another pass over the logs */
    int pass;
};

void progress_begin(struct progress *p);
void progress_show(struct progress *p, const struct replay *r);
void progress_end(struct progress *p);

#endif
