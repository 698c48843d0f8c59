/* reservation.c - the record of a reservation: how it is made, changed and read. */
#include "store/reservation.h"

#include <string.h>

#include "base/diag.h"
#include "store/store.h"

static size_t size_of(size_t charges, size_t bounds, size_t parts, size_t text)
{
    return sizeof(struct reservation) + charges * sizeof(struct reserved_charge) +
           bounds * sizeof(struct calendar_bounds) + parts * sizeof(struct reserved_part) +
           (text + 7) / 8 * 8;
}

static size_t text_size(const struct reservation *r)
{
    return r->block.size - (size_t)(reservation_text(r) - (const char *)r);
}

/* ---- from files ---------------------------------------------------------------------------- */

static bool may_be_in_name(char c) /* as policies have them: from - to : are . / and digits */
{
    return (c >= '-' && c <= ':') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= 'a' && c <= 'z');
}

/* Answers are told by these names, and nothing in them needs to be escaped. */
static bool has_name(const struct reservation *r, size_t at)
{
    const char *text = reservation_text(r);
    const size_t size = text_size(r), begin = at;

    while (at < size && at - begin < WEIR_MAX_NAME && may_be_in_name(text[at]))
        at++;
    return at < size && text[at] == '\0';
}

static bool has_sound_bounds(const struct reservation *r, const struct reserved_charge *c)
{
    const int64_t *at;

    if (c->start != START_CALENDAR)
        return true;
    if (c->bounds_at >= r->bounds_count)
        return false;
    at = reservation_bounds(r)[c->bounds_at].at;
    for (int i = 1; i < CALENDAR_BOUNDS; i++)
        if (at[i - 1] < 0 || at[i] <= at[i - 1] || at[i] >= INT64_C(1) << 48)
            return false;
    return true;
}

static bool is_sound_charge(const struct reservation *r, const struct reserved_charge *c)
{
    return c->algorithm != WEIR_DEFAULT_ALGORITHM && c->algorithm <= ALGORITHM_COUNT &&
           c->class < LIMIT_CLASSES && c->start <= START_CALENDAR && c->held >= 0 &&
           c->used >= RESERVED_OPEN && c->limit >= 0 &&
           (c->limit == 0 || c->window >= !algorithm_counts_slots(c->algorithm)) &&
           has_sound_bounds(r, c) && has_name(r, c->policy_at) && has_name(r, c->rule_at) &&
           has_name(r, c->counts_at);
}

bool reservation_is_sound(const void *bytes, size_t size)
{
    const struct reservation *r = bytes;

    if (size < sizeof *r || r->block.size != size || r->charge_count > RESERVATION_MOST_CHARGES ||
        r->bounds_count > r->charge_count ||
        r->part_count > RESERVATION_MOST_PARTS + RESERVATION_MOST_CHARGES ||
        size_of(r->charge_count, r->bounds_count, r->part_count, 0) > size ||
        text_size(r) > RESERVATION_MOST_TEXT + 8)
        return false;
    for (size_t i = 0; i < r->part_count; i++)
        if (reservation_parts(r)[i].charge >= r->charge_count || reservation_parts(r)[i].amount < 0)
            return false;
    for (size_t i = 0; i < r->charge_count; i++)
        if (!is_sound_charge(r, &r->charges[i]))
            return false;
    return true;
}

void reservation_forget_names(struct reservation *r)
{
    for (size_t i = 0; i < r->charge_count; i++)
        r->charges[i].policy = r->charges[i].rule = NULL;
}

/* ---- making one ---------------------------------------------------------------------------- */

/* What each charge counts, of one that keeps names. */
static const char **kept_counts(const struct reservation *r)
{
    return (const char **)(void *)reservation_text(r);
}

struct charge_label reservation_label(const struct reservation *r, size_t i)
{
    const struct reserved_charge *c = &r->charges[i];
    const char *text = reservation_text(r);
    const bool is_kept = reservation_keeps_names(r);

    return (struct charge_label){
        .policy = is_kept ? c->policy : text + c->policy_at,
        .rule = is_kept ? c->rule : text + c->rule_at,
        .counts = is_kept ? kept_counts(r)[i] : text + c->counts_at,
        .is_shadow = c->is_shadow,
        .is_kept = is_kept,
    };
}

/* Where the names of a charge are in the text. A name that the last charge has too is there
 * once. */
struct names {
    size_t policy, rule, counts, end;
};

/* Without a text they are only counted. */
static size_t put_name(char *text, size_t at, const char *name)
{
    const size_t size = strlen(name) + 1;

    if (text)
        memcpy(text + at, name, size);
    return at + size;
}

static void place_names(const struct charge_label *label, const struct charge_label *last,
                        struct names *n, char *text)
{
    if (!last || label->policy != last->policy) {
        n->policy = n->end;
        n->end = put_name(text, n->end, label->policy);
    }
    n->rule = n->end;
    n->end = put_name(text, n->end, label->rule);
    if (!last || label->counts != last->counts) {
        n->counts = n->end;
        n->end = put_name(text, n->end, label->counts);
    }
}

