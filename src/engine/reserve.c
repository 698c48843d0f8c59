/* reserve.c - reservations: from a request to the question about one.
 *
 * THE FINGERPRINT tells one question from another that comes with the same id. It is of what the
 * caller has sent: the policies, the key or the attributes, the plan and the amounts. So a reload
 * does not change it. Amounts are added up, so that their order does not matter. */
#include "engine/reserve.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/printable.h"
#include "base/xxh.h"
#include "engine/amounts.h"
#include "engine/charges.h"

/* ---- ids ---------------------------------------------------------------------------------- */

_Static_assert(WEIR_MAX_ID == WEIR_MAX_NAME, "an id is a name");

enum { BLOCK = 16 };
typedef uint8_t block __attribute__((vector_size(BLOCK)));

_Static_assert(WEIR_MAX_ID % BLOCK == 0, "an id is whole blocks, but for its zeros");

/* What name_is_valid() says, of an id with zeros behind it: a block of bytes at a time. From - to :
 * are . / and digits. */
static bool is_name(const char id[WEIR_MAX_ID], size_t len)
{
    uint64_t halves[2], all = UINT64_MAX;

    for (size_t i = 0; i < len; i += BLOCK) {
        block c;

        memcpy(&c, id + i, BLOCK);
        c = (block)((((c | 0x20) - 'a') <= 'z' - 'a') | ((c - '-') <= ':' - '-') | (c == '_') |
                    (c == 0));
        memcpy(halves, &c, BLOCK);
        all &= halves[0] & halves[1];
    }
    return all == UINT64_MAX;
}

static inline __attribute__((always_inline)) bool put_id(struct span id, struct check_reserving *to)
{
    memset(to->id, 0, sizeof to->id);
    if (id.len == 0 || id.len > WEIR_MAX_ID)
        return false;
    memcpy(to->id, id.at, id.len);
    to->id_len = id.len;
    return is_name(to->id, id.len);
}

bool reserve_put_id(struct span id, struct check_reserving *to)
{
    return put_id(id, to);
}

static inline __attribute__((always_inline)) weir_err read_id(const char *what, struct span id,
                                                              struct check_reserving *to,
                                                              weir_diag *diag)
{
    if (put_id(id, to))
        return WEIR_OK;
    return diag_fail(diag, WEIR_EREQUEST, "%s must be 1 to %d of a-z A-Z 0-9 _ . : / -", what,
                     WEIR_MAX_ID);
}

struct span reserve_id_of(const char *text)
{
    return (struct span){ text, strnlen(text, WEIR_MAX_ID + 1) };
}

enum { ID_HEX = 32, ID_TAG_HEX = 4 };

/* 128 bits that no caller can guess: a counter, hashed with a key that this handle alone has. */
void reserve_make_id(struct engine *e, struct check_reserving *to)
{
    const uint64_t n = atomic_fetch_add_explicit(&e->ids_made, 1, memory_order_relaxed);
    const struct key id = hash_identity(&e->id_key, (struct span){ (const char *)&n, sizeof n });

    tag_write(id, to->id);
    to->id_len = ID_HEX;
}

/* In a shared store it ends with the tag of its first charge: the record is there. */
static void make_id(struct engine *e, const struct check *check, struct check_reserving *to)
{
    reserve_make_id(e, to);
    if (!e->store->ops->is_shared)
        return;
    snprintf(to->id + ID_HEX, sizeof to->id - ID_HEX, "%04x", check->charges[0].name.tag);
    to->id_len += ID_TAG_HEX;
}

/* SQL callers find the record, too: weir.reservation_key(). */
static struct key key_of(const struct engine *e, struct span id)
{
    const struct hash_key *key = &engine_keys(e)->reservation;

    return e->store->ops->is_shared ? hash_shared(key, id) : hash_id(key, id);
}

#define LOCAL_ID "local." /* what such ids begin with */

