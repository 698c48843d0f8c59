/* limit.h - what a decision is, as arithmetic: (state, rule, ask) → (state, decision).
 *
 * Nothing in this directory reads a clock, takes a lock or does I/O. Every number is an
 * integer; SEMANTICS of each algorithm stand at the top of its file.
 *
 * Bounds, checked by rule_check(): 1 <= limit, burst, window, and each is below 2^53. Where an
 * algorithm multiplies (algorithm_multiplies()), limit * window and burst * window are below it,
 * too. So no product in here can overflow. limit 0 is "always deny". A zeroed state is an untouched
 * one, whatever the algorithm.
 *
 * WHAT HAS HAPPENED (an ask that is `forced`) is counted whatever the limit says: a state may
 * exceed its limit, which only makes others wait. A count stops at AMOUNT_MOST, and one that is
 * multiplied by the window where the product does. */
#ifndef WEIR_LIMIT_LIMIT_H
#define WEIR_LIMIT_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"
#include "weir.h"

/* Where a fixed window begins: at a multiple of its length since the epoch, with the first thing
 * that is counted in it, or with a day, week or month of the calendar. The last three begin with
 * the first, too, and a charge moves their end: each one; each that leaves more than the limit; or
 * so, and twice as far with each. */
enum rule_start {
    START_EPOCH,
    START_FIRST,
    START_CALENDAR,
    START_EACH,
    START_OVER,
    START_BACKOFF,
};

struct calendar;

/* The numbers of one limit. */
struct rule {
    weir_algorithm algorithm;
    int64_t limit;
    int64_t window;
    int64_t burst;             /* token and leaky bucket: the capacity */
    int64_t precision;         /* sliding window: the width of a bucket */
    enum rule_start start;     /* fixed window */
    struct calendar *calendar; /* START_CALENDAR; `window` is the longest that one can be */
    int64_t block_for;         /* a refusal locks its key out for so long; 0: it does not */
};

/* 139 years: a time now and this are below 2^48, which is what a store has for it. */
#define RULE_MOST_BLOCK_FOR ((int64_t)1 << 42)

/* Do both decide the same? */
static inline bool rule_is_same(const struct rule *a, const struct rule *b)
{
    return a == b ||
           (a->algorithm == b->algorithm && a->limit == b->limit && a->window == b->window &&
            a->burst == b->burst && a->precision == b->precision && a->start == b->start &&
            a->block_for == b->block_for && a->calendar == b->calendar);
}

/* The algorithm and the start as one number, for the judges in Redis and in Postgres. */
static inline int64_t rule_wire_algorithm(const struct rule *r)
{
    return (int64_t)r->algorithm + 16 * (int64_t)r->start;
}

/* Limits that a full store keeps from pushing each other out are of different classes, as far as
 * there are enough; 0 is for those that come with a request. */
enum { LIMIT_CLASSES = 63 };

/* One request to one rule. */
struct ask {
    int64_t now;
    int64_t cost;
    bool peek;
    bool forced; /* it has happened: `remaining` is then below 0 by how much it is exceeded */
};

struct decision {
    bool allowed;
    int64_t remaining;
    int64_t retry_after;
    int64_t reset_after;
    int64_t delay;
};

/* Fill in what was left out (0) and check the bounds. On failure the diag says which number
 * is wrong and what would be right; its text names no file and no rule. */
WEIR_MUSTCHECK weir_err rule_check(struct rule *r, weir_diag *diag);

/* GCRA as redis-cell counts, in nanoseconds; see cell.c. Commands ask for it, never a policy or a
 * request by its number: it is the last that a record of the store can hold, so that the public
 * ones can become more. */
#define ALGORITHM_CELL ((weir_algorithm)15)

/* No algorithm: the place of a reservation among the keys of a store. */
#define ALGORITHM_RESERVATION ((weir_algorithm)14)

/* The rule of `count` per `period` seconds with room for `capacity`; rule_check() is not for it.
 * On failure the diag says what redis-cell would, or that it would have overflowed. */
WEIR_MUSTCHECK weir_err cell_rule(int64_t capacity, int64_t count, int64_t period, struct rule *out,
                                  weir_diag *diag);
WEIR_MUSTCHECK weir_err cell_check_quantity(const struct rule *r, int64_t quantity,
                                            weir_diag *diag);

