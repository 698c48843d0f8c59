/* holds.c - the open holds of one key, in the order of their expiry. */
#include "limit/holds.h"

#include <string.h>

enum { FIRST_ROOM = 4 };

static bool stands_before(const struct hold *a, int64_t expires, uint64_t id)
{
    return a->expires != expires ? a->expires < expires : a->id < id;
}

/* Where it is or would be. */
static uint32_t place_of(const struct holds *h, int64_t expires, uint64_t id)
{
    uint32_t low = 0, high = holds_count(h);

    if (high > 0 && stands_before(holds_at(h, high - 1), expires, id))
        return high;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;

        if (stands_before(holds_at(h, middle), expires, id))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_at(const struct holds *h, uint32_t i, int64_t expires, uint64_t id)
{
    return i < holds_count(h) && holds_at(h, i)->expires == expires && holds_at(h, i)->id == id;
}

uint32_t holds_count_expired(const struct holds *h, int64_t now)
{
    return place_of(h, now + 1, 0);
}

bool holds_has_room(const struct holds *h)
{
    return h && h->count < h->room;
}

bool holds_reserve(struct holds **h, const weir_allocator *allocator)
{
    const uint32_t count = holds_count(*h), old = *h ? (*h)->room : 0;
    uint32_t room = old ? old * 2 : FIRST_ROOM;
    struct holds *moved;

    if (count < old)
        return true;
    moved = alloc_resize(allocator, *h, sizeof *moved + sizeof(struct hold) * room);
    if (!moved)
        return false;
    if (!*h)
        *moved = (struct holds){ 0 };
    moved->room = room;
    *h = moved;
    return true;
}

void holds_add(struct holds *h, const struct hold *hold)
{
    const uint32_t i = place_of(h, hold->expires, hold->id);
    struct hold *to;

    h->sum += hold->amount;
    if (is_at(h, i, hold->expires, hold->id)) {
        h->at[h->first + i].amount += hold->amount;
        return;
    }
    if (h->first > 0 && (i < h->count / 2 || h->first + h->count == h->room)) {
        h->first--;
        to = &h->at[h->first];
        memmove(to, to + 1, sizeof *to * i);
    } else if (h->first + h->count < h->room) {
        to = &h->at[h->first + i];
        if (i < h->count) /* most are the last */
            memmove(to + 1, to, sizeof *to * (h->count - i));
    }
    h->at[h->first + i] = *hold;
    h->count++;
}

int64_t holds_find(const struct holds *h, int64_t expires, uint64_t id)
{
    const uint32_t i = place_of(h, expires, id);

    return is_at(h, i, expires, id) ? holds_at(h, i)->amount : 0;
}

int64_t holds_remove(struct holds *h, int64_t expires, uint64_t id)
{
    const uint32_t last = holds_count(h) - 1; /* of none: no place */
    uint32_t i = last;
    struct hold *from;
    int64_t amount;

    if (!is_at(h, last, expires, id)) { /* else it came last, or is the only one */
        i = place_of(h, expires, id);
        if (!is_at(h, i, expires, id))
            return 0;
    }
    from = &h->at[h->first + i];
    amount = from->amount;
    h->sum -= amount;
    h->count--;
    if (i < h->count / 2) {
        memmove(&h->at[h->first + 1], &h->at[h->first], sizeof *from * i);
        h->first++;
    } else if (i < h->count) {
        memmove(from, from + 1, sizeof *from * (h->count - i));
    }
    if (h->count == 0)
        h->first = 0;
    return amount;
}

void holds_drop(struct holds *h, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        h->sum -= holds_at(h, i)->amount;
    if (n == 0)
        return;
    h->first += n;
    h->count -= n;
    if (h->count == 0)
        h->first = 0;
}

size_t holds_bytes(const struct holds *h)
{
    return h ? sizeof *h + sizeof(struct hold) * h->room : 0;
}

void holds_done(struct holds **h, const weir_allocator *allocator)
{
    alloc_free(allocator, *h);
    *h = NULL;
}
