/* engine.c - the sentence: request → rules → store → answer. */
#include "engine/engine.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/diag.h"
#include "base/show.h"
#include "engine/answer.h"
#include "engine/fallback.h"
#include "engine/overruling.h"
#include "engine/recall.h"
#include "engine/tag.h"
#include "policy/address_list.h"

static const char unnamed_scope[] = "limits that come with a request";

static struct engine_keys keys_of(const struct secret *secret)
{
    const char *const key = "key";

    return (struct engine_keys){
        .secret = *secret,
        .unnamed = hash_key_of(secret, span_of(unnamed_scope)),
        .cell = hash_key_of(secret, span_of("cl.throttle")),
        .called = { .hash_key = tag_hash_key(secret, &key, 1) },
        .place = hash_key_of(secret, span_of("tags")),
    };
}

void engine_take_secret(struct engine *e, const struct secret *secret)
{
    e->second = keys_of(secret);
    atomic_store_explicit(&e->keys, &e->second, memory_order_release);
}

void engine_init(struct engine *e, struct store *store, struct store *local,
                 const struct secret *secret, bool trusts_now)
{
    *e = (struct engine){
        .store = store,
        .local = local,
        .first = keys_of(secret),
        .trusts_now = trusts_now,
    };
    atomic_init(&e->keys, &e->first);
    published_init(&e->overrides, NULL);
}

void engine_done(struct engine *e)
{
    overrides_free((struct overrides *)published_replace(&e->overrides, NULL));
    published_done(&e->overrides);
}

/* ---- reading the request -------------------------------------------------------------- */

static weir_err read_ask(const struct engine *e, struct check *check, weir_diag *diag)
{
    const weir_request *r = check->request;

    check->ask = (struct ask){ .now = r->now, .cost = r->cost, .peek = check->peek };
    if (r->cost == 0)
        check->ask.cost = 1;
    else if (r->cost == WEIR_COST_ZERO)
        check->ask.cost = 0;
    else if (r->cost < 0 || r->cost > WEIR_MAX_AMOUNT)
        return diag_fail(diag, WEIR_ECOST, "cost must be from 0 to 2^53, not %" PRId64, r->cost);
    if (r->now == 0)
        return WEIR_OK;
    if (!e->trusts_now)
        return diag_fail(diag, WEIR_ENOW,
                         "`now` is refused: this limiter uses its own clock (leave it out, or open "
                         "it to trust the callers' clocks)");
    if (r->now < 0 || r->now >= (int64_t)1 << 48)
        return diag_fail(diag, WEIR_EREQUEST, "`now` must be ms since 1970, not %" PRId64, r->now);
    return WEIR_OK;
}

static struct span sized(const char *text, size_t len)
{
    return (struct span){ text, len ? len : strlen(text) };
}

static weir_err refuse_key(const struct policy *p, weir_diag *diag)
{
    bool counts_by_some = false;

    for (size_t i = 0; i < p->rule_count; i++)
        counts_by_some = counts_by_some || p->rules[i].by_count > 0;
    if (!counts_by_some)
        return diag_fail(diag, WEIR_EREQUEST,
                         "policy '%s' counts everyone together: leave the key out", p->name);
    return diag_fail(diag, WEIR_EREQUEST,
                     "policy '%s' counts by several attributes: give them by name instead of a key",
                     p->name);
}

/* An `ip` that is a list, as in X-Forwarded-For: the client's. What cannot be found there stays as
 * it is, and is refused where it is counted by. */
static void find_client(const struct engine *e, struct attribute *attributes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct span *value = &attributes[i].value;

        if (span_is(attributes[i].name, "ip") && memchr(value->at, ',', value->len))
            (void)address_list_client(*value, e->proxies, e->proxy_count, value);
    }
}

