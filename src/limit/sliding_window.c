/* sliding_window.c - the sliding window, as arithmetic over a log.
 *
 * Admissions are counted in buckets of `precision` ms that exist only where something was
 * admitted, oldest first. A bucket counts until its last instant has left the window, at
 * start + precision - 1 + window, so the limit holds in every interval of that length.
 *
 * FORMAT of an entry: one word, the offset of its start from `base` in the upper 40 bits and
 * its count in the lower 24. If either does not fit (35 years, 16 million) the log is
 * rewritten wide: two words, offset and count.
 *
 * WHERE they are: three at most beside each other in the state. Else all but the newest are in a
 * block apart, and the newest stays in the state: most requests are counted in it. All else that
 * such a request needs is in the block's head, so it reads one line of memory, however long the log is.
 * Of a wide log the block has the newest, too. */
#include "limit/algorithms.h"
#include "limit/pack.h"

#include <string.h>

enum { COUNT_BITS = 24, LEAST_ROOM = 5 };
#define MOST_OFFSET ((int64_t)1 << 40)
#define MOST_COUNT ((int64_t)1 << COUNT_BITS)

struct sliding_window_block {
    int64_t total;  /* of all entries */
    int64_t oldest; /* the start of the oldest entry, if there is one */
    uint32_t first; /* index of the oldest entry that is here */
    uint32_t born;  /* see state_born() */
    uint64_t words[];
};

static uint64_t *words(const struct sliding_window *s)
{
    return s->is_far ? s->far->words + ((size_t)s->far->first << s->wide) : (uint64_t *)s->near;
}

/* Is the newest entry in the state, and all others in the block? */
static inline bool keeps_last(const struct sliding_window *s)
{
    return s->is_far && !s->wide;
}

static inline bool is_last(const struct sliding_window *s, uint32_t i)
{
    return keeps_last(s) && i + 1 == s->far_count;
}

/* How many entries of so many are in the block. */
static inline uint32_t far_of(const struct sliding_window *s, uint32_t entries)
{
    return entries - (keeps_last(s) && entries > 0);
}

static inline struct log_entry read_word(const struct sliding_window *s, uint64_t word)
{
    return (struct log_entry){ s->base + (int64_t)(word >> COUNT_BITS),
                               (int64_t)word & (MOST_COUNT - 1) };
}

static struct log_entry entry_at(const struct sliding_window *s, uint32_t i)
{
    const uint64_t *w = is_last(s, i) ? &s->last : words(s) + ((size_t)i << s->wide);

    if (s->wide)
        return (struct log_entry){ s->base + (int64_t)w[0], (int64_t)w[1] };
    return read_word(s, *w);
}

static void entry_put(struct sliding_window *s, uint32_t i, struct log_entry e)
{
    uint64_t *w = is_last(s, i) ? &s->last : words(s) + ((size_t)i << s->wide);

    if (s->wide) {
        w[0] = (uint64_t)(e.start - s->base);
        w[1] = (uint64_t)e.count;
    } else {
        *w = (uint64_t)(e.start - s->base) << COUNT_BITS | (uint64_t)e.count;
    }
}

/* Behind all others. There is room. */
__attribute__((noinline)) static void push(struct sliding_window *s, struct log_entry e)
{
    const uint32_t i = log_length(s);

    if (s->is_far && i == 0)
        s->far->oldest = e.start;
    else if (keeps_last(s))
        words(s)[i - 1] = s->last;
    if (s->is_far)
        s->far_count++;
    else
        s->near_count = (i + 1) & 3;
    entry_put(s, i, e);
}

/* The newest, which is there. */
__attribute__((noinline)) static void pop(struct sliding_window *s)
{
    if (!s->is_far)
        s->near_count = (s->near_count - 1u) & 3;
    else if (--s->far_count > 0 && keeps_last(s))
        s->last = words(s)[s->far_count - 1];
}

int64_t log_total(const struct sliding_window *s)
{
    int64_t sum = 0;

    if (s->is_far)
        return s->far->total;
    for (uint32_t i = 0; i < log_length(s); i++)
        sum += entry_at(s, i).count;
    return sum;
}

uint32_t log_born(const struct sliding_window *s)
{
    return s->is_far ? s->far->born : 0;
}

