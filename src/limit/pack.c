/* pack.c - states as words, to be kept outside memory. */
#include "limit/pack.h"

#include "limit/algorithms.h"

static bool is_amount(int64_t n)
{
    return n >= 0 && n < (int64_t)1 << 62;
}

enum { NS_PER_MS = 1000000, TIME_BITS = 48, AMOUNT_BITS = 56 };

/* When a state was born, in the bits that its words do not need: 16, 8 and 8. */
static void pack_born(uint32_t born, struct packed *p)
{
    p->words[0] |= (int64_t)((uint64_t)(born & 0xffff) << TIME_BITS);
    p->words[1] |= (int64_t)((uint64_t)(born >> 16 & 0xff) << AMOUNT_BITS);
    p->words[2] |= (int64_t)((uint64_t)(born >> 24) << AMOUNT_BITS);
}

static uint32_t unpack_born(struct packed *p)
{
    const uint64_t *w = (const uint64_t *)p->words;
    const uint32_t born = (uint32_t)(w[0] >> TIME_BITS | w[1] >> AMOUNT_BITS << 16 |
                                     w[2] >> AMOUNT_BITS << 24);

    p->words[0] &= ((int64_t)1 << TIME_BITS) - 1;
    p->words[1] &= ((int64_t)1 << AMOUNT_BITS) - 1;
    p->words[2] &= ((int64_t)1 << AMOUNT_BITS) - 1;
    return born;
}

static bool has_born(weir_algorithm algorithm)
{
    switch (algorithm) {
    case WEIR_FIXED_WINDOW:
    case WEIR_SLIDING_WINDOW:
    case WEIR_SLIDING_COUNTER:
        return true;
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
    case WEIR_CONCURRENCY:
    case WEIR_DEFAULT_ALGORITHM:
        break;
    }
    return false;
}

void log_pack(const struct sliding_window *s, uint32_t upto, struct packed *out)
{
    const uint32_t born = log_born(s);

    sliding_window_pack(s, upto, out->words);
    if (born != 0)
        pack_born(born, out);
}

uint32_t log_changed(const struct sliding_window *s, const struct packed *since)
{
    const int64_t from = (int64_t)((uint64_t)since->words[1] & (((uint64_t)1 << AMOUNT_BITS) - 1));
    const uint32_t length = log_length(s);
    uint32_t same = length;

    while (same > 0 && log_at(s, same - 1).start >= from)
        same--;
    return same < length ? same + 1 : length;
}

void state_pack(const struct state *s, weir_algorithm algorithm, struct packed *out)
{
    if (state_is_log(algorithm)) {
        log_pack(&s->sliding_window, log_length(&s->sliding_window), out);
        return;
    }
    *out = (struct packed){ { s->words[0], s->words[1], s->words[2] } };
    if (algorithm_counts_slots(algorithm))
        *out = (struct packed){ { s->slots.at, 0, 0 } };
    else if (has_born(algorithm) && s->words[3] != 0)
        pack_born((uint32_t)s->words[3], out);
}

/* Entries before `first` go, entries from `newest` on go, and the newest is put. */
static bool unpack_log(struct sliding_window *s, const struct packed *packed,
                       const weir_allocator *allocator)
{
    const int64_t first = packed->words[0], newest = packed->words[1], count = packed->words[2];
    uint32_t keep = log_length(s);

    if (count == 0) {
        sliding_window_done(s, allocator);
        return true;
    }
    if (first > newest)
        return false;
    while (keep > 0 && log_at(s, keep - 1).start >= newest)
        keep--;
    sliding_window_cut(s, first, keep);
    return log_push(s, (struct log_entry){ newest, count }, allocator);
}

static bool unpack_arrival(struct arrival *s, const int64_t *words)
{
    if (words[1] >= NS_PER_MS)
        return false;
    *s = (struct arrival){ words[0], words[1] };
    return true;
}

static void drop_expired(struct holds *h, int64_t now)
{
    if (h)
        holds_drop(h, holds_expired(h, now));
}

static bool unpack(struct state *s, weir_algorithm algorithm, const struct packed *packed,
                   const weir_allocator *allocator)
{
    const int64_t *w = packed->words;

    if (!is_amount(w[0]) || !is_amount(w[1]) || !is_amount(w[2]))
        return false;
    if (algorithm == ALGORITHM_CELL)
        return unpack_arrival(&s->arrival, w);
    switch (algorithm) {
    case WEIR_FIXED_WINDOW:
        s->fixed_window = (struct fixed_window){ w[0], w[1], w[2] };
        return true;
    case WEIR_SLIDING_COUNTER:
        s->sliding_counter = (struct sliding_counter){ w[0], w[1], w[2] };
        return true;
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
        s->bucket.used = w[0];
        s->bucket.at = w[1];
        s->bucket.known = w[2];
        drop_expired(s->bucket.holds, w[1]);
        return true;
    case WEIR_CONCURRENCY:
        s->slots.at = w[0];
        drop_expired(s->slots.holds, w[0]);
        return true;
    case WEIR_SLIDING_WINDOW:
        return unpack_log(&s->sliding_window, packed, allocator);
    case WEIR_DEFAULT_ALGORITHM:
        break;
    }
    return false;
}

bool state_unpack(struct state *s, weir_algorithm algorithm, const struct packed *packed,
                  const weir_allocator *allocator)
{
    struct packed plain = *packed;
    const uint32_t born = has_born(algorithm) ? unpack_born(&plain) : 0;

    return unpack(s, algorithm, &plain, allocator) && state_bear(s, algorithm, born, allocator);
}

bool log_push(struct sliding_window *s, struct log_entry e, const weir_allocator *allocator)
{
    const struct sliding_window_change change = { .start = e.start, .add = e.count };
    const uint32_t length = log_length(s);

    if (!is_amount(e.start) || e.count <= 0 || !is_amount(e.count) ||
        !is_amount(log_total(s) + e.count) || (length > 0 && e.start < log_at(s, length - 1).start))
        return false;
    if (!sliding_window_reserve(s, &change, allocator))
        return false;
    sliding_window_apply(s, &change);
    return true;
}

bool state_unpack_hold(struct state *s, weir_algorithm algorithm, const struct packed *packed,
                       const weir_allocator *allocator)
{
    const struct hold hold = { packed->words[0], (uint64_t)packed->words[1], packed->words[2] };

    if (!is_amount(hold.expires) || !is_amount(hold.amount))
        return false;
    if (state_is_log(algorithm)) {
        log_set(&s->sliding_window, (struct log_entry){ hold.expires, hold.amount });
        return true;
    }
    if (!state_has_holds(algorithm))
        return false;
    if (s->bucket.holds)
        (void)holds_remove(s->bucket.holds, hold.expires, hold.id);
    if (hold.amount == 0)
        return true;
    if (holds_count(s->bucket.holds) > HOLDS_MOST || !holds_reserve(&s->bucket.holds, allocator))
        return false;
    holds_add(s->bucket.holds, &hold);
    return true;
}
