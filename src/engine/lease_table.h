/* lease_table.h - the chunks of limits that this process has leased from a shared store.
 *
 * A chunk is charged in the store when it is granted. So what is spent of it here was counted
 * before, and no server can admit it a second time. A check that finds enough in the chunk of each
 * of its keys is answered without the store; any other check goes to the store, which alone denies.
 *
 * RULES (test_lease_table.c has tests of each)
 *   L1  No more is ever spent of a chunk than was granted, by all threads together.
 *   L2  Nothing is spent of a chunk at or after its end: when the store was asked, by a clock that is
 *       never set and goes on while the machine sleeps, and what the chunk lasts, less 1 % and 1 ms.
 *       It lasts no longer than the window that it was charged to, if that is one that ends: what is
 *       leased of the others does not age in the store. The clock is read after the checks have come that are
 *       answered together, a few at a time.
 *   L3  A chunk that is recalled is not spent from any more. A key is recalled when it is refunded
 *       or reset, all keys when limits may have changed or news may have been missed. What was asked
 *       for before and comes after it is recalled, too.
 *   L4  A chunk is for requests with the numbers that it was granted for.
 *   L5  One request for a chunk of a key is under way at a time.
 *   L6  What is left is given back before the store takes it for spent: of a key that is not asked
 *       for, or whose next chunk is there; of one that ages when it is used up. What was spent and what is given back are never more than
 *       was granted.
 *   L7  All memory is allocated at the start. A key that has no chunk makes room for another; without
 *       room no chunk is taken.
 *
 * Times are by clock_steady_ms(). Safe to use by several threads at once. */
#ifndef WEIR_ENGINE_LEASE_TABLE_H
#define WEIR_ENGINE_LEASE_TABLE_H

#include "policy/policy.h"
#include "store/store.h"

enum {
    LEASE_SETS = 4096,
    LEASE_WAYS = 4,
    LEASE_LOCKS = 64,
    LEASE_HOT = 8,       /* so many units asked for while a chunk is held make a key hot */
    LEASE_LEAST = 4,     /* units: less is not worth a request */
    LEASE_FIRST = 32,    /* units at most of the first chunk of a key, … */
    LEASE_GROWTH = 8,    /* … and of the next, so many times that of the last */
    LEASE_PARTS = 4,     /* of what remains: a chunk is at most one for each instance, … */
    LEASE_INSTANCES = 4, /* … of which there are taken to be so many at least: see chunk_for() */
    LEASE_LEAST_LIFE_MS = 10, /* a window that ends sooner is not worth a chunk */
};

struct lease_table;

/* What a check wants of one key. */
struct lease_wish {
    struct key key;
    const struct rule *rule;
    const struct policy_lease *terms;
    int64_t instances; /* that share the limit, as far as is known */
    int64_t cost;
    bool is_alone; /* it is spent for certain: the check wants nothing else */
    bool is_last;  /* if it is spent, all that the check wants is */
};

/* A chunk that is over, and what was spent of it. */
struct lease_end {
    struct key id;
    uint16_t tag;
    const char *counts;
    int64_t amount, spent;
};

/* What it gets. */
struct lease_found {
    struct key id;            /* of the chunk that it was spent of */
    struct decision decision; /* `remaining` is what is left of the chunks here */
    int64_t chunk;            /* to be asked for now, by this caller; 0: none */
    struct lease_end ended;   /* to be given back; an amount of 0: none */
};

/* A chunk that the store has granted. */
struct lease_grant {
    struct key id; /* of its record in the store */
    int64_t amount;
    int64_t ttl;
    int64_t asked;     /* when the request began, */
    int64_t answered;  /* and when the answer came */
    int64_t remaining; /* what the store has beside it */
    int64_t reset_after;
    int64_t delay;      /* of a leaky bucket: of the first unit */
    uint16_t tag;       /* by which its record is found */
    const char *counts; /* what the units are called */
};

/* How long a chunk of this rule is held, at most: it lasts for the ttl of the terms. */
int64_t lease_hold(const struct rule *r, const struct policy_lease *terms);

struct lease_table *lease_table_new(const weir_allocator *allocator); /* NULL: out of memory */
void lease_table_free(struct lease_table *t);                         /* NULL is fine */

/* True: it is spent. Either way, if `out->chunk` is not 0, a request is begun: lease_table_granted()
 * or lease_table_refused() ends it. */
bool lease_table_spend(struct lease_table *t, const struct lease_wish *wish, int64_t now,
                       struct lease_found *out);

/* The check was not answered from here after all: another of its keys had no chunk. */
void lease_table_unspend(struct lease_table *t, struct key key, struct key id, int64_t cost);

/* The store has decided on this key. */
void lease_table_learn(struct lease_table *t, struct key key, const struct decision *said,
                       int64_t now);

/* The answer to a request. False: the chunk is not taken, and is to be given back. */
WEIR_MUSTCHECK bool lease_table_granted(struct lease_table *t, const struct lease_wish *wish,
                                        const struct lease_grant *grant);
/* There is none. `remaining` is what the store said, or below 0: it said nothing. */
void lease_table_refused(struct lease_table *t, struct key key, int64_t remaining);

void lease_table_recall(struct lease_table *t, struct key key, int64_t now);
void lease_table_recall_all(struct lease_table *t, int64_t now);

/* Take out chunks that are over, at most so many; with `all`, all that there are. Those that the
 * store takes for spent by now are dropped. */
size_t lease_table_take_ended(struct lease_table *t, int64_t now, bool all, struct lease_end *out,
                              size_t most);
bool lease_table_is_empty(const struct lease_table *t);

/* So many units that were to be given back came too late, or never: the store takes them for spent. */
void lease_table_came_late(struct lease_table *t, int64_t units);

struct lease_stats {
    int64_t chunks;                    /* held now */
    int64_t checks;                    /* answered from chunks, since the start */
    int64_t granted;                   /* units since the start */
    int64_t spent, returned, stranded; /* … of chunks that are over */
};
void lease_table_get_stats(struct lease_table *t, struct lease_stats *out);

#endif
