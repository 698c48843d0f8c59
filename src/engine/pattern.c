/* pattern.c - checks that differ from one before in their key or id alone: the rest is prepared once. */
#include "engine/pattern.h"

#include "engine/charges.h"
#include "engine/short_identity.h"

/* ---- making one --------------------------------------------------------------------------- */

/* Which rules apply, and with which numbers, must not depend on who asks. */
static bool is_same_for_all(const struct engine *e, const struct check *check)
{
    const struct policy *p = check->policy;
    const char *by;

    if (!p)
        return true;
    if (policies_may_exempt(check->policies, p) || check->plan || check->has_mode)
        return false;
    if (check->rules[0]->by_count != 1)
        return false;
    by = check->rules[0]->by[0];
    if (attribute_is_ip(by) && e->proxy_count > 0)
        return false;
    for (size_t i = 0; i < check->live; i++) {
        const struct policy_rule *r = check->rules[i];

        if (r->by_count != 1 || r->by[0] != by || r->rollout != SHARE_ALL ||
            r->ipv6_prefix != check->rules[0]->ipv6_prefix)
            return false;
    }
    return true;
}

/* A check of charges that are all enforced, or about a reservation that is known, with nothing of its
 * own but its key and its id. */
static bool is_simple(const struct check *check, enum pattern_kind kind)
{
    const weir_request *r = check->request;
    const bool reserves = verb_reserves(check->verb);

    if (check->is_answered || check->is_named || check->shadow > 0 || check->policy_count > 1 ||
        check->override_id != 0 || check->lists_charges ||
        (r && ((r->now != 0 && kind != PATTERN_HELD) || r->plan || r->exempt)))
        return false;
    if (kind == PATTERN_KNOWN)
        return verb_settles(check->verb);
    return verb_decides(check->verb) && check->live > 0 && check->live <= PATTERN_MOST_CHARGES &&
           (reserves ? kind == PATTERN_POLICY || kind == PATTERN_HELD : !r || r->cost_count == 0);
}

static const struct counted *counted_of(const struct check *check, size_t i)
{
    return &check->rules[i]->counted;
}

static struct hash_start start_of(const struct engine *e, const struct check *check, size_t i,
                                  enum pattern_kind kind)
{
    switch (kind) {
    case PATTERN_LIMIT:
        return unnamed_start(e, &check->unnamed);
    case PATTERN_CELL:
        return hash_start_of(&engine_keys(e)->cell, (struct span){ 0 });
    case PATTERN_POLICY:
    case PATTERN_KNOWN:
    case PATTERN_HELD:
    case PATTERN_NONE:
        break;
    }
    return hash_start_of(&counted_of(check, i)->hash_key, (struct span){ 0 });
}

static uint64_t own_bits_of(const struct check *check, size_t i)
{
    return check->policy ? counted_of(check, i)->own_bits : 0;
}

/* All count the same identity: its value. */
static size_t hashes_of(const struct check *check)
{
    for (size_t i = 1; i < check->live; i++)
        if (memcmp(&counted_of(check, i)->hash_key, &counted_of(check, 0)->hash_key,
                   sizeof(struct hash_key)) != 0)
            return check->live;
    return check->live > 0 ? 1 : 0;
}

/* Most that is asked of one counts for a policy; the rest goes the long way. */
static bool is_fit_for_shared(const struct check *check, enum pattern_kind kind)
{
    bool is_ready = kind == PATTERN_POLICY && !verb_reserves(check->verb);

    for (size_t i = 0; i < check->live && is_ready; i++)
        is_ready = counted_of(check, i)->shared_key;
    return is_ready;
}

/* Does each of its charges count? */
static bool counts_all(const struct check *check)
{
    for (size_t i = 0; i < check->live; i++)
        if (check->charges[i].cost <= 0)
            return false;
    return !check->peek && !verb_reserves(check->verb);
}

/* Is its store in this process, and nothing beside it? */
static bool is_all_that_is_asked(const struct engine *e)
{
    return !e->local && !e->denials && !e->leases && e->store->ops->prefetch;
}

static void note_straight(const struct check *check, struct pattern *p)
{
    p->may_run = p->is_of_store && (p->kind == PATTERN_CELL || p->is_plain);
    p->is_straight = p->may_run && p->is_lone;
    if (p->kind != PATTERN_LIMIT || check->whose->len == WHOSE_TAG)
        return;
    p->longer_len = check->whose->len; /* that of most others, too */
    p->longer = hash_start_longer(p->starts, p->longer_len);
}

