/* state.h - the state of one key under one rule, whatever its algorithm: at most 40 bytes.
 *
 * The way through: state_take() looks and changes nothing; if all rules of a check agree,
 * state_reserve() gets what memory is needed and may fail, and state_apply() makes the step
 * real and cannot. A zeroed state is an untouched one. */
#ifndef WEIR_LIMIT_STATE_H
#define WEIR_LIMIT_STATE_H

#include "base/alloc.h"
#include "limit/holds.h"
#include "limit/limit.h"

struct fixed_window {
    int64_t start, count;
    int64_t end; /* of one that does not begin at a multiple of its length; 0: of none yet */
};

struct sliding_counter {
    int64_t start, current, previous;
};

/* Token and leaky bucket. */
struct bucket {
    int64_t used;  /* in units of request x ms */
    int64_t at;    /* when it was that */
    int64_t known; /* of a key that has or had holds: used for certain; 0 without holds: `used` */
    struct holds *holds;
};

struct bucket_change {
    int64_t used, at, known;
    uint32_t drop; /* holds that have expired */
};

/* Concurrency. */
struct slots {
    int64_t at; /* holds that expire until then are free */
    int64_t unused[2];
    struct holds *holds; /* at the same place as a bucket's */
};

struct slots_change {
    int64_t at;
    uint32_t drop;
};

/* GCRA: when the next one is due that keeps to the rate. */
struct arrival {
    int64_t ms, ns; /* since the epoch, and beyond that ms */
};

enum { SLIDING_WINDOW_NEAR = 3 };

#define STATE_MOST_TAG ((UINT64_C(1) << 60) - 1)

/* A log of admissions. A short one lives in here, a longer one in a block beside it. */
struct sliding_window {
    int64_t base;            /* what the entries' offsets count from */
    uint64_t tag : 60;       /* for the store that keeps the state */
    uint64_t wide : 1;       /* an entry is two words, see sliding_window.c */
    uint64_t is_far : 1;     /* the entries are in `far` */
    uint64_t near_count : 2; /* entries in `near` */
    union {
        uint64_t near[SLIDING_WINDOW_NEAR];
        struct {
            struct sliding_window_block *far;
            uint32_t far_count;
            uint32_t room; /* entries that `far` can hold */
            uint64_t last; /* the newest entry, unless it is wide: `far` has the others */
        };
    };
};

struct sliding_window_change {
    uint32_t drop; /* entries that have left the window */
    bool
        is_in_place; /* none has, and what is added goes to the newest, where there is room for it */
    int64_t start;   /* then count `add` in the bucket that starts here */
    int64_t add;     /* 0: nothing changes */
};

/* Not of a limit: what a store keeps of a reservation. */
struct kept_state {
    int64_t expires;
    int64_t is_open;
    int64_t unused;
    struct kept_block *block; /* begins with its size */
};

struct kept_block {
    uint64_t size;
};

struct state {
    union {
        struct fixed_window fixed_window;
        struct sliding_window sliding_window;
        struct sliding_counter sliding_counter;
        struct bucket bucket;
        struct slots slots;
        struct kept_state kept;
        struct arrival arrival;
        struct {
            int64_t words[4];
            uint64_t tag; /* for the store that keeps the state; a log has one of its own */
        };
    };
};

/* Is the state a log, as that of a sliding window? All others are words. */
static inline bool state_is_log(weir_algorithm algorithm)
{
    switch (algorithm) {
    case WEIR_SLIDING_WINDOW:
        return true;
    case WEIR_FIXED_WINDOW:
    case WEIR_SLIDING_COUNTER:
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
    case WEIR_CONCURRENCY:
    case WEIR_DEFAULT_ALGORITHM: /* of no rule that was checked */
        break;
    }
    return false;
}

/* What the store noted last, at most 60 bits. It stays, whatever becomes of the rest. */
static inline uint64_t state_tag(const struct state *s, weir_algorithm algorithm)
{
    return state_is_log(algorithm) ? s->sliding_window.tag : s->tag;
}

static inline void state_set_tag(struct state *s, weir_algorithm algorithm, uint64_t tag)
{
    if (state_is_log(algorithm))
        s->sliding_window.tag = tag & STATE_MOST_TAG;
    else
        s->tag = tag;
}

/* Can the state have open holds? */
static inline bool state_has_holds(weir_algorithm algorithm)
{
    switch (algorithm) {
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
    case WEIR_CONCURRENCY:
        return true;
    case WEIR_FIXED_WINDOW:
    case WEIR_SLIDING_WINDOW:
    case WEIR_SLIDING_COUNTER:
    case WEIR_DEFAULT_ALGORITHM:
        break;
    }
    return false;
}

