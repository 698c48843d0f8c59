/* decision_log.h - which decisions go to the log: the first hit of an untouched limit, the first
 * denial of each identity, and few of the others.
 *
 * However many there are, so many lines a second at most; the next line tells how many denials
 * were left out before it. Each loop does so for itself: who asks two of them may be the first of
 * both. */
#ifndef WEIR_SERVER_LOG_DECISION_LOG_H
#define WEIR_SERVER_LOG_DECISION_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/traceparent.h"
#include "server/metrics/unanswered.h"
#include "weir.h"

enum log_line { LINE_FIRST_HIT, LINE_FIRST_DENIAL, LINE_DENIAL, LINE_KINDS };

extern const int decision_log_a_second[LINE_KINDS];

struct event_log;

struct decision_log {
    struct event_log *log;
    bool has_first_hits; /* the log is to have them */
    int64_t second;
    int written[LINE_KINDS]; /* in this second */
    uint64_t left_out;       /* denials */
};

/* May one more line be written? If not, and it is a denial, it is counted. */
bool decision_log_admit(struct decision_log *l, enum log_line kind, int64_t now);

/* `tag` stands for the identity, `trace` is the caller's; NULL: there is none. */
void decision_log_write(struct decision_log *l, enum log_line kind, const weir_answer *answer,
                        const char *tag, const struct traceparent *trace, int64_t now);

/* A check had no answer, and neither had so many before it. */
void decision_log_write_unanswered(struct decision_log *l, enum asked_by by, enum problem problem,
                                   const char *text, uint64_t left_out);

/* At the end: tell what was left out since the last line. */
void decision_log_done(struct decision_log *l);

#endif
