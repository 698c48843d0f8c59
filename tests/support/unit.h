/* unit.h - what the unit tests share: cmocka, a random generator with a seed, a scale. */
#ifndef WEIR_TESTS_UNIT_H
#define WEIR_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifdef assert_int_in_range /* the name that it has from version 2 on */
#undef assert_in_range
#define assert_in_range(value, least, most)                                                        \
    assert_int_in_range((intmax_t)(value), (intmax_t)(least), (intmax_t)(most))
#endif

#include "base/alloc.h"

/* splitmix64: small, and the same everywhere. */
struct dice {
    uint64_t state;
};

static inline uint64_t dice_roll(struct dice *d)
{
    uint64_t z = d->state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* From 0 to n - 1. */
static inline int64_t dice_below(struct dice *d, int64_t n)
{
    return (int64_t)(dice_roll(d) % (uint64_t)n);
}

/* WEIR_TEST_SEED, or one that is printed, so that a failure can be had again. */
static inline struct dice dice_new(void)
{
    const char *given = getenv("WEIR_TEST_SEED");
    struct dice d = { given ? strtoull(given, NULL, 0) : (uint64_t)(uintptr_t)&given };

    if (!given)
        d.state = dice_roll(&d) % 1000000;
    printf("# WEIR_TEST_SEED=%llu\n", (unsigned long long)d.state);
    return d;
}

/* So many repetitions, fewer where each is slow (WEIR_TEST_SCALE percent), at least one. */
static inline int scaled(int repetitions)
{
    const char *percent = getenv("WEIR_TEST_SCALE");
    int n = percent ? (int)((int64_t)repetitions * atoi(percent) / 100) : repetitions;

    return n > 0 ? n : 1;
}

static inline weir_allocator heap(void)
{
    return alloc_or_default((weir_allocator){ 0 });
}

#endif
