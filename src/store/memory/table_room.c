/* table_room.c - room for one more key: a cell in its shard, and memory beside it.
 *
 * A table holds at most max_keys keys, and its larger states have a bound too (`max_beside`).
 * When either is reached, a new key takes the place of another one in its shard; eviction.c says
 * which. */
#include "store/memory/table_internal.h"

#include "store/memory/eviction.h"

static void forget(struct table *t, struct shard_dropped dropped)
{
    if (dropped.keys > 0)
        atomic_fetch_sub_explicit(&t->keys, dropped.keys, memory_order_relaxed);
    if (dropped.beside > 0)
        atomic_fetch_sub_explicit(&t->beside, (int64_t)dropped.beside, memory_order_relaxed);
}

void table_erase(struct table *t, struct shard *s, uint32_t at)
{
    forget(t, (struct shard_dropped){ 1, shard_erase(s, at, &t->allocator) });
}

void table_purge(struct table *t, struct shard *s, int64_t now)
{
    if (now - t->clock_slip >= s->soonest)
        forget(t, shard_purge(s, now - t->clock_slip, &t->allocator));
}

/* Drop a cell. Its place among max_keys is the caller's to use or to return. */
static bool give_up(struct table *t, struct shard *s, uint32_t victim, int64_t now)
{
    if (victim == EVICTION_NONE)
        return false;
    if ((int64_t)s->cells[victim].expires <= now)
        s->expired++;
    else
        s->evicted++;
    forget(t, (struct shard_dropped){ 0, shard_erase(s, victim, &t->allocator) });
    return true;
}

/* A question never evicts its own keys. */
struct wanted {
    struct key spared[MOST_KEYS];
    struct eviction eviction;
};

static const struct eviction *for_question(struct wanted *w, const struct question *q, bool beside)
{
    size_t n = 0;

    while (n < q->count) {
        w->spared[n] = q->charges[n].key;
        n++;
    }
    if (q->reserving)
        w->spared[n++] = q->reserving->key;
    w->eviction = (struct eviction){ q->ask.now, beside, w->spared, n };
    return &w->eviction;
}

static bool evict(struct table *t, struct shard *s, const struct question *q, bool beside)
{
    struct wanted w;

    return give_up(t, s, eviction_victim(s, for_question(&w, q, beside)), q->ask.now);
}

/* One of max_keys places: a free one, or that of an evicted key. The latter is handed over and
 * never free in between, so that no other thread can take it first (T5). */
static bool claim_place(struct table *t, struct shard *s, const struct question *q, bool *moved)
{
    *moved = false;
    if (atomic_fetch_add_explicit(&t->keys, 1, memory_order_relaxed) < t->max_keys)
        return true;
    atomic_fetch_sub_explicit(&t->keys, 1, memory_order_relaxed);
    *moved = true;
    return evict(t, s, q, false);
}

/* No cell behind `at` is empty. Move the shard to more memory, which leaves some empty (S4), or
 * evict one of the keys that are in the way. */
static bool make_gap(struct table *t, struct shard *s, uint32_t at, const struct question *q)
{
    struct wanted w;

    if (growth_move_apart(s))
        return true;
    if (!give_up(t, s, eviction_obstacle(s, at, for_question(&w, q, false)), q->ask.now))
        return false;
    atomic_fetch_sub_explicit(&t->keys, 1, memory_order_relaxed);
    return true;
}

struct cell *table_ensure(struct table *t, struct shard *s, const struct charge *c,
                          const struct question *q)
{
    uint32_t at = shard_find(s, c->key);
    bool moved;

    if (shard_has(s, at, c->key))
        return &s->cells[at];
    if (!claim_place(t, s, q, &moved))
        return NULL;
    if (moved)
        at = shard_find(s, c->key);
    if (!shard_insert(s, at, c->key, c->rule->algorithm)) {
        const bool has_gap = make_gap(t, s, at, q);

        at = shard_find(s, c->key);
        if (!has_gap || !shard_insert(s, at, c->key, c->rule->algorithm)) {
            atomic_fetch_sub_explicit(&t->keys, 1, memory_order_relaxed);
            return NULL;
        }
    }
    return &s->cells[at];
}

bool table_allow_beside(struct table *t, struct shard *s, const struct question *q, int64_t more)
{
    atomic_fetch_add_explicit(&t->beside, more, memory_order_relaxed);
    while (atomic_load_explicit(&t->beside, memory_order_relaxed) > t->max_beside) {
        if (!evict(t, s, q, true))
            return false;
        atomic_fetch_sub_explicit(&t->keys, 1, memory_order_relaxed);
    }
    return true;
}

static weir_err try_prepare(struct table *t, struct shard *s, const struct charge *c,
                            const struct question *q, struct cell **out)
{
    struct cell *cell = table_ensure(t, s, c, q);
    size_t before;
    int64_t more;

    *out = cell;
    if (!cell)
        return WEIR_EFULL;
    before = state_heap_bytes(&cell->state, c->rule->algorithm);
    if (!state_reserve(&cell->state, c->rule, &c->step, &t->allocator))
        return WEIR_ENOMEM;
    more = (int64_t)(state_heap_bytes(&cell->state, c->rule->algorithm) - before);
    if (more == 0)
        return WEIR_OK;
    if (!table_allow_beside(t, s, q, more))
        return WEIR_EFULL;
    *out = &s->cells[shard_find(s, c->key)]; /* an eviction may have moved it */
    return WEIR_OK;
}

/* After an error the new cell is left untouched: the next sweep drops it as expired. */
weir_err table_prepare(struct table *t, struct shard *s, const struct charge *c,
                       const struct question *q, struct cell **out)
{
    weir_err err = try_prepare(t, s, c, q, out);

    if (err)
        s->soonest = s->look_soonest = 0;
    return err;
}
