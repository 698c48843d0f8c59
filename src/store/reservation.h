/* reservation.h - what is held by a reservation, and what a store is asked about it.
 *
 * A reservation is an admission at the instant at which it is made. Its record has all that is
 * needed to settle it: the keys, the numbers, and where each amount lies. The policies are not
 * looked at again.
 *
 * RULES (test_reservations.c has a test of each)
 *   R1  The record is written in the same step as the charges: both are there, or none is.
 *   R2  A record is known until RESERVATION_KNOWN_MS after its expiry, and not a ms longer.
 *   R3  An open reservation is never evicted, nor is a key that it holds something of.
 *   R4  The same question under the same id is charged once. */
#ifndef WEIR_STORE_RESERVATION_H
#define WEIR_STORE_RESERVATION_H

#include "base/hash.h"
#include "limit/calendar.h"
#include "limit/state.h"

enum {
    RESERVATION_KNOWN_MS = 600000,
    RESERVATION_RELEASED_MS = 1000, /* after its expiry it is given back within this */
    RESERVATION_MOST_CHARGES = 2 * WEIR_MAX_RULES,
    RESERVATION_MOST_PARTS = 256, /* what is grown beyond can not be given back */
    HELD_MOST = 50000,            /* reservations that are told of in a shared store */
    RESERVATION_MOST_TEXT = RESERVATION_MOST_CHARGES * 3 * (WEIR_MAX_NAME + 1),
};

/* An amount by its name. */
struct amount {
    struct span name;
    int64_t amount;
};

struct charge;

/* What a charge is called, beside its key. */
struct charge_label {
    const char *policy, *rule, *counts;
    bool is_shadow; /* judged alone; decides nothing */
    bool is_kept;   /* policy and rule stay as long as the handle */
};

/* What a question about a reservation has beside its charges. */
struct reserving {
    struct key key;              /* of its record: a hash of the id */
    uint16_t tag;                /* of a shared store: by which its record is found */
    struct reserving_part *part; /* a store's own; NULL: this is the whole question */
    uint64_t fingerprint; /* reserve: of what is asked; 0: a lease, which people are not told of */
    int64_t ttl;          /* reserve, extend */
    int64_t most_ttl;     /* reserve: that an extension may have */
    bool gives_back;      /* reserve: what is not settled in time is given back */
    bool is_expiry;       /* settle: by the store itself, as it was not settled in time */
    bool is_used;         /* reserve: settled at once, as asked */
    bool is_release;      /* settle: nothing was used */
    bool forgets;         /* settle: no one asks for its record again */
    const struct amount *amounts; /* settle, grow: by name */
    size_t amount_count;

    /* Reserve: given. All others: filled in by the store, as are the charges and their count; the
     * charges have room for RESERVATION_MOST_CHARGES, and so have these. */
    struct charge_label *labels;
    struct rule *rules;         /* the charges point at these then */
    struct calendar *calendars; /* … and they at these */
    char *text;                 /* … and the labels here: RESERVATION_MOST_TEXT bytes */
    struct charge *charges;     /* … NULL, or for the question's: those have room for one only */
    struct charge_label label;  /* where that of one may be, as most are: close to all else */

    weir_err refusal;   /* out: why nothing was done: no such reservation, … */
    int64_t expires_in; /* out: ms; below 0: it has */
    bool is_repeated;   /* out: it was done before; the charges say how things stand */
    bool has_expired;   /* out, settle: it came too late to give back */
    int64_t over;       /* out, settle: by how much the fullest limit is exceeded */
};

/* What a reservation that is not settled has of one key: for people. */
struct held_charge {
    const struct charge_label *label;
    struct key key;
    int64_t amount, expires;
    bool is_new;   /* the first of its reservation */
    bool is_first; /* … of its policy in it */
};
typedef void held_visit(void *ctx, const struct held_charge *c);

/* A shared store has more than HELD_MOST, or cannot look at all of them in time. */
WEIR_MUSTCHECK weir_err held_fail(weir_diag *diag);

/* Tell of one of these charges. */
void held_tell(const struct charge_label *labels, size_t charge, struct key key, int64_t amount,
               int64_t expires, held_visit *visit, void *ctx);

