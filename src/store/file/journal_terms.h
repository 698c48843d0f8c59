/* journal_terms.h - what reservations have in common, which a journal says once.
 *
 * The terms of a reservation are all that it shares with others of the same policy: limits, names,
 * the bounds of calendars. The first of them is in a journal as a definition, which is the whole
 * reservation, packed, under a number. Those that follow are lean (record_short.h), and name it.
 *
 * RULES
 *   T1  A definition stands before all that name it, in the same file.
 *   T2  No number is used twice in a file: what names a definition that was lost is recognised.
 *   T3  A definition is named by TERMS_NAMED reservations, then it is written again: damage that
 *       takes it away takes no more than these. */
#ifndef WEIR_STORE_FILE_JOURNAL_TERMS_H
#define WEIR_STORE_FILE_JOURNAL_TERMS_H

#include "store/memory/kept.h"
#include "store/memory/record.h"

enum {
    TERMS_SLOTS = 64,   /* definitions that are known at a time; a number says which it replaces */
    TERMS_RECORDS = 64, /* that a definition has at most */
    TERMS_NAMED = 256,
};

/* ---- writing -------------------------------------------------------------------------------- */

struct known_terms;

struct known_terms *known_terms_new(const weir_allocator *allocator); /* NULL: out of memory */
void known_terms_free(struct known_terms *k, const weir_allocator *allocator);

/* A new file begins. */
void known_terms_forget(struct known_terms *k);

/* The number of the terms of a reservation that is lean. If they are not known, they are now: *count
 * records are the definition, which must be written before it. */
uint64_t known_terms_number(struct known_terms *k, const struct kept_reservation *r,
                            struct record definition[TERMS_RECORDS], size_t *count);

/* ---- reading -------------------------------------------------------------------------------- */

/* All zero: none is defined. */
struct read_terms {
    struct {
        uint64_t number;
        struct reservation *of; /* with text */
    } slots[TERMS_SLOTS];
};

void read_terms_done(struct read_terms *t, const weir_allocator *allocator);

enum defined { TERMS_DEFINED, TERMS_BAD, TERMS_NO_MEMORY };
enum defined read_terms_define(struct read_terms *t, const struct record *definition,
                               const weir_allocator *allocator);

/* Those that this record names. NULL: they are not known. */
const struct reservation *read_terms_of(const struct read_terms *t, const struct record *lean);

#endif
