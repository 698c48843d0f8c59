/* weir.h - the whole public C interface of weir, a durable rate limiter.
 *
 *     weir *w;
 *     weir_diag diag;
 *     if (weir_open(&w, &(weir_options){ .policy_file = "policies.yaml" }, &diag))
 *         errx(1, "%s", diag.text);
 *
 *     weir_answer answer;
 *     weir_request login = { .policy = "login", .key = "203.0.113.7" };
 *     if (weir_check(w, &login, &answer, &diag) == WEIR_OK && !answer.allowed)
 *         printf("come back in %lld ms\n", (long long)answer.retry_after_ms);
 *
 * A handle may be used by any number of threads at once. There are no globals. In every
 * struct a zero is the default, so `{ 0 }` and designated initialisers are enough.
 *
 * All times are milliseconds; points in time are since the Unix epoch. All amounts are whole.
 * A denial is an answer, never an error: errors mean that there is no answer at all. */
#ifndef WEIR_H
#define WEIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_VERSION_MAJOR 0
#define WEIR_VERSION_MINOR 1
#define WEIR_VERSION_PATCH 0

#if defined(__GNUC__)
#define WEIR_API __attribute__((visibility("default")))
#define WEIR_MUSTCHECK __attribute__((warn_unused_result))
#else
#define WEIR_API
#define WEIR_MUSTCHECK
#endif

/* Errors: X(name, value, text). */
#define WEIR_ERRORS(X)                                                                             \
    X(OK, 0, "success")                                                                            \
    X(ENOMEM, 1, "out of memory")                                                                  \
    X(EIO, 2, "the store failed")                                                                  \
    X(ESYSTEM, 3, "a system call failed")                                                          \
    X(EFULL, 4, "the table is full: raise max_keys")                                               \
    X(EOPTION, 5, "an option is not valid")                                                        \
    X(EPOLICY, 6, "the policy file is not valid")                                                  \
    X(ESECRET, 7, "the secret cannot be used")                                                     \
    X(EREQUEST, 8, "the request is not valid")                                                     \
    X(ENOPOLICY, 9, "there is no such policy")                                                     \
    X(EATTRIBUTE, 10, "an attribute is missing or not valid")                                      \
    X(ECOST, 11, "the cost is not valid, or no rule counts this amount")                           \
    X(ENOW, 12, "the caller's clock is not trusted here")                                          \
    X(EBUSY, 13, "another process has the store")                                                  \
    X(ENORESERVATION, 14, "there is no such reservation: it was never made, or is long over")      \
    X(EREUSED, 15, "this id was used for another question: give each question an id of its own")   \
    X(ESETTLED, 16, "the reservation is settled already, with other amounts")                      \
    X(EEXPIRED, 17, "the reservation has expired")                                                 \
    X(ENEEDSRESERVATION, 18, "a limit of what runs at once needs a reservation: use reserve")      \
    X(ETTL, 19, "the time to live is not valid")                                                   \
    X(ENOTHERE, 20, "reservations need the memory, file or Postgres store in this version")

typedef enum weir_err {
#define WEIR_X(name, value, text) WEIR_##name = (value),
    WEIR_ERRORS(WEIR_X)
#undef WEIR_X
} weir_err;

WEIR_API const char *weir_err_name(weir_err err); /* "WEIR_ENOMEM" */
WEIR_API const char *weir_err_text(weir_err err); /* "out of memory" */

/* Text for people about the last failure: what is wrong and what would be right. Several
 * problems of one policy file are one line each. Never holds an identity. */
typedef struct weir_diag {
    char text[2048];
} weir_diag;

/* Algorithms: X(name, value, text, has_burst, has_precision). Values and texts are part of what
 * stores keep: a new algorithm gets the next value, and no value is used again. */