/* The attributes of the request; a bare key stands for the policy's only one. */
static weir_err read_attributes(const struct check *check, struct attribute *out, size_t *count,
                                weir_diag *diag)
{
    const weir_request *r = check->request;

    if (r->attribute_count > WEIR_MAX_ATTRIBUTES)
        return diag_fail(diag, WEIR_EREQUEST, "%zu attributes are too many: at most %d",
                         r->attribute_count, WEIR_MAX_ATTRIBUTES);
    if (r->key && r->attribute_count > 0)
        return diag_fail(diag, WEIR_EREQUEST, "give a key or attributes, not both");
    if (r->key) {
        if (!check->policy->sole_attribute)
            return refuse_key(check->policy, diag);
        out[0].name = span_of(check->policy->sole_attribute);
        out[0].value = sized(r->key, r->key_len);
        *count = 1;
        return WEIR_OK;
    }
    for (size_t i = 0; i < r->attribute_count; i++) {
        const weir_attribute *a = &r->attributes[i];

        if (!a->name || !a->value)
            return diag_fail(diag, WEIR_EATTRIBUTE, "attribute %zu has no %s", i + 1,
                             a->name ? "value" : "name");
        out[i].name = span_of(a->name);
        out[i].value = sized(a->value, a->value_len);
        for (size_t j = 0; j < i; j++)
            if (span_equal(out[i].name, out[j].name))
                return diag_fail(diag, WEIR_EATTRIBUTE,
                                 "an attribute is given twice: give each once");
    }
    *count = r->attribute_count;
    return WEIR_OK;
}

/* ---- making questions ----------------------------------------------------------------- */

static void begin(struct check *check)
{
    check->policy = NULL;
    check->live = check->shadow = check->waiting = 0;
    check->is_answered = false;
    check->override_id = 0;
    check->questions = check->one.questions;
    check->charges = check->one.charges;
    check->rules = check->one.rules;
    check->whose = check->one.whose;
}

static void make_room_for_many(struct check *check)
{
    check->questions = check->room->questions;
    check->charges = check->room->charges;
    check->rules = check->room->rules;
    check->whose = check->room->whose;
}

static void note_whose(const struct engine *e, const struct policy_rule *rule, struct span identity,
                       struct whose *out)
{
    if (identity.len > sizeof out->bytes) {
        note_tag(e, rule, identity, out);
        return;
    }
    out->len = (uint8_t)identity.len;
    memcpy(out->bytes, identity.at, identity.len);
}

static void put_charge(const struct engine *e, struct check *check, const struct policy_rule *rule,
                       const struct rule *numbers, struct key key, struct span identity)
{
    const size_t at = check->live + check->shadow;

    check->rules[at] = rule;
    check->charges[at].rule = numbers;
    check->charges[at].key = key;
    check->charges[at].class = rule ? rule->class : 0;
    note_whose(e, rule, identity, &check->whose[at]);
}

/* A rule that counts everyone together has no identity: it is told from others by its name, or all
 * such rules would be in one place. */
static void name_charge(const struct engine *e, struct check *check, const char *policy,
                        const char *rule, struct span identity)
{
    struct charge_name *name = &check->charges[check->live + check->shadow].name;
    char both[2 * WEIR_MAX_NAME + 2];

    if (!e->store->ops->is_shared)
        return;
    if (identity.len == 0)
        identity = (struct span){ both,
                                  (size_t)snprintf(both, sizeof both, "%s:%s", policy, rule) };
    *name = (struct charge_name){ policy, rule,
                                  (uint16_t)hash_identity(&engine_keys(e)->place, identity).low };
}

static weir_err add_charge(const struct engine *e, struct check *check,
                           const struct policy_rule *rule, const struct counted *counted,
                           const struct attribute *attributes, size_t n, weir_diag *diag)
{
    struct identity identity;
    weir_err err = identity_of(check->policy->name, rule, attributes, n, &identity, diag);
    const struct span bytes = { identity.bytes, identity.len };

    if (err)
        return err;
    put_charge(e, check, rule, &counted->rule,
               engine_key(e, &counted->hash_key, counted->shared_key, bytes), bytes);
    name_charge(e, check, check->policy->name, rule->name, bytes);
    return WEIR_OK;
}

static const struct counted *under_plan(const struct check *check, const struct policy_rule *rule)
{
    return check->plan ? policy_rule_under(rule, span_of(check->plan)) : &rule->counted;
}

static enum mode mode_of(const struct check *check, const struct policy_rule *rule)
{
    return policy_rule_mode(rule, check->has_mode ? &check->mode : NULL);
}

