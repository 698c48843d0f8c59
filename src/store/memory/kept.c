/* kept.c - a reservation as a table keeps it. */
#include "store/memory/kept.h"

#include <string.h>

static struct terms *own_terms(const struct kept_reservation *r)
{
    return (struct terms *)(void *)(kept_bounds(r) + r->bounds_count);
}

static size_t own_size(const struct kept_reservation *r)
{
    const struct terms *t = own_terms(r);
    struct charge charges[RESERVATION_MOST_CHARGES];

    if (!r->has_own_terms)
        return 0;
    return terms_size(
        &(struct terms_source){ .labels = t->labels, .charges = charges, .count = t->count });
}

struct reserved_part *kept_parts_behind(const struct kept_reservation *r)
{
    return (struct reserved_part *)(void *)((char *)own_terms(r) + own_size(r));
}

static size_t size_of(const struct kept_reservation *r)
{
    return (size_t)((const char *)(kept_parts(r) + r->part_count) - (const char *)r);
}

static void count_bytes(struct kept_reservation *r)
{
    r->block.size = KEPT_COUNTS * size_of(r);
}

/* ---- making one ---------------------------------------------------------------------------- */

/* All but what differs from reservation to reservation: of these terms, and with room for so many
 * bounds and parts. */
static struct kept_reservation *make(struct terms_set *set, const struct terms_source *from,
                                     size_t bounds, size_t parts, const weir_allocator *allocator)
{
    const struct terms *shared = terms_share(set, from);
    const size_t size = sizeof(struct kept_reservation) + from->count * sizeof(struct kept_charge) +
                        bounds * sizeof(struct calendar_bounds) + (shared ? 0 : terms_size(from)) +
                        parts * sizeof(struct reserved_part);
    struct kept_reservation *r = alloc_resize(allocator, NULL, size);

    if (!r)
        return NULL;
    *r = (struct kept_reservation){
        .block = { KEPT_COUNTS * size },
        .terms = shared,
        .charge_count = (uint16_t)from->count,
        .bounds_count = (uint16_t)bounds,
        .part_count = (uint16_t)parts,
        .has_own_terms = !shared,
    };
    if (!shared) {
        terms_put(own_terms(r), from);
        r->terms = own_terms(r);
    }
    return r;
}

struct kept_reservation *kept_new(struct terms_set *set, const struct reserving *of,
                                  const struct charge *charges, size_t n, size_t parts,
                                  const weir_allocator *allocator)
{
    const struct terms_source from = { of->most_ttl, of->labels, charges, n };
    struct kept_reservation *r;
    struct calendar_bounds *at;
    size_t bounds = 0;

    for (size_t i = 0; i < n; i++)
        bounds += charges[i].rule->start == START_CALENDAR;
    r = make(set, &from, bounds, parts, allocator);
    if (!r)
        return NULL;
    r->fingerprint = of->fingerprint;
    r->gives_back = of->gives_back && !of->is_used;
    at = kept_bounds(r);
    for (size_t i = 0; i < n; i++) {
        r->charges[i] = (struct kept_charge){ charges[i].key, 0, RESERVED_OPEN };
        if (charges[i].rule->start == START_CALENDAR)
            calendar_bounds(charges[i].rule->calendar, charges[i].step.now, at++);
    }
    return r;
}

void kept_put_one(struct kept_reservation *r, const struct terms *terms, const struct reserving *of,
                  const struct charge *c, uint32_t born)
{
    *r = (struct kept_reservation){
        .block = { KEPT_COUNTS * KEPT_OF_ONE },
        .fingerprint = of->fingerprint,
        .terms = terms,
        .charge_count = 1,
        .part_count = 1,
        .gives_back = of->gives_back,
    };
    r->charges[0] = (struct kept_charge){ c->key, c->cost, RESERVED_OPEN };
    *(struct reserved_part *)(void *)(r->charges + 1) = (struct reserved_part){
        .amount = c->cost,
        .mark = state_mark(c->rule, &c->step),
        .born = born,
    };
}

bool kept_make_room(struct kept_reservation **r, const weir_allocator *allocator)
{
    const size_t more = (*r)->charge_count * sizeof(struct reserved_part);
    struct kept_reservation *moved = alloc_resize(allocator, *r, size_of(*r) + more);

    if (!moved)
        return false;
    if (moved->has_own_terms) {
        terms_moved(own_terms(moved));
        moved->terms = own_terms(moved);
    }
    *r = moved;
    return true;
}

/* The last part of this charge, if it lies at the same place. */
static struct reserved_part *part_beside(const struct kept_reservation *r,
                                         const struct reserved_part *p)
{
    struct reserved_part *parts = kept_parts(r);

    for (size_t i = r->part_count; i > 0; i--)
        if (parts[i - 1].charge == p->charge)
            return parts[i - 1].mark == p->mark && parts[i - 1].born == p->born ? &parts[i - 1]
                                                                                : NULL;
    return NULL;
}

void kept_add(struct kept_reservation *r, size_t charge, const struct reserved_part *part)
{
    struct reserved_part *same = part_beside(r, part);

    r->charges[charge].held += part->amount;
    if (same) {
        same->amount += part->amount;
        return;
    }
    if (r->part_count >= RESERVATION_MOST_PARTS) /* held, but nothing of it comes back */
        return;
    kept_parts(r)[r->part_count++] = *part;
    count_bytes(r);
}

/* ---- files --------------------------------------------------------------------------------- */