#define WEIR_ALGORITHMS(X)                                                                         \
    X(FIXED_WINDOW, 1, "fixed_window", false, false)                                               \
    X(SLIDING_WINDOW, 2, "sliding_window", false, true)                                            \
    X(SLIDING_COUNTER, 3, "sliding_counter", false, false)                                         \
    X(TOKEN_BUCKET, 4, "token_bucket", true, false)                                                \
    X(LEAKY_BUCKET, 5, "leaky_bucket", true, false)                                                \
    X(CONCURRENCY, 6, "concurrency", false, false)

typedef enum weir_algorithm {
    WEIR_DEFAULT_ALGORITHM = 0, /* sliding_window */
#define WEIR_X(name, value, text, has_burst, has_precision) WEIR_##name = (value),
    WEIR_ALGORITHMS(WEIR_X)
#undef WEIR_X
} weir_algorithm;

WEIR_API const char *weir_algorithm_name(weir_algorithm algorithm); /* "sliding_window" */

/* Where a fixed window begins: X(name, value, text).
 *   epoch      at a multiple of its length since 1970
 *   first      with the first thing that is counted in it */
#define WEIR_STARTS(X)                                                                             \
    X(EPOCH, 0, "epoch")                                                                           \
    X(FIRST, 1, "first")

typedef enum weir_start {
#define WEIR_X(name, value, text) WEIR_START_##name = (value),
    WEIR_STARTS(WEIR_X)
#undef WEIR_X
} weir_start;

/* What decided: X(name, value, text).
 *   store      counted and decided
 *   cache      denied from memory: it is known to be denied until later
 *   fallback   the store failed, and the policy's on_error decided
 *   exempt     allowed, not counted
 *   blocked    an operator blocks this identity
 *   off        the policy or the whole limiter is off: allowed, not counted */
#define WEIR_SOURCES(X)                                                                            \
    X(STORE, 0, "store")                                                                           \
    X(CACHE, 1, "cache")                                                                           \
    X(FALLBACK, 2, "fallback")                                                                     \
    X(EXEMPT, 3, "exempt")                                                                         \
    X(BLOCKED, 4, "blocked")                                                                       \
    X(OFF, 5, "off")                                                                               \
    X(LEASE, 6, "lease")

typedef enum weir_source {
#define WEIR_X(name, value, text) WEIR_FROM_##name = (value),
    WEIR_SOURCES(WEIR_X)
#undef WEIR_X
} weir_source;

WEIR_API const char *weir_source_name(weir_source source); /* "store" */

/* What decides while the store cannot be asked: X(name, value, text). With local, this process
 * decides by what it has counted itself. */
#define WEIR_ON_ERRORS(X)                                                                          \
    X(LOCAL, 1, "local")                                                                           \
    X(ALLOW, 2, "allow")                                                                           \
    X(DENY, 3, "deny")

typedef enum weir_on_error {
    WEIR_DEFAULT_ON_ERROR = 0, /* local */
#define WEIR_X(name, value, text) WEIR_ON_ERROR_##name = (value),
    WEIR_ON_ERRORS(WEIR_X)
#undef WEIR_X
} weir_on_error;

/* Bounds that hold everywhere. */
#define WEIR_MAX_RULES 16      /* rules in one policy, or in all that one request names */
#define WEIR_MAX_ATTRIBUTES 16 /* attributes in one request */
#define WEIR_MAX_COSTS 16      /* amounts in one request */
#define WEIR_MAX_NAME 64       /* bytes in the name of a policy, rule, plan or attribute */
#define WEIR_MAX_ID 64         /* bytes in the id of a reservation */
#define WEIR_MAX_TTL_MS ((int64_t)86400000) /* of a reservation; a policy may allow less */
#define WEIR_MAX_IDENTITY 4096 /* bytes of the values that one rule counts by, together */
#define WEIR_MAX_AMOUNT ((int64_t)1 << 53) /* limit * window and burst * window stay below */
#define WEIR_NEVER (-1)                    /* a retry_after_ms: waiting will not help */

