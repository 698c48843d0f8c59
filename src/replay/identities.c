/* identities.c - what is known of each identity of each rule: requests, denied ones, its peak. */
#include "replay/identities.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "weir.h"

enum { FIRST_ROOM = 1 << 12, MOST_ROOM = 1 << 21 };

#define NOT_LISTED UINT32_MAX /* it was denied when there was no more room for such */

_Static_assert(IDENTITIES_MOST <= MOST_ROOM / 4 * 3, "some slots stay free");

enum { LARGE_PAGE = 2 * 1024 * 1024 };

static size_t round_up(size_t bytes)
{
    return (bytes + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
}

/* Slots are found in any order: with large pages the way to them is shorter. */
static struct seen *new_slots(size_t room)
{
    const size_t bytes = room * sizeof(struct seen);
    struct seen *slots = bytes < LARGE_PAGE ? malloc(bytes)
                                            : aligned_alloc(LARGE_PAGE, round_up(bytes));

    if (slots && bytes >= LARGE_PAGE)
        (void)madvise(slots, round_up(bytes), MADV_HUGEPAGE);
    if (slots)
        memset(slots, 0, bytes);
    return slots;
}

bool identities_init(struct identities *t, size_t rows, bool keeps_raw)
{
    const weir_allocator allocator = alloc_or_default((weir_allocator){ 0 });

    *t = (struct identities){ .room = FIRST_ROOM, .row_count = rows, .keeps_raw = keeps_raw };
    buf_init(&t->raw, &allocator);
    t->slots = new_slots(t->room);
    t->rows = calloc(rows > 0 ? rows : 1, sizeof *t->rows);
    return t->slots && t->rows;
}

void identities_done(struct identities *t)
{
    free(t->slots);
    free(t->denied);
    free(t->rows);
    buf_done(&t->raw);
    *t = (struct identities){ 0 };
}

static struct seen *find(struct seen *slots, size_t room, uint64_t key)
{
    size_t i = key & (room - 1);

    while (slots[i].key != 0 && slots[i].key != key)
        i = (i + 1) & (room - 1);
    return &slots[i];
}

/* ---- room ----------------------------------------------------------------------------------- */

/* Copy what is kept into a table of another size, or of the same. `window` 0: keep all. */
static bool rebuild(struct identities *t, size_t room, bool forget_idle, uint16_t row,
                    uint32_t window)
{
    struct seen *slots = new_slots(room);
    size_t count = 0;

    if (!slots)
        return false;
    for (size_t i = 0; i < t->room; i++) {
        const struct seen *const s = &t->slots[i];

        if (s->key == 0)
            continue;
        /* Of the rule that wants room, those of its current window stay. */
        if (forget_idle && s->denied == 0 && (s->row != row || s->window != window)) {
            peaks_add(&t->rows[s->row].peaks, s->peak);
            continue;
        }
        *find(slots, room, s->key) = *s;
        count++;
    }
    free(t->slots);
    t->slots = slots;
    t->room = room;
    t->count = count;
    return true;
}

/* False: there is no room for one more. */
static bool make_room(struct identities *t, uint16_t row, uint32_t window)
{
    if (t->count < t->room / 4 * 3)
        return true;
    if (t->room < MOST_ROOM)
        return rebuild(t, 2 * t->room, false, 0, 0);
    t->is_estimated = true;
    if (!rebuild(t, t->room, true, row, window))
        return false;
    if (t->count > t->room / 8 * 5) /* it would soon be full again: one that is live goes, too */
        return rebuild(t, t->room, true, UINT16_MAX, 0) && t->count < t->room / 4 * 3;
    return true;
}

/* ---- counting ------------------------------------------------------------------------------- */

struct seen *identities_count(struct identities *t, uint16_t row, struct key key, int64_t cost,
                              uint32_t window)
{
    const uint64_t low = key.low ? key.low : 1;
    struct seen *s = find(t->slots, t->room, low);

    if (s->key == 0) {
        hyperloglog_add(&t->rows[row].all, key);
        t->rows[row].identities++;
        if (!make_room(t, row, window)) {
            t->failed = true;
            return NULL;
        }
        s = find(t->slots, t->room, low);
        *s = (struct seen){ .key = low, .row = row, .window = window };
        t->count++;
    }
    if (s->window != window) {
        s->window = window;
        s->in_window = 0;
    }
    s->in_window += cost;
    s->peak = s->in_window > s->peak ? s->in_window : s->peak;
    s->requests += s->requests < UINT32_MAX;
    return s;
}

static struct denied_identity *add_denied(struct identities *t, struct seen *s)
{
    t->rows[s->row].denied_identities++;
    if (t->denied_count == IDENTITIES_MOST_DENIED) {
        t->is_denied_cut = true;
        s->denied = NOT_LISTED;
        return NULL;
    }
    if (t->denied_count == t->denied_room) {
        const size_t room = t->denied_room ? 2 * t->denied_room : 256;
        struct denied_identity *more = realloc(t->denied, room * sizeof *more);

        if (!more) {
            t->failed = true;
            return NULL;
        }
        t->denied = more;
        t->denied_room = room;
    }
    t->denied[t->denied_count] = (struct denied_identity){ .key = s->key, .row = s->row };
    s->denied = (uint32_t)++t->denied_count;
    return &t->denied[t->denied_count - 1];
}

struct denied_identity *identities_deny(struct identities *t, struct seen *s, int64_t time,
                                        int64_t wait)
{
    struct denied_identity *d;

    if (s->denied == NOT_LISTED)
        return NULL;
    d = s->denied ? &t->denied[s->denied - 1] : add_denied(t, s);
    if (!d)
        return NULL;
    if (d->denied++ == 0)
        d->first = time;
    d->last = time;
    if (d->longest_wait != WEIR_NEVER && (wait == WEIR_NEVER || wait > d->longest_wait))
        d->longest_wait = wait;
    return d;
}

void identities_keep_raw(struct identities *t, struct denied_identity *d, struct span value)
{
    if (!t->keeps_raw || t->raw.len > UINT32_MAX - UINT16_MAX || value.len > UINT16_MAX)
        return;
    d->raw = (uint32_t)t->raw.len;
    buf_add(&t->raw, value);
    if (!t->raw.failed)
        d->raw_len = (uint16_t)value.len;
}

void identities_finish(struct identities *t, struct peaks *peaks)
{
    for (size_t i = 0; i < t->row_count; i++)
        peaks[i] = t->rows[i].peaks;
    for (size_t i = 0; i < t->room; i++)
        if (t->slots[i].key != 0)
            peaks_add(&peaks[t->slots[i].row], t->slots[i].peak);
    for (size_t i = 0; i < t->denied_count; i++) {
        const struct seen *const s = find(t->slots, t->room, t->denied[i].key);

        t->denied[i].requests = s->requests;
        t->denied[i].peak = s->peak;
    }
}

int64_t identities_of_row(const struct identities *t, size_t row)
{
    return t->is_estimated ? hyperloglog_count(&t->rows[row].all) : t->rows[row].identities;
}