bool reserve_is_local(const char *id)
{
    return id[0] == LOCAL_ID[0] && strncmp(id, LOCAL_ID, strlen(LOCAL_ID)) == 0;
}

static weir_err refuse_local(const char *id, weir_diag *diag)
{
    if (!reserve_is_local(id))
        return WEIR_OK;
    return diag_fail(diag, WEIR_EREQUEST,
                     "ids that begin with " LOCAL_ID " are made by the server: choose another");
}

/* It follows from the id that the question has: the same question again finds the same record. */
void reserve_make_local(const struct engine *e, struct check *check, struct key *key)
{
    struct check_reserving *to = &check->reserving;

    snprintf(to->id, sizeof to->id, LOCAL_ID "%016" PRIx64 "%016" PRIx64, to->of.key.high,
             to->of.key.low);
    to->id_len = strlen(to->id);
    *key = key_of(e, (struct span){ to->id, to->id_len });
}

/* By which a record is found: of an id that was made here, its end; of others, a hash. */
static uint16_t tag_of_id(const char *id, struct key hashed)
{
    if (strlen(id) != ID_HEX + ID_TAG_HEX || strspn(id, "0123456789abcdef") != strlen(id))
        return (uint16_t)hashed.low;
    return (uint16_t)strtoul(id + ID_HEX, NULL, 16);
}

static const char *charge_counts(const struct check *check, size_t i)
{
    const struct policy_rule *rule = check->rules[i];

    return rule && rule->counts ? rule->counts : COUNTS_REQUESTS;
}

/* ---- the fingerprint ------------------------------------------------------------------------ */

static uint64_t mix(uint64_t so_far, uint64_t n)
{
    const uint64_t mixed = (so_far ^ n) * UINT64_C(0x9e3779b97f4a7c15);

    return mixed ^ mixed >> 32;
}

static uint64_t hash_text(uint64_t seed, struct span text)
{
    return XXH3_64bits_withSeed(text.at, text.len, seed);
}

/* One that is not there is another than an empty one. */
static uint64_t mix_text(uint64_t so_far, const char *text)
{
    return mix(so_far, text ? hash_text(so_far, span_of(text)) : 1);
}

static uint64_t print_of_attribute(uint64_t seed, const char *name, struct span value)
{
    return hash_text(hash_text(seed, span_of(name)), value);
}

static uint64_t print_of_amount(uint64_t seed, const char *counts, int64_t amount)
{
    const bool is_of_requests = amount_is(counts, COUNTS_REQUESTS);

    return mix(is_of_requests ? seed : hash_text(seed, span_of(counts)), (uint64_t)amount);
}

static uint64_t print_of_limit(uint64_t seed, const struct rule *r)
{
    const uint64_t numbers = mix(mix(seed, (uint64_t)r->limit), (uint64_t)r->window);

    return mix(mix(numbers, (uint64_t)rule_wire_algorithm(r)), (uint64_t)r->block_for);
}

/* Of all but whom it is for. */
static uint64_t print_of_policies(const struct engine *e, const struct check *check)
{
    const weir_request *r = check->request;
    uint64_t first, print;

    memcpy(&first, engine_keys(e)->reservation.bytes, sizeof first);
    print = mix_text(mix(first, r->policy ? check->policy->name_hash : 1), r->plan);
    for (size_t i = 0; i < r->policy_count; i++)
        print = mix_text(print, r->policies[i]);
    return print;
}

static uint64_t print_of_key(uint64_t print, struct span key)
{
    return mix(print, key.at ? hash_text(print, key) : 1);
}

static uint64_t print_of_amounts(uint64_t print, const struct charge_label *labels,
                                 const struct charge *charges, size_t n)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < n; i++)
        if (charges[i].cost > 0)
            sum += print_of_amount(print, labels[i].counts, charges[i].cost);
    return sum;
}

static uint64_t print_of_charges(uint64_t print, const struct check *check)
{
    return print_of_amounts(print, check->reserving.of.labels, check->charges,
                            check->live + check->shadow);
}