bool pattern_of(struct engine *e, const struct check *check, enum pattern_kind kind,
                struct pattern *out)
{
    if ((e->store->ops->is_shared && !is_fit_for_shared(check, kind)) ||
        published_is_set(&e->overrides) || !is_simple(check, kind) || !is_same_for_all(e, check))
        return false;
    *out = (struct pattern){
        .kind = kind,
        .edition = policies_edition(check->policies),
        .policy = check->policy,
        .on_error = check->on_error,
        .verb = check->verb,
        .peek = check->peek,
        .is_release = check->is_release,
        .is_plain = !check->policy || !(attribute_is_ip(check->rules[0]->by[0]) ||
                                        attribute_is_email(check->rules[0]->by[0])),
        .count = check->live,
        .cost = check->ask.cost,
        .unnamed = check->policy ? (struct rule){ 0 } : check->unnamed,
    };
    if (verb_reserves(check->verb) && !reserve_pattern_of(e, check, &out->reserve))
        return false;
    out->is_held_alone = kind == PATTERN_HELD && is_all_that_is_asked(e);
    out->id = 1 + atomic_fetch_add_explicit(&e->patterns_made, 1, memory_order_relaxed);
    out->is_lone = check->live == 1 && counts_all(check);
    out->is_of_store = counts_all(check) && is_all_that_is_asked(e);
    out->is_asked_alone = out->is_lone && out->is_of_store && kind == PATTERN_POLICY &&
                          check->charges[0].rule->start != START_CALENDAR;
    for (size_t i = 0; i < check->live; i++) {
        const struct charge *c = &check->charges[i];

        out->starts[i] = start_of(e, check, i, kind);
        out->own_bits[i] = own_bits_of(check, i);
        out->is_beside |= out->own_bits[i] != 0;
        out->charges[i].rule = check->rules[i];
        out->charges[i].numbers = c->rule;
        out->charges[i].shared = e->store->ops->is_shared ? counted_of(check, i)->shared_key : NULL;
        out->charges[i].cost = c->cost;
        out->charges[i].class = c->class;
    }
    out->hashes = hashes_of(check);
    out->is_beside |= out->hashes != out->count;
    note_straight(check, out);
    return true;
}

void pattern_keep(struct engine *e, const struct check *check, const weir_allocator *allocator)
{
    struct pattern *p;

    if (published_is_set(&e->overrides)) /* later there may be one */
        return;
    p = alloc_zeroed(allocator, sizeof *p);
    if (!p)
        return;
    if (!pattern_of(e, check, verb_reserves(check->verb) ? PATTERN_HELD : PATTERN_POLICY, p))
        p->kind = PATTERN_NONE;
    if (!policy_keep_prepared(check->policy, pattern_place(check->verb), p))
        alloc_free(allocator, p);
}

/* ---- asking again -------------------------------------------------------------------------- */

void pattern_begin(struct check *check, const struct pattern *p)
{
    charges_begin(check);
    check->request = NULL;
    check->verb = p->verb;
    check->peek = p->peek;
    check->is_release = p->is_release;
    check->ask = (struct ask){ .cost = p->cost, .peek = p->peek };
    check->policy = p->policy;
    check->policy_count = p->policy ? 1 : 0;
    check->on_error = p->on_error;
    check->has_mode = false;
    check->plan = NULL;
    check->answer->err = WEIR_OK;
    if (p->count > 1)
        charges_make_room(check);
    if (!p->policy)
        check->unnamed = p->unnamed;
    for (size_t i = 0; i < p->count; i++) {
        struct charge *c = &check->charges[i];

        c->rule = p->policy ? p->charges[i].numbers : &check->unnamed;
        c->cost = p->charges[i].cost;
        c->class = p->charges[i].class;
        check->rules[i] = p->charges[i].rule;
    }
    check->live = p->count;
    check->is_lone = p->is_lone;
    check->is_plain = p->is_of_store;
    check->pattern = p->id;
    check->made_by = p->is_of_store ? p->id : 0;
}

/* The key that others have for it, too, and where that is. */
static void put_shared(const struct engine *e, struct check *check, const struct pattern *p,
                       size_t i, struct span identity, struct known_keys *known)
{
    struct charge *c = &check->charges[i];
    const struct known_key *k = known_key(known, e, c->key, p->charges[i].shared, identity);

    c->key = k->key;
    c->name = (struct charge_name){ p->policy->name, p->charges[i].rule->name, k->tag };
}

__attribute__((noinline)) static void put_several(struct check *check, const struct pattern *p,
                                                  struct span hashed)
{
    struct key keys[PATTERN_MOST_CHARGES];

    pattern_keys(p, hashed, keys);
    for (size_t i = 0; i < p->count; i++)
        check->charges[i].key = keys[i];
}

static inline void put_keys(const struct engine *e, struct check *check, const struct pattern *p,
                            struct span hashed, struct known_keys *known)
{
    if (p->count == 1)
        check->charges->key = pattern_key(p, hashed);
    else
        put_several(check, p, hashed);
    for (size_t i = 0; i < p->count && p->charges[i].shared; i++)
        put_shared(e, check, p, i, hashed, known);
}

