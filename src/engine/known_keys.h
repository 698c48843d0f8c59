/* known_keys.h - the keys in a shared store of those that a thread was asked about last.
 *
 * Such a key is an HMAC, which takes longer than all else that is done for a check that is answered
 * from a lease. So the last ones are kept, found by a cheaper hash of the same identity under a key
 * of the same rule: both are keyed by the same secret, and as hard to find a second identity for. One
 * thread's: there is no lock. */
#ifndef WEIR_ENGINE_KNOWN_KEYS_H
#define WEIR_ENGINE_KNOWN_KEYS_H

#include "engine/engine.h"

enum { KNOWN_KEYS = 256 };

struct known_key {
    struct key by; /* zero: there is none */
    struct key key;
    uint16_t tag; /* where it is in the store, see struct charge_name */
};

struct known_keys {
    struct known_key all[KNOWN_KEYS];
};

/* That of this identity, which `by` is the hash of. */
static inline const struct known_key *known_key(struct known_keys *k, const struct engine *e,
                                                struct key by, const struct shared_key *ready,
                                                struct span identity)
{
    struct known_key *known = &k->all[by.low % KNOWN_KEYS];

    if (known->by.low != by.low || known->by.high != by.high)
        *known = (struct known_key){
            .by = by,
            .key = hash_shared_by(ready, identity),
            .tag = (uint16_t)hash_identity(&engine_keys(e)->place, identity).low,
        };
    return known;
}

#endif
