/* merge.h - several logs as one, in the order of their times.
 *
 * The next record is the one with the earliest time among the next ones of all logs. A log whose
 * own times step back keeps its order: it is the order that a server was asked in. */
#ifndef WEIR_REPLAY_MERGE_H
#define WEIR_REPLAY_MERGE_H

#include "replay/log_file.h"

enum { MERGE_MOST_LOGS = 512 };

struct merge {
    struct log_file *logs;
    bool *has_next; /* of each log */
    size_t count;
    size_t current; /* the log that the last record came from; `count`: none yet */
    int64_t until;  /* no other log has an earlier record than this */
};

/* On failure it need not be closed. */
WEIR_MUSTCHECK weir_err merge_open(struct merge *m, const char *const *paths, size_t count,
                                   const struct log_options *options, struct dirt *dirt,
                                   weir_diag *diag);
void merge_close(struct merge *m);

/* NULL: there is none; if logs are followed, there may be one later. Valid until the next call. */
const struct record *merge_next(struct merge *m);

int64_t merge_lines(const struct merge *m); /* begun, of all logs */

/* Bytes that were taken, and how many there are; -1: not known. */
void merge_progress(const struct merge *m, int64_t *taken, int64_t *size);

#endif