static weir_err fail(struct check *check, weir_err err)
{
    check->made_by = 0;
    check->answer->err = err;
    check->answer->allowed = false;
    check->answer->rule_count = 0;
    return err;
}

/* One whose identity is not short, or not the value as it came. */
__attribute__((noinline)) static weir_err prepare_long(const struct engine *e, struct check *check,
                                                       const struct pattern *p, struct span key,
                                                       struct known_keys *known, weir_diag *diag)
{
    const struct policy_rule *rule = p->charges[0].rule;
    struct identity identity;
    weir_err err;

    if (rule)
        err = identity_of(p->policy->name, rule,
                          &(struct attribute){ .name = span_of(rule->by[0]), .value = key }, 1,
                          &identity, diag);
    else
        err = identity_of_key(key, &identity, diag);
    if (err)
        return fail(check, err);
    put_keys(e, check, p, pattern_hashed(p, &identity, identity.len), known);
    for (size_t i = 0; i < p->count; i++)
        charge_whose(e, p->charges[i].rule, (struct span){ identity.bytes, identity.len },
                     &check->whose[i]);
    return WEIR_OK;
}

static weir_err prepare_cell(const struct engine *e, struct check *check, const struct pattern *p,
                             struct span key, weir_diag *diag)
{
    const weir_err err = charge_check_key(key, diag);

    if (err)
        return fail(check, err);
    put_keys(e, check, p, key, NULL);
    charge_whose(e, NULL, key, &check->whose[0]);
    return WEIR_OK;
}

static inline void put_whose(struct check *check, const struct pattern *p,
                             const struct short_identity *identity)
{
    for (size_t i = 0; i < p->count; i++) {
        check->whose[i].len = (uint8_t)identity->len;
        memcpy(check->whose[i].bytes, identity->bytes, sizeof identity->bytes);
    }
}

static weir_err prepare_charges(const struct engine *e, struct check *check,
                                const struct pattern *p, struct span key, struct known_keys *known,
                                weir_diag *diag)
{
    struct short_identity identity;

    if (p->kind == PATTERN_CELL)
        return prepare_cell(e, check, p, key, diag);
    if (!short_identity_fits(p, key))
        return prepare_long(e, check, p, key, known, diag);
    short_identity_write(key, &identity);
    put_keys(e, check, p, pattern_hashed(p, &identity, identity.len), known);
    put_whose(check, p, &identity);
    return WEIR_OK;
}

__attribute__((noinline)) static weir_err prepare_reservation(struct engine *e, struct check *check,
                                                              const struct pattern *p,
                                                              const struct pattern_words *words,
                                                              weir_diag *diag)
{
    const bool is_known = p->kind == PATTERN_KNOWN;
    weir_err err = reserve_begin_like(check, &p->reserve, is_known ? words->key : words->id, diag);

    if (err)
        return fail(check, err);
    if (is_known) {
        reserve_known_like(e, check, &p->reserve);
        return WEIR_OK;
    }
    err = prepare_charges(e, check, p, words->key, NULL, diag);
    if (!err)
        reserve_new_like(e, check, &p->reserve, words->key);
    return err;
}

static inline struct key straight_key(const struct pattern *p,
                                      const struct short_identity *identity)
{
    if (identity->len == p->longer_len)
        return hash_identity_from(&p->longer, (struct span){ identity->bytes, identity->len });
    return pattern_key(p, pattern_hashed(p, identity, identity->len));
}

/* The way of most. What all checks of the pattern have in common is there. False: it is not. */
static inline bool prepare_straight(struct check *check, const struct pattern *p, struct span key)
{
    struct short_identity identity;

    if (!p->is_straight || check->made_by != p->id || key.len == 0 || key.len > SHORT_VALUE_MOST)
        return false;
    if (p->kind == PATTERN_CELL) {
        check->charges->key = hash_identity_from(p->starts, key);
        check->whose->len = (uint8_t)key.len;
        memcpy(check->whose->bytes, key.at, key.len);
        return true;
    }
    if (!utf8_is_plain(key) && !utf8_is_text(key))
        return false;
    short_identity_write(key, &identity);
    check->charges->key = straight_key(p, &identity);
    check->whose->len = (uint8_t)identity.len;
    memcpy(check->whose->bytes, identity.bytes, sizeof identity.bytes);
    return true;
}

weir_err engine_prepare_like(struct engine *e, struct check *check, const struct pattern *p,
                             const struct pattern_words *words, struct known_keys *known,
                             weir_diag *diag)
{
    if (prepare_straight(check, p, words->key))
        return WEIR_OK;
    if (check->made_by == 0 || check->made_by != p->id)
        pattern_begin(check, p);
    if (verb_reserves(p->verb))
        return prepare_reservation(e, check, p, words, diag);
    return prepare_charges(e, check, p, words->key, known, diag);
}