/* … for who asks: a rule that is being rolled out is in shadow for those whom it has not reached. */
static weir_err mode_for(const struct check *check, const struct policy_rule *rule,
                         const struct attribute *attributes, size_t n, enum mode *out,
                         weir_diag *diag)
{
    struct identity identity;
    weir_err err;

    *out = mode_of(check, rule);
    if (*out != MODE_ENFORCE || rule->rollout == SHARE_ALL)
        return WEIR_OK;
    err = identity_of(check->policy->name, rule, attributes, n, &identity, diag);
    if (!err && !policy_rule_reaches(rule, (struct span){ identity.bytes, identity.len }))
        *out = MODE_SHADOW;
    return err;
}

/* Live charges first, so that they are one question; then the shadows, each its own. */
static weir_err add_charges(const struct engine *e, struct check *check,
                            const struct attribute *attributes, size_t n, weir_diag *diag)
{
    const struct policy_rule *const rules = check->policy->rules;
    const size_t count = check->policy->rule_count;
    enum mode modes[WEIR_MAX_RULES] = { MODE_ENFORCE };
    bool has_shadows = false;
    weir_err err = WEIR_OK;

    if (count > 1 || rules[0].shadow_limit)
        make_room_for_many(check);
    for (size_t i = 0; i < count && !err; i++) {
        err = mode_for(check, &rules[i], attributes, n, &modes[i], diag);
        if (modes[i] != MODE_ENFORCE || rules[i].shadow_limit)
            has_shadows = true;
        if (modes[i] != MODE_ENFORCE || err)
            continue;
        err = add_charge(e, check, &rules[i], under_plan(check, &rules[i]), attributes, n, diag);
        check->live++;
    }
    if (!has_shadows)
        return err;
    for (size_t i = 0; i < count && !err; i++) {
        const struct counted *counted = modes[i] == MODE_ENFORCE ? rules[i].shadow_limit
                                                                 : under_plan(check, &rules[i]);

        if (modes[i] == MODE_OFF || !counted)
            continue;
        err = add_charge(e, check, &rules[i], counted, attributes, n, diag);
        check->shadow++;
    }
    return err;
}

static weir_err find_policy(struct check *check, weir_diag *diag)
{
    const weir_request *r = check->request;

    if (check->like && check->like->policy && check->like->request->policy == r->policy)
        check->policy = check->like->policy;
    else
        check->policy = policies_find(check->policies, span_of(r->policy));
    if (!check->policy) {
        const char *near = policies_suggest(check->policies, span_of(r->policy));

        return diag_fail(diag, WEIR_ENOPOLICY, "there is no policy '%s'%s%s%s",
                         show(span_of(r->policy)).text, near ? ": did you mean '" : "",
                         near ? near : "", near ? "'?" : "");
    }
    if (r->limit || r->window_ms || r->burst || r->precision_ms || r->algorithm)
        return diag_fail(diag, WEIR_EREQUEST,
                         "the request names a policy and brings numbers: leave out limit, window, "
                         "burst, precision and algorithm, or the policy");
    return WEIR_OK;
}

static weir_err answer_at_once(struct check *check, weir_source source)
{
    answer_uncounted(check, source);
    check->is_answered = true;
    return WEIR_OK;
}

/* `o` is NULL if operators have changed nothing, as they mostly have. */
static weir_err prepare_rules(const struct engine *e, const struct overrides *o,
                              struct check *check, weir_diag *diag)
{
    struct attribute attributes[WEIR_MAX_ATTRIBUTES];
    size_t n = 0;
    weir_err err;

    if (o)
        overrule_mode(e, o, check);
    if ((check->has_mode ? check->mode : check->policy->mode) == MODE_OFF ||
        !policies_enabled(check->policies))
        return answer_at_once(check, WEIR_FROM_OFF);
    err = read_attributes(check, attributes, &n, diag);
    if (err)
        return err;
    if (e->proxy_count > 0)
        find_client(e, attributes, n);
    if (check->request->exempt || policies_exempt(check->policies, check->policy, attributes, n))
        return answer_at_once(check, WEIR_FROM_EXEMPT);
    if (o)
        overrule_plan(e, o, check, attributes, n);
    err = add_charges(e, check, attributes, n, diag);
    if (!err && check->live + check->shadow == 0) /* all of its rules are off */
        return answer_at_once(check, WEIR_FROM_OFF);
    if (!err && o)
        err = overrule_charges(e, o, check, attributes, n, diag);
    return err;
}