/* Values are 1 to ALGORITHM_COUNT, without a gap. */
enum {
#define X(name, value, text, has_burst, has_precision) ALGORITHM_INDEX_##name,
    WEIR_ALGORITHMS(X) ALGORITHM_COUNT,
#undef X
    ALGORITHM_COUNTED = ALGORITHM_INDEX_CONCURRENCY, /* of those before it a check is enough */
};
extern const char *const algorithm_names[ALGORITHM_COUNT]; /* that of value 1 is the first */

/* WEIR_DEFAULT_ALGORITHM if there is no such algorithm. */
weir_algorithm algorithm_by_name(struct span name);

/* The algorithm that WEIR_DEFAULT_ALGORITHM means. */
#define ALGORITHM_BY_DEFAULT WEIR_SLIDING_WINDOW

/* What a limit of so many at once is. */
#define ALGORITHM_OF_SLOTS WEIR_CONCURRENCY

/* What a limit of the calendar is, if its algorithm is not said. */
#define ALGORITHM_OF_CALENDARS WEIR_FIXED_WINDOW

/* Of the cell both are false: its numbers are not those of a policy. */
static inline bool algorithm_has_burst(weir_algorithm algorithm)
{
#define X(name, value, text, has_burst, has_precision) || ((has_burst) && algorithm == WEIR_##name)
    return false WEIR_ALGORITHMS(X);
#undef X
}

/* Those that count time in units of requests, or requests in units of time. */
static inline bool algorithm_multiplies(weir_algorithm algorithm)
{
    switch (algorithm) {
    case WEIR_SLIDING_COUNTER:
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
        return true;
    case WEIR_FIXED_WINDOW:
    case WEIR_SLIDING_WINDOW:
    case WEIR_CONCURRENCY:
    case WEIR_DEFAULT_ALGORITHM: /* sliding window */
        break;
    }
    return false;
}

/* How a chunk of its limit is leased. */
enum leasing {
    LEASED_NEVER,
    LEASED_WITH_WINDOW, /* what is counted stays until the window ends, whenever it is spent */
    LEASED_STANDING,    /* what is counted ages, and has to stand still while it is leased */
    LEASED_IN_QUEUE,    /* … and what is let in waits for its turn */
    LEASED_SLIDING,     /* … and counts for a window more from when it is settled */
};

static inline enum leasing algorithm_leasing(weir_algorithm algorithm)
{
    switch (algorithm) {
    case WEIR_FIXED_WINDOW:
        return LEASED_WITH_WINDOW;
    case WEIR_SLIDING_WINDOW:
    case WEIR_SLIDING_COUNTER:
    case WEIR_DEFAULT_ALGORITHM: /* sliding window */
        return LEASED_SLIDING;
    case WEIR_TOKEN_BUCKET:
        return LEASED_STANDING;
    case WEIR_LEAKY_BUCKET:
        return LEASED_IN_QUEUE;
    case WEIR_CONCURRENCY:
        break;
    }
    return LEASED_NEVER;
}

/* Does what it counts lose weight with time? */
static inline bool algorithm_ages(weir_algorithm algorithm)
{
    return algorithm_leasing(algorithm) > LEASED_WITH_WINDOW;
}

/* Does it count what is held at once, and nothing over time? */
static inline bool algorithm_counts_slots(weir_algorithm algorithm)
{
    switch (algorithm) {
    case WEIR_CONCURRENCY:
        return true;
    case WEIR_FIXED_WINDOW:
    case WEIR_SLIDING_WINDOW:
    case WEIR_SLIDING_COUNTER:
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
    case WEIR_DEFAULT_ALGORITHM:
        break;
    }
    return false;
}

static inline bool algorithm_has_precision(weir_algorithm algorithm)
{
#define X(name, value, text, has_burst, has_precision)                                             \
    || ((has_precision) && algorithm == WEIR_##name)
    return false WEIR_ALGORITHMS(X);
#undef X
}

#define AMOUNT_MOST (WEIR_MAX_AMOUNT - 1)

/* a + b, of amounts; at most `most`, or what `a` was if that is more. */
static inline int64_t add_amount(int64_t a, int64_t b, int64_t most)
{
    return b < most - a ? a + b : a > most ? a : most;
}

static inline int64_t div_up(int64_t a, int64_t b)
{
    return a / b + (a % b > 0);
}

#endif