static size_t size_of_names(const struct charge_label *labels, size_t count)
{
    struct names n = { 0 };

    for (size_t i = 0; i < count; i++)
        place_names(&labels[i], i > 0 ? &labels[i - 1] : NULL, &n, NULL);
    return n.end;
}

/* The text, behind the parts. How long it is, with the zeros behind it. */
static size_t put_text(struct reservation *r, const struct charge_label *labels)
{
    const uint64_t zeros = 0;
    char *text = (char *)reservation_text(r);
    struct names n = { 0 };

    for (size_t i = 0; i < r->charge_count; i++) {
        struct reserved_charge *c = &r->charges[i];

        place_names(&labels[i], i > 0 ? &labels[i - 1] : NULL, &n, text);
        c->policy = c->rule = NULL;
        c->policy_at = (uint16_t)n.policy;
        c->rule_at = (uint16_t)n.rule;
        c->counts_at = (uint16_t)n.counts;
    }
    memcpy(text + n.end, &zeros, -n.end & 7);
    return (n.end + 7) / 8 * 8;
}

static void put_kept_names(struct reservation *r, const struct charge_label *labels)
{
    const char **counts = kept_counts(r);

    for (size_t i = 0; i < r->charge_count; i++) {
        r->charges[i].policy = labels[i].policy;
        r->charges[i].rule = labels[i].rule;
        counts[i] = labels[i].counts;
    }
}

/* But for its names. */
static void put_charge(struct reservation *r, size_t i, const struct charge *from, bool is_shadow,
                       size_t *bounds)
{
    const struct rule *rule = from->rule;
    struct reserved_charge *c = &r->charges[i];

    *c = (struct reserved_charge){
        .key = from->key,
        .limit = rule->limit,
        .window = rule->window,
        .burst = rule->burst,
        .precision = rule->precision,
        .block_for = rule->block_for,
        .held = 0, /* all are named: else all would be zeroed first */
        .used = RESERVED_OPEN,
        .policy = NULL,
        .rule = NULL,
        .policy_at = 0,
        .rule_at = 0,
        .counts_at = 0,
        .bounds_at = 0,
        .algorithm = (uint8_t)rule->algorithm,
        .class = from->class,
        .is_shadow = is_shadow,
        .start = (uint8_t)rule->start,
        .unused = 0,
    };
    if (rule->start == START_CALENDAR) {
        calendar_bounds(rule->calendar, from->step.now, reservation_bounds(r) + *bounds);
        c->bounds_at = (uint16_t)(*bounds)++;
    }
}

struct reservation *reservation_new(const struct reserving *of, const struct charge *charges,
                                    size_t n, size_t parts, enum reservation_names names,
                                    const weir_allocator *allocator)
{
    bool keeps = names == RESERVATION_KEEPS_NAMES;
    struct reservation *r;
    size_t bounds = 0, put = 0, size;

    for (size_t i = 0; i < n; i++) {
        keeps = keeps && of->labels[i].is_kept;
        bounds += charges[i].rule->start == START_CALENDAR;
    }
    size = size_of(n, bounds, parts,
                   keeps ? n * sizeof(const char *) : size_of_names(of->labels, n));
    r = alloc_resize(allocator, NULL, size);
    if (!r)
        return NULL;
    *r = (struct reservation){
        .block = { size },
        .fingerprint = of->fingerprint,
        .most_ttl = of->most_ttl,
        .gives_back = of->gives_back && !of->is_used,
        .charge_count = (uint16_t)n,
        .bounds_count = (uint16_t)bounds,
        .part_count = (uint16_t)parts,
    };
    for (size_t i = 0; i < n; i++)
        put_charge(r, i, &charges[i], of->labels[i].is_shadow, &put);
    if (keeps)
        put_kept_names(r, of->labels);
    else
        put_text(r, of->labels);
    return r;
}

void reservation_put_one(struct reservation *r, const struct reserving *of, const struct charge *c,
                         uint32_t born)
{
    struct reserved_part *part = (struct reserved_part *)(r->charges + 1);
    size_t no_bounds = 0;

    *r = (struct reservation){
        .block = { RESERVATION_OF_ONE },
        .fingerprint = of->fingerprint,
        .most_ttl = of->most_ttl,
        .charge_count = 1,
        .part_count = 1,
        .gives_back = of->gives_back,
    };
    put_charge(r, 0, c, false, &no_bounds);
    r->charges[0].held = c->cost;
    r->charges[0].policy = of->labels[0].policy;
    r->charges[0].rule = of->labels[0].rule;
    *part = (struct reserved_part){
        .amount = c->cost,
        .mark = state_mark(c->rule, &c->step),
        .born = born,
    };
    *(const char **)(part + 1) = of->labels[0].counts;
}