static uint64_t fingerprint_of(const struct engine *e, const struct check *check)
{
    const weir_request *r = check->request;
    uint64_t print = print_of_key(print_of_policies(e, check),
                                  r->key ? request_key(r) : (struct span){ 0 });
    uint64_t sum = 0;

    if (!r->policy && r->policy_count == 0) /* the limit comes with the request */
        print = print_of_limit(mix_text(print, r->name), &check->unnamed);
    for (size_t i = 0; i < r->attribute_count; i++) {
        const weir_attribute *a = &r->attributes[i];

        sum += print_of_attribute(
            print, a->name,
            (struct span){ a->value, a->value_len ? a->value_len : strlen(a->value) });
    }
    return mix(print, sum + print_of_charges(print, check));
}

/* What is said of amounts, by name: the request may be gone when the store is asked. */
static weir_err put_amounts(struct check *check, weir_diag *diag)
{
    struct reserving_room *room = &check->room->reserving;
    const weir_request *r = check->request;
    struct amount *to = room->amounts;

    if (r->cost != 0)
        *to++ = (struct amount){ span_of(COUNTS_REQUESTS), check->ask.cost };
    for (size_t i = 0; i < r->cost_count; i++) {
        const struct span name = span_of(r->costs[i].name);

        if (name.len > WEIR_MAX_NAME)
            return diag_fail(diag, WEIR_ECOST, "no rule counts %s", printable(name).text);
        memcpy(room->amount_names[i], name.at, name.len);
        *to++ = (struct amount){ { room->amount_names[i], name.len }, r->costs[i].amount };
    }
    check->reserving.of.amount_count = (size_t)(to - room->amounts);
    return WEIR_OK;
}

/* ---- questions ------------------------------------------------------------------------------ */

/* What the store will look at comes while the rest is prepared. */
static void prefetch_charges(const struct engine *e, const struct check *check)
{
    if (e->store->ops->prefetch)
        engine_prefetch_charges(e, check, PREFETCH_PLACE);
}

static void label(struct check *check)
{
    struct reserving *of = &check->reserving.of;
    const size_t n = check->live + check->shadow;

    if (n == 1)
        of->labels = &of->label;
    for (size_t i = 0; i < n; i++) {
        const struct policy_rule *rule = check->rules[i];

        of->labels[i] = (struct charge_label){
            .policy = rule ? rule->policy->name : "",
            .rule = rule ? rule->name : "default",
            .counts = charge_counts(check, i),
            .is_shadow = i >= check->live,
            .is_kept = true,
        };
    }
}

static weir_err check_ttl(int64_t ttl, int64_t most, weir_diag *diag)
{
    if (ttl >= 1 && ttl <= most)
        return WEIR_OK;
    return diag_fail(diag, WEIR_ETTL, "ttl_ms must be from 1 to %" PRId64 " here, not %" PRId64,
                     most, ttl);
}

/* What its policies say: the shorter times, and `release` if all do. */
static struct policy_reserve terms_of(const struct check *check)
{
    struct policy_reserve terms = { .max_ttl = WEIR_MAX_TTL_MS };

    if (check->policy_count > 0) {
        terms = check->policy->reserve;
        if (terms.max_ttl == 0 || terms.max_ttl > WEIR_MAX_TTL_MS)
            terms.max_ttl = WEIR_MAX_TTL_MS;
    }
    for (size_t i = 1; i < check->policy_count; i++) {
        const struct policy_reserve *own = &check->room->policies[i]->reserve;

        if (own->ttl > 0 && (terms.ttl == 0 || own->ttl < terms.ttl))
            terms.ttl = own->ttl;
        if (own->max_ttl > 0 && own->max_ttl < terms.max_ttl)
            terms.max_ttl = own->max_ttl;
        terms.releases = terms.releases && own->releases;
    }
    if (terms.ttl > terms.max_ttl)
        terms.ttl = terms.max_ttl;
    return terms;
}

