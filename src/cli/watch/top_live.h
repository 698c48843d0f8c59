/* top_live.h - `weir top` on a terminal: views, keys, and what an operator does from there. */
#ifndef WEIR_CLI_WATCH_TOP_LIVE_H
#define WEIR_CLI_WATCH_TOP_LIVE_H

#include "cli/client.h"

/* Until the user leaves, or after so many looks; 0: there is no such end. Takes the client over and
 * closes it. Returns the exit status. */
int top_live_run(struct client *client, int64_t interval_ms, int64_t looks);

#endif
