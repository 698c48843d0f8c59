/* ruling.c - a request of Envoy becomes checks: which limits hold for it, and how they are asked. */
#include "server/envoy/ruling.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "server/server.h"

struct asking {
    struct reply *reply;
    const struct rls_request *request;
    const struct envoy_settings *settings;
    struct ruling *ruling;
    const struct envoy_domain *domain; /* NULL: it is unknown */
    struct envoy_entry entries[RLS_MAX_DESCRIPTORS][RLS_MAX_ENTRIES];
    struct limit_ask joint[WEIR_MAX_RULES]; /* those that are one question … */
    size_t of[WEIR_MAX_RULES];              /* … and which descriptors they are for */
    size_t joint_count;
};

void ruling_free(struct ruling *ruling)
{
    if (!ruling)
        return;
    arena_done(&ruling->texts);
    free(ruling);
}

/* ---- what is wrong with a request ----------------------------------------------------------- */

static weir_err check_descriptor(const struct rls_descriptor *d, weir_diag *diag)
{
    if (d->entry_count > RLS_MAX_ENTRIES)
        return diag_fail(diag, WEIR_EREQUEST, "a descriptor has %zu entries: at most %d",
                         d->entry_count, RLS_MAX_ENTRIES);
    if (d->has_limit && (d->unit <= ENVOY_UNKNOWN || d->unit >= ENVOY_UNITS))
        return diag_fail(diag, WEIR_EREQUEST, "the limit of a descriptor has no unit");
    if (d->has_hits && d->hits > AMOUNT_MOST)
        return diag_fail(diag, WEIR_EREQUEST, "hits_addend must be below 2^53");
    return WEIR_OK;
}

static weir_err check_request(const struct rls_request *q, weir_diag *diag)
{
    weir_err err = WEIR_OK;

    if (q->domain.len == 0)
        return diag_fail(diag, WEIR_EREQUEST, "rate limit domain must not be empty");
    if (q->descriptor_count == 0)
        return diag_fail(diag, WEIR_EREQUEST, "rate limit descriptor list must not be empty");
    if (q->descriptor_count > RLS_MAX_DESCRIPTORS)
        return diag_fail(diag, WEIR_EREQUEST, "there are %zu descriptors: at most %d",
                         q->descriptor_count, RLS_MAX_DESCRIPTORS);
    for (size_t i = 0; i < q->descriptor_count && !err; i++)
        err = check_descriptor(&q->descriptors[i], diag);
    return err;
}

/* ---- which limits --------------------------------------------------------------------------- */

static void copy_entries(struct asking *a, size_t i)
{
    const struct rls_descriptor *d = &a->request->descriptors[i];

    for (size_t e = 0; e < d->entry_count; e++)
        a->entries[i][e] = (struct envoy_entry){ d->entries[e].key, d->entries[e].value };
}

static void find_limit(struct asking *a, size_t i)
{
    const struct rls_descriptor *d = &a->request->descriptors[i];
    struct ruled *r = &a->ruling->ruled[i];

    *r = (struct ruled){ .kind = RULED_BARE, .name = "" };
    if (d->has_limit && a->domain) {
        r->kind = RULED_ASKED;
        r->limit = envoy_find_limit(a->domain, a->entries[i], d->entry_count);
        return;
    }
    r->limit = a->domain ? envoy_find_limit(a->domain, a->entries[i], d->entry_count) : NULL;
    if (r->limit)
        r->kind = r->limit->is_unlimited ? RULED_UNLIMITED : RULED_ASKED;
}

static bool replaces(const struct asking *a, size_t i, const char *name)
{
    const struct envoy_limit *limit = a->ruling->ruled[i].limit;

    if (!limit || a->request->descriptors[i].has_limit)
        return false;
    for (size_t k = 0; k < limit->replaces_count; k++)
        if (limit->replaces[k] == name) /* names are kept once each */
            return true;
    return false;
}