/* How long after its start a bucket counts. */
static int64_t lifetime(const struct rule *r)
{
    return r->precision - 1 + r->window;
}

static void report(const struct rule *r, bool forced, int64_t live, int64_t newest,
                   struct step *out)
{
    int64_t left = r->limit - live;

    out->decision.remaining = left > 0 || forced ? left : 0;
    if (live > 0)
        out->decision.reset_after = newest + lifetime(r) - out->now;
}

/* How long until enough entries have left, from the oldest live one on. */
static int64_t wait_for(const struct sliding_window *s, const struct rule *r, int64_t excess,
                        const struct step *step)
{
    struct log_entry e = { 0 };

    for (uint32_t i = step->next.sliding_window.drop; i < log_length(s) && excess > 0; i++) {
        e = entry_at(s, i);
        excess -= e.count;
    }
    return e.start + lifetime(r) - step->now;
}

/* How a log stands: what is counted of it, how many entries are not, and its newest entry. */
struct standing {
    int64_t live;
    uint32_t drop;
    struct log_entry newest; /* all 0: there is none */
};

/* *now is made no earlier than the newest: a clock that stepped back must not un-count. */
static inline struct standing stand_near(const struct sliding_window *s, int64_t life, int64_t *now)
{
    const uint32_t count = s->near_count;
    struct standing at = { 0 };

    if (count == 0)
        return at;
    at.newest = (struct log_entry){ s->base + (int64_t)(s->near[count - 1] >> COUNT_BITS),
                                    (int64_t)s->near[count - 1] & (MOST_COUNT - 1) };
    *now = *now < at.newest.start ? at.newest.start : *now;
    for (uint32_t i = 0; i < count; i++) {
        if (s->base + (int64_t)(s->near[i] >> COUNT_BITS) + life > *now)
            at.live += (int64_t)s->near[i] & (MOST_COUNT - 1);
        else
            at.drop++;
    }
    return at;
}

static struct standing stand_far(const struct sliding_window *s, int64_t life, int64_t *now)
{
    struct standing at = { .live = s->far->total };

    if (s->far_count == 0)
        return at;
    at.newest = entry_at(s, s->far_count - 1);
    *now = *now < at.newest.start ? at.newest.start : *now;
    if (s->far->oldest + life > *now)
        return at;
    for (; at.drop < s->far_count; at.drop++) {
        const struct log_entry e = entry_at(s, at.drop);

        if (e.start + life > *now)
            break;
        at.live -= e.count;
    }
    return at;
}

void sliding_window_take(const struct sliding_window *s, const struct rule *r,
                         const struct ask *ask, struct step *out)
{
    struct sliding_window_change *change = &out->next.sliding_window;
    int64_t now = ask->now, newest;
    const struct standing at = s->is_far ? stand_far(s, lifetime(r), &now)
                                         : stand_near(s, lifetime(r), &now);
    int64_t live = at.live;

    out->decision = (struct decision){ 0 };
    out->now = now;
    *change = (struct sliding_window_change){ .drop = at.drop };
    newest = at.newest.start;

    if (!ask->forced && ask->cost > r->limit) {
        out->decision.retry_after = WEIR_NEVER;
    } else if (!ask->forced && ask->cost > 0 && live + ask->cost > r->limit) {
        out->decision.retry_after = wait_for(s, r, live + ask->cost - r->limit, out);
    } else {
        out->decision.allowed = true;
        if (!ask->peek && ask->cost > 0) {
            const int64_t start = now - now % r->precision;

            /* After the precision was widened a bucket may start before the newest one. */
            newest = at.drop < log_length(s) && newest > start ? newest : start;
            change->start = newest;
            change->add = ask->forced ? add_amount(live, ask->cost, AMOUNT_MOST) - live : ask->cost;
            change->is_in_place = at.drop == 0 && at.newest.start == newest && !s->wide &&
                                  at.newest.count > 0 && at.newest.count + change->add < MOST_COUNT;
            live += change->add;
        }
    }
    report(r, ask->forced, live, newest, out);
}

/* Is the newest entry that stays the bucket that the change adds to? */
static bool adds_to_newest(const struct sliding_window *s,
                           const struct sliding_window_change *change)
{
    return change->drop < log_length(s) && entry_at(s, log_length(s) - 1).start == change->start;
}

