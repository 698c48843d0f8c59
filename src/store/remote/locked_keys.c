/* locked_keys.c - keys that somebody outside holds, and for whom nobody waits. */
#include "store/remote/locked_keys.h"

#include <string.h>

void locked_keys_init(struct locked_keys *h)
{
    pthread_mutex_init(&h->lock, NULL);
}

void locked_keys_done(struct locked_keys *h)
{
    pthread_mutex_destroy(&h->lock);
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

void locked_keys_candidate(struct locked_keys *h, const struct question *q)
{
    pthread_mutex_lock(&h->lock);
    for (size_t i = 0; i < q->count && h->suspect_count < LOCKED_KEYS_CANDIDATES; i++)
        if (!has(h->candidates, h->suspect_count, q->charges[i].key))
            h->candidates[h->suspect_count++] = q->charges[i].key;
    pthread_mutex_unlock(&h->lock);
}

bool locked_keys_has(struct locked_keys *h, const struct question *q)
{
    bool found = false;

    if (atomic_load_explicit(&h->count, memory_order_relaxed) == 0)
        return false;
    pthread_mutex_lock(&h->lock);
    for (size_t i = 0; i < q->count && !found; i++)
        found = has(h->keys, atomic_load(&h->count), q->charges[i].key);
    pthread_mutex_unlock(&h->lock);
    return found;
}

size_t locked_keys_to_look_at(struct locked_keys *h,
                              struct key keys[LOCKED_KEYS_MOST + LOCKED_KEYS_CANDIDATES])
{
    size_t n = 0;

    for (; n < h->seen_count; n++)
        keys[n] = h->seen[n].key;
    pthread_mutex_lock(&h->lock);
    for (size_t i = 0; i < h->suspect_count; i++)
        if (!has(keys, n, h->candidates[i]))
            keys[n++] = h->candidates[i];
    h->suspect_count = 0;
    pthread_mutex_unlock(&h->lock);
    return n;
}

static bool was_seen(const struct locked_keys *h, const struct holding *now)
{
    for (size_t i = 0; i < h->seen_count; i++)
        if (is_same(h->seen[i].key, now->key) && strcmp(h->seen[i].holder, now->holder) == 0)
            return true;
    return false;
}

size_t locked_keys_found(struct locked_keys *h, const struct holding *found, size_t n)
{
    size_t count = 0;

    n = n < LOCKED_KEYS_MOST ? n : LOCKED_KEYS_MOST;
    pthread_mutex_lock(&h->lock);
    for (size_t i = 0; i < n; i++)
        if (was_seen(h, &found[i]))
            h->keys[count++] = found[i].key;
    atomic_store(&h->count, count);
    pthread_mutex_unlock(&h->lock);
    memcpy(h->seen, found, n * sizeof *found);
    h->seen_count = n;
    return count;
}
