/* reservation_pack.c - the record of a reservation in as few bytes as it needs: as files have it. */
#include "store/reservation_pack.h"

#include <string.h>

#include "store/varint.h"

enum {
    PACK_SHADOW = 1,
    PACK_START = 1, /* where its two bits begin */
    PACK_SAME_POLICY = 8,
    PACK_SAME_COUNTS = 16,
};

/* ---- writing ------------------------------------------------------------------------------- */

static char *put(char *to, uint64_t n)
{
    return to + number_put(to, n);
}

static char *put_bytes(char *to, const void *from, size_t len)
{
    memcpy(to, from, len);
    return to + len;
}

static char *put_bounds(char *to, const int64_t at[CALENDAR_BOUNDS])
{
    to = put(to, (uint64_t)at[0]);
    for (int i = 1; i < CALENDAR_BOUNDS; i++)
        to = put(to, (uint64_t)(at[i] - at[i - 1]));
    return to;
}

static char *put_charge(char *to, const struct reservation *r, size_t i,
                        const struct charge_label *last, struct charge_label *out)
{
    const struct reserved_charge *c = &r->charges[i];
    const struct charge_label label = reservation_label(r, i);
    const bool has_policy = !last || label.policy != last->policy,
               has_counts = !last || label.counts != last->counts;

    to = put_bytes(to, &c->key, sizeof c->key);
    *to++ = (char)c->algorithm;
    *to++ = (char)c->class;
    *to++ = (char)(c->is_shadow * PACK_SHADOW | c->start << PACK_START |
                   (has_policy ? 0 : PACK_SAME_POLICY) | (has_counts ? 0 : PACK_SAME_COUNTS));
    to = put(to, (uint64_t)c->limit);
    to = put(to, (uint64_t)c->window);
    to = put(to, (uint64_t)c->burst);
    to = put(to, (uint64_t)c->precision);
    to = put(to, (uint64_t)c->block_for);
    to = put(to, (uint64_t)c->held);
    to = put(to, (uint64_t)c->used + 1);
    if (c->start == START_CALENDAR)
        to = put_bounds(to, reservation_bounds(r)[c->bounds_at].at);
    if (has_policy)
        to = stpcpy(to, label.policy) + 1;
    to = stpcpy(to, label.rule) + 1;
    if (has_counts)
        to = stpcpy(to, label.counts) + 1;
    *out = label;
    return to;
}

size_t reservation_pack(const struct reservation *r, void *bytes)
{
    const struct reserved_part *parts = reservation_parts(r);
    struct charge_label last;
    char *to = put_bytes(bytes, &r->fingerprint, sizeof r->fingerprint);

    to = put(to, (uint64_t)r->most_ttl);
    to = put(to, (uint64_t)r->is_settled | (uint64_t)r->gives_back << 1 |
                     (uint64_t)r->is_released << 2);
    to = put(to, r->charge_count);
    to = put(to, r->bounds_count);
    to = put(to, r->part_count);
    for (size_t i = 0; i < r->charge_count; i++)
        to = put_charge(to, r, i, i > 0 ? &last : NULL, &last);
    for (size_t i = 0; i < r->part_count; i++) {
        to = put(to, parts[i].charge);
        to = put(to, (uint64_t)parts[i].amount);
        to = put(to, (uint64_t)parts[i].mark);
        to = put(to, parts[i].born);
    }
    return (size_t)(to - (char *)bytes);
}

/* ---- reading ------------------------------------------------------------------------------- */

/* What is left of the bytes, and whether all so far was there. */
struct taking {
    struct span from;
    bool is_fine;
};

static uint64_t take(struct taking *t)
{
    uint64_t n = 0;

    t->is_fine = t->is_fine && number_take(&t->from, &n);
    return n;
}

static void take_bytes(struct taking *t, void *to, size_t len)
{
    t->is_fine = t->is_fine && t->from.len >= len;
    if (!t->is_fine)
        return;
    memcpy(to, t->from.at, len);
    t->from = (struct span){ t->from.at + len, t->from.len - len };
}

