/* locked_keys.h - keys that an outside transaction has locked, so that questions for them fail at
 * once.
 *
 * The keys of a question that timed out are candidates. The store's upkeep looks up which
 * transaction holds them. A key that the same transaction holds at two looks is locked, until a
 * look finds otherwise. Between two looks a deadline passes at least: a transaction that only
 * decides does not take as long. */
#ifndef WEIR_STORE_REMOTE_LOCKED_KEYS_H
#define WEIR_STORE_REMOTE_LOCKED_KEYS_H

#include <pthread.h>
#include <stdatomic.h>

#include "store/store.h"

enum {
    LOCKED_KEYS_MOST = 64, /* keys; of more, some are waited for */
    LOCKED_KEYS_CANDIDATES = 256,
    LOCKED_KEYS_LOOK_MOST = LOCKED_KEYS_MOST + LOCKED_KEYS_CANDIDATES,
    LOCKED_KEYS_HOLDER = 24, /* bytes of a name, with its NUL */
};

struct key_lock {
    struct key key;
    char holder[LOCKED_KEYS_HOLDER]; /* the transaction */
};

struct locked_keys {
    pthread_mutex_t mutex;
    atomic_size_t count; /* changed under the mutex */
    struct key keys[LOCKED_KEYS_MOST];
    struct key candidates[LOCKED_KEYS_CANDIDATES];
    size_t candidate_count;

    /* Of the upkeep alone. */
    struct key_lock seen[LOCKED_KEYS_MOST]; /* at the last look */
    size_t seen_count;
};

void locked_keys_init(struct locked_keys *l);
void locked_keys_done(struct locked_keys *l);

/* From any thread. */
void locked_keys_add_candidates(struct locked_keys *l, const struct question *q);
bool locked_keys_has(struct locked_keys *l, const struct question *q); /* one of its keys */

/* Of the upkeep: the keys to look at, each once; then what was found, and how many are locked. */
size_t locked_keys_to_look_at(struct locked_keys *l, struct key keys[LOCKED_KEYS_LOOK_MOST]);
size_t locked_keys_found(struct locked_keys *l, const struct key_lock *found, size_t n);

#endif
