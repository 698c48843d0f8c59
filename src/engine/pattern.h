/* pattern.h - checks that differ from one before in their key or id alone: the rest is prepared once.
 *
 * Callers ask the same policy, or bring the same limit, for one key after the other. A pattern is
 * what engine_prepare() has found for one of them: the rules, their numbers, how keys are hashed. It
 * is good for the set of policies that it was made of, which the edition tells, and while operators
 * have changed nothing. */
#ifndef WEIR_ENGINE_PATTERN_H
#define WEIR_ENGINE_PATTERN_H

#include "engine/known_keys.h"
#include "engine/reserve.h"

enum { PATTERN_MOST_CHARGES = 4 };

/* What of a request its key is. */
enum pattern_kind {
    PATTERN_NONE,
    PATTERN_CELL,   /* redis-cell's: the bytes as they are */
    PATTERN_LIMIT,  /* that of a limit without a name, which came with the request */
    PATTERN_POLICY, /* the value of the one attribute that the rules of a policy count by */
    PATTERN_KNOWN,  /* the id of a reservation, which is settled */
    PATTERN_HELD, /* as of a policy; each reservation brings amounts and a time as well, see lone_pair.h */
};

struct pattern {
    enum pattern_kind kind;
    uint64_t id;      /* of this one */
    uint64_t edition; /* of the policies */
    const struct policy *policy;
    enum on_error on_error;
    enum verb verb;
    bool peek, is_release;
    bool is_plain;       /* the value is the identity, as it is */
    bool is_lone;        /* its checks are, see struct check */
    bool is_of_store;    /* … and plain, without a chunk */
    bool is_asked_alone; /* a lone check may be asked by lone_check() … */
    bool is_held_alone;  /* … and a reservation by lone_reserve() */
    bool is_straight; /* lone and of the store, and there is nothing to an identity but its value */
    bool may_run;     /* checks may be asked together, see run.h */
    size_t count;
    size_t
        hashes; /* of an identity: one for all charges, if their keys lie together, or one for each */
    int64_t cost;             /* of requests */
    struct rule unnamed;      /* of a limit that came with the request */
    struct hash_start longer; /* that of the only charge, and the length that it is followed by … */
    size_t longer_len;        /* … of identities that are so long; 0: of none */
    struct hash_start starts[PATTERN_MOST_CHARGES];
    uint64_t own_bits[PATTERN_MOST_CHARGES]; /* of each charge, see key_beside() … */
    bool is_beside;                          /* … if they are of use: else hashes are the keys */
    struct {
        const struct policy_rule *rule;
        const struct rule *numbers;
        const struct shared_key *shared; /* of a shared store; else NULL */
        int64_t cost;
        uint8_t class;
    } charges[PATTERN_MOST_CHARGES];
    struct reserve_pattern reserve; /* of verbs about reservations */
};

/* Of a check that was prepared without an error, and not asked yet. False: a check like it with
 * another key may be of other rules, or there is more to it than a key. */
bool pattern_of(struct engine *e, const struct check *check, enum pattern_kind kind,
                struct pattern *out);

/* Is it good for this edition of the policies, now? */
static inline bool pattern_holds(const struct engine *e, const struct pattern *p, uint64_t edition)
{
    return p->edition == edition && !published_is_set(&e->overrides);
}

/* The pattern of requests with this verb that name this policy and bring a key, and nothing else; to
 * reserve, what PATTERN_HELD may bring as well. It is kept with the policy, so that it is of the same
 * edition. NULL: none was kept yet. */
static inline enum policy_prepared pattern_place(enum verb verb)
{
    return verb_reserves(verb) ? POLICY_PREPARED_RESERVE : POLICY_PREPARED_CHECK;
}

static inline const struct pattern *pattern_kept(const struct policy *p, enum verb verb)
{
    return atomic_load_explicit(&p->prepared[pattern_place(verb)], memory_order_acquire);
}

/* Keep that of such a request, which was prepared without an error and not asked yet. If there can be
 * none, one of PATTERN_NONE says so. */
void pattern_keep(struct engine *e, const struct check *check, const weir_allocator *allocator);

/* What all checks of a pattern have in common: all but their keys. */
void pattern_begin(struct check *check, const struct pattern *p);

/* In what a request differs from the one that its pattern was made of. */
struct pattern_words {
    struct span key;
    struct span id; /* of a reservation that it makes, if it brings one */
};

/* As engine_prepare() and engine_prepare_cell() do, by a pattern that holds. What is known is the
 * calling thread's; NULL will do for a store in this process. The check's `made_by` must be 0, or
 * what it was when the check was answered. */
WEIR_MUSTCHECK weir_err engine_prepare_like(struct engine *e, struct check *check,
                                            const struct pattern *p,
                                            const struct pattern_words *words,
                                            struct known_keys *known, weir_diag *diag);

#endif
