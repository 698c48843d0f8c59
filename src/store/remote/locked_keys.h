/* locked_keys.h - keys that somebody outside holds, and for whom nobody waits.
 *
 * Whoever waits in vain is suspected to have asked for such a key. A keeper looks who holds the keys
 * of all candidates; a key that the same one holds at two looks is held, until a look does not find it so.
 * Between two looks a deadline passes at least: nobody who only decides takes as long. */
#ifndef WEIR_STORE_REMOTE_LOCKED_KEYS_H
#define WEIR_STORE_REMOTE_LOCKED_KEYS_H

#include <pthread.h>
#include <stdatomic.h>

#include "store/store.h"

enum {
    LOCKED_KEYS_MOST = 64, /* keys; of more, some are waited for */
    LOCKED_KEYS_CANDIDATES = 256,
    LOCKED_KEYS_HOLDER = 24, /* bytes of a name, with its NUL */
};

struct holding {
    struct key key;
    char holder[LOCKED_KEYS_HOLDER];
};

struct locked_keys {
    pthread_mutex_t lock;
    atomic_size_t count; /* changed under the lock */
    struct key keys[LOCKED_KEYS_MOST];
    struct key candidates[LOCKED_KEYS_CANDIDATES];
    size_t suspect_count;

    /* The keeper's own. */
    struct holding seen[LOCKED_KEYS_MOST]; /* at the last look */
    size_t seen_count;
};

void locked_keys_init(struct locked_keys *h);
void locked_keys_done(struct locked_keys *h);

/* From any thread. */
void locked_keys_candidate(struct locked_keys *h, const struct question *q);
bool locked_keys_has(struct locked_keys *h, const struct question *q); /* one of its keys */

/* Of the keeper: the keys to look at, each once; then what was found. Returns how many are held. */
size_t locked_keys_to_look_at(struct locked_keys *h,
                              struct key keys[LOCKED_KEYS_MOST + LOCKED_KEYS_CANDIDATES]);
size_t locked_keys_found(struct locked_keys *h, const struct holding *found, size_t n);

#endif