/* ---- opening ------------------------------------------------------------------------ */

/* Memory for the handle and what hangs off it. resize(ctx, NULL, n) allocates and
 * resize(ctx, p, 0) frees; must be safe to call from several threads. Cells of the table
 * come from the kernel in pages, and the YAML parser uses malloc. */
typedef struct weir_allocator {
    void *(*resize)(void *ctx, void *block, size_t size);
    void *ctx;
} weir_allocator;

typedef int64_t (*weir_clock)(void *ctx);              /* ms since the Unix epoch */
typedef void (*weir_log)(void *ctx, const char *line); /* one line, no newline */

enum {
    WEIR_TRUST_NOW = 1 << 0,          /* weir_request.now may be used (tests, replay) */
    WEIR_IGNORE_ENVIRONMENT = 1 << 1, /* WEIR_ENABLED and the like have no effect */
    WEIR_NO_THREAD = 1 << 2,          /* no housekeeping thread: call weir_tick() instead */
    WEIR_NO_DENY_CACHE = 1 << 3,      /* deny nothing from memory: ask a shared store each time */
};

typedef struct weir_options {
    const char *policy_file; /* NULL: no policies, only requests that bring their limit */
    const char *policy_text; /* instead of a file */
    const char *store;       /* "file:DIR" survives the process; NULL: "memory:" does not */
    const char *sync;        /* file: when an answer is on disk: "always", before it is given;
                                "os", when the system likes; "50ms", at most so much later.
                                In all of them a killed process loses nothing. NULL: "50ms" */
    const char *secret_file; /* keys the hashing of identities; created if it is missing.
                                NULL: DIR/secret for file:DIR, else one that dies with the handle */
    int64_t max_keys;        /* keys held at most; 0: 16777216 */
    unsigned flags;
    weir_allocator allocator; /* zero: malloc */
    weir_clock clock;         /* NULL: the system's */
    void *clock_ctx;
    weir_log log; /* NULL: nothing is logged */
    void *log_ctx;
} weir_options;

typedef struct weir weir;

WEIR_API WEIR_MUSTCHECK weir_err weir_open(weir **out, const weir_options *options,
                                           weir_diag *diag);
WEIR_API void weir_close(weir *w); /* no other call may be under way; NULL is fine */

/* Read the policies again and swap them in while checks run. On failure the old ones stay. */
WEIR_API WEIR_MUSTCHECK weir_err weir_reload(weir *w, weir_diag *diag);

/* ---- asking ------------------------------------------------------------------------- */

typedef struct weir_attribute {
    const char *name;
    const char *value;
    size_t value_len; /* 0: up to the NUL */
} weir_attribute;

/* What a request costs of an amount that rules count. */
typedef struct weir_cost {
    const char *name; /* as in `counts` of a rule; "requests" is what rules count by default */
    int64_t amount;
} weir_cost;

#define WEIR_COST_ZERO INT64_MIN /* ask for nothing: changes nothing, says how things stand */

