/* intern.c - names that outlive the policies they came from. */
#include "base/intern.h"

#include <pthread.h>
#include <stdint.h>

#include "base/arena.h"

struct intern {
    pthread_mutex_t lock; /* over all below */
    struct arena texts;
    const char **slots; /* open addressing, at most half full; room is a power of two */
    size_t room, count;
};

enum { FIRST_ROOM = 64 };

static size_t hash_of(struct span name)
{
    uint64_t hash = 0xcbf29ce484222325; /* FNV-1a */

    for (size_t i = 0; i < name.len; i++)
        hash = (hash ^ (unsigned char)name.at[i]) * 0x100000001b3;
    return (size_t)(hash ^ hash >> 32);
}

/* Where the name is or belongs. */
static const char **find_slot(const char **slots, size_t room, struct span name)
{
    size_t i = hash_of(name) & (room - 1);

    while (slots[i] && !span_is(name, slots[i]))
        i = (i + 1) & (room - 1);
    return &slots[i];
}

static bool grow(struct intern *names)
{
    size_t room = names->room ? 2 * names->room : FIRST_ROOM;
    const char **slots = alloc_zeroed(&names->texts.allocator, room * sizeof *slots);

    if (!slots)
        return false;
    for (size_t i = 0; i < names->room; i++)
        if (names->slots[i])
            *find_slot(slots, room, span_of(names->slots[i])) = names->slots[i];
    alloc_free(&names->texts.allocator, names->slots);
    names->slots = slots;
    names->room = room;
    return true;
}

struct intern *intern_new(const weir_allocator *allocator)
{
    struct intern *names = alloc_zeroed(allocator, sizeof *names);

    if (!names)
        return NULL;
    if (pthread_mutex_init(&names->lock, NULL) != 0) {
        alloc_free(allocator, names);
        return NULL;
    }
    arena_init(&names->texts, allocator);
    return names;
}

void intern_free(struct intern *names)
{
    weir_allocator allocator;

    if (!names)
        return;
    allocator = names->texts.allocator;
    alloc_free(&allocator, names->slots);
    arena_done(&names->texts);
    pthread_mutex_destroy(&names->lock);
    alloc_free(&allocator, names);
}

const char *intern_keep(struct intern *names, struct span name)
{
    const char *kept = NULL, **slot;

    pthread_mutex_lock(&names->lock);
    if (names->count >= names->room / 2 && !grow(names))
        goto out;
    slot = find_slot(names->slots, names->room, name);
    if (!*slot) {
        *slot = arena_text(&names->texts, name);
        names->count += *slot != NULL;
    }
    kept = *slot;
out:
    pthread_mutex_unlock(&names->lock);
    return kept;
}

const char *intern_find(struct intern *names, struct span name)
{
    const char *kept;

    pthread_mutex_lock(&names->lock);
    kept = names->room > 0 ? *find_slot(names->slots, names->room, name) : NULL;
    pthread_mutex_unlock(&names->lock);
    return kept;
}
