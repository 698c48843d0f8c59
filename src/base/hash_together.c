/* hash_together.c - several identities, hashed side by side.
 *
 * SipHash is a chain: each step waits for the one before. So hashes that have nothing to do with each
 * other are made in the lanes of one register, and take little longer than one. Each is what
 * hash_identity_from() makes of the same. */
#include "base/hash.h"
#include "base/siphash.h"

void hash_one_by_one(const struct hash_ask asks[], size_t n, struct key out[])
{
    for (size_t i = 0; i < n; i++)
        out[i] = hash_identity_from(asks[i].start, asks[i].rest);
}

#ifdef __x86_64__
typedef uint64_t lanes __attribute__((vector_size(8 * HASH_TOGETHER)));

struct sips {
    lanes a, b, c, d;
};

#define INLINED static inline __attribute__((always_inline))
#define TURNED(x, by) ((x) << (by) | (x) >> (64 - (by)))

INLINED void rounds(struct sips *s, int n)
{
#pragma GCC unroll 1
    for (int i = 0; i < n; i++) {
        s->a += s->b;
        s->c += s->d;
        s->b = TURNED(s->b, 13) ^ s->a;
        s->d = TURNED(s->d, 16) ^ s->c;
        s->a = TURNED(s->a, 32) + s->d;
        s->c += s->b;
        s->d = TURNED(s->d, 21) ^ s->a;
        s->b = TURNED(s->b, 17) ^ s->c;
        s->c = TURNED(s->c, 32);
    }
}

INLINED void add_words(struct sips *s, const lanes *words)
{
    s->d ^= *words;
    rounds(s, 2);
    s->a ^= *words;
}

/* … but to lanes whose bits are not set. */
INLINED void add_some(struct sips *s, const lanes *words, const lanes *to)
{
    struct sips more = *s;

    add_words(&more, words);
    s->a ^= (s->a ^ more.a) & *to;
    s->b ^= (s->b ^ more.b) & *to;
    s->c ^= (s->c ^ more.c) & *to;
    s->d ^= (s->d ^ more.d) & *to;
}

/* The last word has the length; behind that there is none. */
INLINED uint64_t word_of(const struct hash_ask *ask, size_t i)
{
    const size_t whole = ask->rest.len / 8;

    if (i < whole)
        return word_at(ask->rest.at + 8 * i);
    return i == whole ? last_word(ask->rest, ask->start->len + ask->rest.len) : 0;
}

INLINED void begin(struct sips *s, const struct hash_ask *asks)
{
    uint64_t state[4][HASH_TOGETHER];

    for (size_t i = 0; i < HASH_TOGETHER; i++)
        for (size_t k = 0; k < 4; k++)
            state[k][i] = asks[i].start->state[k];
    memcpy(s, state, sizeof state);
}

INLINED void finish(struct sips *s, struct key *out)
{
    uint64_t high[HASH_TOGETHER], low[HASH_TOGETHER];
    lanes sum;

    s->c ^= 0xee;
    rounds(s, 4);
    sum = s->a ^ s->b ^ s->c ^ s->d;
    memcpy(high, &sum, sizeof sum);
    s->b ^= 0xdd;
    rounds(s, 4);
    sum = s->a ^ s->b ^ s->c ^ s->d;
    memcpy(low, &sum, sizeof sum);
    for (size_t i = 0; i < HASH_TOGETHER; i++)
        out[i] = (struct key){ high[i], low[i] + ((high[i] | low[i]) == 0) }; /* never all zero */
}

__attribute__((target("avx2"))) static void hash_wide(const struct hash_ask *asks, struct key *out)
{
    size_t least = SIZE_MAX, most = 0;
    uint64_t words[HASH_TOGETHER], is_in[HASH_TOGETHER];
    struct sips s;
    lanes all, to;

    for (size_t i = 0; i < HASH_TOGETHER; i++) {
        const size_t n = asks[i].rest.len / 8 + 1;

        least = n < least ? n : least;
        most = n > most ? n : most;
    }
    begin(&s, asks);
    for (size_t w = 0; w < most; w++) {
        for (size_t i = 0; i < HASH_TOGETHER; i++)
            words[i] = word_of(&asks[i], w);
        memcpy(&all, words, sizeof all);
        if (w < least) {
            add_words(&s, &all);
            continue;
        }
        for (size_t i = 0; i < HASH_TOGETHER; i++)
            is_in[i] = w <= asks[i].rest.len / 8 ? UINT64_MAX : 0;
        memcpy(&to, is_in, sizeof to);
        add_some(&s, &all, &to);
    }
    finish(&s, out);
}

/* A lane that is not needed does what the first does. */
static void hash_rest(const struct hash_ask *asks, size_t n, struct key *out)
{
    struct hash_ask some[HASH_TOGETHER];
    struct key keys[HASH_TOGETHER];

    for (size_t i = 0; i < HASH_TOGETHER; i++)
        some[i] = asks[i < n ? i : 0];
    hash_wide(some, keys);
    memcpy(out, keys, n * sizeof *keys);
}
#endif

void hash_together(const struct hash_ask asks[], size_t n, struct key out[])
{
#ifdef __x86_64__
    if (hash_is_wide()) {
        for (; n >= HASH_TOGETHER; n -= HASH_TOGETHER) {
            hash_wide(asks, out);
            asks += HASH_TOGETHER;
            out += HASH_TOGETHER;
        }
        if (n > 1)
            hash_rest(asks, n, out);
        else
            hash_one_by_one(asks, n, out);
        return;
    }
#endif
    hash_one_by_one(asks, n, out);
}
