/* held.h - keys that somebody outside holds, and for whom nobody waits.
 *
 * Whoever waits in vain is suspected to have asked for such a key. A keeper looks who holds the keys
 * of all suspects; a key that the same one holds at two looks is held, until a look does not find it so.
 * Between two looks a deadline passes at least: nobody who only decides takes as long. */
#ifndef WEIR_STORE_HELD_H
#define WEIR_STORE_HELD_H

#include <pthread.h>
#include <stdatomic.h>

#include "store/store.h"

enum {
    HELD_MOST = 64, /* keys; of more, some are waited for */
    HELD_SUSPECTS = 256,
    HELD_HOLDER = 24, /* bytes of a name, with its NUL */
};

struct holding {
    struct key key;
    char holder[HELD_HOLDER];
};

struct held {
    pthread_mutex_t lock;
    atomic_size_t count; /* changed under the lock */
    struct key keys[HELD_MOST];
    struct key suspects[HELD_SUSPECTS];
    size_t suspect_count;

    /* The keeper's own. */
    struct holding seen[HELD_MOST]; /* at the last look */
    size_t seen_count;
};

void held_init(struct held *h);
void held_done(struct held *h);

/* From any thread. */
void held_suspect(struct held *h, const struct question *q);
bool held_has(struct held *h, const struct question *q); /* one of its keys */

/* Of the keeper: the keys to look at, each once; then what was found. Returns how many are held. */
size_t held_to_look_at(struct held *h, struct key keys[HELD_MOST + HELD_SUSPECTS]);
size_t held_found(struct held *h, const struct holding *found, size_t n);

#endif
