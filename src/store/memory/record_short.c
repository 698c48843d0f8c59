/* record_short.c - new reservations and those that are settled, as a journal has them: short. */
#include "store/memory/record_short.h"

#include <string.h>

#include "store/reservation_pack.h"
#include "store/store.h"
#include "store/varint.h"

static void put_head(const struct cell *record, bool is_hold, struct record *to)
{
    to->key = record->key;
    to->stamp = record->stamp;
    to->is_locked = 1;
    to->is_hold = is_hold;
}

/* How a mark is said inside a record: 0, or which word of the key's record has it, from 1 on. */
enum { MARK_WORDS = sizeof(struct packed) / sizeof(int64_t), MARK_ELSEWHERE };

static unsigned mark_word(int64_t mark, const struct record *key)
{
    unsigned word = 0;

    if (mark == 0)
        return 0;
    while (word < MARK_WORDS && key->packed.words[word] != mark)
        word++;
    return word + 1;
}

/* False: it is not one that fits. */
static bool write_inside(const struct cell *record, const struct kept_reservation *r,
                         struct record *to)
{
    const struct record *key = to - r->charge_count;
    const struct reserved_part *part = kept_parts(r), *const end = part + r->charge_count;
    char bytes[sizeof(int64_t) + 2 * NUMBER_MOST + 1] = { 0 }, *at = bytes;

    if ((int64_t)record->expires != record->state.kept.expires + RESERVATION_KNOWN_MS)
        return false;
    for (; part < end; part++, key++) {
        const unsigned word = mark_word(part->mark, key);

        if (word == MARK_ELSEWHERE)
            return false;
        at += number_put(at, (uint64_t)part->amount);
        *at++ = (char)word;
        at += number_put(at, part->born);
        if (at - bytes > (ptrdiff_t)sizeof(int64_t))
            return false;
    }
    put_head(record, false, to);
    memcpy(&to->packed.words[0], &r->fingerprint, sizeof r->fingerprint);
    memcpy(&to->packed.words[1], bytes, sizeof(int64_t));
    to->packed.words[2] = RECORD_OPEN | RECORD_LEAN | RECORD_INSIDE;
    return true;
}

size_t short_write_lean(const struct cell *record, struct record to[LEAN_MOST])
{
    const struct kept_reservation *r = (const struct kept_reservation *)(const void *)
                                           record->state.kept.block;
    const struct reserved_part *part = kept_parts(r);
    char *at = (char *)(to + 1);

    if (write_inside(record, r, to))
        return 1;

    memset(at, 0, (LEAN_MOST - 1) * sizeof *to); /* the last need not be full */
    memcpy(at, &r->fingerprint, sizeof r->fingerprint);
    at += sizeof r->fingerprint;
    for (size_t i = 0; i < r->charge_count; i++, part++) {
        at += number_put(at, (uint64_t)part->amount);
        at += number_put(at, (uint64_t)part->mark);
        at += number_put(at, part->born);
    }
    put_head(record, false, to);
    to->packed = (struct packed){
        { at - (char *)(to + 1), record->state.kept.expires, RECORD_OPEN | RECORD_LEAN },
    };
    return 1 + record_more(to);
}

void short_write_settled(const struct cell *record, int64_t hold_expires, struct record *to)
{
    put_head(record, true, to);
    to->packed = (struct packed){ { record->state.kept.expires, RECORD_SETTLED, hold_expires } };
}

/* ---- reading ------------------------------------------------------------------------------- */

static void put_hold(const struct record *r, const struct record *key, int64_t expires,
                     int64_t amount, struct record *out)
{
    *out = *key;
    out->is_hold = 1;
    out->packed = (struct packed){
        { expires, (int64_t)reservation_hold_id(r->key), amount },
    };
}

static size_t expand_settled(const struct record *r, const struct record *key, struct record *out)
{
    put_hold(r, key, r->packed.words[2], 0, &out[0]);
    out[1] = *r;
    out[1].is_locked = 0;
    out[1].packed.words[2] = 0;
    return 2;
}

/* False: the bytes are not three names. */
static bool read_names(const char *at, size_t len, struct charge_label *label)
{
    const char *names[3];

    for (int i = 0; i < 3; i++) {
        const size_t size = strnlen(at, len) + 1;

        if (size > len || size > WEIR_MAX_NAME + 1)
            return false;
        names[i] = at;
        at += size;
        len -= size;
    }
    *label = (struct charge_label){ names[0], names[1], names[2], .is_kept = true };
    return len == 0;
}

static size_t expand_reservation(const struct record *r, const struct record *key,
                                 struct record *out)
{
    const struct short_reservation *s = (const struct short_reservation *)(const void *)(r + 1);
    const size_t size = (size_t)r->packed.words[0];
    const struct rule rule = { .algorithm = s->algorithm,
                               .limit = s->limit,
                               .window = s->window,
                               .burst = s->burst,
                               .precision = s->precision,
                               .start = (enum rule_start)s->start };
    const struct charge c = { .rule = &rule, .key = key->key, .cost = s->held, .class = s->class };
    struct charge_label label;
    const struct reserving of = { .key = r->key,
                                  .fingerprint = s->fingerprint,
                                  .most_ttl = s->most_ttl,
                                  .gives_back = s->gives_back & 1,
                                  .labels = &label };
    uint64_t bytes[SHORT_WHOLE / sizeof(uint64_t) + 1];
    struct reservation *whole = (struct reservation *)(void *)bytes;
    const size_t n = state_has_holds(s->algorithm);
    size_t written;

