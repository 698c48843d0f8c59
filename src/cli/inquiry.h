/* inquiry.h - what a command asks of a limiter: one of this process, or that of a server. */
#ifndef WEIR_CLI_INQUIRY_H
#define WEIR_CLI_INQUIRY_H

#include "cli/answer_print.h"
#include "cli/options.h"
#include "cli/subject.h"
#include "proto/parsed_request.h"

/* What one can ask for. */
struct inquiry_verb {
    const char *name; /* of the server's route */
    const char *done; /* NULL: the answer says it */
    enum answer_kind kind;
    weir_err (*run)(weir *w, const weir_request *r, weir_answer *a, weir_diag *diag);
};

struct inquiry {
    weir_options open;
    const char *server, *token_file; /* server NULL: a limiter of this process */
    struct parsed_request asked;
    struct subject subject;
    const struct inquiry_verb *verb;
    const char *label; /* of what has no policy */
    char costs[WEIR_MAX_COSTS * (WEIR_MAX_NAME + 24)];
    int64_t repeat;
    bool json, quiet;
};

/* Options of all commands that ask; they stand together in the table of each. */
enum inquiry_option {
    INQUIRY_SERVER,
    INQUIRY_TOKEN_FILE,
    INQUIRY_STORE,
    INQUIRY_SYNC,
    INQUIRY_MAX_KEYS,
    INQUIRY_SECRET_FILE,
    INQUIRY_NOW,
    INQUIRY_JSON,
    INQUIRY_QUIET,
    INQUIRY_OPTIONS
};

#define INQUIRY_OPTION_TABLE(first)                                                                \
    [(first) +                                                                                     \
        INQUIRY_SERVER] = { "server", 's', "URL", NULL },                                          \
        [(first) + INQUIRY_TOKEN_FILE] = { "token-file", 0, "FILE", "default: $WEIR_SERVER" },     \
        [(first) + INQUIRY_STORE] = { "store", 0, "URI", "where counters live; default: memory:",  \
                                      .words = OPTION_STORES },                                    \
        [(first) + INQUIRY_SYNC] = { "sync", 0, "MODE",                                            \
                                     "of file:DIR; always, os or a time; default: 50ms",           \
                                     .words = "always os 50ms" },                                  \
        [(first) + INQUIRY_MAX_KEYS] = { "max-keys", 0, "N", NULL },                               \
        [(first) + INQUIRY_SECRET_FILE] = { "secret-file", 0, "FILE",                              \
                                            "most keys; secret of the hashes" },                   \
        [(first) + INQUIRY_NOW] = { "now", 0, "MS", "the time, in ms since 1970" },                \
        [(first) + INQUIRY_JSON] = { "json", 'j', NULL, NULL },                                    \
        [(first) + INQUIRY_QUIET] = { "quiet", 'q', NULL, "JSON, one object per line; no output" }

void inquiry_init(struct inquiry *q, const struct inquiry_verb *verb);
void inquiry_done(struct inquiry *q);

/* Each of these returns false after it has said on stderr what is wrong. */

/* `first` is where the options above begin; `config`, of a command that has it, where --config is,
 * or -1. $WEIR_SERVER is for those who do not say where. */
bool inquiry_read(struct inquiry *q, const struct arguments *a, int first, int config);

/* The policies of a limiter of this process; `or_else` is what else a user can give. */
bool inquiry_read_config(struct inquiry *q, const char *config, const char *or_else);

/* N, or tokens=N,requests=N, if it is given. */
bool inquiry_read_cost(struct inquiry *q, const struct arguments *a, int cost);

/* The first operand and --policy; `or_else` is what else a user can give, or "". */
bool inquiry_read_policies(struct inquiry *q, const struct arguments *a, const char *or_else);

/* The key or the attributes, from the operands behind the first `from`, --key and --key-file. */
bool inquiry_read_subject(struct inquiry *q, const struct arguments *a, size_t from, int key,
                          int key_file);

/* Ask, print the answers, and return the exit status. */
int inquiry_ask(const struct inquiry *q);

#endif
