/* usage.c - how one identity stands: what is used of its limits, what is held, what is left.
 *
 * The numbers are those of a peek, and what is held is found among all reservations. These are two
 * looks: a reservation that is made or settled between them is in one of them only. */
#include "engine/usage.h"

#include "base/diag.h"

/* What a rule counts, and under which key. */
static void note_key(struct usage *u, const struct check *check, size_t i)
{
    const struct policy_rule *rule = check->rules[i];

    for (size_t k = 0; k < u->count; k++) {
        struct usage_rule *row = &u->rules[k];

        if (rule ? row->policy == rule->policy->name && row->rule == rule->name : !row->policy) {
            row->key = check->charges[i].key;
            row->counts = rule && rule->counts ? rule->counts : COUNTS_REQUESTS;
            return;
        }
    }
}

/* By the policies that are in force now. */
static weir_err note_keys(weir *w, const weir_request *r, struct usage *u, weir_diag *diag)
{
    struct check_room *room = alloc_zeroed(&w->allocator, sizeof *room);
    struct published_visit visit;
    struct check check = { 0 };
    weir_answer ignored;
    weir_err err;

    if (!room)
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    visit = published_enter(&w->policies);
    check.request = r;
    check.verb = VERB_CHECK;
    check.peek = true;
    check.answer = &ignored;
    check.room = room;
    check.policies = visit.current;
    err = engine_prepare(&w->engine, &check, diag);
    for (size_t i = 0; !err && !check.is_answered && i < check.live + check.shadow; i++)
        note_key(u, &check, i);
    published_leave(&w->policies, visit);
    alloc_free(&w->allocator, room);
    return err;
}

static int64_t counted_of(const weir_rule_answer *r, bool is_peek)
{
    return !is_peek ? r->used : r->remaining < r->limit ? r->limit - r->remaining : 0;
}

static void list_rules(const weir_answer *a, bool is_peek, struct usage *u)
{
    for (size_t i = 0; i < a->rule_count; i++) {
        const weir_rule_answer *r = &a->rules[i];

        u->rules[u->count++] = (struct usage_rule){
            .policy = r->policy,
            .rule = r->rule,
            .counts = "",
            .limit = r->limit,
            .counted = counted_of(r, is_peek),
            .left = r->remaining,
            .reset_after_ms = r->reset_after_ms,
            .is_shadow = r->shadow,
        };
    }
}

struct visiting {
    struct usage *all;
    size_t count;
    int64_t now;
};

static void add_to(struct usage *u, const struct held_charge *c)
{
    for (size_t i = 0; i < u->count; i++) {
        struct usage_rule *row = &u->rules[i];

        if (row->key.high != c->key.high || row->key.low != c->key.low)
            continue;
        row->held += c->amount;
        u->reservations += !u->is_counted;
        u->is_counted = true;
    }
}

static void add_held(void *ctx, const struct held_charge *c)
{
    struct visiting *v = ctx;

    for (size_t i = 0; i < v->count; i++) {
        if (c->is_new)
            v->all[i].is_counted = false;
        if (c->expires > v->now)
            add_to(&v->all[i], c);
    }
}

weir_err usage_counted(weir *w, const weir_request *r, struct usage *out, weir_diag *diag)
{
    weir_request none = *r; /* what it costs does not matter */
    weir_answer a;
    bool is_peek;
    weir_err err;

    *out = (struct usage){ 0 };
    none.cost = WEIR_COST_ZERO;
    none.cost_count = 0;
    err = weir_charge(w, &none, &a, diag); /* of nothing: it tells what is counted */
    is_peek = err == WEIR_ENEEDSRESERVATION;
    if (is_peek)
        err = weir_peek(w, &none, &a, diag);
    if (err)
        return err;
    list_rules(&a, is_peek, out);
    return note_keys(w, &none, out, diag);
}

weir_err usage_held(weir *w, int64_t now, struct usage *all, size_t n, weir_diag *diag)
{
    struct store *store = w->engine.store;
    struct visiting v = { all, n, now };

    for (size_t i = 0; i < n; i++)
        all[i].is_held_known = store->ops->visit_held;
    return store->ops->visit_held ? store->ops->visit_held(store, now, add_held, &v, diag)
                                  : WEIR_OK;
}

weir_err usage_read(weir *w, const weir_request *r, struct usage *out, weir_diag *diag)
{
    weir_err err = usage_counted(w, r, out, diag);

    return err ? err : usage_held(w, r->now ? r->now : handle_now(w), out, 1, diag);
}
