/* store.h - where states live: the one interface every store implements.
 *
 * A store decides inside itself, atomically. It is asked questions; done() is called exactly
 * once for each and means final: decided, and as durable as the store was asked to be. Memory
 * calls it in submit(), the file store in commit(), a remote store in a later turn of the same
 * loop. One store serves all threads; a turn belongs to one. */
#ifndef WEIR_STORE_STORE_H
#define WEIR_STORE_STORE_H

#include "base/alloc.h"
#include "base/hash.h"
#include "base/reactor.h"
#include "limit/state.h"
#include "store/ledger.h"
#include "store/reservation.h"
#include "weir.h"

/* What a question asks for: X(name, decides, adds). Only a verb that decides can be denied; it
 * alone is counted in metrics, and its denials are kept in the deny cache. One that adds and does
 * not decide is counted whatever the limits say.
 *   check    may the charges pass? They are charged, unless the ask only peeks.
 *   charge   it has happened. Each decision's `remaining` is below 0 by how much it is exceeded.
 *   refund   give back
 *   reset    forget
 *   undo     a store's own: take back what it has charged, due at each charge's step.now */
#define STORE_VERBS(X)                                                                             \
    X(CHECK, true, true)                                                                           \
    X(REFUND, false, false)                                                                        \
    X(RESET, false, false)                                                                         \
    X(UNDO, false, false)                                                                          \
    X(CHARGE, false, true)

/* The same for verbs about reservations, of stores that have them (store_ops.reserves):
 *   reserve  a check whose charges are held until they are settled
 *   settle   say what was used of a reservation, and give back the rest
 *   grow     a check of more, onto a reservation
 *   extend   let a reservation expire later */
#define RESERVATION_VERBS(X)                                                                       \
    X(RESERVE, true, true)                                                                         \
    X(SETTLE, false, false)                                                                        \
    X(GROW, false, false)                                                                          \
    X(EXTEND, false, false)

enum verb {
#define X(name, decides, adds) VERB_##name,
    STORE_VERBS(X) RESERVATION_VERBS(X)
#undef X
};

static inline bool verb_decides(enum verb verb)
{
#define X(name, decides, adds) || ((decides) && verb == VERB_##name)
    return false STORE_VERBS(X) RESERVATION_VERBS(X);
#undef X
}

/* Is it about a reservation? Then the question has a `struct reserving`. */
static inline bool verb_reserves(enum verb verb)
{
#define X(name, decides, adds) || verb == VERB_##name
    return false RESERVATION_VERBS(X);
#undef X
}

/* Does it end a reservation? */
static inline bool verb_settles(enum verb verb)
{
    switch (verb) {
    case VERB_SETTLE:
        return true;
    case VERB_CHECK:
    case VERB_REFUND:
    case VERB_RESET:
    case VERB_UNDO:
    case VERB_CHARGE:
    case VERB_RESERVE:
    case VERB_GROW:
    case VERB_EXTEND:
        break;
    }
    return false;
}

/* Does it take back what any question has charged? */
static inline bool verb_gives_back(enum verb verb)
{
    switch (verb) {
    case VERB_REFUND:
    case VERB_RESET:
        return true;
    case VERB_CHECK:
    case VERB_UNDO:
    case VERB_CHARGE:
    case VERB_RESERVE:
    case VERB_SETTLE:
    case VERB_GROW:
    case VERB_EXTEND:
        break;
    }
    return false;
}

static inline bool verb_adds(enum verb verb)
{
#define X(name, decides, adds) || ((adds) && verb == VERB_##name)
    return false STORE_VERBS(X) RESERVATION_VERBS(X);
#undef X
}

/* Does it make a reservation? Other verbs about one are about one that there is. */
static inline bool verb_makes_reservation(enum verb verb)
{
    return verb_reserves(verb) && verb_adds(verb);
}

/* It has happened: it is counted whatever the limits say. */
static inline bool verb_forces(enum verb verb)
{
    return verb_adds(verb) && !verb_decides(verb);
}

/* What a shared store may tell people of a key, beside the key. */
struct charge_name {
    const char *policy, *rule;
    uint16_t tag; /* a keyed hash of the identity alone: charges of one identity have the same */
};

/* One rule on one key. */
struct charge {
    const struct rule *rule;
    struct key key; /* keys of one question differ */
    int64_t
        cost; /* 0: it passes and changes nothing, whatever the others of its question do. Out, of
                     * settle and grow: what was added to what is held; below 0: given back */
    uint8_t class; /* which keys it shares a part of the table with; 0: those of no policy */
    struct charge_name name; /* for a shared store only */
    struct step step;        /* out: the decision, and what a store needs to keep it */
};

