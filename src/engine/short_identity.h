/* short_identity.h - the identity of one short value, as it is hashed: what most checks are about. */
#ifndef WEIR_ENGINE_SHORT_IDENTITY_H
#define WEIR_ENGINE_SHORT_IDENTITY_H

#include "base/utf8.h"
#include "engine/pattern.h"
#include "policy/identity.h"

enum {
    LENGTH_MOST = 3,                                 /* of a short value: two digits and a colon */
    SHORT_VALUE_MOST = WHOSE_IDENTITY - LENGTH_MOST, /* bytes of a value whose identity is kept */
};
_Static_assert(SHORT_VALUE_MOST < 100, "its length has two digits");

/* As struct identity is: its length, and then its bytes. */
struct short_identity {
    size_t len;
    char bytes[WHOSE_IDENTITY];
};
_Static_assert(offsetof(struct short_identity, bytes) == sizeof(size_t) &&
                   offsetof(struct identity, bytes) == sizeof(size_t),
               "its bytes follow its length");

/* What stands before the bytes of a value that is so long. Returns where they go. */
static inline char *short_identity_begin(char *at, size_t len)
{
    if (len >= 10)
        *at++ = (char)('0' + len / 10);
    *at++ = (char)('0' + len % 10);
    *at++ = ':';
    return at;
}

static inline void short_identity_write(struct span value, struct short_identity *out)
{
    char *at = short_identity_begin(out->bytes, value.len);

    memcpy(at, value.at, value.len);
    out->len = (size_t)(at - out->bytes) + value.len;
}

/* Is the key of a request of this pattern one, as it came? */
static inline bool short_identity_fits(const struct pattern *p, struct span key)
{
    return p->kind != PATTERN_CELL && p->is_plain && key.len > 0 && key.len <= SHORT_VALUE_MOST &&
           (utf8_is_plain(key) || utf8_is_text(key));
}

/* The bytes that are hashed of an identity: those of a limit that came with its request have its
 * length before them. */
static inline struct span pattern_hashed(const struct pattern *p, const void *identity, size_t len)
{
    const char *at = identity;

    if (p->kind == PATTERN_LIMIT)
        return (struct span){ at, sizeof(size_t) + len };
    return (struct span){ at + sizeof(size_t), len };
}

/* The key of the only charge. */
static inline struct key pattern_key(const struct pattern *p, struct span hashed)
{
    return key_beside(hash_identity_from(p->starts, hashed), *p->own_bits);
}

/* The key of each charge, by the hashes of its identity. */
static inline void pattern_spread(const struct pattern *p, const struct key *hashes,
                                  struct key out[PATTERN_MOST_CHARGES])
{
    for (size_t i = 0; i < p->count; i++)
        out[i] = key_beside(hashes[p->hashes == 1 ? 0 : i], p->own_bits[i]);
}

static inline void pattern_keys(const struct pattern *p, struct span hashed,
                                struct key out[PATTERN_MOST_CHARGES])
{
    struct hash_ask asks[PATTERN_MOST_CHARGES];
    struct key hashes[PATTERN_MOST_CHARGES];

    for (size_t i = 0; i < p->hashes; i++)
        asks[i] = (struct hash_ask){ &p->starts[i], hashed };
    hash_together(asks, p->hashes, hashes);
    pattern_spread(p, hashes, out);
}

#endif
