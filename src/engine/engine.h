/* engine.h - the sentence: request → rules → store → answer.
 *
 * A check is one request on its way. engine_prepare() finds its rules and keys and may fail
 * or answer at once; engine_ask() hands its questions to the store; when all are decided the
 * answer is complete and done() is called, in this turn or in a later one. */
#ifndef WEIR_ENGINE_ENGINE_H
#define WEIR_ENGINE_ENGINE_H

#include <stdatomic.h>

#include "base/published.h"
#include "engine/deny_cache.h"
#include "engine/named.h"
#include "engine/settle_later.h"
#include "policy/ip.h"
#include "policy/policy.h"
#include "store/store.h"

/* What identities are hashed with, but for what is in the policies. */
struct engine_keys {
    struct secret secret;
    struct hash_key unnamed;     /* for limits that come with a request */
    struct hash_key cell;        /* for those of CL.THROTTLE */
    struct hash_key counter;     /* for counters of Redis's clients */
    struct hash_key reservation; /* for the ids of reservations */
    struct tag_key called;       /* for the tags of both */
    struct hash_key place;       /* for where all of an identity is, in a shared store */
};

struct engine {
    struct store *store;
    struct store *local;        /* beside a shared one: decides while that cannot; else NULL */
    struct deny_cache *denials; /* of a shared one; NULL: it is always asked */
    struct leases *leases;      /* of a shared one; NULL: there are none */
    struct named *named;        /* names that requests bring */
    struct intern *names;       /* all that answers point at */
    _Atomic(const struct engine_keys *) keys;
    struct engine_keys first, second; /* which these are: those it began with, or the others */
    struct hash_key id_key;           /* for the ids of reservations that bring none: random */
    _Atomic uint64_t ids_made;
    _Atomic uint64_t patterns_made;
    bool trusts_now;
    const struct cidr *proxies; /* what they write into lists of addresses is believed */
    size_t proxy_count;
    struct settle_later later;       /* commits that a shared store did not take */
    _Atomic int64_t errors_in_a_row; /* questions that the store did not decide and keep */
    struct published overrides; /* a struct override_index; NULL: operators have changed nothing */
    weir_clock clock;           /* by which they expire */
    void *clock_ctx;
};

enum { CHECK_MOST_CHARGES = 2 * WEIR_MAX_RULES }; /* each rule, and its shadow limit */

/* Whom a charge is for, in case a tag is wanted of them when the request is gone: few checks want
 * one, so that the identity is hashed only if there is no room for it. */
enum { WHOSE_IDENTITY = 47, WHOSE_TAG = 255 };
struct whose {
    uint8_t len; /* of the identity; WHOSE_TAG: it is the tag */
    char bytes[WHOSE_IDENTITY];
};

/* What a check needs that is about a reservation … */
struct check_reserving {
    struct reserving of;
    size_t id_len;
    char id[WEIR_MAX_ID + 1];
};

/* … and more of it: of several charges, and of amounts by name. */
enum { RESERVATION_MOST_WHY = 1024 };

struct reserving_room {
    struct amount amounts[1 + WEIR_MAX_COSTS];
    char amount_names[WEIR_MAX_COSTS][WEIR_MAX_NAME];
    struct charge_label labels[RESERVATION_MOST_CHARGES];
    struct rule rules[RESERVATION_MOST_CHARGES];
    struct calendar calendars[RESERVATION_MOST_CHARGES];
    char text[RESERVATION_MOST_TEXT];
    char why[RESERVATION_MOST_WHY]; /* why there is no answer: see answer_why() */
};

/* What a check needs beyond itself if it has more than one charge or policy, a name that came with
 * its limit, or an operator's numbers. */
