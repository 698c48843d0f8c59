/* unanswered.h - checks that have no answer: how often, why, and what was said.
 *
 * Who asks for a policy that is not there, or without a token, gets an error, and often lets
 * everything pass. So they are counted, some are logged, and the reasons of the last minutes are
 * kept for people: as the text that the asker got, which has no identity in it.
 *
 * A loop's is written by that loop alone. The counts are read by any thread, the rest under the
 * lock of its owner. Bounded. */
#ifndef WEIR_SERVER_METRICS_UNANSWERED_H
#define WEIR_SERVER_METRICS_UNANSWERED_H

#include "base/json.h"
#include "server/http/problem.h"
#include "server/metrics/histogram.h"

enum {
    UNANSWERED_REASONS = 8,    /* that are told apart */
    UNANSWERED_TEXT = 160,     /* bytes of each */
    UNANSWERED_MINUTES = 5,    /* that are looked back */
    UNANSWERED_LINE_MS = 10000 /* between two lines of the log about the same problem */
};

enum asked_by { ASKED_BY_HTTP, ASKED_BY_RESP, ASKED_BY_GRPC, ASKED_BY_COUNT };
extern const char *const asked_by_names[ASKED_BY_COUNT];

/* How many in each of the last minutes; `minute` is the newest. */
struct recent {
    int64_t minute;
    uint64_t counts[UNANSWERED_MINUTES];
};

struct unanswered_reason {
    enum asked_by by;
    enum problem problem;
    char text[UNANSWERED_TEXT + 1];
    struct recent recent;
    int64_t last; /* 0: it is none */
};

struct unanswered {
    atomic_uint_fast64_t counts[ASKED_BY_COUNT][PROBLEM_COUNT];

    struct recent recent;
    struct unanswered_reason reasons[UNANSWERED_REASONS];
    struct {
        int64_t next;
        uint64_t left_out;
    } lines[PROBLEM_COUNT];
};

/* Another one. True: it is to be logged, and *left_out were not since the last that was. */
bool unanswered_count(struct unanswered *u, enum asked_by by, enum problem problem,
                      const char *text, int64_t now, uint64_t *left_out);

/* Adds one to another that no loop has. */
void unanswered_merge(struct unanswered *into, const struct unanswered *from, int64_t now);

/* Can a check end so? */
bool unanswered_may_be(enum problem problem);
uint64_t unanswered_by(const struct unanswered *u, enum problem problem); /* all protocols */

/* The member "unanswered"; see docs/openapi.json. */
void unanswered_write(const struct unanswered *u, int64_t now, struct json *j);

#endif