    if (s->algorithm == WEIR_DEFAULT_ALGORITHM || s->algorithm > ALGORITHM_COUNT ||
        s->start == START_CALENDAR || !read_names(s->names, size - sizeof *s, &label))
        return 0;
    if (n > 0)
        put_hold(r, key,
                 reservation_hold(&of, s->algorithm, r->packed.words[1], of.gives_back).expires,
                 s->held, &out[0]);
    written = reservation_put(whole, &of, &c, 1, 1);
    whole->charges[0].held = s->held;
    *reservation_parts(whole) = (struct reserved_part){ s->held, s->mark, 0, s->born };
    out[n] = *r;
    out[n].is_locked = 0;
    memcpy(&out[n + 1], whole, written);
    out[n].packed.words[0] = (int64_t)written;
    memset((char *)&out[n + 1] + written, 0, record_more(&out[n]) * sizeof *out - written);
    return n + 1 + record_more(&out[n]);
}

size_t short_expand(const struct record *r, const struct record *key, struct record *out)
{
    const uint64_t size = (uint64_t)r->packed.words[0];

    if (r->is_hold)
        return expand_settled(r, key, out);
    if (size < sizeof(struct short_reservation) ||
        size > sizeof(struct short_reservation) + SHORT_NAMES)
        return 0;
    return expand_reservation(r, key, out);
}

static bool read_mark(const struct record *key, uint64_t *mark)
{
    if (*mark >= MARK_ELSEWHERE)
        return false;
    if (*mark > 0)
        *mark = (uint64_t)key->packed.words[*mark - 1];
    return true;
}

static bool is_zero(struct span rest)
{
    for (size_t i = 0; i < rest.len; i++)
        if (rest.at[i] != 0)
            return false;
    return true;
}

size_t short_pack(const struct record *lean, const struct record *first,
                  const struct reservation *terms, struct record *out)
{
    uint64_t bytes[RESERVATION_MOST_BYTES / sizeof(uint64_t) + 1];
    struct reservation *r = (struct reservation *)(void *)bytes;
    const bool is_inside = lean->packed.words[2] & RECORD_INSIDE;
    struct span from = { (const char *)(lean + 1), (size_t)lean->packed.words[0] };
    const size_t n = terms->charge_count;
    size_t size;

    if (is_inside)
        from = (struct span){ (const char *)lean->packed.words, 2 * sizeof(int64_t) };
    if ((size_t)(lean - first) < n || from.len < sizeof r->fingerprint || n > LEAN_MOST_CHARGES)
        return 0;
    memcpy(r, terms, terms->block.size);
    memcpy(&r->fingerprint, from.at, sizeof r->fingerprint);
    from = (struct span){ from.at + sizeof r->fingerprint, from.len - sizeof r->fingerprint };
    for (size_t i = 0; i < n; i++) {
        uint64_t numbers[3]; /* held, mark, born */

        for (int j = 0; j < 3; j++)
            if (!number_take(&from, &numbers[j]))
                return 0;
        if (is_inside && !read_mark(&lean[i - n], &numbers[1]))
            return 0;
        r->charges[i].key = lean[i - n].key;
        r->charges[i].held = (int64_t)numbers[0];
        r->charges[i].used = RESERVED_OPEN;
        reservation_parts(r)[i] = (struct reserved_part){
            .amount = (int64_t)numbers[0],
            .mark = (int64_t)numbers[1],
            .charge = (uint32_t)i,
            .born = (uint32_t)numbers[2],
        };
    }
    if (is_inside ? !is_zero(from) : from.len > 0)
        return 0;
    r->is_settled = r->is_released = 0;
    size = reservation_pack(r, out + 1);
    out[0] = *lean;
    if (is_inside)
        out[0].packed.words[1] = (int64_t)lean->expires - RESERVATION_KNOWN_MS;
    out[0].packed.words[0] = (int64_t)size;
    out[0].packed.words[2] = RECORD_OPEN | RECORD_PACKED;
    memset((char *)(out + 1) + size, 0, record_more(out) * sizeof *out - size);
    return 1 + record_more(out);
}

/* Each part is of one key, and their records are in the order of the parts. */
bool short_holds(const struct record *r, const struct record *first, const struct record *end,
                 struct record holds[RESERVATION_MOST_CHARGES], size_t *count)
{
    uint64_t bytes[RESERVATION_MOST_BYTES / sizeof(uint64_t) + 1];
    struct reservation *whole = (struct reservation *)(void *)bytes;
    const size_t size = reservation_unpack(
        (struct span){ (const char *)(r + 1), (size_t)r->packed.words[0] }, whole);
    const struct reserving of = { .key = r->key };
    size_t n = 0;

    if (!reservation_is_sound(whole, size) || whole->part_count > whole->charge_count ||
        (size_t)(end - first) < whole->part_count)
        return false;
    for (size_t i = 0; i < whole->part_count; i++) {
        const struct reserved_part *part = &reservation_parts(whole)[i];
        const struct reserved_charge *c = &whole->charges[part->charge];
        const struct record *key = end - whole->part_count + i;

        if (key->is_hold || key->algorithm != c->algorithm || key->key.high != c->key.high ||
            key->key.low != c->key.low)
            return false;
        if (state_has_holds(c->algorithm))
            put_hold(
                r, key,
                reservation_hold(&of, c->algorithm, r->packed.words[1], whole->gives_back).expires,
                part->amount, &holds[n++]);
    }
    *count = n;
    return true;
}