static weir_err prepare_policy(struct engine *e, struct check *check, weir_diag *diag)
{
    struct published_visit visit;
    weir_err err = find_policy(check, diag);

    check->has_mode = false;
    check->plan = check->request->plan;
    if (err)
        return err;
    if (!published_is_set(&e->overrides))
        return prepare_rules(e, NULL, check, diag);
    visit = published_enter(&e->overrides);
    err = prepare_rules(e, visit.current, check, diag);
    published_leave(&e->overrides, visit);
    return err;
}

/* A limit that comes with the request: its algorithm and window are part of its key. */
struct scoped {
    int64_t algorithm, window;
    struct identity identity;
};

static struct key unnamed_key(const struct engine *e, struct scoped *scoped, const struct rule *r)
{
    struct hash_key key;
    char scope[128];
    int len;

    if (!e->store->ops->is_shared) {
        scoped->algorithm = r->algorithm;
        scoped->window = r->window;
        return hash_identity(
            &engine_keys(e)->unnamed,
            (struct span){ (const char *)scoped,
                           offsetof(struct scoped, identity.bytes) + scoped->identity.len });
    }
    len = snprintf(scope, sizeof scope, "%s%c%s%c%" PRId64, unnamed_scope, 0,
                   weir_algorithm_name(r->algorithm), 0, r->window);
    key = hash_key_of(engine_secret(e), (struct span){ scope, (size_t)len });
    return hash_shared(&key, (struct span){ scoped->identity.bytes, scoped->identity.len });
}

static weir_err prepare_unnamed(const struct engine *e, struct check *check, weir_diag *diag)
{
    const weir_request *r = check->request;
    struct scoped scoped;
    struct span bytes;
    weir_err err;

    if (r->attribute_count > 0 || r->plan)
        return diag_fail(diag, WEIR_EREQUEST, "attributes and plans belong to a policy: name one");
    if (!r->key)
        return diag_fail(diag, WEIR_EREQUEST,
                         "the request has no policy and no key: name a policy, or give key, limit "
                         "and window_ms");
    if (r->window_ms == 0 && r->limit != 0)
        return diag_fail(
            diag, WEIR_EREQUEST,
            "the request has no policy: name one, or give limit and window_ms, which is at least 1");
    if (r->window_ms == 0)
        return diag_fail(diag, WEIR_EREQUEST,
                         "the request has no policy: name one, or give limit (0 always denies) and "
                         "window_ms");
    check->unnamed = (struct rule){ r->algorithm, r->limit, r->window_ms, r->burst,
                                    r->precision_ms };
    err = rule_check(&check->unnamed, diag);
    if (!err)
        err = identity_of_key(sized(r->key, r->key_len), &scoped.identity, diag);
    if (err)
        return err;
    if (r->exempt || !policies_enabled(check->policies)) {
        answer_uncounted(check, r->exempt ? WEIR_FROM_EXEMPT : WEIR_FROM_OFF);
        check->is_answered = true;
        return WEIR_OK;
    }
    bytes = (struct span){ scoped.identity.bytes, scoped.identity.len };
    put_charge(e, check, NULL, &check->unnamed, unnamed_key(e, &scoped, &check->unnamed), bytes);
    name_charge(e, check, "-", weir_algorithm_name(check->unnamed.algorithm), bytes);
    check->live = 1;
    return WEIR_OK;
}

weir_err engine_prepare(struct engine *e, struct check *check, weir_diag *diag)
{
    weir_err err;

    begin(check);
    err = read_ask(e, check, diag);
    if (!err)
        err = check->request->policy ? prepare_policy(e, check, diag)
                                     : prepare_unnamed(e, check, diag);
    check->answer->err = err;
    if (err) { /* for callers that look no further */
        check->answer->allowed = false;
        check->answer->rule_count = 0;
    }
    return err;
}