size_t kept_whole(const struct kept_reservation *r, struct reservation *to)
{
    const struct terms *t = r->terms;
    size_t bounds = 0;

    *to = (struct reservation){
        .fingerprint = r->fingerprint,
        .most_ttl = t->most_ttl,
        .charge_count = r->charge_count,
        .bounds_count = r->bounds_count,
        .part_count = r->part_count,
        .is_settled = r->is_settled,
        .gives_back = r->gives_back,
        .is_released = r->is_released,
    };
    for (size_t i = 0; i < r->charge_count; i++) {
        const struct kept_charge *c = &r->charges[i];
        const struct charge of = { .rule = &t->of[i].rule, .key = c->key, .class = t->of[i].class };

        reservation_put_charge(&to->charges[i], &of, t->labels[i].is_shadow);
        to->charges[i].held = c->held;
        to->charges[i].used = c->used;
        if (of.rule->start == START_CALENDAR)
            to->charges[i].bounds_at = (uint16_t)bounds++;
    }
    memcpy(reservation_bounds(to), kept_bounds(r),
           r->bounds_count * sizeof(struct calendar_bounds));
    memcpy(reservation_parts(to), kept_parts(r), r->part_count * sizeof(struct reserved_part));
    return reservation_put_names(to, t->labels);
}

size_t kept_pack(const struct kept_reservation *r, void *to)
{
    uint64_t whole[RESERVATION_MOST_BYTES / sizeof(uint64_t) + 1];

    kept_whole(r, (struct reservation *)(void *)whole);
    return reservation_pack((const struct reservation *)(const void *)whole, to);
}

/* A charge as its terms are read of. */
static struct charge charge_of(const struct reserved_charge *c, struct rule *rule)
{
    *rule = (struct rule){
        .algorithm = c->algorithm,
        .limit = c->limit,
        .window = c->window,
        .burst = c->burst,
        .precision = c->precision,
        .start = (enum rule_start)c->start,
        .block_for = c->block_for,
    };
    return (struct charge){ .rule = rule, .key = c->key, .class = c->class };
}

struct kept_reservation *kept_of(struct terms_set *set, const struct reservation *whole,
                                 const weir_allocator *allocator)
{
    struct charge_label labels[RESERVATION_MOST_CHARGES];
    struct charge charges[RESERVATION_MOST_CHARGES];
    struct rule rules[RESERVATION_MOST_CHARGES];
    const struct terms_source from = { whole->most_ttl, labels, charges, whole->charge_count };
    struct kept_reservation *r;
    size_t bounds = 0;

    for (size_t i = 0; i < whole->charge_count; i++) {
        labels[i] = reservation_label(whole, i);
        charges[i] = charge_of(&whole->charges[i], &rules[i]);
        bounds += rules[i].start == START_CALENDAR;
    }
    r = make(set, &from, bounds, whole->part_count, allocator);
    if (!r)
        return NULL;
    r->fingerprint = whole->fingerprint;
    r->is_settled = whole->is_settled;
    r->gives_back = whole->gives_back;
    r->is_released = whole->is_released;
    bounds = 0;
    for (size_t i = 0; i < whole->charge_count; i++) {
        const struct reserved_charge *c = &whole->charges[i];

        r->charges[i] = (struct kept_charge){ c->key, c->held, c->used };
        if (c->start == START_CALENDAR)
            kept_bounds(r)[bounds++] = reservation_bounds(whole)[c->bounds_at];
    }
    memcpy(kept_parts(r), reservation_parts(whole),
           whole->part_count * sizeof(struct reserved_part));
    return r;
}

/* ---- reading ------------------------------------------------------------------------------- */

/* A calendar has a rule of its own, as it has the bounds. */
static void read_calendar(const struct kept_reservation *r, size_t i, size_t bounds,
                          struct reserving *to)
{
    to->rules[i] = r->terms->of[i].rule;
    calendar_given(&to->calendars[i], kept_bounds(r)[bounds].at);
    to->rules[i].calendar = &to->calendars[i];
}

static const char *copy_name(const char *name, struct reserving *to, size_t *len)
{
    char *copy = to->text + *len;

    *len += strlen(name) + 1;
    return strcpy(copy, name);
}

/* What is not shared may be gone when the answer is written. */
static void copy_labels(const struct terms *t, struct reserving *to)
{
    size_t len = 0;

    for (size_t i = 0; i < t->count; i++) {
        const struct charge_label *from = &t->labels[i];

        to->labels[i] = from->is_kept ? *from
                                      : (struct charge_label){
                                            .policy = copy_name(from->policy, to, &len),
                                            .rule = copy_name(from->rule, to, &len),
                                            .counts = copy_name(from->counts, to, &len),
                                            .is_shadow = from->is_shadow,
                                        };
    }
}

void kept_read(const struct kept_reservation *r, struct reserving *to, struct charge *charges)
{
    const struct terms *t = r->terms;
    size_t bounds = 0;

    for (size_t i = 0; i < r->charge_count; i++) {
        const struct rule *rule = &t->of[i].rule;

        if (rule->start == START_CALENDAR) {
            read_calendar(r, i, bounds++, to);
            rule = &to->rules[i];
        } else if (!t->is_shared) {
            to->rules[i] = *rule;
            rule = &to->rules[i];
        }
        charges[i].rule = rule;
        charges[i].key = r->charges[i].key;
        charges[i].class = t->of[i].class;
        charges[i].cost = 0;
    }
    if (!t->is_shared)
        copy_labels(t, to);
    else
        to->labels = t->labels;
}

void kept_visit(const struct kept_reservation *r, int64_t expires, held_visit *visit, void *ctx)
{
    for (size_t i = 0; i < r->charge_count; i++)
        held_tell(r->terms->labels, i, r->charges[i].key, r->charges[i].held, expires, visit, ctx);
}