typedef struct weir_request {
    const char
        *policy; /* NULL: see the next, or else the limit comes with the request, see below */
    const char *const *policies; /* instead of one: all of them are charged, or none */
    size_t policy_count;         /* their rules are at most WEIR_MAX_RULES together */
    const char *key;             /* stands for the one attribute of a policy that has only one */
    size_t key_len;              /* 0: up to the NUL */
    const weir_attribute *attributes;
    size_t attribute_count;
    const char *plan;       /* NULL: the rules' own numbers */
    int64_t cost;           /* of requests; 0: 1 */
    const weir_cost *costs; /* of these amounts, each once; requests not named: 1, others: 0 */
    size_t cost_count;
    int64_t now; /* 0: the clock; needs WEIR_TRUST_NOW */
    bool exempt; /* allow, count nothing */

    /* weir_check(), weir_reserve(): asked again with the same id, it is charged once. 1 to
     * WEIR_MAX_ID of a-z A-Z 0-9 _ . : / -. NULL: a check has none, and a reservation gets one */
    const char *id;
    int64_t ttl_ms;          /* weir_reserve(), weir_extend(): how long it is held */
    const char *reservation; /* weir_commit() and those after it: the answer's. NULL or "": what was
                                exempt, and has none */

    /* Without a policy: */
    const char *name; /* as policies are named, but by none of the file's: the answer's policy.
                         NULL: the limit has no name */
    int64_t limit;
    int64_t window_ms;
    int64_t burst;        /* 0: limit; token and leaky bucket only */
    int64_t precision_ms; /* 0: 1 up to a limit of 60, else a 60th of the window;
                             sliding window only */
    weir_algorithm algorithm;
    weir_on_error on_error;
    weir_start start;     /* fixed window only */
    int64_t block_for_ms; /* a denied check locks the key out for so long; 0: it does not */
} weir_request;

typedef struct weir_rule_answer {
    const char *policy; /* as in the answer */
    const char *rule;
    int64_t limit;
    int64_t window_ms; /* of the limit; 0: it is 0, and has none */
    int64_t remaining;
    int64_t retry_after_ms;
    int64_t reset_after_ms;
    int64_t delay_ms;
    int64_t used; /* weir_charge: what is counted now, rounded up */
    int64_t over; /* weir_charge: by how much that exceeds the limit, or the burst of a bucket */
    bool allowed;
    bool shadow;        /* judged and counted, but did not decide */
    bool shadow_denied; /* in shadow, or by its shadow limit, it would have denied */
} weir_rule_answer;

typedef struct weir_answer {
    weir_err err; /* weir_check_many: this request had no answer */
    bool allowed;
    bool shadow; /* some rule shadow_denied */
    weir_source source;
    const char *policy; /* of the rule, or the limit's name; NULL: it has none. Names live until
                           weir_close() */
    const char *rule;   /* the rule that decided */
    int64_t limit;
    int64_t remaining;                 /* requests of cost 1 that would still pass */
    int64_t retry_after_ms;            /* 0 if allowed; else exact; WEIR_NEVER */
    int64_t reset_after_ms;            /* until untouched */
    int64_t delay_ms;                  /* leaky bucket: wait this long before running */
    int64_t used;                      /* weir_charge(): of the rule, the fullest */
    int64_t over;                      /* weir_charge(), weir_commit(): by how much that one is
                                          exceeded; 0: it is not */
    int64_t override_id;               /* of an operator's override that had a say; 0: none had */
    char reservation[WEIR_MAX_ID + 1]; /* "": there is none */
    int64_t expires_in_ms;             /* of the reservation */
    bool repeated;                     /* it was done before, and nothing was charged again */
    bool expired;                      /* weir_commit(): too late to give back */
    size_t rule_count;
    weir_rule_answer rules[WEIR_MAX_RULES]; /* in the order of the request, and of the file */
} weir_answer;

WEIR_API WEIR_MUSTCHECK weir_err weir_check(weir *w, const weir_request *r, weir_answer *a,
                                            weir_diag *diag);

/* Judge n requests in order, each by itself. answers[i].err tells which had none; the
 * result is the first of those errors, with diag about it. */
WEIR_API WEIR_MUSTCHECK weir_err weir_check_many(weir *w, const weir_request *requests,
                                                 weir_answer *answers, size_t n, weir_diag *diag);

/* What a check would say, changing nothing; remaining as it stands. */
WEIR_API WEIR_MUSTCHECK weir_err weir_peek(weir *w, const weir_request *r, weir_answer *a,
                                           weir_diag *diag);

/* Give back `cost` to every rule (what was admitted but did not happen), newest first. */
WEIR_API WEIR_MUSTCHECK weir_err weir_refund(weir *w, const weir_request *r, weir_answer *a,
                                             weir_diag *diag);