static weir_err prepare_new(struct engine *e, struct check *check, weir_diag *diag)
{
    struct policy_reserve terms;
    struct reserving *of = &check->reserving.of;
    const weir_request *r = check->request;
    const bool is_used = !verb_reserves(check->verb);
    weir_err err;

    if (r->reservation && r->reservation[0])
        return diag_fail(
            diag, WEIR_EREQUEST,
            "a reservation is given to commit, release, grow and extend: leave it out");
    if (is_used && (check->peek || r->ttl_ms != 0))
        return diag_fail(diag, WEIR_EREQUEST, "%s does not go with this: leave it out",
                         check->peek ? "an id" : "ttl_ms");
    err = r->id ? read_id("id", reserve_id_of(r->id), &check->reserving, diag) : WEIR_OK;
    if (!err && r->id)
        err = refuse_local(r->id, diag);
    if (err)
        return err;
    err = charges_of_request(e, check, diag);
    if (err || check->is_answered)
        return err;
    prefetch_charges(e, check);
    terms = terms_of(check);
    of->most_ttl = terms.max_ttl;
    of->gives_back = terms.releases;
    err = is_used ? WEIR_OK : check_ttl(r->ttl_ms ? r->ttl_ms : terms.ttl, of->most_ttl, diag);
    if (err)
        return err;
    if (!r->id)
        make_id(e, check, &check->reserving);
    check->verb = VERB_RESERVE;
    of->ttl = is_used ? 0 : r->ttl_ms ? r->ttl_ms : terms.ttl;
    of->is_used = is_used;
    label(check);
    of->fingerprint = fingerprint_of(e, check);
    return WEIR_OK;
}

static weir_err prepare_known(struct check *check, bool extends, weir_diag *diag)
{
    struct reserving *of = &check->reserving.of;
    const weir_request *r = check->request;
    weir_err err;

    if (r->policy || r->policy_count > 0 || r->key || r->attribute_count > 0 || r->limit || r->id ||
        r->plan || (r->ttl_ms != 0 && !extends))
        return diag_fail(diag, WEIR_EREQUEST,
                         "a reservation knows what it is of: leave out all but %s",
                         extends ? "`reservation` and `ttl_ms`" : "`reservation` and `costs`");
    if (!r->reservation || r->reservation[0] == '\0') { /* of what was exempt, or off */
        check->unnamed = (struct rule){ 0 };            /* else that of the check before */
        charges_are_none(check, WEIR_FROM_OFF);
        return WEIR_OK;
    }
    err = read_id("reservation", reserve_id_of(r->reservation), &check->reserving, diag);
    if (!err && extends)
        err = check_ttl(r->ttl_ms, WEIR_MAX_TTL_MS, diag);
    if (!err)
        err = put_amounts(check, diag);
    if (err)
        return err;
    charges_make_room(check);
    of->ttl = r->ttl_ms;
    of->is_release = check->is_release;
    return WEIR_OK;
}

weir_err reserve_prepare(struct engine *e, struct check *check, weir_diag *diag)
{
    struct check_reserving *to = &check->reserving;
    weir_err err = WEIR_EREQUEST;
    bool extends = false;

    if (!e->store->ops->reserves)
        return diag_fail(diag, WEIR_ENOTHERE, "%s", weir_err_text(WEIR_ENOTHERE));
    reserve_begin(&check->reserving.of, &check->room->reserving);
    switch (check->verb) {
    case VERB_CHECK:
    case VERB_RESERVE:
        err = prepare_new(e, check, diag);
        break;
    case VERB_EXTEND:
        extends = true;
        __attribute__((fallthrough));
    case VERB_SETTLE:
    case VERB_GROW:
        err = prepare_known(check, extends, diag);
        break;
    case VERB_REFUND:
    case VERB_RESET:
    case VERB_UNDO:
    case VERB_CHARGE:
        err = diag_fail(diag, WEIR_EREQUEST,
                        "an id goes with a check or a reservation: leave it out");
        break;
    }
    if (!err && !check->is_answered) {
        to->of.key = key_of(e, (struct span){ to->id, to->id_len });
        if (e->store->ops->is_shared)
            to->of.tag = tag_of_id(to->id, to->of.key);
    }
    return err;
}