weir_err engine_prepare_cell(struct engine *e, struct check *check, struct span key,
                             const struct rule *rule, int64_t quantity, weir_diag *diag)
{
    weir_err err = WEIR_OK;

    begin(check);
    check->verb = rule ? VERB_CHECK : VERB_RESET;
    check->peek = quantity == 0;
    check->ask = (struct ask){ .cost = quantity, .peek = check->peek };
    if (rule)
        check->unnamed = *rule;
    else
        err = cell_rule(1, 1, 1, &check->unnamed, diag);
    if (!err)
        err = cell_check_quantity(&check->unnamed, quantity, diag);
    if (!err && key.len > WEIR_MAX_IDENTITY)
        err = diag_fail(diag, WEIR_EREQUEST, "the key is too long: at most %d bytes are taken",
                        WEIR_MAX_IDENTITY);
    check->answer->err = err;
    if (err) {
        check->answer->allowed = false;
        check->answer->rule_count = 0;
        return err;
    }
    if (!policies_enabled(check->policies)) {
        answer_uncounted(check, WEIR_FROM_OFF);
        check->is_answered = true;
        return WEIR_OK;
    }
    put_charge(e, check, NULL, &check->unnamed, engine_key(e, &engine_keys(e)->cell, NULL, key),
               key);
    name_charge(e, check, "-", "cl.throttle", key);
    check->live = 1;
    return WEIR_OK;
}

void engine_prefetch(struct engine *e, const struct check *check, enum prefetch what)
{
    if (!check->is_answered && e->store->ops->prefetch)
        for (size_t i = 0; i < check->live + check->shadow; i++)
            e->store->ops->prefetch(e->store, check->charges[i].key, what);
}

/* ---- asking --------------------------------------------------------------------------- */

static void fall_back(struct check *check, struct question *q)
{
    if (check->policy && check->policy->on_error != ON_ERROR_LOCAL)
        return;
    if (q->err && fallback_is_exhausted(check->engine, check->policies))
        return; /* that is, refuse */
    if (q->err)
        fallback_decide(check->engine, check, q);
    else
        fallback_learn(check->engine, check, q);
}

static void settle(struct check *check)
{
    if (--check->waiting > 0)
        return;
    answer_from_charges(check);
    if (check->done)
        check->done(check);
}

static void count_errors(struct engine *e, const struct question *q)
{
    if (q->err || q->is_unkept)
        atomic_fetch_add_explicit(&e->errors_in_a_row, 1, memory_order_relaxed);
    else if (atomic_load_explicit(&e->errors_in_a_row, memory_order_relaxed) != 0)
        atomic_store_explicit(&e->errors_in_a_row, 0, memory_order_relaxed);
}

static void question_done(struct question *q)
{
    struct check *check = q->ctx;

    count_errors(check->engine, q);
    if (check->engine->denials)
        recall_learn(check, q);
    if (check->engine->local)
        fall_back(check, q);
    settle(check);
}

static void put_question(struct check *check, struct question *q, struct charge *charges, size_t n)
{
    *q = (struct question){
        .verb = check->verb,
        .ask = check->ask,
        .charges = charges,
        .count = n,
        .decide_anyway = (!check->policy || check->policy->on_error == ON_ERROR_LOCAL) &&
                         !fallback_is_exhausted(check->engine, check->policies),
        .done = question_done,
        .ctx = check,
    };
}

/* A shared store has a clock of its own, for all who bring no time. */
static void leave_time_to_store(struct check *check, size_t n)
{
    for (size_t i = 0; i < n; i++)
        check->questions[i].ask.now = 0;
}

void engine_ask(struct engine *e, struct turn *turn, struct check *check, int64_t now)
{
    const bool brings_now = check->ask.now != 0;
    size_t n = 0;

    if (check->is_answered) {
        if (check->done)
            check->done(check);
        return;
    }
    if (!brings_now)
        check->ask.now = now;
    check->engine = e;
    check->remembered = check->unknown = 0;
    if (check->live > 0)
        put_question(check, &check->questions[n++], check->charges, check->live);
    for (size_t i = 0; i < check->shadow; i++)
        put_question(check, &check->questions[n++], &check->charges[check->live + i], 1);
    if (!brings_now && e->store->ops->is_shared)
        leave_time_to_store(check, n);
    check->waiting = n;
    if (e->denials)
        check->asked_at = clock_steady_ms();
    for (size_t i = 0; i < n; i++) {
        if (e->denials && recall_refuses(check, i))
            settle(check);
        else
            e->store->ops->submit(e->store, turn, &check->questions[i]);
    }
}

void engine_commit(struct engine *e, struct turn *turn)
{
    e->store->ops->commit(e->store, turn);
}
