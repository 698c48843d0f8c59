/* hash.c - keyed hashes of identities: one for inside the process, one for outside. */
#include "base/hash.h"

#include <sodium.h>
#include <string.h>

#include "base/hex.h"
#include "base/siphash.h"

_Static_assert(sizeof(struct hash_key) == crypto_shorthash_siphashx24_KEYBYTES, "SipHash key");
_Static_assert(sizeof(struct key) == crypto_shorthash_siphashx24_BYTES, "SipHash result");
_Static_assert(SECRET_BYTES == crypto_auth_hmacsha256_KEYBYTES, "HMAC key");
_Static_assert(sizeof(struct shared_key) == sizeof(crypto_auth_hmacsha256_state), "HMAC state");
_Static_assert(SECRET_BYTES == crypto_generichash_KEYBYTES, "BLAKE2b key");

struct hash_key hash_key_of(const struct secret *secret, struct span scope)
{
    static const unsigned char purpose[] = "weir hash key";
    unsigned char mac[crypto_auth_hmacsha256_BYTES];
    crypto_auth_hmacsha256_state state;
    struct hash_key key;

    crypto_auth_hmacsha256_init(&state, secret->bytes, sizeof secret->bytes);
    crypto_auth_hmacsha256_update(&state, purpose, sizeof purpose);
    crypto_auth_hmacsha256_update(&state, (const unsigned char *)scope.at, scope.len);
    crypto_auth_hmacsha256_final(&state, mac);
    memcpy(key.bytes, mac, sizeof key.bytes);
    return key;
}

static struct key never_zero(struct key hashed)
{
    if (hashed.high == 0 && hashed.low == 0)
        hashed.low = 1;
    return hashed;
}

struct key hash_identity(const struct hash_key *key, struct span identity)
{
    struct key hashed;

    crypto_shorthash_siphashx24((unsigned char *)&hashed, (const unsigned char *)identity.at,
                                identity.len, key->bytes);
    return never_zero(hashed);
}

struct hash_start hash_start_of(const struct hash_key *key, struct span first)
{
    struct sip s = sip_begin(key);

    for (size_t i = 0; i < first.len; i += 8)
        sip_word(&s, word_at(first.at + i), 2);
    return (struct hash_start){ { s.a, s.b, s.c, s.d }, first.len };
}

struct hash_start hash_start_longer(const struct hash_start *start, uint64_t word)
{
    const uint64_t *at = start->state;
    struct sip s = { at[0], at[1], at[2], at[3] };

    sip_word(&s, word, 2);
    return (struct hash_start){ { s.a, s.b, s.c, s.d }, start->len + sizeof word };
}

struct key hash_identity_from(const struct hash_start *start, struct span rest)
{
    const uint64_t *at = start->state;

    return never_zero(
        sip_finish((struct sip){ at[0], at[1], at[2], at[3] }, start->len, rest, 2, 4));
}

bool hash_is_wide(void)
{
    return sodium_runtime_has_avx2() != 0;
}

struct key hash_id(const struct hash_key *key, struct span id)
{
    return never_zero(siphash(key, id, 1, 3));
}

static struct key finish_shared(crypto_auth_hmacsha256_state *state, struct span identity)
{
    unsigned char mac[crypto_auth_hmacsha256_BYTES];
    struct key hashed;

    crypto_auth_hmacsha256_update(state, (const unsigned char *)identity.at, identity.len);
    crypto_auth_hmacsha256_final(state, mac);
    memcpy(&hashed, mac, sizeof hashed);
    return hashed;
}

struct key hash_shared(const struct hash_key *key, struct span identity)
{
    crypto_auth_hmacsha256_state state;

    crypto_auth_hmacsha256_init(&state, key->bytes, sizeof key->bytes);
    return finish_shared(&state, identity);
}

void shared_key_init(struct shared_key *s, const struct hash_key *key)
{
    crypto_auth_hmacsha256_init((crypto_auth_hmacsha256_state *)s, key->bytes, sizeof key->bytes);
}

struct key hash_shared_by(const struct shared_key *s, struct span identity)
{
    crypto_auth_hmacsha256_state state;

    memcpy(&state, s, sizeof state);
    return finish_shared(&state, identity);
}

void tag_write(struct key tag, char hex[TAG_HEX + 1])
{
    *hex_write(hex, &tag, sizeof tag) = '\0';
}

bool tag_read(const char *hex, struct key *out)
{
    return hex_read(hex, out, sizeof *out);
}

struct digest hash_digest(const struct secret *key, struct span bytes)
{
    struct digest digest;

    crypto_generichash(digest.bytes, sizeof digest.bytes, (const unsigned char *)bytes.at,
                       bytes.len, key->bytes, sizeof key->bytes);
    return digest;
}

bool digest_equal(const struct digest *a, const struct digest *b)
{
    return sodium_memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

uint64_t hash_salt(void)
{
    uint64_t salt;

    randombytes_buf(&salt, sizeof salt);
    return salt;
}

void hash_secret_id(const struct secret *secret, unsigned char id[SECRET_ID_BYTES])
{
    const struct hash_key key = hash_key_of(secret, span_of("the secret itself"));

    memcpy(id, key.bytes, sizeof key.bytes);
}

struct secret_ids hash_secret_ids(const struct secret *secret)
{
    const struct hash_key together = hash_key_of(secret,
                                                 span_of("the secret of keys side by side"));
    struct secret_ids ids;

    memcpy(ids.together, together.bytes, sizeof ids.together);
    hash_secret_id(secret, ids.apart);
    return ids;
}
