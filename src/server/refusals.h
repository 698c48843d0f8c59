/* refusals.h - which refusals go to the log: the first of each identity, and few of the others.
 *
 * However many there are, so many lines a second at most; the next line tells how many were left
 * out before it. Each loop does so for itself: who asks two of them may be the first of both. */
#ifndef WEIR_SERVER_REFUSALS_H
#define WEIR_SERVER_REFUSALS_H

#include <stdbool.h>
#include <stdint.h>

#include "weir.h"

enum { REFUSALS_FIRST_A_SECOND = 50, REFUSALS_OTHER_A_SECOND = 1 };

struct event_log;

struct refusals {
    struct event_log *log;
    int64_t second;
    int first, other; /* lines in this second */
    uint64_t left_out;
};

/* May one more line be written? If not, it is counted. */
bool refusals_admit(struct refusals *r, bool is_first, int64_t now);

/* `tag` stands for the identity; NULL: there is none. */
void refusals_write(struct refusals *r, const weir_answer *answer, const char *tag, bool is_first);

/* At the end: tell what was left out since the last line. */
void refusals_done(struct refusals *r);

#endif
