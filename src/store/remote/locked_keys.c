/* locked_keys.c - keys that an outside transaction has locked, so that questions for them fail at
 * once. */
#include "store/remote/locked_keys.h"

#include <string.h>

void locked_keys_init(struct locked_keys *l)
{
    pthread_mutex_init(&l->mutex, NULL);
}

void locked_keys_done(struct locked_keys *l)
{
    pthread_mutex_destroy(&l->mutex);
}

static bool is_same(struct key a, struct key b)
{
    return a.high == b.high && a.low == b.low;
}

static bool has(const struct key *keys, size_t n, struct key key)
{
    for (size_t i = 0; i < n; i++)
        if (is_same(keys[i], key))
            return true;
    return false;
}

void locked_keys_add_candidates(struct locked_keys *l, const struct question *q)
{
    pthread_mutex_lock(&l->mutex);
    for (size_t i = 0; i < q->count && l->candidate_count < LOCKED_KEYS_CANDIDATES; i++)
        if (!has(l->candidates, l->candidate_count, q->charges[i].key))
            l->candidates[l->candidate_count++] = q->charges[i].key;
    pthread_mutex_unlock(&l->mutex);
}

bool locked_keys_has(struct locked_keys *l, const struct question *q)
{
    bool found = false;

    if (atomic_load_explicit(&l->count, memory_order_relaxed) == 0)
        return false;
    pthread_mutex_lock(&l->mutex);
    for (size_t i = 0; i < q->count && !found; i++)
        found = has(l->keys, atomic_load(&l->count), q->charges[i].key);
    pthread_mutex_unlock(&l->mutex);
    return found;
}

size_t locked_keys_to_look_at(struct locked_keys *l, struct key keys[LOCKED_KEYS_LOOK_MOST])
{
    size_t n = 0;

    for (; n < l->seen_count; n++)
        keys[n] = l->seen[n].key;
    pthread_mutex_lock(&l->mutex);
    for (size_t i = 0; i < l->candidate_count; i++)
        if (!has(keys, n, l->candidates[i]))
            keys[n++] = l->candidates[i];
    l->candidate_count = 0;
    pthread_mutex_unlock(&l->mutex);
    return n;
}

static bool was_seen(const struct locked_keys *l, const struct key_lock *now)
{
    for (size_t i = 0; i < l->seen_count; i++)
        if (is_same(l->seen[i].key, now->key) && strcmp(l->seen[i].holder, now->holder) == 0)
            return true;
    return false;
}

size_t locked_keys_found(struct locked_keys *l, const struct key_lock *found, size_t n)
{
    size_t count = 0;

    n = n < LOCKED_KEYS_MOST ? n : LOCKED_KEYS_MOST;
    pthread_mutex_lock(&l->mutex);
    for (size_t i = 0; i < n; i++)
        if (was_seen(l, &found[i]))
            l->keys[count++] = found[i].key;
    atomic_store(&l->count, count);
    pthread_mutex_unlock(&l->mutex);
    memcpy(l->seen, found, n * sizeof *found);
    l->seen_count = n;
    return count;
}
