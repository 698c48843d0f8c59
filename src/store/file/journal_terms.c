/* journal_terms.c - what reservations have in common, which a journal says once. */
#include "store/file/journal_terms.h"

#include <string.h>

#include "store/memory/record_short.h"
#include "store/reservation_pack.h"

/* ---- writing -------------------------------------------------------------------------------- */

struct known {
    uint64_t number; /* 0: none */
    unsigned named;  /* so often */
    uint64_t bytes[LEAN_MOST_SIZE / sizeof(uint64_t)];
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

/* Names are kept: they are the same if their pointers are. */
static bool has_same_terms(const struct reserved_charge *a, const struct reserved_charge *b)
{
    const size_t numbers = offsetof(struct reserved_charge, limit),
                 names = offsetof(struct reserved_charge, policy);

    return memcmp((const char *)a + numbers, (const char *)b + numbers,
                  offsetof(struct reserved_charge, held) - numbers) == 0 &&
           memcmp((const char *)a + names, (const char *)b + names, sizeof *a - names) == 0;
}

static bool are_same(const struct reservation *a, const struct reservation *b)
{
    const size_t n = a->charge_count;

    if (a->most_ttl != b->most_ttl || n != b->charge_count || a->bounds_count != b->bounds_count ||
        a->gives_back != b->gives_back)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!has_same_terms(&a->charges[i], &b->charges[i]))
            return false;
    return memcmp(reservation_bounds(a), reservation_bounds(b),
                  a->bounds_count * sizeof(struct calendar_bounds)) == 0 &&
           memcmp(reservation_text(a), reservation_text(b), n * sizeof(const char *)) == 0;
}

static size_t slot_of(const struct reservation *r)
{
    const struct reserved_charge *c = r->charges;
    const uint64_t mixed = ((uint64_t)(uintptr_t)c->policy ^ (uint64_t)c->limit << 7 ^
                            (uint64_t)(uintptr_t)c->rule << 13 ^ (uint64_t)r->charge_count) *
                           0x9e3779b97f4a7c15u;

    return mixed >> 32 & (TERMS_SLOTS - 1);
}

_Static_assert((TERMS_SLOTS & (TERMS_SLOTS - 1)) == 0, "a power of two");
_Static_assert(LEAN_MOST_PACKED < (TERMS_RECORDS - 1) * sizeof(struct record), "room for it");

static size_t define(const struct reservation *r, uint64_t number, struct record *to)
{
    const size_t size = reservation_pack(r, to + 1);

    *to = (struct record){ .packed = { { (int64_t)size, 0, short_flags(RECORD_TERMS, number) } } };
    to->algorithm = ALGORITHM_RESERVATION;
    to->is_locked = 1;
    memset((char *)(to + 1) + size, 0, record_more(to) * sizeof *to - size);
    return 1 + record_more(to);
}

uint64_t known_terms_number(struct known_terms *k, const struct reservation *r,
                            struct record definition[TERMS_RECORDS], size_t *count)
{
    const size_t slot = slot_of(r);
    struct known *known = &k->slots[slot];

    *count = 0;
    if (known->number == 0 || known->named == TERMS_NAMED ||
        !are_same(r, (const struct reservation *)(const void *)known->bytes)) {
        known->number = ++k->defined * TERMS_SLOTS + slot;
        known->named = 0;
        memcpy(known->bytes, r, r->block.size);
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
