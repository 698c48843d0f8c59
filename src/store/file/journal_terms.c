/* journal_terms.c - what reservations have in common, which a journal says once. */
#include "store/file/journal_terms.h"

#include <string.h>

#include "store/memory/record_short.h"
#include "store/reservation_pack.h"

/* ---- writing -------------------------------------------------------------------------------- */

struct known {
    uint64_t number; /* 0: none */
    unsigned named;  /* so often */
    bool gives_back;
    const struct terms *terms; /* shared: they stay */
    struct calendar_bounds bounds[LEAN_MOST_CHARGES];
};

struct known_terms {
    uint64_t defined;
    struct known slots[TERMS_SLOTS];
};

struct known_terms *known_terms_new(const weir_allocator *allocator)
{
    return alloc_zeroed(allocator, sizeof(struct known_terms));
}

void known_terms_free(struct known_terms *k, const weir_allocator *allocator)
{
    alloc_free(allocator, k);
}

void known_terms_forget(struct known_terms *k)
{
    for (size_t i = 0; i < TERMS_SLOTS; i++)
        k->slots[i].number = 0;
}

static bool is_known(const struct known *known, const struct kept_reservation *r)
{
    return known->number != 0 && known->terms == r->terms && known->gives_back == r->gives_back &&
           memcmp(known->bounds, kept_bounds(r),
                  r->bounds_count * sizeof(struct calendar_bounds)) == 0;
}

static size_t slot_of(const struct kept_reservation *r)
{
    return r->terms->hash >> 40 & (TERMS_SLOTS - 1);
}

_Static_assert((TERMS_SLOTS & (TERMS_SLOTS - 1)) == 0, "a power of two");
_Static_assert(LEAN_MOST_PACKED < (TERMS_RECORDS - 1) * sizeof(struct record), "room for it");

static size_t define(const struct kept_reservation *r, uint64_t number, struct record *to)
{
    const size_t size = kept_pack(r, to + 1);

    *to = (struct record){ .packed = { { (int64_t)size, 0, short_flags(RECORD_TERMS, number) } } };
    to->algorithm = ALGORITHM_RESERVATION;
    to->is_locked = 1;
    memset((char *)(to + 1) + size, 0, record_more(to) * sizeof *to - size);
    return 1 + record_more(to);
}

uint64_t known_terms_number(struct known_terms *k, const struct kept_reservation *r,
                            struct record definition[TERMS_RECORDS], size_t *count)
{
    const size_t slot = slot_of(r);
    struct known *known = &k->slots[slot];

    *count = 0;
    if (known->named == TERMS_NAMED || !is_known(known, r)) {
        known->number = ++k->defined * TERMS_SLOTS + slot;
        known->named = 0;
        known->gives_back = r->gives_back;
        known->terms = r->terms;
        memcpy(known->bounds, kept_bounds(r), r->bounds_count * sizeof(struct calendar_bounds));
        *count = define(r, known->number, definition);
    }
    known->named++;
    return known->number;
}

/* ---- reading -------------------------------------------------------------------------------- */

void read_terms_done(struct read_terms *t, const weir_allocator *allocator)
{
    for (size_t i = 0; i < TERMS_SLOTS; i++)
        alloc_free(allocator, t->slots[i].of);
}

enum defined read_terms_define(struct read_terms *t, const struct record *definition,
                               const weir_allocator *allocator)
{
    const uint64_t number = short_number(definition);
    uint64_t bytes[RESERVATION_MOST_BYTES / sizeof(uint64_t) + 1];
    struct reservation *r = (struct reservation *)(void *)bytes, *of;
    const size_t size = reservation_unpack(
        (struct span){ (const char *)(definition + 1), (size_t)definition->packed.words[0] }, r);

    if (record_more(definition) >= TERMS_RECORDS || !reservation_is_sound(r, size) ||
        r->part_count != r->charge_count)
        return TERMS_BAD;
    of = alloc_resize(allocator, t->slots[number % TERMS_SLOTS].of, size);
    if (!of)
        return TERMS_NO_MEMORY;
    memcpy(of, r, size);
    t->slots[number % TERMS_SLOTS].number = number;
    t->slots[number % TERMS_SLOTS].of = of;
    return TERMS_DEFINED;
}

const struct reservation *read_terms_of(const struct read_terms *t, const struct record *lean)
{
    const uint64_t number = short_number(lean);

    return t->slots[number % TERMS_SLOTS].number == number ? t->slots[number % TERMS_SLOTS].of
                                                           : NULL;
}
