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

/* ---- making one ---------------------------------------------------------------------------- */

struct charge_label reservation_label(const struct reservation *r, size_t i)
{
    const struct reserved_charge *c = &r->charges[i];
    const char *text = reservation_text(r);

    return (struct charge_label){
        .policy = text + c->policy_at,
        .rule = text + c->rule_at,
        .counts = text + c->counts_at,
        .is_shadow = c->is_shadow,
    };
}

/* Where the names of a charge are in the text. A name that the last charge has too is there
 * once. */
struct names {
    size_t policy, rule, counts, end;
};

static bool is_same_name(const char *a, const char *b)
{
    return a == b || strcmp(a, b) == 0;
}

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
    if (!last || !is_same_name(label->policy, last->policy)) {
        n->policy = n->end;
        n->end = put_name(text, n->end, label->policy);
    }
    n->rule = n->end;
    n->end = put_name(text, n->end, label->rule);
    if (!last || !is_same_name(label->counts, last->counts)) {
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

size_t reservation_put_names(struct reservation *r, const struct charge_label *labels)
{
    const uint64_t zeros = 0;
    char *text = (char *)reservation_text(r);
    struct names n = { 0 };

    for (size_t i = 0; i < r->charge_count; i++) {
        struct reserved_charge *c = &r->charges[i];

        place_names(&labels[i], i > 0 ? &labels[i - 1] : NULL, &n, text);
        c->policy_at = (uint16_t)n.policy;
        c->rule_at = (uint16_t)n.rule;
        c->counts_at = (uint16_t)n.counts;
    }
    memcpy(text + n.end, &zeros, -n.end & 7);
    return r->block.size = (size_t)(text - (char *)r) + (n.end + 7) / 8 * 8;
}

void reservation_put_charge(struct reserved_charge *to, const struct charge *from, bool is_shadow)
{
    const struct rule *rule = from->rule;

    *to = (struct reserved_charge){
        .key = from->key,
        .limit = rule->limit,
        .window = rule->window,
        .burst = rule->burst,
        .precision = rule->precision,
        .block_for = rule->block_for,
        .used = RESERVED_OPEN,
        .algorithm = (uint8_t)rule->algorithm,
        .class = from->class,
        .is_shadow = is_shadow,
        .start = (uint8_t)rule->start,
    };
}

static size_t count_calendars(const struct charge *charges, size_t n)
{
    size_t count = 0;

    for (size_t i = 0; i < n; i++)
        count += charges[i].rule->start == START_CALENDAR;
    return count;
}

size_t reservation_put(struct reservation *to, const struct reserving *of,
                       const struct charge *charges, size_t n, size_t parts)
{
    size_t bounds = 0;

    *to = (struct reservation){
        .fingerprint = of->fingerprint,
        .most_ttl = of->most_ttl,
        .gives_back = of->gives_back && !of->is_used,
        .charge_count = (uint16_t)n,
        .bounds_count = (uint16_t)count_calendars(charges, n),
        .part_count = (uint16_t)parts,
    };
    for (size_t i = 0; i < n; i++) {
        reservation_put_charge(&to->charges[i], &charges[i], of->labels[i].is_shadow);
        if (charges[i].rule->start != START_CALENDAR)
            continue;
        calendar_bounds(charges[i].rule->calendar, charges[i].step.now,
                        reservation_bounds(to) + bounds);
        to->charges[i].bounds_at = (uint16_t)bounds++;
    }
    return reservation_put_names(to, of->labels);
}

struct reservation *reservation_new(const struct reserving *of, const struct charge *charges,
                                    size_t n, size_t parts, const weir_allocator *allocator)
{
    const size_t size = size_of(n, count_calendars(charges, n), parts,
                                size_of_names(of->labels, n));
    struct reservation *r = alloc_resize(allocator, NULL, size);

    if (r)
        reservation_put(r, of, charges, n, parts);
    return r;
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
            .policy = name_at(r, c->policy_at, to, &text),
            .rule = name_at(r, c->rule_at, to, &text),
            .counts = name_at(r, c->counts_at, to, &text),
            .is_shadow = c->is_shadow,
        };
    }
}

/* Is the policy of this charge that of none before it? */
static bool is_first_of_policy(const struct charge_label *labels, size_t charge)
{
    for (size_t i = 0; i < charge; i++)
        if (strcmp(labels[i].policy, labels[charge].policy) == 0)
            return false;
    return true;
}

void held_tell(const struct charge_label *labels, size_t charge, struct key key, int64_t amount,
               int64_t expires, held_visit *visit, void *ctx)
{
    visit(ctx, &(struct held_charge){ .label = &labels[charge],
                                      .key = key,
                                      .amount = amount,
                                      .expires = expires,
                                      .is_new = charge == 0,
                                      .is_first = is_first_of_policy(labels, charge) });
}

void reservation_visit(const struct reservation *r, int64_t expires, held_visit *visit, void *ctx)
{
    struct charge_label labels[RESERVATION_MOST_CHARGES];

    for (size_t i = 0; i < r->charge_count; i++) {
        labels[i] = reservation_label(r, i);
        held_tell(labels, i, r->charges[i].key, r->charges[i].held, expires, visit, ctx);
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
