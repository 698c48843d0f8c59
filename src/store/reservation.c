/* reservation.c - the record of a reservation: how it is made, changed and read. */
#include "store/reservation.h"

#include <string.h>

#include "store/store.h"

static size_t size_of(size_t charges, size_t parts, size_t text)
{
    return sizeof(struct reservation) + charges * sizeof(struct reserved_charge) +
           parts * sizeof(struct reserved_part) + (text + 7) / 8 * 8;
}

static size_t text_size(const struct reservation *r)
{
    return r->block.size - (size_t)(reservation_text(r) - (const char *)r);
}

static bool has_sound_bounds(const struct reserved_charge *c)
{
    for (int i = 1; i < CALENDAR_BOUNDS && c->start == START_CALENDAR; i++)
        if (c->bounds[i - 1] < 0 || c->bounds[i] <= c->bounds[i - 1] ||
            c->bounds[i] >= INT64_C(1) << 48)
            return false;
    return true;
}

bool reservation_is_sound(const void *bytes, size_t size)
{
    const struct reservation *r = bytes;
    size_t names = 0;

    if (size < sizeof *r || r->block.size != size || r->charge_count > RESERVATION_MOST_CHARGES ||
        r->part_count > RESERVATION_MOST_PARTS + RESERVATION_MOST_CHARGES ||
        size_of(r->charge_count, r->part_count, 0) > size)
        return false;
    for (size_t i = 0; i < text_size(r); i++)
        names += reservation_text(r)[i] == '\0';
    for (size_t i = 0; i < r->part_count; i++)
        if (reservation_parts(r)[i].charge >= r->charge_count || reservation_parts(r)[i].amount < 0)
            return false;
    for (size_t i = 0; i < r->charge_count; i++) {
        const struct reserved_charge *c = &r->charges[i];

        if (c->algorithm == WEIR_DEFAULT_ALGORITHM || c->algorithm > ALGORITHM_COUNT ||
            c->class >= LIMIT_CLASSES || c->start > START_CALENDAR || !has_sound_bounds(c) ||
            c->held < 0 || c->used < 0 || c->limit < 0 ||
            (c->limit > 0 && c->window < !algorithm_counts_slots(c->algorithm)))
            return false;
    }
    return names >= 3u * r->charge_count && text_size(r) <= RESERVATION_MOST_TEXT + 8;
}

static void note_bounds(struct calendar *calendar, int64_t now, struct reserved_charge *out)
{
    struct calendar_bounds bounds;

    calendar_bounds(calendar, now, &bounds);
    memcpy(out->bounds, bounds.at, sizeof out->bounds);
}

struct reservation *reservation_new(const struct reserving *of, const struct charge *charges,
                                    size_t n, const weir_allocator *allocator)
{
    struct reservation *r;
    size_t text = 0;
    char *to;

    for (size_t i = 0; i < n; i++)
        text += strlen(of->labels[i].policy) + strlen(of->labels[i].rule) +
                strlen(of->labels[i].counts) + 3;
    r = alloc_zeroed(allocator, size_of(n, n, text));
    if (!r)
        return NULL;
    r->block.size = size_of(n, 0, text);
    r->fingerprint = of->fingerprint;
    r->most_ttl = of->most_ttl;
    r->charge_count = (uint16_t)n;
    to = (char *)reservation_text(r);
    for (size_t i = 0; i < n; i++) {
        const struct rule *rule = charges[i].rule;
        const struct charge_label *l = &of->labels[i];

        r->charges[i] = (struct reserved_charge){
            .key = charges[i].key,
            .limit = rule->limit,
            .window = rule->window,
            .burst = rule->burst,
            .precision = rule->precision,
            .block_for = rule->block_for,
            .algorithm = (uint8_t)rule->algorithm,
            .class = charges[i].class,
            .is_shadow = l->is_shadow,
            .start = (uint8_t)rule->start,
        };
        if (rule->start == START_CALENDAR)
            note_bounds(rule->calendar, charges[i].step.now, &r->charges[i]);
        to = stpcpy(to, l->policy) + 1;
        to = stpcpy(to, l->rule) + 1;
        to = stpcpy(to, l->counts) + 1;
    }
    return r;
}

bool reservation_make_room(struct reservation **r, const weir_allocator *allocator)
{
    struct reservation *more = alloc_resize(allocator, *r,
                                            (size_t)(*r)->block.size +
                                                (*r)->charge_count * sizeof(struct reserved_part));

    if (more)
        *r = more;
    return more != NULL;
}

/* The last part of this charge, if it has this mark, or if there may be no more parts. */
static struct reserved_part *part_for(const struct reservation *r, size_t charge, int64_t mark)
{
    struct reserved_part *parts = reservation_parts(r);

    for (size_t i = r->part_count; i > 0; i--) {
        if (parts[i - 1].charge != charge)
            continue;
        if (parts[i - 1].mark == mark)
            return &parts[i - 1];
        break;
    }
    return NULL;
}

void reservation_add(struct reservation *r, size_t charge, int64_t amount, int64_t mark)
{
    struct reserved_part *part = part_for(r, charge, mark);
    char *text;
    size_t size;

    r->charges[charge].held += amount;
    if (part) {
        part->amount += amount;
        return;
    }
    if (r->part_count >= RESERVATION_MOST_PARTS) { /* held, but nothing of it comes back */
        return;
    }
    text = (char *)reservation_text(r);
    size = text_size(r);
    memmove(text + sizeof *part, text, size);
    part = reservation_parts(r) + r->part_count++;
    *part = (struct reserved_part){ amount, mark, charge };
    r->block.size += sizeof *part;
}

void reservation_read(const struct reservation *r, struct reserving *to, struct charge *charges)
{
    const char *text = to->text;

    memcpy(to->text, reservation_text(r),
           text_size(r) < RESERVATION_MOST_TEXT ? text_size(r) : RESERVATION_MOST_TEXT);
    for (size_t i = 0; i < r->charge_count; i++) {
        const struct reserved_charge *c = &r->charges[i];
        struct charge_label *l = &to->labels[i];

        to->rules[i] = (struct rule){
            .algorithm = c->algorithm,
            .limit = c->limit,
            .window = c->window,
            .burst = c->burst,
            .precision = c->precision,
            .block_for = c->block_for,
            .start = (enum rule_start)c->start,
        };
        if (c->start == START_CALENDAR) {
            calendar_given(&to->calendars[i], c->bounds);
            to->rules[i].calendar = &to->calendars[i];
        }
        charges[i].rule = &to->rules[i];
        charges[i].key = c->key;
        charges[i].class = c->class;
        charges[i].cost = 0;
        l->policy = text;
        l->rule = text += strlen(text) + 1;
        l->counts = text += strlen(text) + 1;
        text += strlen(text) + 1;
        l->is_shadow = c->is_shadow;
    }
}

static const int64_t *amount_named(const struct reserving *by, const char *counts)
{
    for (size_t i = 0; i < by->amount_count; i++)
        if (span_is(by->amounts[i].name, counts))
            return &by->amounts[i].amount;
    return NULL;
}

int64_t reservation_named(const struct reserving *by, size_t charge)
{
    const int64_t *named = amount_named(by, by->labels[charge].counts);

    return named ? *named : 0;
}

int64_t reservation_used(const struct reservation *r, size_t charge, const struct reserving *by)
{
    const int64_t *named = amount_named(by, by->labels[charge].counts);

    if (by->is_release)
        return 0;
    return named ? *named : r->charges[charge].held;
}