/* It has happened: count it, whatever the limits say. What is counted may exceed a limit, which
 * only makes others wait. Never denied; `over` says by how much. */
WEIR_API WEIR_MUSTCHECK weir_err weir_charge(weir *w, const weir_request *r, weir_answer *a,
                                             weir_diag *diag);

/* ---- reservations ------------------------------------------------------------------- *
 *
 * A check whose charges are held until it is known what was used. What is not settled before it
 * expires counts as used. The slots of a limit of what runs at once are free again then. All stores
 * have them. */

/* As weir_check(); if it is allowed, the answer has a reservation. */
WEIR_API WEIR_MUSTCHECK weir_err weir_reserve(weir *w, const weir_request *r, weir_answer *a,
                                              weir_diag *diag);

/* The costs of the request are what was used; what is not named was used as reserved. */
WEIR_API WEIR_MUSTCHECK weir_err weir_commit(weir *w, const weir_request *r, weir_answer *a,
                                             weir_diag *diag);

/* Nothing was used. */
WEIR_API WEIR_MUSTCHECK weir_err weir_release(weir *w, const weir_request *r, weir_answer *a,
                                              weir_diag *diag);

/* A check of more, onto the same reservation. Requests that are not named are 0. */
WEIR_API WEIR_MUSTCHECK weir_err weir_grow(weir *w, const weir_request *r, weir_answer *a,
                                           weir_diag *diag);

/* Expire later: ttl_ms from now, if that is later. */
WEIR_API WEIR_MUSTCHECK weir_err weir_extend(weir *w, const weir_request *r, weir_answer *a,
                                             weir_diag *diag);

/* Forget all that is counted for this identity. */
WEIR_API WEIR_MUSTCHECK weir_err weir_reset(weir *w, const weir_request *r, weir_answer *a,
                                            weir_diag *diag);

/* ---- looking after ------------------------------------------------------------------ */

typedef struct weir_stats {
    /* -1: it is not known, as a shared store has them */
    int64_t keys; /* held now, expired ones that were not yet dropped included */
    int64_t max_keys;
    int64_t evicted_keys; /* live keys dropped because the table was full */
    int64_t expired_keys; /* dropped after they were back to untouched */
    int64_t memory_bytes; /* resident for keys and their states */

    /* file: only */
    int64_t journal_bytes;   /* to replay at the next start */
    int64_t journal_batches; /* written: one serves all answers that waited for it */
    int64_t journal_syncs;
    int64_t snapshots;
    int64_t store_failures; /* how often the disk failed */
    bool has_failed;        /* it has, and is not back yet */

    /* shared stores only */
    int64_t deny_cache_entries;  /* denials that are known to hold, and given without asking */
    int64_t deny_cache_hits;     /* how often */
    int64_t breakers;            /* threads that ask it */
    int64_t breakers_open;       /* those that do not wait for it, as it has failed */
    int64_t settlements_waiting; /* of reservations, until the store is back */
    int64_t settlements_dropped; /* that it was never told */
    int64_t leases;              /* chunks of limits that this process holds */
    int64_t leases_granted;      /* units that the store has charged for them, … */
    int64_t leases_spent;        /* of chunks that are over: that checks were answered from, */
    int64_t leases_returned;     /* that were given back, */
    int64_t leases_stranded;     /* and that the store takes for spent, as they were not in time */
    int64_t lease_checks;        /* that the store was not asked for */
    int64_t lease_requests;      /* for chunks, that it was asked for instead */
} weir_stats;

WEIR_API void weir_get_stats(weir *w, weir_stats *stats);

/* With WEIR_NO_THREAD: drop expired keys, a bounded amount of work a call; a few times a second. */
WEIR_API void weir_tick(weir *w);

WEIR_API const char *weir_version(void); /* "0.1.0" */

#ifdef __cplusplus
}
#endif
#endif