/* ---- the record ----------------------------------------------------------------------------
 *
 * FORMAT, in Redis and in older files: the head, `charge_count` charges, `bounds_count` bounds of
 * calendars, `part_count` parts, then the text: names, each with a NUL. Parts are in the order in
 * which they were added. Tables keep a shorter one (memory/kept.h), files have it packed
 * (reservation_pack.h). */
struct reserved_charge {
    struct key key;
    int64_t limit, window, burst, precision, block_for;
    int64_t held, used; /* used: RESERVED_OPEN until it is settled */
    uint64_t unused_names[2];
    uint16_t policy_at, rule_at, counts_at; /* in the text */
    uint16_t bounds_at;                     /* of START_CALENDAR: which bounds */
    uint8_t algorithm, class, is_shadow, start;
    uint32_t unused;
};

struct reserved_part {
    int64_t amount, mark;
    uint32_t charge; /* whose */
    uint32_t born;   /* of which state */
};

struct reservation {
    struct kept_block block; /* its size: all of it */
    uint64_t fingerprint;
    int64_t most_ttl;
    uint16_t charge_count, bounds_count, part_count;
    uint8_t is_settled;
    uint8_t gives_back : 1;  /* once it has expired */
    uint8_t is_released : 1; /* … and that was done: what is committed later is all added */
    struct reserved_charge charges[];
};

#define RESERVED_OPEN (-1)

static inline struct calendar_bounds *reservation_bounds(const struct reservation *r)
{
    return (struct calendar_bounds *)(r->charges + r->charge_count);
}

static inline struct reserved_part *reservation_parts(const struct reservation *r)
{
    return (struct reserved_part *)(reservation_bounds(r) + r->bounds_count);
}

static inline const char *reservation_text(const struct reservation *r)
{
    return (const char *)(reservation_parts(r) + r->part_count);
}

/* Are these bytes one? Files are read by this. */
bool reservation_is_sound(const void *bytes, size_t size);

/* What a question holds; its parts are left to be filled in. NULL: out of memory. */
struct reservation *reservation_new(const struct reserving *of, const struct charge *charges,
                                    size_t n, size_t parts, const weir_allocator *allocator);

/* The same where there is room for it. Returns its size. */
size_t reservation_put(struct reservation *to, const struct reserving *of,
                       const struct charge *charges, size_t n, size_t parts);

/* A part of it: a charge, but for its bounds and names; the names of all, behind all else, which ends
 * it. The latter returns its size. */
void reservation_put_charge(struct reserved_charge *to, const struct charge *from, bool is_shadow);
size_t reservation_put_names(struct reservation *r, const struct charge_label *labels);

/* What a charge of it is called. */
struct charge_label reservation_label(const struct reservation *r, size_t charge);

/* Fill in the charges and labels of a question. */
void reservation_read(const struct reservation *r, struct reserving *to, struct charge *charges);

/* What it holds of each charge. */
void reservation_visit(const struct reservation *r, int64_t expires, held_visit *visit, void *ctx);

/* How the holds of a reservation are told from others. */
static inline uint64_t reservation_hold_id(struct key record)
{
    return record.low ? record.low : 1;
}

/* The hold of this reservation by a charge of this algorithm, without an amount. What is to be given
 * back stays held until that is done: else it would count as used. A slot is free at the instant. */
static inline struct hold reservation_hold(const struct reserving *of, weir_algorithm algorithm,
                                           int64_t expires, bool gives_back)
{
    const bool waits = gives_back && !algorithm_counts_slots(algorithm);

    return (struct hold){ .expires = expires + (waits ? RESERVATION_RELEASED_MS : 0),
                          .id = reservation_hold_id(of->key) };
}

/* What the question says of this charge; 0: nothing. */
int64_t reservation_named(const struct reserving *by, size_t charge);

/* What was used of this charge, of which so much was held, by the question's amounts. */
int64_t reservation_used(const struct reserving *by, size_t charge, int64_t held);

/* What a settle or a grow that is done has added to what was held of this charge. */
struct question;
int64_t reservation_added(const struct question *q, size_t charge, int64_t held);

#endif