/* A limit with a name that another limit of the request replaces does not hold. */
static void drop_replaced(struct asking *a)
{
    for (size_t i = 0; i < a->ruling->count; i++) {
        struct ruled *r = &a->ruling->ruled[i];
        bool is_replaced = false;

        if (r->kind != RULED_ASKED || a->request->descriptors[i].has_limit || !r->limit->name[0])
            continue;
        for (size_t k = 0; k < a->ruling->count && !is_replaced; k++)
            is_replaced = replaces(a, k, r->limit->name);
        if (is_replaced)
            r->kind = RULED_BARE;
    }
}

/* A limit that came with a descriptor counts with the configured one, if their windows are the same
 * and its algorithm has room for the number. */
static void use_brought(const struct asking *a, const struct rls_descriptor *d,
                        struct limit_ask *ask)
{
    const struct envoy_limit *limit = ask->limit;
    const enum envoy_unit unit = (enum envoy_unit)d->unit;
    struct rule numbers = { .algorithm = WEIR_FIXED_WINDOW,
                            .limit = d->requests_per_unit,
                            .window = envoy_unit_ms(unit) };

    if (limit && limit->rule && !limit->is_shared && limit->unit == unit)
        numbers.algorithm = limit->numbers.algorithm;
    else
        ask->limit = NULL;
    if (rule_check(&numbers, NULL)) {
        ask->limit = NULL;
        numbers.algorithm = WEIR_FIXED_WINDOW;
        numbers.burst = numbers.limit;
        numbers.precision = 0;
    }
    if (!ask->limit)
        ask->rule = envoy_brought_rule(a->domain, unit);
    ask->brings_numbers = ask->is_enforced = true;
    ask->numbers = numbers;
}

static void fill_ask(const struct asking *a, size_t i, struct limit_ask *ask)
{
    const struct rls_descriptor *d = &a->request->descriptors[i];
    struct ruled *r = &a->ruling->ruled[i];

    *ask = (struct limit_ask){
        .limit = r->limit,
        .rule = r->limit ? r->limit->rule : NULL,
        .entries = a->entries[i],
        .entry_count = d->entry_count,
        .cost = r->cost,
    };
    if (d->has_limit)
        use_brought(a, d, ask);
    r->requests_per_unit = d->has_limit ? d->requests_per_unit : r->limit->requests_per_unit;
    r->unit = d->has_limit ? (enum envoy_unit)d->unit : r->limit->unit;
    r->name = d->has_limit ? "" : r->limit->name;
    r->is_quota = !d->has_limit && r->limit->is_quota;
    r->policy = ask->rule->policy->name;
    r->window_ms = ask->rule->counted.rule.window;
    r->is_epoch = !algorithm_has_burst(ask->rule->counted.rule.algorithm) &&
                  !algorithm_has_precision(ask->rule->counted.rule.algorithm) &&
                  !algorithm_multiplies(ask->rule->counted.rule.algorithm);
}

/* ---- asking --------------------------------------------------------------------------------- */

static void note_asked(struct ruled *r, struct call *call, const struct limit_ask *ask)
{
    r->call = call;
    r->key = ask->key;
    r->is_shadow = ask->is_shadow;
    if (ask->is_left_out)
        r->kind = RULED_BARE;
}

/* Charged by itself, or looked at, or given back. */
static bool ask_alone(struct asking *a, size_t i)
{
    const struct rls_descriptor *d = &a->request->descriptors[i];
    struct ruled *r = &a->ruling->ruled[i];
    const bool gives_back = d->has_hits && d->is_negative;
    const bool is_report = !gives_back && (d->has_hits || a->settings->counts_refused);
    struct limits_way way = {
        .verb = gives_back  ? VERB_REFUND
                : is_report ? VERB_CHARGE
                            : VERB_CHECK,
        .is_judged = is_report,
        .peek = is_report && r->cost == 0,
    };
    struct limit_ask ask;
    struct call *call;

    fill_ask(a, i, &ask);
    r->is_peek = way.peek;
    /* A limit of 0 holds nothing. What is charged to it has to be counted all the same. */
    if (is_report && r->requests_per_unit == 0) {
        way.has_no_limit = true;
        ask.brings_numbers = true;
        ask.numbers = (struct rule){ .algorithm = WEIR_FIXED_WINDOW,
                                     .limit = 1,
                                     .window = ask.rule->counted.rule.window,
                                     .burst = 1 };
    }
    call = reply_ask_limits(a->reply, &way, &ask, 1);
    if (call)
        note_asked(r, call, &ask);
    return call;
}