/* A name to the text, which ends at *end. Where it begins. */
static uint16_t take_name(struct taking *t, char *text, size_t *end)
{
    const size_t begin = *end, size = strnlen(t->from.at, t->from.len) + 1;

    t->is_fine = t->is_fine && size <= t->from.len && size <= WEIR_MAX_NAME + 1;
    if (t->is_fine)
        take_bytes(t, text + begin, size);
    *end += t->is_fine ? size : 0;
    return (uint16_t)begin;
}

static void take_bounds(struct taking *t, int64_t at[CALENDAR_BOUNDS])
{
    at[0] = (int64_t)take(t);
    for (int i = 1; i < CALENDAR_BOUNDS; i++)
        at[i] = (int64_t)((uint64_t)at[i - 1] + take(t));
}

/* The first `bounds` calendars have been read, and `text` bytes of names. */
static void take_charge(struct taking *t, struct reservation *r, size_t i, size_t *bounds,
                        size_t *text)
{
    struct reserved_charge *c = &r->charges[i];
    const struct reserved_charge *last = i > 0 ? c - 1 : NULL;
    char *names = (char *)reservation_text(r);
    unsigned char bytes[3] = { 0 };

    *c = (struct reserved_charge){ 0 };
    take_bytes(t, &c->key, sizeof c->key);
    take_bytes(t, bytes, sizeof bytes);
    c->algorithm = bytes[0];
    c->class = bytes[1];
    c->is_shadow = bytes[2] & PACK_SHADOW;
    c->start = bytes[2] >> PACK_START & 3;
    c->limit = (int64_t)take(t);
    c->window = (int64_t)take(t);
    c->burst = (int64_t)take(t);
    c->precision = (int64_t)take(t);
    c->block_for = (int64_t)take(t);
    c->held = (int64_t)take(t);
    c->used = (int64_t)(take(t) - 1);
    if (c->start == START_CALENDAR && *bounds < r->bounds_count) {
        c->bounds_at = (uint16_t)*bounds;
        take_bounds(t, reservation_bounds(r)[(*bounds)++].at);
    }
    t->is_fine = t->is_fine && (last || !(bytes[2] & (PACK_SAME_POLICY | PACK_SAME_COUNTS)));
    if (!t->is_fine)
        return;
    c->policy_at = bytes[2] & PACK_SAME_POLICY ? last->policy_at : take_name(t, names, text);
    c->rule_at = take_name(t, names, text);
    c->counts_at = bytes[2] & PACK_SAME_COUNTS ? last->counts_at : take_name(t, names, text);
}

size_t reservation_unpack(struct span bytes, struct reservation *to)
{
    struct taking t = { bytes, true };
    size_t bounds = 0, text = 0;
    uint64_t bits, counts[3];

    *to = (struct reservation){ 0 };
    take_bytes(&t, &to->fingerprint, sizeof to->fingerprint);
    to->most_ttl = (int64_t)take(&t);
    bits = take(&t);
    for (int i = 0; i < 3; i++)
        counts[i] = take(&t);
    if (!t.is_fine || bits > 7 || counts[0] > RESERVATION_MOST_CHARGES || counts[1] > counts[0] ||
        counts[2] > RESERVATION_MOST_PARTS + RESERVATION_MOST_CHARGES)
        return 0;
    to->is_settled = bits & 1;
    to->gives_back = bits >> 1 & 1;
    to->is_released = bits >> 2 & 1;
    to->charge_count = (uint16_t)counts[0];
    to->bounds_count = (uint16_t)counts[1];
    to->part_count = (uint16_t)counts[2];
    for (size_t i = 0; i < to->charge_count && t.is_fine; i++)
        take_charge(&t, to, i, &bounds, &text);
    for (size_t i = 0; i < to->part_count && t.is_fine; i++) {
        struct reserved_part *part = &reservation_parts(to)[i];

        part->charge = (uint32_t)take(&t);
        part->amount = (int64_t)take(&t);
        part->mark = (int64_t)take(&t);
        part->born = (uint32_t)take(&t);
    }
    if (!t.is_fine || t.from.len > 0 || bounds != to->bounds_count)
        return 0;
    memset((char *)reservation_text(to) + text, 0, -text & 7);
    to->block.size = (size_t)(reservation_text(to) - (const char *)to) + (text + 7) / 8 * 8;
    return to->block.size;
}
