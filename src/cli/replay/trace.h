/* trace.h - each request that was judged, as a line of JSON: what a server would be asked, and the
 * answer. It has identities as they are in the log. */
#ifndef WEIR_CLI_REPLAY_TRACE_H
#define WEIR_CLI_REPLAY_TRACE_H

#include <stdio.h>

#include "replay/replay.h"

struct trace {
    FILE *to; /* NULL: there is none */
    struct buf line;
    bool failed;
};

/* False: it was said on stderr why not. "-" is stdout. */
bool trace_open(struct trace *t, const char *path);
void trace_write(struct trace *t, const struct record *r, const weir_request *request,
                 const weir_answer *answer);
bool trace_close(struct trace *t, const char *path); /* false: not all is written; it was said */

#endif