struct check_room {
    struct question questions[1 + WEIR_MAX_RULES];
    struct charge charges[CHECK_MOST_CHARGES];
    const struct policy_rule *rules[CHECK_MOST_CHARGES];
    struct whose whose[CHECK_MOST_CHARGES];
    struct rule altered[WEIR_MAX_RULES]; /* numbers that operators have changed */
    const struct policy *policies[WEIR_MAX_RULES];
    struct named_limit named;
    struct key tags[1 + WEIR_MAX_RULES]; /* see check_note_tags() */
    struct rule brought[WEIR_MAX_RULES]; /* numbers that came with descriptors … */
    const char *called[WEIR_MAX_RULES];  /* … and what metrics call each charge */
    struct reserving_room reserving;
};

struct check {
    /* What the caller gives: the request until it is prepared, the rest until done(). */
    const weir_request *request;
    enum verb verb;
    bool peek;
    bool is_release; /* VERB_SETTLE: nothing was used */
    weir_answer *answer;
    void (*done)(struct check *check); /* may be NULL */
    void *ctx;

    struct check_room *room;         /* apart from it; nothing need be there */
    const struct policies *policies; /* kept in place until then, too */
    const struct check *like;        /* prepared before from the same set; NULL: none */
    bool is_judged;    /* VERB_CHARGE: it is charged, and denied if it exceeds a limit … */
    int32_t most_ms;   /* that a remote store may take for it; 0: as for any. Set when prepared */
    bool has_no_limit; /* … which is 0: a limit of 1 counts for it */

    /* Which pattern it was made by, and by which its question and its answer were: what is the same
     * for all of a pattern is not written again, if the store in this process is all that is asked.
     * 0: by none, or it is written again. */
    uint64_t pattern, made_by, told_by;

    /* The engine's. */
    struct engine *engine;
    const struct policy *policy; /* the first; NULL: the limit came with the request, unnamed */
    struct rule unnamed;         /* … and is this, named or not */
    struct ask ask;
    size_t live, shadow;  /* charges of each kind: live ones first */
    size_t waiting;       /* questions under way */
    uint8_t policy_count; /* if there are several, they are in the room */
    bool is_named;        /* the policy is the room's: the limit came with the request */
    bool is_answered;     /* without the store */
    bool is_lone;         /* made by a pattern: a check of one charge, which counts */
    bool is_plain; /* made by a pattern, all of its charges count, and decided in this process at
                      once: by its store, or from a chunk */
    bool is_settled_later;  /* the store is away: what it was to be told waits */
    bool lists_charges;     /* the rows of its answer are its charges, see descriptors.h */
    bool wants_lease;       /* its rules lease chunks */
    bool is_leased;         /* … and it was answered from these */
    bool has_mode;          /* an operator's, for the policy's */
    enum mode mode;         /* … which is this */
    enum on_error on_error; /* the strictest that its live rules have */
    const char *plan;       /* the request's, or else an assigned one */
    struct limit_ask *asks; /* while they are prepared */
    size_t ask_count;
    int64_t override_id;        /* that had a say; 0: none */
    uint32_t remembered;        /* questions that were not asked, as bits */
    uint32_t unknown;           /* charges that nothing is said of, as bits */
    int64_t asked_at;           /* by clock_steady_ms(), if there are denials */
    struct question *questions; /* all live charges, then each shadow alone */
    struct charge *charges;
    const struct policy_rule **rules; /* whose charge it is */
    struct whose *whose;              /* whom it is for */

    /* Where these are. Most checks have one charge: all that they touch is close together, and a
     * turn has hundreds of checks. */
    struct {
        struct question questions[1];
        struct charge charges[1];
        const struct policy_rule *rules[1];
        struct whose whose[1];
    } one;
    struct check_reserving reserving; /* of the verbs about reservations */
};

/* Answers of checks with the same number are by the same rules; 0: that is not known of this one. */
static inline uint64_t check_rules_known_by(const struct check *check)
{
    return check->told_by == check->made_by ? check->told_by : 0;
}

void engine_init(struct engine *e, struct store *store, struct store *local,
                 const struct secret *secret, bool trusts_now);
void engine_done(struct engine *e); /* but for the stores */

/* Once, by one thread: hash with this secret from now on. What is under way still has the other. */
void engine_take_secret(struct engine *e, const struct secret *secret);