/* When, and whether it only looks. */
struct asked {
    int64_t now;
    bool peek;
};

/* May these charges pass together? If one is refused, none is charged, and those that would
 * have passed are reported as they stand. Borrowed by the store until done(). */
struct question {
    enum verb verb;
    struct asked ask;
    struct charge *charges;
    size_t count;
    struct reserving *reserving; /* of the verbs about reservations; else NULL */
    bool decide_anyway;          /* if it cannot be kept, decide it all the same */
    bool is_unkept;              /* out: decided, but may be forgotten in a crash */
    bool allowed;                /* out: all of them are */
    bool is_retried;             /* of a remote store: it has been sent again */
    weir_err err;                /* out: not decided; nothing was answered as charged */
    uint64_t mark;    /* out, of the file store: the journal position that a commit must reach */
    int64_t deadline; /* of a remote store, by its reactor's clock; 0: the store's own */
    int32_t most_ms;  /* … that it may take, if that is less; 0: it is not */
    void (*done)(struct question *q);
    void *ctx;
    struct question *next; /* the store's, while the question is under way */
};

static inline struct ask charge_ask(const struct question *q, const struct charge *c)
{
    return (struct ask){
        .now = q->ask.now, .cost = c->cost, .peek = q->ask.peek, .forced = verb_forces(q->verb)
    };
}

/* Does a state change if it passes? A cost below 0 gives back: only a cell has one. */
static inline bool question_charges(const struct question *q)
{
    bool charges = q->charges->cost != 0;

    for (size_t i = 1; i < q->count && !charges; i++)
        charges = q->charges[i].cost != 0;
    return charges && !q->ask.peek;
}

struct lease_lane;

/* The questions of one thread between two commits. */
struct pending {
    struct question *first, *last; /* submitted, not yet done */
    uint64_t mark;                 /* the position in the journal that the commit must reach */
    struct lane *lane;             /* of a remote store: this thread's way to it */
    bool is_long;                  /* more than one question will come; need not be said */
    void *part;                    /* the store's own, until the commit */
    int64_t steady;                /* the engine's, see pending_steady() */
    struct lease_lane *leases;     /* the engine's, of the lane; NULL: chunks are not taken here */
};

/* What a shared store hears of changes to what it holds, made by any process. */
enum store_event_kind {
    STORE_EVENT_KEY,    /* `key` was refunded or reset, or a charge was undone */
    STORE_EVENT_BACK,   /* what was reserved of `key` and not used was given back */
    STORE_EVENT_LEDGER, /* the ledger was changed */
    STORE_EVENT_ALL,    /* anything may have changed: events were lost, or the clock was set */
    STORE_EVENT_UP_TO,  /* all that was changed before `at` has been told */
};

struct store_event {
    enum store_event_kind kind;
    struct key key;
    int64_t at; /* by clock_steady_ms() */
};

struct store_options {
    const char *uri;
    int64_t max_keys;
    bool callers_bring_now;  /* time may jump between questions: do not drop by it */
    int64_t clock_slip;      /* … or it may step back so far; 0: by a second */
    void (*wake)(void *ctx); /* asks for a tick() soon; NULL: ticks come only when they come */
    void *wake_ctx;
    const char *sync;       /* "always", "os" or a duration; file stores only; NULL: "50ms" */
    uint64_t journal_limit; /* bytes that a journal may have before a snapshot is taken; 0: 32 MB */
    struct secret_ids secret_ids;
    const struct secret *secret; /* borrowed until it is open */
    bool lacks_secret;           /* these two are not set: no questions before take_secret() */
    bool no_thread;              /* tick() does everything */
    int64_t (*clock)(void *ctx);
    void *clock_ctx;
    void (*log)(void *ctx, const char *line); /* may be NULL */
    void *log_ctx;
    /* So many failures in a row, and a shared store is not waited for; NULL, 0: its own number. */
    const _Atomic unsigned *after_errors;
    /* News of a shared store, by one thread at a time; may be NULL. None come from the others: they
     * are changed by this process alone. */
    void (*heard)(void *ctx, const struct store_event *event);
    void *heard_ctx;
    weir_allocator allocator;
};

struct store {
    const struct store_ops *ops;
    bool commits_at_once; /* a commit waits for no disk and no network: a turn may have many */
    bool is_apart;        /* what it holds has no keys by key_beside(), and must not get any */
};

/* What leads to the place of a key in memory, the place itself, or what the state has beside it.
 * That is read from the place without a lock: only where one thread alone uses the store. */
enum prefetch { PREFETCH_WAY, PREFETCH_PLACE, PREFETCH_BESIDE };