static bool is_same_key(struct key a, struct key b)
{
    return a.high == b.high && a.low == b.low;
}

static bool ask_joint(struct asking *a)
{
    const struct limits_way way = { .verb = VERB_CHECK };
    struct call *call;

    if (a->joint_count == 0)
        return true;
    call = reply_ask_limits(a->reply, &way, a->joint, a->joint_count);
    if (!call)
        return false;
    for (size_t i = 0; i < a->joint_count; i++) {
        struct ruled *r = &a->ruling->ruled[a->of[i]];

        note_asked(r, call, &a->joint[i]);
        for (size_t k = i + 1; k < a->joint_count && !a->joint[i].is_shadow; k++)
            if (is_same_key(a->joint[k].key, a->joint[i].key))
                r->behind += a->joint[k].cost;
    }
    return true;
}

static int64_t cost_of(const struct rls_request *q, const struct rls_descriptor *d)
{
    if (d->has_hits)
        return (int64_t)d->hits;
    return q->hits_addend > 0 ? q->hits_addend : 1;
}

static bool is_joint(const struct asking *a, size_t i)
{
    const struct rls_descriptor *d = &a->request->descriptors[i];
    const struct ruled *r = &a->ruling->ruled[i];

    return !a->settings->counts_refused && !d->has_hits &&
           !(a->settings->is_quota || (!d->has_limit && r->limit->is_quota));
}

/* False: there are more limits than are judged as one. */
static bool gather(struct asking *a)
{
    for (size_t i = 0; i < a->ruling->count; i++) {
        struct ruled *r = &a->ruling->ruled[i];

        r->cost = cost_of(a->request, &a->request->descriptors[i]);
        if (r->kind != RULED_ASKED || !is_joint(a, i))
            continue;
        if (a->joint_count == WEIR_MAX_RULES)
            return false;
        fill_ask(a, i, &a->joint[a->joint_count]);
        a->of[a->joint_count++] = i;
    }
    return true;
}

static bool ask_all(struct asking *a)
{
    for (size_t i = 0; i < a->ruling->count; i++)
        if (a->ruling->ruled[i].kind == RULED_ASKED && !is_joint(a, i) && !ask_alone(a, i))
            return false;
    return ask_joint(a);
}

/* ---- what the request was, for its metadata ------------------------------------------------- */

static const struct span none = { "", 0 };

static void describe_one(struct ruling *ruling, const struct rls_descriptor *d, struct value *list)
{
    struct arena *arena = &ruling->texts;
    struct value *about = value_add(arena, list, none, VALUE_MAP), *entries, *hits;
    char text[96];

    entries = value_add(arena, about, span_of("entries"), VALUE_LIST);
    for (size_t i = 0; i < d->entry_count; i++) {
        struct buf both;

        buf_init(&both, &arena->allocator);
        buf_add(&both, d->entries[i].key);
        buf_byte(&both, '=');
        buf_add(&both, d->entries[i].value);
        if (!both.failed)
            value_add_text(arena, entries, none, buf_span(&both));
        buf_done(&both);
    }
    if (d->has_limit) { /* as protobuf writes it: what is 0 is left out */
        text[0] = '\0';
        if (d->requests_per_unit > 0)
            snprintf(text, sizeof text, "requests_per_unit:%" PRIu32 " ", d->requests_per_unit);
        snprintf(text + strlen(text), sizeof text - strlen(text), "unit:%s",
                 rls_unit_names[d->unit]);
        value_add_text(arena, about, span_of("limit"), span_of(text));
    }
    hits = d->has_hits ? value_add(arena, about, span_of("hitsAddend"), VALUE_NUMBER) : NULL;
    if (hits)
        hits->number = (double)d->hits;
}

