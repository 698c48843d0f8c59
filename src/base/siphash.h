/* siphash.h - SipHash of 128 bits, with any number of rounds.
 *
 * libsodium has it with two rounds a word and four at the end alone. */
#ifndef WEIR_BASE_SIPHASH_H
#define WEIR_BASE_SIPHASH_H

#include <string.h>

#include "base/hash.h"

struct sip {
    uint64_t a, b, c, d;
};

static inline uint64_t turned(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

static inline void sip_rounds(struct sip *s, int n)
{
    for (int i = 0; i < n; i++) {
        s->a += s->b;
        s->c += s->d;
        s->b = turned(s->b, 13) ^ s->a;
        s->d = turned(s->d, 16) ^ s->c;
        s->a = turned(s->a, 32) + s->d;
        s->c += s->b;
        s->d = turned(s->d, 21) ^ s->a;
        s->b = turned(s->b, 17) ^ s->c;
        s->c = turned(s->c, 32);
    }
}

static inline uint64_t word_at(const char *at)
{
    uint64_t word;

    memcpy(&word, at, sizeof word);
    return word;
}

/* The bytes behind the last whole word, and the length of all. */
static inline uint64_t last_word(struct span bytes, size_t len)
{
    const size_t left = bytes.len % 8;
    uint64_t word = 0;

    if (bytes.len >= 8 && left > 0)
        word = word_at(bytes.at + bytes.len - 8) >> (64 - 8 * left);
    else if (left > 0)
        memcpy(&word, bytes.at, left);
    return word | (uint64_t)len << 56;
}

static inline void sip_word(struct sip *s, uint64_t word, int rounds)
{
    s->d ^= word;
    sip_rounds(s, rounds);
    s->a ^= word;
}

static inline struct sip sip_begin(const struct hash_key *key)
{
    const uint64_t low = word_at((const char *)key->bytes),
                   high = word_at((const char *)key->bytes + 8);

    return (struct sip){ low ^ UINT64_C(0x736f6d6570736575), high ^ UINT64_C(0x646f72616e646f83),
                         low ^ UINT64_C(0x6c7967656e657261), high ^ UINT64_C(0x7465646279746573) };
}

/* The rest, after `before` bytes that are whole words. */
static inline struct key sip_finish(struct sip s, size_t before, struct span bytes, int rounds,
                                    int last_rounds)
{
    struct key hashed;

    for (size_t i = 0; i + 8 <= bytes.len; i += 8)
        sip_word(&s, word_at(bytes.at + i), rounds);
    sip_word(&s, last_word(bytes, before + bytes.len), rounds);
    s.c ^= 0xee;
    sip_rounds(&s, last_rounds);
    hashed.high = s.a ^ s.b ^ s.c ^ s.d;
    s.b ^= 0xdd;
    sip_rounds(&s, last_rounds);
    hashed.low = s.a ^ s.b ^ s.c ^ s.d;
    return hashed;
}

static inline struct key siphash(const struct hash_key *key, struct span bytes, int rounds,
                                 int last_rounds)
{
    return sip_finish(sip_begin(key), 0, bytes, rounds, last_rounds);
}

#endif
