/* named.c - the names of limits that come with requests, kept once each, and how they are
 * hashed. */
#include "engine/named.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/arena.h"
#include "base/xxh.h"

const char named_other[] = "(other)";

static const char *const by_key[] = { "key" };

/* What identities are hashed with: as for a SOLE_RULE, in every store. The secret is told by its place: there are at most two. */
struct numbers {
    const struct secret *secret;
    weir_algorithm algorithm;
    enum rule_start start;
    int64_t window;
    struct hash_key hash_key;
};

struct entry {
    const char *name;
    size_t len;
    atomic_size_t count; /* of what follows; what is counted never changes again */
    struct numbers numbers[NAMED_NUMBERS];
};

enum { SLOTS = 2 * NAMED_MOST };

struct named {
    uint64_t seed; /* so that names cannot be made up to be in one place */
    _Atomic(struct entry *) slots[SLOTS];

    pthread_mutex_t lock; /* of what follows, and of changes to all */
    struct arena arena;
    struct intern *names;
    const char *default_rule; /* NULL: not kept yet */
    size_t count;
};

struct named *named_new(struct intern *names, const weir_allocator *allocator)
{
    struct named *n = alloc_zeroed(allocator, sizeof *n);

    if (!n)
        return NULL;
    n->seed = hash_salt();
    n->names = names;
    n->default_rule = intern_keep(names, span_of(SOLE_RULE));
    arena_init(&n->arena, allocator);
    if (!n->default_rule || pthread_mutex_init(&n->lock, NULL) != 0) {
        alloc_free(allocator, n);
        return NULL;
    }
    return n;
}

void named_free(struct named *n)
{
    weir_allocator allocator;

    if (!n)
        return;
    allocator = n->arena.allocator;
    arena_done(&n->arena);
    pthread_mutex_destroy(&n->lock);
    alloc_free(&allocator, n);
}

/* NULL: it is not kept; then `slot` is where it belongs. */
static struct entry *find(struct named *n, struct span name, size_t *slot)
{
    struct entry *e;

    *slot = (size_t)XXH3_64bits_withSeed(name.at, name.len, n->seed) % SLOTS;
    while ((e = atomic_load_explicit(&n->slots[*slot], memory_order_acquire))) {
        if (e->len == name.len && memcmp(e->name, name.at, name.len) == 0)
            return e;
        *slot = (*slot + 1) % SLOTS;
    }
    return NULL;
}

/* NULL: there is no room for it. */
static struct entry *find_or_add(struct named *n, struct span name)
{
    size_t slot;
    struct entry *e = find(n, name, &slot);
    const char *kept;

    if (e)
        return e;
    pthread_mutex_lock(&n->lock);
    e = find(n, name, &slot);
    if (!e && n->count < NAMED_MOST) {
        kept = intern_keep(n->names, name);
        e = kept ? arena_take(&n->arena, sizeof *e) : NULL;
        if (e) {
            e->name = kept;
            e->len = name.len;
            n->count++;
            atomic_store_explicit(&n->slots[slot], e, memory_order_release);
        }
    }
    pthread_mutex_unlock(&n->lock);
    return e;
}

/* ---- hashing -------------------------------------------------------------------------------- */

static const struct numbers *find_numbers(const struct entry *e, const struct secret *secret,
                                          const struct rule *r)
{
    const size_t count = atomic_load_explicit(&e->count, memory_order_acquire);

    for (size_t i = 0; i < count; i++)
        if (e->numbers[i].window == r->window && e->numbers[i].algorithm == r->algorithm &&
            e->numbers[i].start == r->start && e->numbers[i].secret == secret)
            return &e->numbers[i];
    return NULL;
}

static void add_numbers(struct named *n, struct entry *e, const struct numbers *numbers,
                        const struct rule *r)
{
    size_t count;

    pthread_mutex_lock(&n->lock);
    count = atomic_load_explicit(&e->count, memory_order_relaxed);
    if (count < NAMED_NUMBERS && !find_numbers(e, numbers->secret, r)) {
        e->numbers[count] = *numbers;
        atomic_store_explicit(&e->count, count + 1, memory_order_release);
    }
    pthread_mutex_unlock(&n->lock);
}

static struct hash_key hash_key_for(struct named *n, struct entry *e, const struct secret *secret,
                                    struct span name, const struct rule *r)
{
    const struct counted_scope scope = { name, span_of(n->default_rule), r, NULL, false };
    const struct numbers *found = e ? find_numbers(e, secret, r) : NULL;
    struct numbers made;

    if (found)
        return found->hash_key;
    made = (struct numbers){ secret, r->algorithm, r->start, r->window,
                             counted_hash_key(secret, &scope) };
    if (e && atomic_load_explicit(&e->count, memory_order_relaxed) < NAMED_NUMBERS)
        add_numbers(n, e, &made, r);
    return made.hash_key;
}

void named_sketch(struct named *n, struct span name, const struct rule *numbers,
                  struct named_limit *out)
{
    out->policy = (struct policy){
        .name = named_other,
        .rules = &out->rule,
        .rule_count = 1,
        .sole_attribute = by_key[0],
    };
    out->rule = (struct policy_rule){
        .name = n->default_rule,
        .policy = &out->policy,
        .counted.rule = *numbers,
        .rollout = SHARE_ALL,
        .by = by_key,
        .by_count = 1,
    };
    memcpy(out->text, name.at, name.len);
    out->text[name.len] = '\0';
}

void named_fill(struct named *n, const struct secret *secret, struct span name,
                const struct rule *numbers, struct named_limit *out)
{
    struct entry *e = find_or_add(n, name);

    named_sketch(n, name, numbers, out);
    if (e)
        out->policy.name = e->name;
    out->rule.counted.hash_key = hash_key_for(n, e, secret, name, numbers);
}

const char *named_keep(struct named *n, struct span name)
{
    const struct entry *e = find_or_add(n, name);

    return e ? e->name : NULL;
}

/* Names that operators have used are kept, whether or not there is room for more. */
void named_overrule(struct named *n, struct named_limit *limit)
{
    const char *kept;

    if (limit->policy.name != named_other)
        return;
    kept = intern_find(n->names, span_of(limit->text));
    if (kept)
        limit->policy.name = kept;
}

bool named_is_known(struct named *n, struct span name)
{
    size_t slot;

    return find(n, name, &slot) != NULL;
}

bool named_is_kept(struct named *n, struct span name)
{
    return intern_find(n->names, name) != NULL;
}
