/* hash.h - keyed hashes of identities: one for inside the process, one for outside.
 *
 * Both keys come from one secret. Without it a reader cannot tell whose key is whose, nor aim
 * keys at one place of the table. */
#ifndef WEIR_BASE_HASH_H
#define WEIR_BASE_HASH_H

#include <stdint.h>

#include "base/span.h"

enum { SECRET_BYTES = 32, TAG_HEX = 32 };

/* The secret and what is derived from it; made once. */
struct secret {
    unsigned char bytes[SECRET_BYTES];
};

/* A key of the table: 128 bits, never all zero. */
struct key {
    uint64_t high, low;
};

static inline bool key_is_same(struct key a, struct key b)
{
    return a.low == b.low && a.high == b.high;
}

/* What a rule hashes its identities with: SipHash-2-4-128 under a key of its own, so that
 * the rule's name costs nothing per request. */
struct hash_key {
    unsigned char bytes[16];
};

/* `scope` is what the rule is: policy, rule, algorithm, window. */
struct hash_key hash_key_of(const struct secret *secret, struct span scope);
struct key hash_identity(const struct hash_key *key, struct span identity);

/* The same, begun with bytes that many identities have before them: whole words of eight, which may
 * be none. hash_identity_from(start, rest) is hash_identity() of those and the rest. */
struct hash_start {
    uint64_t state[4];
    size_t len;
};
struct hash_start hash_start_of(const struct hash_key *key, struct span first);
struct hash_start hash_start_longer(const struct hash_start *start, uint64_t word);
struct key hash_identity_from(const struct hash_start *start, struct span rest);

/* Several of them at once, for little more than one. */
enum { HASH_TOGETHER = 4 };
struct hash_ask {
    const struct hash_start *start;
    struct span rest;
};
void hash_together(const struct hash_ask asks[], size_t n, struct key out[]);
void hash_one_by_one(const struct hash_ask asks[], size_t n, struct key out[]); /* the same */
bool hash_is_wide(void); /* this processor has registers for several */

/* The key of one of several limits of an identity. Their keys have the upper half in common, which alone
 * says where in the table a key is, so they lie side by side there, and one hash is enough for all.
 *
 * `base` is the hash of an identity under a key that the secret gives: 128 bits that cannot be told from
 * random ones without it. `own_bits` are 64 more, made once for a limit. Keys of two identities are the
 * same if the bases differ by just what the own bits do: with a probability of 2^-128 for each two keys,
 * as if each was hashed by itself, and a client that chooses identities cannot look for such a pair. Keys
 * of two limits for one identity are the same if their own bits are: with a probability of 2^-64 for each
 * two limits of a policy that an operator configures, in which clients have no say. */
static inline struct key key_beside(struct key base, uint64_t own_bits)
{
    const uint64_t low = base.low ^ own_bits;

    return (struct key){ base.high, low + ((base.high | low) == 0) }; /* never all zero */
}

/* The same for ids, which are hashed twice for one reservation: SipHash-1-3-128. It has fewer rounds,
 * enough to keep callers from aiming at a place of the table. */
struct key hash_id(const struct hash_key *key, struct span id);

/* The same for stores that several processes share, in a form that SQL can compute too: the first
 * 128 bits of HMAC-SHA256 under the rule's key. Slower. */
struct key hash_shared(const struct hash_key *key, struct span identity);

/* A rule's key, made ready: hash_shared() in half the time. */
struct shared_key {
    uint64_t words[26];
};
void shared_key_init(struct shared_key *s, const struct hash_key *key);
struct key hash_shared_by(const struct shared_key *s, struct span identity);

/* What an identity is called outside the process: a hash of it under a key that counts nothing, in
 * hex. False: it is none. */
void tag_write(struct key tag, char hex[TAG_HEX + 1]);
bool tag_read(const char *hex, struct key *out);

/* A keyed digest of something secret, and whether two are equal: which takes as long either way. */
struct digest {
    unsigned char bytes[32];
};
struct digest hash_digest(const struct secret *key, struct span bytes);
bool digest_equal(const struct digest *a, const struct digest *b);

uint64_t hash_salt(void); /* random; makes the checksums of one file its own */

/* Tells one secret from another without telling it. */
enum { SECRET_ID_BYTES = 16 };
void hash_secret_id(const struct secret *secret, unsigned char id[SECRET_ID_BYTES]);

/* The same for files whose keys are made by it. Which of the two ids they have tells how: by
 * key_beside(), or each by a hash of its own. */
struct secret_ids {
    unsigned char together[SECRET_ID_BYTES],
        apart[SECRET_ID_BYTES]; /* the latter: that of before */
};
struct secret_ids hash_secret_ids(const struct secret *secret);

#endif