size_t reservation_write(const struct reservation *r, void *to)
{
    const size_t without_names = (size_t)(reservation_text(r) - (const char *)r);
    struct charge_label labels[RESERVATION_MOST_CHARGES];
    struct reservation *out = to;

    if (!reservation_keeps_names(r)) {
        memcpy(to, r, r->block.size);
        return r->block.size;
    }
    for (size_t i = 0; i < r->charge_count; i++)
        labels[i] = reservation_label(r, i);
    memcpy(to, r, without_names);
    out->block.size = without_names + put_text(out, labels);
    return out->block.size;
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

/* The last part of this charge, if it lies at the same place. */
static struct reserved_part *part_beside(const struct reservation *r, const struct reserved_part *p)
{
    struct reserved_part *parts = reservation_parts(r);

    for (size_t i = r->part_count; i > 0; i--)
        if (parts[i - 1].charge == p->charge)
            return parts[i - 1].mark == p->mark && parts[i - 1].born == p->born ? &parts[i - 1]
                                                                                : NULL;
    return NULL;
}

void reservation_add(struct reservation *r, size_t charge, const struct reserved_part *part)
{
    struct reserved_part *same = part_beside(r, part);
    char *text;

    r->charges[charge].held += part->amount;
    if (same) {
        same->amount += part->amount;
        return;
    }
    if (r->part_count >= RESERVATION_MOST_PARTS) /* held, but nothing of it comes back */
        return;
    text = (char *)reservation_text(r);
    memmove(text + sizeof *part, text, text_size(r));
    reservation_parts(r)[r->part_count++] = *part;
    r->block.size += sizeof *part;
}

/* ---- reading ------------------------------------------------------------------------------- */

static const char *name_at(const struct reservation *r, size_t at, struct reserving *to,
                           size_t *len)
{
    const char *name = reservation_text(r) + at;
    char *copy = to->text + *len;

    *len += strlen(name) + 1;
    return strcpy(copy, name);
}

void reservation_read(const struct reservation *r, struct reserving *to, struct charge *charges)
{
    const bool is_kept = reservation_keeps_names(r);
    size_t text = 0;

    for (size_t i = 0; i < r->charge_count; i++) {
        const struct reserved_charge *c = &r->charges[i];

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
            calendar_given(&to->calendars[i], reservation_bounds(r)[c->bounds_at].at);
            to->rules[i].calendar = &to->calendars[i];
        }
        charges[i].rule = &to->rules[i];
        charges[i].key = c->key;
        charges[i].class = c->class;
        charges[i].cost = 0;
        to->labels[i] = (struct charge_label){
            .policy = is_kept ? c->policy : name_at(r, c->policy_at, to, &text),
            .rule = is_kept ? c->rule : name_at(r, c->rule_at, to, &text),
            .counts = is_kept ? kept_counts(r)[i] : name_at(r, c->counts_at, to, &text),
            .is_shadow = c->is_shadow,
            .is_kept = is_kept,
        };
    }
}

void reservation_read_one(const struct reservation *r, struct reserving *to, struct charge *charge)
{
    const struct reserved_charge *c = r->charges;
    struct rule *rule = &to->rule;
    struct charge_label *label = &to->label;

    rule->algorithm = c->algorithm;
    rule->limit = c->limit;
    rule->window = c->window;
    rule->burst = c->burst;
    rule->precision = c->precision;
    rule->start = (enum rule_start)c->start;
    rule->calendar = NULL;
    rule->block_for = c->block_for;
    charge->rule = rule;
    charge->key = c->key;
    charge->class = c->class;
    label->policy = c->policy;
    label->rule = c->rule;
    label->counts = *kept_counts(r);
    label->is_shadow = false;
    label->is_kept = true;
}

/* Is the policy of this charge that of none before it? */
static bool is_first_of_policy(const struct reservation *r, size_t charge)
{
    for (size_t i = 0; i < charge; i++)
        if (strcmp(reservation_label(r, i).policy, reservation_label(r, charge).policy) == 0)
            return false;
    return true;
}

void reservation_visit(const struct reservation *r, int64_t expires, held_visit *visit, void *ctx)
{
    for (size_t i = 0; i < r->charge_count; i++) {
        const struct charge_label label = reservation_label(r, i);
        const struct reserved_charge *c = &r->charges[i];

        visit(ctx, &(struct held_charge){ .label = &label,
                                          .key = c->key,
                                          .amount = c->held,
                                          .expires = expires,
                                          .is_new = i == 0,
                                          .is_first = is_first_of_policy(r, i) });
    }
}

weir_err held_fail(weir_diag *diag)
{
    return diag_fail(diag, WEIR_EIO, "the store has too many to look at all of them");
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

int64_t reservation_used(const struct reserving *by, size_t charge, int64_t held)
{
    const int64_t *named;

    if (by->is_release)
        return 0;
    if (by->amount_count == 0)
        return held;
    named = amount_named(by, by->labels[charge].counts);
    return named ? *named : held;
}

int64_t reservation_added(const struct question *q, size_t charge, int64_t held)
{
    if (verb_settles(q->verb))
        return reservation_used(q->reserving, charge, held) - held;
    return reservation_named(q->reserving, charge);
}