/* What the log becomes by a change: how many entries, and of which form. */
struct shape {
    uint32_t entries;
    bool is_wide;
};

static struct shape shape_after(const struct sliding_window *s,
                                const struct sliding_window_change *change)
{
    const bool adds = adds_to_newest(s, change);
    const int64_t count = change->add + (adds ? entry_at(s, log_length(s) - 1).count : 0);

    return (struct shape){
        .entries = log_length(s) - change->drop + !adds,
        .is_wide = s->wide || count >= MOST_COUNT ||
                   (change->drop < log_length(s) && change->start - s->base >= MOST_OFFSET),
    };
}

static bool has_room(const struct sliding_window *s, struct shape next)
{
    uint32_t spare;

    if (!s->is_far)
        return !next.is_wide && next.entries <= SLIDING_WINDOW_NEAR;
    /* A large log that is nearly full would have to be moved up at every step. */
    spare = s->room > 61 ? s->room / 8u : 0;
    return next.is_wide == s->wide && far_of(s, next.entries) + spare <= s->room;
}

bool sliding_window_has_room(const struct sliding_window *s,
                             const struct sliding_window_change *change)
{
    return change->add == 0 || has_room(s, shape_after(s, change));
}

/* Move the log into a block of its own, with more room or in the wide form. */
static bool move_far(struct sliding_window *s, uint32_t room, bool wide,
                     const weir_allocator *allocator)
{
    size_t size = sizeof(struct sliding_window_block) + sizeof(uint64_t) * ((size_t)room << wide);
    struct sliding_window moved = { .base = s->base, .tag = s->tag, .wide = wide, .is_far = true };

    moved.far_count = 0;
    moved.room = room;
    moved.far = alloc_resize(allocator, NULL, size);
    if (!moved.far)
        return false;
    *moved.far = (struct sliding_window_block){ .total = log_total(s), .born = log_born(s) };
    for (uint32_t i = 0; i < log_length(s); i++)
        push(&moved, entry_at(s, i));
    sliding_window_done(s, allocator);
    *s = moved;
    return true;
}

bool sliding_window_reserve(struct sliding_window *s, const struct sliding_window_change *change,
                            const weir_allocator *allocator)
{
    const struct shape next = shape_after(s, change);
    uint32_t room = LEAST_ROOM;

    if (change->add == 0 || has_room(s, next))
        return true;
    while (room < log_length(s) + log_length(s) / 4 +
                      1) /* blocks of a power of two: 64, 128, 256 … bytes */
        room = room * 2 + 3;
    return move_far(s, room, next.is_wide, allocator);
}

bool sliding_window_make_far(struct sliding_window *s, const weir_allocator *allocator)
{
    return s->is_far || move_far(s, LEAST_ROOM, s->wide, allocator);
}

void sliding_window_bear(struct sliding_window *s, uint32_t born)
{
    if (s->is_far)
        s->far->born = born;
}