static void describe(struct asking *a)
{
    struct ruling *ruling = a->ruling;
    struct value *list, *hits;

    ruling->about = arena_take(&ruling->texts, sizeof *ruling->about);
    if (!ruling->about)
        return;
    ruling->about->kind = VALUE_MAP;
    value_add_text(&ruling->texts, ruling->about, span_of("domain"), a->request->domain);
    list = value_add(&ruling->texts, ruling->about, span_of("descriptors"), VALUE_LIST);
    for (size_t i = 0; i < ruling->count; i++) {
        const struct envoy_limit *limit = ruling->ruled[i].limit;
        struct value *copy;

        describe_one(ruling, &a->request->descriptors[i], list);
        if (!limit || !limit->metadata || a->request->descriptors[i].has_limit)
            continue;
        copy = arena_take(&ruling->texts, sizeof *copy);
        if (!copy)
            continue;
        copy->kind = VALUE_MAP;
        if (value_merge(&ruling->texts, copy, limit->metadata))
            ruling->ruled[i].metadata = copy;
    }
    if (a->request->hits_addend > 0) {
        hits = value_add(&ruling->texts, ruling->about, span_of("hitsAddend"), VALUE_NUMBER);
        if (hits)
            hits->number = a->request->hits_addend;
    }
}

/* ---- all of it ------------------------------------------------------------------------------ */

static enum ruling_fault ask(struct asking *a, weir_diag *diag)
{
    struct ruling *ruling = a->ruling;

    for (size_t i = 0; i < ruling->count; i++) {
        copy_entries(a, i);
        find_limit(a, i);
    }
    drop_replaced(a);
    if (a->settings->sends_metadata)
        describe(a);
    if (!gather(a)) {
        diag_set(diag, "the request has more limits than are judged as one: at most %d",
                 WEIR_MAX_RULES);
        return RULING_INVALID;
    }
    return ask_all(a) ? RULING_FINE : RULING_NO_MEMORY;
}

/* As large as the request needs it: many are under way at the same time. */
static struct ruling *new_ruling(size_t count)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    struct ruling *ruling = malloc(sizeof *ruling +
                                   count * (sizeof *ruling->ruled + sizeof *ruling->statuses));

    if (!ruling)
        return NULL;
    ruling->count = count;
    ruling->statuses = (struct rls_status *)(ruling->ruled + count);
    ruling->about = NULL;
    ruling->denies = false;
    arena_init(&ruling->texts, &usual);
    return ruling;
}

enum ruling_fault ruling_ask(struct reply *r, const struct rls_request *request, weir_diag *diag)
{
    struct loop *loop = r->session->loop;
    struct server *server = loop->server;
    struct asking a;
    const struct policies *set;

    if (check_request(request, diag))
        return RULING_INVALID;
    if (!turn_begin_asking(loop)) {
        session_abort(r->session);
        return RULING_NO_MEMORY;
    }
    set = loop->turn.pin->visit.current;
    if (!set || !envoy_is_loaded(set)) {
        diag_set(diag, "no rate limit configuration loaded");
        return RULING_NOT_LOADED;
    }
    a.reply = r;
    a.request = request;
    a.settings = &server->settings.envoy;
    a.joint_count = 0;
    a.domain = envoy_find_domain(set, request->domain);
    a.ruling = r->ruling = new_ruling(request->descriptor_count);
    if (!a.ruling) {
        session_abort(r->session);
        return RULING_NO_MEMORY;
    }
    a.ruling->asked_ms = loop->turn.now;
    if (!a.domain) {
        atomic_fetch_add_explicit(&server->unknown_domains, 1, memory_order_relaxed);
        a.ruling->denies = a.settings->denies_unknown_domains;
    }
    return ask(&a, diag);
}
