/* hash_together.c - one identity under the keys of several rules, hashed side by side.
 *
 * SipHash is a chain: each step waits for the one before. So hashes that have nothing to do with each
 * other are made in the lanes of one register, and take little longer than one. Each is what
 * hash_identity_from() makes of the same start. */
#include "base/hash.h"
#include "base/siphash.h"

#ifdef __x86_64__
typedef uint64_t lanes __attribute__((vector_size(8 * HASH_TOGETHER)));

struct sips {
    lanes a, b, c, d;
};

#define INLINED static inline __attribute__((always_inline))
#define TURNED(x, by) ((x) << (by) | (x) >> (64 - (by)))

INLINED void rounds(struct sips *s, int n)
{
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

INLINED void add_word(struct sips *s, uint64_t word)
{
    s->d ^= word;
    rounds(s, 2);
    s->a ^= word;
}

__attribute__((target("avx2"))) static void hash_wide(const struct hash_starts *starts,
                                                      struct span rest,
                                                      struct key out[HASH_TOGETHER])
{
    uint64_t high[HASH_TOGETHER], low[HASH_TOGETHER];
    struct sips s;
    lanes sum;

    memcpy(&s, starts->state, sizeof s);
    for (size_t i = 0; i + 8 <= rest.len; i += 8)
        add_word(&s, word_at(rest.at + i));
    add_word(&s, last_word(rest, starts->len + rest.len));
    s.c ^= 0xee;
    rounds(&s, 4);
    sum = s.a ^ s.b ^ s.c ^ s.d;
    memcpy(high, &sum, sizeof sum);
    s.b ^= 0xdd;
    rounds(&s, 4);
    sum = s.a ^ s.b ^ s.c ^ s.d;
    memcpy(low, &sum, sizeof sum);
    for (size_t i = 0; i < HASH_TOGETHER; i++)
        out[i] = (struct key){ high[i], low[i] + ((high[i] | low[i]) == 0) }; /* never all zero */
}
#endif

void hash_starts_put(struct hash_starts *starts, size_t lane, const struct hash_start *start)
{
    for (size_t i = 0; i < 4; i++)
        starts->state[i][lane] = start->state[i];
    starts->len = start->len;
}

void hash_identities_narrow(const struct hash_starts *starts, struct span rest,
                            struct key out[HASH_TOGETHER])
{
    for (size_t i = 0; i < HASH_TOGETHER; i++) {
        const struct hash_start start = {
            { starts->state[0][i], starts->state[1][i], starts->state[2][i], starts->state[3][i] },
            starts->len,
        };

        out[i] = hash_identity_from(&start, rest);
    }
}

void hash_identities_from(const struct hash_starts *starts, struct span rest,
                          struct key out[HASH_TOGETHER])
{
#ifdef __x86_64__
    if (hash_is_wide()) {
        hash_wide(starts, rest, out);
        return;
    }
#endif
    hash_identities_narrow(starts, rest, out);
}