__attribute__((noinline)) static void drop_oldest(struct sliding_window *s, uint32_t n)
{
    const uint32_t left = log_length(s) - n;

    if (!s->is_far) {
        memmove(s->near, s->near + n, sizeof(uint64_t) * left);
        s->near_count = left & 3;
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        s->far->total -= entry_at(s, i).count;
    if (left > 0)
        s->far->oldest = entry_at(s, n).start;
    s->far->first += far_of(s, s->far_count) - far_of(s, left);
    s->far_count = left;
}

/* Make the place of the dropped entries room at the end again. */
static void move_up(struct sliding_window *s)
{
    const size_t count = far_of(s, s->far_count);

    memmove(s->far->words, words(s), sizeof(uint64_t) * (count << s->wide));
    s->far->first = 0;
}

void sliding_window_apply(struct sliding_window *s, const struct sliding_window_change *change)
{
    if (change->add == 0)
        return;
    if (change->is_in_place) {
        if (s->is_far) {
            s->last += (uint64_t)change->add;
            s->far->total += change->add;
        } else {
            s->near[s->near_count - 1] += (uint64_t)change->add;
        }
        return;
    }
    if (change->drop > 0)
        drop_oldest(s, change->drop);
    if (log_length(s) == 0)
        s->base = change->start;
    if (s->is_far && (s->far_count == 0 || s->far->first + far_of(s, s->far_count + 1) > s->room))
        move_up(s);
    if (log_length(s) > 0 && entry_at(s, log_length(s) - 1).start == change->start) {
        struct log_entry e = entry_at(s, log_length(s) - 1);

        e.count += change->add;
        entry_put(s, log_length(s) - 1, e);
    } else {
        push(s, (struct log_entry){ change->start, change->add });
    }
    if (s->is_far)
        s->far->total += change->add;
}

/* Newest first: what is given back is what was admitted last. */
void sliding_window_refund(struct sliding_window *s, const struct rule *r, const struct ask *ask,
                           struct step *out)
{
    int64_t cost = ask->cost;

    while (cost > 0 && log_length(s) > 0) {
        struct log_entry e = entry_at(s, log_length(s) - 1);
        int64_t back = cost < e.count ? cost : e.count;

        e.count -= back;
        cost -= back;
        if (s->is_far)
            s->far->total -= back;
        if (e.count > 0)
            entry_put(s, log_length(s) - 1, e);
        else
            pop(s);
    }
    sliding_window_take(s, r, &(struct ask){ .now = ask->now, .peek = true }, out);
}

static void remove_entry(struct sliding_window *s, uint32_t i)
{
    const uint32_t last = log_length(s) - 1;

    for (uint32_t k = i; k < last; k++)
        entry_put(s, k, entry_at(s, k + 1));
    pop(s);
    if (s->is_far && i == 0 && last > 0)
        s->far->oldest = entry_at(s, 0).start;
}

/* Where the bucket that starts there is; `count`: there is none. */
static uint32_t find_entry(const struct sliding_window *s, int64_t start)
{
    uint32_t low = 0, high = log_length(s);

    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;

        if (entry_at(s, middle).start < start)
            low = middle + 1;
        else
            high = middle;
    }
    return low < log_length(s) && entry_at(s, low).start == start ? low : log_length(s);
}

int64_t log_count(const struct sliding_window *s, int64_t start)
{
    const uint32_t i = find_entry(s, start);

    return i < log_length(s) ? entry_at(s, i).count : 0;
}

void log_set(struct sliding_window *s, struct log_entry e)
{
    const uint32_t i = find_entry(s, e.start);

    if (i == log_length(s) || (!s->wide && e.count >= MOST_COUNT))
        return;
    if (s->is_far)
        s->far->total += e.count - entry_at(s, i).count;
    if (e.count > 0)
        entry_put(s, i, e);
    else
        remove_entry(s, i);
}

void sliding_window_give_back(struct sliding_window *s, int64_t start, int64_t amount)
{
    const int64_t count = log_count(s, start);

    log_set(s, (struct log_entry){ start, count - (amount < count ? amount : count) });
}

void sliding_window_done(struct sliding_window *s, const weir_allocator *allocator)
{
    if (s->is_far)
        alloc_free(allocator, s->far);
    *s = (struct sliding_window){ .tag = s->tag };
}

struct log_entry log_at(const struct sliding_window *s, uint32_t i)
{
    return entry_at(s, i);
}

void sliding_window_pack(const struct sliding_window *s, uint32_t upto, int64_t words[3])
{
    struct log_entry newest;

    if (upto == 0) {
        memset(words, 0, 3 * sizeof *words);
        return;
    }
    newest = entry_at(s, upto - 1);
    words[0] = s->is_far ? s->far->oldest : entry_at(s, 0).start;
    words[1] = newest.start;
    words[2] = newest.count;
}

void sliding_window_cut(struct sliding_window *s, int64_t first, uint32_t keep)
{
    uint32_t drop = 0;

    for (; log_length(s) > keep; pop(s))
        if (s->is_far)
            s->far->total -= entry_at(s, log_length(s) - 1).count;
    while (drop < log_length(s) && entry_at(s, drop).start < first)
        drop++;
    if (drop > 0)
        drop_oldest(s, drop);
}

size_t sliding_window_beside(const struct sliding_window *s)
{
    return s->is_far ? sizeof *s->far + sizeof(uint64_t) * ((size_t)s->room << s->wide) : 0;
}