/* ---- again ---------------------------------------------------------------------------------- */

bool reserve_pattern_of(const struct engine *e, const struct check *check,
                        struct reserve_pattern *out)
{
    const struct reserving *of = &check->reserving.of;
    const weir_request *r = check->request;

    if (of->amount_count > RESERVE_PATTERN_AMOUNTS)
        return false;
    *out = (struct reserve_pattern){
        .has_id = r->id,
        .is_by_name = r->attribute_count > 0,
        .is_used = of->is_used,
        .gives_back = of->gives_back,
        .ttl = of->ttl,
        .usual_ttl = terms_of(check).ttl,
        .most_ttl = of->most_ttl,
        .print = verb_makes_reservation(check->verb) ? print_of_policies(e, check) : 0,
        .amount_count = of->amount_count,
    };
    for (size_t i = 0; i < of->amount_count; i++) {
        out->amounts[i].len = of->amounts[i].name.len;
        out->amounts[i].amount = of->amounts[i].amount;
        memcpy(out->amounts[i].name, of->amounts[i].name.at, of->amounts[i].name.len);
    }
    return true;
}

weir_err reserve_begin_like(struct check *check, const struct reserve_pattern *p, struct span id,
                            weir_diag *diag)
{
    const bool makes = verb_makes_reservation(check->verb);
    weir_err err = WEIR_OK;

    reserve_begin(&check->reserving.of, &check->room->reserving);
    if (!makes)
        return read_id("reservation", id, &check->reserving, diag);
    if (p->has_id)
        err = read_id("id", id, &check->reserving, diag);
    if (!err && p->has_id)
        err = refuse_local(check->reserving.id, diag);
    check->reserving.of.ttl = p->ttl;
    return err;
}

static void key_like(const struct engine *e, struct check_reserving *to)
{
    to->of.key = hash_id(&engine_keys(e)->reservation, (struct span){ to->id, to->id_len });
}

void reserve_new_like(struct engine *e, struct check *check, const struct reserve_pattern *p,
                      struct span value)
{
    struct reserving *of = &check->reserving.of;
    const uint64_t print = print_of_key(p->print, p->is_by_name ? (struct span){ 0 } : value);
    uint64_t sum = 0;

    prefetch_charges(e, check);
    if (!p->has_id)
        make_id(e, check, &check->reserving);
    of->most_ttl = p->most_ttl;
    of->gives_back = p->gives_back;
    of->is_used = p->is_used;
    label(check);
    if (p->is_by_name)
        sum = print_of_attribute(print, check->rules[0]->by[0], value);
    of->fingerprint = mix(print, sum + print_of_charges(print, check));
    key_like(e, &check->reserving);
}

uint64_t reserve_print_like(const struct reserve_pattern *p, struct span key,
                            const struct charge_label *labels, const struct charge *charges,
                            size_t n)
{
    const uint64_t print = print_of_key(p->print, key);

    return mix(print, print_of_amounts(print, labels, charges, n));
}

void reserve_known_like(const struct engine *e, struct check *check,
                        const struct reserve_pattern *p)
{
    struct reserving_room *room = &check->room->reserving;
    struct reserving *of = &check->reserving.of;

    of->is_release = check->is_release;
    of->charges = check->room->charges;
    of->amount_count = p->amount_count;
    for (size_t i = 0; i < p->amount_count; i++) {
        memcpy(room->amount_names[i], p->amounts[i].name, p->amounts[i].len);
        room->amounts[i] = (struct amount){ { room->amount_names[i], p->amounts[i].len },
                                            p->amounts[i].amount };
    }
    key_like(e, &check->reserving);
}
