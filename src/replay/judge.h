/* judge.h - checks requests against a set of policies, each at its own time.
 *
 * The engine and the store in memory are those of a server, so what is denied here is what a server
 * would deny that is asked the same requests with their times. Keys are dropped once they have been
 * back to untouched for JUDGE_PATIENCE of the log's time: memory is for the keys that are live. A
 * request that is earlier than that may find them gone. */
#ifndef WEIR_REPLAY_JUDGE_H
#define WEIR_REPLAY_JUDGE_H

#include "engine/engine.h"

enum {
    JUDGE_TOGETHER = 32,      /* requests that are prepared, and then asked together */
    JUDGE_PATIENCE = 3600000, /* ms that the times of a log may step back */
};

struct judge_options {
    const struct policies *policies; /* borrowed; NULL: the file */
    const char *policy_file;         /* NULL: the text */
    const char *policy_text;
    const struct secret *secret;
    int64_t max_keys; /* 0: as a server */
};

struct judge {
    struct store *store;
    struct engine engine;
    struct intern *names;
    const struct policies *policies;
    struct policies *loaded; /* its own; NULL: they are borrowed */
    struct pending pending;
    int64_t latest;     /* time that was asked about */
    int64_t since_tick; /* requests */
    bool is_prepared[JUDGE_TOGETHER];
    struct check checks[JUDGE_TOGETHER];
    weir_answer answers[JUDGE_TOGETHER];
    struct check_room rooms[JUDGE_TOGETHER];
};

WEIR_MUSTCHECK weir_err judge_open(struct judge **out, const struct judge_options *options,
                                   weir_diag *diag);
void judge_close(struct judge *j); /* NULL is fine */

/* Find what is to be asked, for place `i`, in ascending order. The request is borrowed until all
 * are asked; what it points at is not. An error: it cannot be judged. */
weir_err judge_prepare(struct judge *j, size_t i, const weir_request *request, weir_diag *diag);

/* Ask for the places before `n` that are prepared, each at its time. Their answers are in
 * `answers`, and what each rule said is in their checks' charges. */
void judge_ask(struct judge *j, const int64_t *times, size_t n);

#endif
