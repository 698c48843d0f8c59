/* replay.h - what would these limits have done? The requests of logs, judged by policies.
 *
 *     logs → merge → records → mapping → requests → judge → tally → report
 *
 * All of it is one loop on one thread. */
#ifndef WEIR_REPLAY_REPLAY_H
#define WEIR_REPLAY_REPLAY_H

#include "replay/comparison.h"
#include "replay/judge.h"
#include "replay/mapping.h"
#include "replay/merge.h"
#include "replay/tally.h"

struct replay;

struct replay_options {
    const char *policy_file;
    const struct policies *policies; /* borrowed, in place of the file; NULL: the file */
    const char *against_file;        /* NULL: there is no second set */
    const char *const *logs;
    size_t log_count;
    struct mapping *mapping; /* borrowed; completed by replay_open() */
    struct log_options log;  /* but for the fields, which are the mapping's */
    const struct secret *secret;
    int64_t max_keys;
    bool keeps_raw; /* values of identities that were denied */

    /* Now and then; false: stop, and report what there is. May be NULL. */
    bool (*go_on)(void *ctx, const struct replay *r);
    /* Each request that was judged, and its answer. Slower. May be NULL. */
    void (*trace)(void *ctx, const struct record *r, const weir_request *request,
                  const weir_answer *answer);
    /* At the end of logs that are followed: wait for more. False: it is the end. */
    bool (*wait)(void *ctx, struct replay *r);
    void *ctx;
};

/* One set of policies and what it did. */
struct replay_side {
    struct judge *judge; /* NULL: there is no such side */
    struct tally tally;
};

struct replay {
    struct replay_options options;
    struct merge logs;
    struct dirt dirt;
    struct replay_side sides[2];
    struct comparison comparison;
    int64_t records;  /* lines that are requests */
    int64_t skipped;  /* by their status */
    int64_t unmapped; /* no line of the mapping was for them */
    int64_t latest;   /* time of a record */
    bool is_stopped;  /* before the end */

    /* Requests that are prepared. */
    size_t prepared;
    int64_t times[JUDGE_TOGETHER];
    struct mapped mapped[JUDGE_TOGETHER];
};

/* Opens logs and policies. On failure it need not be closed. */
WEIR_MUSTCHECK weir_err replay_open(struct replay **out, const struct replay_options *options,
                                    weir_diag *diag);
void replay_run(struct replay *r);
void replay_close(struct replay *r); /* NULL is fine */

int64_t replay_lines(const struct replay *r);

#endif