static inline const struct holds *state_holds(const struct state *s, weir_algorithm algorithm)
{
    return state_has_holds(algorithm) ? s->bucket.holds : NULL;
}

/* What was decided, and what the state would become. */
struct step {
    struct decision decision;
    int64_t now; /* the time that was used: never before what the state records */
    bool locks;  /* refused, and from now on the key is locked out; lockout_take() alone says it */
    union {
        struct fixed_window fixed_window;
        struct sliding_counter sliding_counter;
        struct bucket_change bucket;
        struct slots_change slots;
        struct arrival arrival;
        struct sliding_window_change sliding_window;
    } next;
    struct hold hold; /* to be put, or added to */
};

void state_take(const struct state *s, const struct rule *r, const struct ask *ask,
                struct step *out);
bool state_reserve(struct state *s, const struct rule *r, const struct step *step,
                   const weir_allocator *allocator); /* false: out of memory */
void state_apply(struct state *s, const struct rule *r, const struct step *step);

/* Has it all the memory that the step needs? False: ask state_reserve(). */
bool state_has_room_anyhow(const struct state *s, const struct rule *r, const struct step *step);
static inline bool state_has_room(const struct state *s, const struct rule *r,
                                  const struct step *step)
{
    if (state_is_log(r->algorithm) && step->next.sliding_window.is_in_place &&
        step->hold.amount == 0)
        return true;
    return state_has_room_anyhow(s, r, step);
}

/* The same for a key that may be locked out, until this time; 0: it is not. Before it, all that has
 * a cost is refused. From then on the key is untouched, whatever the state is. A refusal by a rule
 * with a block_for begins a lockout: the state is to be forgotten. */
void lockout_take_any(int64_t until, const struct state *s, const struct rule *r,
                      const struct ask *ask, struct step *out);
static inline void lockout_take(int64_t until, const struct state *s, const struct rule *r,
                                const struct ask *ask, struct step *out)
{
    out->locks = false;
    if (until == 0 && r->block_for == 0)
        state_take(s, r, ask, out);
    else
        lockout_take_any(until, s, r, ask, out);
}

/* Give `ask->cost` back. The decision says how things stand then; it is always "allowed". */
void state_refund(struct state *s, const struct rule *r, const struct ask *ask, struct step *out);

/* ---- holds ------------------------------------------------------------------------------- */

/* What state_take() has let pass is held, by this reservation until it expires. */
void state_hold(const struct state *s, const struct rule *r, const struct ask *ask,
                const struct hold *by, struct step *out);

/* Tells a state from one that the same key had before it was reset, evicted or locked out: what was
 * held of that one is gone, and cannot be given back. Only what is held needs to know, so it is 0
 * until then. Algorithms with holds have none: their holds are gone with the state. */
uint32_t state_born(const struct state *s, weir_algorithm algorithm);
bool state_bear(struct state *s, weir_algorithm algorithm, uint32_t born,
                const weir_allocator *allocator); /* false: out of memory */

/* Where a charge lies that this step has made: to find it again, if it is given back. */
int64_t state_mark(const struct rule *r, const struct step *step);

/* Take `amount` out of what was charged with this mark, of the state of that birth. For algorithms
 * without holds. */
void state_give_back(struct state *s, const struct rule *r, int64_t now, int64_t mark,
                     int64_t amount);

bool state_hold_is_open(const struct state *s, weir_algorithm algorithm, int64_t now,
                        const struct hold *hold);

/* So much of a hold was used; it is over. Its amount is what was reserved: less is held if a lockout
 * or a reset has forgotten some of it before the rest was grown. Then `out` says how the state stands,
 * as a peek does. False: it is not open (any more). For algorithms with holds. */
bool state_settle(struct state *s, const struct rule *r, int64_t now, const struct hold *hold,
                  int64_t used, struct step *out);

/* The hold expires later. False: it is not open. Nothing is allocated. */
bool state_extend(struct state *s, weir_algorithm algorithm, const struct hold *hold,
                  int64_t expires);

/* Until when a state with holds says more than that it is untouched; 0: it has and had none. */
int64_t state_holds_last_until(const struct state *s, const struct rule *r);
static inline int64_t state_lasts_until(const struct state *s, const struct rule *r)
{
    if (!state_has_holds(r->algorithm) || (!s->bucket.holds && s->bucket.known == 0))
        return 0;
    return state_holds_last_until(s, r);
}

/* Memory beside the state, for an algorithm that has some. That of a reservation is its owner's. */
size_t state_heap_bytes(const struct state *s, weir_algorithm algorithm);
void state_prefetch(const struct state *s, weir_algorithm algorithm); /* that memory */
void state_done(struct state *s, weir_algorithm algorithm, const weir_allocator *allocator);

#endif
