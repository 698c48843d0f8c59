/* suggest.h - the least limits that would have let a share of requests, or of identities, pass.
 *
 * The logs are replayed with several limits at a time, until one passes and the limit one below it
 * does not: so what is suggested has been tried, and so has one less. Each rule is judged alone. */
#ifndef WEIR_REPLAY_SUGGEST_H
#define WEIR_REPLAY_SUGGEST_H

#include "replay/replay.h"

enum {
    SUGGEST_WINDOWS = 5,      /* of each rule: its own, and others */
    SUGGEST_MOST_RULES = 256, /* that are suggested for */
};

/* What a limit did. */
struct trial_result {
    int64_t value; /* the limit, or the burst */
    int64_t requests, denied, identities, denied_identities;
};

/* The least limit of a rule in one window; or the least burst at the limit that it has. */
struct suggestion {
    const struct policy_rule *rule;
    int64_t window;
    bool is_own;                /* the window of the rule */
    bool is_burst;              /* the limit stays, and the burst is looked for */
    bool is_found;              /* false: there were no requests, or no limit is large enough */
    struct trial_result passes; /* it is this one */
    struct trial_result fails;  /* one less; the value 0 was not tried */
};

struct suggest {
    struct judge *file; /* for the policies of the file */
    int share;          /* in hundredths of a percent */
    bool of_identities;
    struct suggestion *all; /* in the order of the file; those of a rule stand together */
    size_t count;
    bool is_cut;     /* there are more rules than are suggested for */
    int passes;      /* over the logs */
    bool is_stopped; /* before the end: what is not found is missing */
};

/* The options are those of a replay; the logs are read several times. */
WEIR_MUSTCHECK weir_err suggest_run(struct suggest *s, const struct replay_options *options,
                                    int share, bool of_identities, weir_diag *diag);
void suggest_done(struct suggest *s);

/* The share that passed, in percent with two decimals. It is rounded down: what is less than the
 * share that is wanted looks less. */
double suggest_percent(const struct suggest *s, const struct trial_result *r);

/* A policy file's part, ready to be pasted; what else is known is in comments. */
void suggest_write_yaml(const struct suggest *s, struct buf *to);
void suggest_write_json(const struct suggest *s, struct buf *to);

#endif