static inline const struct engine_keys *engine_keys(const struct engine *e)
{
    return atomic_load_explicit(&e->keys, memory_order_acquire);
}

static inline const struct secret *engine_secret(const struct engine *e)
{
    return &engine_keys(e)->secret;
}

/* The key of an identity in the store, which others may share; `ready` may be NULL. */
static inline struct key engine_key(const struct engine *e, const struct hash_key *key,
                                    const struct shared_key *ready, struct span identity)
{
    if (!e->store->ops->is_shared)
        return hash_identity(key, identity);
    return ready ? hash_shared_by(ready, identity) : hash_shared(key, identity);
}

/* That of an identity which a limit of a policy counts. */
static inline struct key engine_counted_key(const struct engine *e, const struct counted *c,
                                            struct span identity)
{
    return counted_key(c, engine_key(e, &c->hash_key, c->shared_key, identity));
}

/* Fills everything but what the caller gives. On error there is nothing to ask. */
WEIR_MUSTCHECK weir_err engine_prepare(struct engine *e, struct check *check, weir_diag *diag);

/* The same for a limit as redis-cell counts, whose numbers come with the request; see cell.c. The
 * key alone is what is counted under: the numbers may change from call to call. A quantity below 0
 * gives back. Without a rule, what is counted is forgotten. Sets the verb and, for a quantity of 0,
 * that it is a peek; needs no request. */
WEIR_MUSTCHECK weir_err engine_prepare_cell(struct engine *e, struct check *check, struct span key,
                                            const struct rule *rule, int64_t quantity,
                                            weir_diag *diag);

/* The same for a counter as clients of Redis have them: a fixed window that begins with the first
 * hit, and ends when the counter expires. A charge adds the amount, a refund takes it back, a reset
 * forgets the key, and a check is a peek. The key alone is what is counted under. */
WEIR_MUSTCHECK weir_err engine_prepare_counter(struct engine *e, struct check *check,
                                               struct span key, const struct rule *rule,
                                               enum verb verb, int64_t amount, weir_diag *diag);

/* The same for the key of another check, which is answered, and was of a counter. */
void engine_prepare_again(struct check *check, const struct check *of, enum verb verb,
                          int64_t amount);

/* Fetch what the store will look at, to be there when it is asked: memory is slow, and other
 * things can be done meanwhile. The way first, then the place, then what is beside it. */
void engine_prefetch_charges(const struct engine *e, const struct check *check, enum prefetch what);
void engine_prefetch_all(struct engine *e, const struct check *check, enum prefetch what);
static inline void engine_prefetch(struct engine *e, const struct check *check, enum prefetch what)
{
    if (check->is_plain && check->live == 1)
        e->store->ops->prefetch(e->store, check->charges->key, what);
    else
        engine_prefetch_all(e, check, what);
}

/* Is more looked at than the places of its keys: what is held of them, their logs, or a record? */
static inline bool engine_looks_beside(const struct engine *e, const struct check *check)
{
    return e->store->ops->prefetch && !check->is_answered &&
           (verb_reserves(check->verb) ||
            (check->live > 0 && state_is_log(check->charges->rule->algorithm)));
}

/* clock_steady_ms(), as it was after the checks had come that are asked together: pending->steady if
 * that is not 0. */
int64_t pending_steady(const struct pending *pending);

/* `now` is the clock's; a request that may bring its own time overrides it. */
void engine_ask(struct engine *e, struct pending *pending, struct check *check, int64_t now);
void engine_commit(struct engine *e, struct pending *pending);

/* A question is done: was it decided and kept? */
static inline void engine_count_error(struct engine *e, const struct question *q)
{
    if (q->err || q->is_unkept)
        atomic_fetch_add_explicit(&e->errors_in_a_row, 1, memory_order_relaxed);
    else if (atomic_load_explicit(&e->errors_in_a_row, memory_order_relaxed) != 0)
        atomic_store_explicit(&e->errors_in_a_row, 0, memory_order_relaxed);
}

#endif
