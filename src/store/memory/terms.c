/* terms.c - what reservations of a policy have in common, which a table keeps once. */
#include "store/memory/terms.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"

enum { SLOTS = 2 * TERMS_SHARED };

_Static_assert((SLOTS & (SLOTS - 1)) == 0, "a power of two");

struct terms_set {
    struct terms_latest latest; /* the first: terms_latest() is a cast */
    pthread_mutex_t lock;       /* to add some */
    weir_allocator allocator;
    size_t count;
    _Atomic(struct terms *) slots[SLOTS]; /* open addressing; none is ever taken out */
};

struct terms_set *terms_set_new(const weir_allocator *allocator)
{
    struct terms_set *s = alloc_zeroed(allocator, sizeof *s);

    if (!s)
        return NULL;
    s->allocator = *allocator;
    pthread_mutex_init(&s->lock, NULL);
    return s;
}

void terms_set_free(struct terms_set *s)
{
    weir_allocator allocator;

    if (!s)
        return;
    allocator = s->allocator;
    for (size_t i = 0; i < SLOTS; i++)
        alloc_free(&allocator, atomic_load_explicit(&s->slots[i], memory_order_relaxed));
    pthread_mutex_destroy(&s->lock);
    alloc_free(&allocator, s);
}

/* ---- making -------------------------------------------------------------------------------- */

static bool keeps_names(const struct terms_source *from)
{
    for (size_t i = 0; i < from->count; i++)
        if (!from->labels[i].is_kept)
            return false;
    return true;
}

static size_t text_size(const struct terms_source *from)
{
    size_t size = 0;

    for (size_t i = 0; i < from->count; i++)
        size += strlen(from->labels[i].policy) + strlen(from->labels[i].rule) +
                strlen(from->labels[i].counts) + 3;
    return size;
}

static size_t size_without_text(size_t count)
{
    return sizeof(struct terms) + count * (sizeof(struct term) + sizeof(struct charge_label));
}

size_t terms_size(const struct terms_source *from)
{
    const size_t text = keeps_names(from) ? 0 : text_size(from);

    return size_without_text(from->count) + (text + 7) / 8 * 8;
}

/* The text, behind the labels: the names of each, with a NUL. */
static void find_names(struct terms *t)
{
    const char *at = (const char *)t + size_without_text(t->count);

    for (size_t i = 0; i < t->count; i++) {
        const char **names[] = { &t->labels[i].policy, &t->labels[i].rule, &t->labels[i].counts };

        for (size_t k = 0; k < 3; k++) {
            *names[k] = at;
            at += strlen(at) + 1;
        }
    }
}

static void put_names(struct terms *to, const struct charge_label *labels)
{
    char *at = (char *)to + size_without_text(to->count);

    for (size_t i = 0; i < to->count; i++) {
        at = stpcpy(at, labels[i].policy) + 1;
        at = stpcpy(at, labels[i].rule) + 1;
        at = stpcpy(at, labels[i].counts) + 1;
    }
    find_names(to);
}

void terms_put(struct terms *to, const struct terms_source *from)
{
    *to = (struct terms){
        .most_ttl = from->most_ttl,
        .count = (uint16_t)from->count,
        .keeps_names = keeps_names(from),
        .labels = (struct charge_label *)(void *)(to->of + from->count),
    };
    for (size_t i = 0; i < from->count; i++) {
        to->of[i] = (struct term){ *from->charges[i].rule, from->charges[i].class };
        to->of[i].rule.calendar = NULL;
        to->labels[i] = from->labels[i];
        to->labels[i].is_kept = to->keeps_names;
    }
    if (!to->keeps_names)
        put_names(to, from->labels);
}

void terms_moved(struct terms *t)
{
    t->labels = (struct charge_label *)(void *)(t->of + t->count);
    if (!t->keeps_names)
        find_names(t);
}

/* ---- sharing ------------------------------------------------------------------------------- */

/* Kept names are the same if they are at the same place. */
static inline uint64_t hash_of(const struct terms_source *from)
{
    const struct charge_label *label = from->labels;
    const uint64_t name = label->is_kept ? (uintptr_t)label->rule : (uintptr_t)label->rule[0],
                   numbers = (uint64_t)from->charges->rule->limit << 8 ^ from->count;

    return (name ^ numbers) * UINT64_C(0x9e3779b97f4a7c15);
}

static inline bool is_same_name(const char *a, const char *b, bool is_kept)
{
    return a == b || (!is_kept && strcmp(a, b) == 0);
}

static inline bool is_same(const struct terms *t, uint64_t hash, const struct terms_source *from)
{
    if (t->hash != hash || t->count != from->count || t->most_ttl != from->most_ttl)
        return false;
    for (size_t i = 0; i < from->count; i++) {
        const struct rule *a = &t->of[i].rule, *b = from->charges[i].rule;
        const struct charge_label *la = &t->labels[i], *lb = &from->labels[i];
        const bool is_kept = t->keeps_names;

        if (a->limit != b->limit || a->window != b->window || a->burst != b->burst ||
            a->precision != b->precision || a->block_for != b->block_for ||
            a->algorithm != b->algorithm || a->start != b->start ||
            t->of[i].class != from->charges[i].class || la->is_shadow != lb->is_shadow ||
            lb->is_kept != is_kept || !is_same_name(la->rule, lb->rule, is_kept) ||
            !is_same_name(la->policy, lb->policy, is_kept) ||
            !is_same_name(la->counts, lb->counts, is_kept))
            return false;
    }
    return true;
}

/* The slot where they are, or belong. */
static inline __attribute__((always_inline)) size_t find(const struct terms_set *s, uint64_t hash,
                                                         const struct terms_source *from,
                                                         const struct terms **found)
{
    size_t i = hash >> 32 & (SLOTS - 1);

    while ((*found = atomic_load_explicit(&s->slots[i], memory_order_acquire)) &&
           !is_same(*found, hash, from))
        i = (i + 1) & (SLOTS - 1);
    return i;
}

__attribute__((noinline)) static const struct terms *add(struct terms_set *s, uint64_t hash,
                                                         const struct terms_source *from)
{
    const struct terms *found;
    struct terms *made;
    size_t at;

    pthread_mutex_lock(&s->lock);
    at = find(s, hash, from, &found);
    made = found || s->count == TERMS_SHARED ? NULL
                                             : alloc_resize(&s->allocator, NULL, terms_size(from));
    if (made) {
        terms_put(made, from);
        made->is_shared = true;
        made->hash = hash;
        s->count++;
        atomic_store_explicit(&s->slots[at], made, memory_order_release);
        found = made;
    }
    pthread_mutex_unlock(&s->lock);
    return found;
}

const struct terms *terms_share(struct terms_set *s, const struct terms_source *from)
{
    const struct terms *found;
    uint64_t hash;

    if (from->count == 0 || from->labels->policy[0] == '\0')
        return NULL;
    hash = hash_of(from);
    find(s, hash, from, &found);
    return found ? found : add(s, hash, from);
}