struct history_store;
struct history_store_options;

struct store_ops {
    const char *scheme; /* "memory:" */
    bool is_shared;     /* by several processes: keys are hash_shared() */
    bool reserves;      /* it knows the verbs about reservations */
    weir_err (*open)(struct store **out, const struct store_options *options, weir_diag *diag);

    /* The secret that is kept in the store itself; see secret.h. NULL: none is. */
    weir_err (*secret)(const char *uri, const weir_allocator *allocator, struct secret *out,
                       weir_diag *diag);

    /* For a store that was opened without: here it is. By the thread of tick(). NULL: it cannot be
     * opened without. */
    void (*take_secret)(struct store *s, const struct secret *secret);

    /* Questions with this key come soon, and with those beside it, which have the upper half in common:
     * bring near what they will look at, best in steps with something else between them. May be NULL. */
    void (*prefetch)(struct store *s, struct key key, enum prefetch what);

    /* A remote store waits for its answers on a loop of the caller's. Questions of a lane are done
     * on that loop; detach() answers those that are open with WEIR_EIO. NULL: not remote. */
    struct lane *(*attach)(struct store *s, struct reactor *reactor); /* NULL: out of memory */
    void (*detach)(struct store *s, struct lane *lane);

    void (*submit)(struct store *s, struct pending *pending, struct question *q);

    /* No more questions this turn: sync the journal, send the pipeline. */
    void (*commit)(struct store *s, struct pending *pending);

    /* From time to time and when wake() asks for it, by one thread: drop what has expired, grow. */
    void (*tick)(struct store *s, int64_t now);

    /* They wait: never from a loop's turn. Append sets the entry's `seq`; when it returns, the
     * entry is kept as well as this store keeps anything. Read visits those beyond `after`, in
     * order; with an `after` of 0 it may leave out what is not in force any more. Audit leaves
     * out nothing; NULL: nor does read. */
    weir_err (*append_entry)(struct store *s, struct ledger_entry *e, weir_diag *diag);
    weir_err (*read_entries)(struct store *s, uint64_t after, ledger_visit *visit, void *ctx,
                             weir_diag *diag);
    weir_err (*audit_entries)(struct store *s, uint64_t after, ledger_visit *visit, void *ctx,
                              weir_diag *diag);

    /* The names of those of these policies, documents by name, that differ from what was pushed
     * into the store, and of those that are only there; none, if none was pushed. Waits: never
     * from a loop's turn. NULL: nothing can be pushed there. */
    weir_err (*compare_policies)(struct store *s, const char *documents,
                                 void (*each)(void *ctx, const char *name), void *ctx,
                                 weir_diag *diag);

    void (*stats)(struct store *s, weir_stats *stats);

    /* Visit what reservations hold, and what those had that have expired unsettled and are still
     * known; one reservation after the other. Waits: never from a loop's turn. NULL: it cannot
     * tell. */
    weir_err (*visit_held)(struct store *s, int64_t now, held_visit *visit, void *ctx,
                           weir_diag *diag);

    /* Where the history of decisions is kept, beside the store and closed before it; see
     * history_store.h. NULL: nowhere but in memory. */
    weir_err (*history_store)(struct store *s, struct history_store **out,
                              const struct history_store_options *options, weir_diag *diag);

    void (*close)(struct store *s); /* open questions are answered WEIR_EIO */
};

extern const struct store_ops memory_store_ops;
extern const struct store_ops file_store_ops;
extern const struct store_ops postgres_store_ops; /* where libpq is there */
extern const struct store_ops redis_store_ops;    /* where hiredis is there */

/* The directory of a file store's URI, where its secret lives too; NULL: another store. */
const char *store_directory(const char *uri);

/* Is there such a kind of store? Nothing is opened. */
WEIR_MUSTCHECK weir_err store_check_uri(const char *uri, weir_diag *diag);

bool store_is_shared(const char *uri); /* by several processes */

/* Some stores keep the secret themselves, for all who share them. */
bool store_keeps_secret(const char *uri);
bool store_opens_without_secret(const char *uri);
WEIR_MUSTCHECK weir_err store_secret(const char *uri, const weir_allocator *allocator,
                                     struct secret *out, weir_diag *diag);

/* The history of decisions, where the store keeps it. */
WEIR_MUSTCHECK weir_err store_history(struct store *s, struct history_store **out,
                                      const struct history_store_options *options, weir_diag *diag);

/* Find the store by its URI's scheme and open it. */
WEIR_MUSTCHECK weir_err store_open(struct store **out, const struct store_options *options,
                                   weir_diag *diag);

#endif
