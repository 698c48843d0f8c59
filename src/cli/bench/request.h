/* request.h - the request that a benchmark sends, over and over with another key, and what
 * its answers mean.
 *
 * A key is a text with digits in it: each '#' of its format becomes one. So all requests are
 * equally long, and the next one is a copy with other digits. An id is a number of 16 digits that
 * no other request has, of this run or another: runs begin at random. */
#ifndef WEIR_CLI_BENCH_REQUEST_H
#define WEIR_CLI_BENCH_REQUEST_H

#include "base/buf.h"
#include "cli/server_url.h"

enum { BENCH_MOST_DIGITS = 64, BENCH_MOST_IDS = 8 };

struct bench_request {
    struct buf bytes; /* one request; its key has zeros */
    struct {
        size_t at;      /* in bytes */
        unsigned place; /* 0: the last digit of the key's number */
    } digits[BENCH_MOST_DIGITS];
    size_t digit_count;
    unsigned places;            /* digits in a key */
    size_t ids[BENCH_MOST_IDS]; /* where they are in bytes */
    size_t id_count;
    uint64_t first_id;
    bool is_resp;
    size_t replies; /* that answer one request */
    enum { JUDGES_NOTHING, JUDGES_STATUS, JUDGES_CHECK, ZERO_ALLOWS, ONE_ALLOWS } judges;
    struct buf greeting; /* sent first on a connection: AUTH */
    size_t greeting_replies;
    char name[64]; /* what it is called in a report */
};

/* What is asked for. NULL: not given. */
struct bench_question {
    const struct server_url *url;
    const char *token;   /* "": none */
    const char *command; /* of RESP */
    const char *path;    /* of HTTP: a plain GET */
    const char *policy;
    int64_t limit, window_ms; /* without a policy */
    const char *algorithm;
    const char *key; /* its format */
    bool is_peek;    /* ask without being charged, where that can be said */
};

/* False: it was said on stderr what is wrong. */
bool bench_request_init(struct bench_request *r, const struct bench_question *q);
void bench_request_done(struct bench_request *r);

/* The count-th request, for the key with this number; `to` has room for r->bytes.len bytes. */
void bench_request_write(const struct bench_request *r, uint64_t number, uint64_t count, char *to);

enum bench_outcome {
    OUTCOME_INCOMPLETE, /* more bytes are needed; or, at the end of a connection, something else */
    OUTCOME_ALLOWED,    /* or merely answered */
    OUTCOME_DENIED,
    OUTCOME_FAILED, /* the server says that it cannot */
    OUTCOME_BROKEN, /* these bytes are no answer at all */
};

struct bench_reply {
    struct span problem; /* of OUTCOME_FAILED and OUTCOME_BROKEN: what the server says … */
    int status;          /* … by HTTP, with this */
    bool closes;         /* the server takes nothing more on this connection */
    bool ends_at_close;  /* OUTCOME_INCOMPLETE: the end of the connection makes it whole */
    size_t consumed;
};

enum bench_outcome bench_request_judge(const struct bench_request *r, char *bytes, size_t len,
                                       struct bench_reply *reply);

/* The same for one of the greeting_replies. */
enum bench_outcome bench_greeting_judge(const struct bench_request *r, const char *bytes,
                                        size_t len, struct bench_reply *reply);

/* What is wrong, on a line. */
struct bench_problem {
    char text[128];
};
struct bench_problem bench_reply_problem(const struct bench_reply *reply);

#endif
