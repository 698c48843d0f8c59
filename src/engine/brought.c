/* brought.c - limits that come with a request: with a name, without one, and as redis-cell counts.
 *
 * The key of one without a name has its algorithm, its window, its start and its lockout in it; what
 * one with a name counts under, named.h says. The limit, the burst and the precision are in no key:
 * they may change from call to call, and what is counted stays. */
#include <inttypes.h>
#include <stdio.h>

#include "base/diag.h"
#include "base/printable.h"
#include "engine/answer.h"
#include "engine/charges.h"

const char unnamed_scope[] = "limits that come with a request";

static weir_err check_request(const weir_request *r, weir_diag *diag)
{
    if (r->attribute_count > 0 || r->plan)
        return diag_fail(diag, WEIR_EREQUEST, "attributes and plans need a policy: name one");
    if (!r->key)
        return diag_fail(diag, WEIR_EREQUEST,
                         "the request has no policy and no key: name a policy, or give key, limit "
                         "and window_ms");
    if (r->window_ms == 0 && r->limit != 0)
        return diag_fail(diag, WEIR_EREQUEST,
                         "the request has no policy: name one, or give limit and window_ms, which "
                         "is at least 1");
    if (r->window_ms == 0)
        return diag_fail(diag, WEIR_EREQUEST,
                         "the request has no policy: name one, or give limit (0 always denies) and "
                         "window_ms");
    if ((unsigned)r->on_error > ON_ERROR_COUNT)
        return diag_fail(diag, WEIR_EREQUEST, "on_error must be local, allow or deny");
    if (r->start != WEIR_START_EPOCH && r->start != WEIR_START_FIRST)
        return diag_fail(diag, WEIR_EREQUEST, "start must be epoch or first");
    return WEIR_OK;
}

static enum on_error on_error_of(const weir_request *r)
{
    switch (r->on_error) {
#define X(name, value, text)                                                                       \
    case WEIR_ON_ERROR_##name:                                                                     \
        return ON_ERROR_##name;
        WEIR_ON_ERRORS(X)
#undef X
    case WEIR_DEFAULT_ON_ERROR:
        break;
    }
    return ON_ERROR_LOCAL;
}

/* ---- with a name ---------------------------------------------------------------------- */

static weir_err charges_of_named(struct engine *e, struct check *check, weir_diag *diag)
{
    const struct span name = span_of(check->request->name);
    struct named_limit *limit = &check->room->named;

    if (!name_is_valid(name))
        return diag_fail(diag, WEIR_EREQUEST,
                         "'%s' cannot name a limit: names are 1 to %d of a-z A-Z 0-9 _ . : / -",
                         printable(name).text, WEIR_MAX_NAME);
    if (policies_find(check->policies, name))
        return diag_fail(diag, WEIR_EREQUEST,
                         "'%s' is a policy of the file, which has its own limit: name the policy "
                         "instead, or give this limit another name",
                         printable(name).text);
    named_fill(e->named, engine_secret(e), name, &check->unnamed, limit);
    limit->rule.tag_key = engine_keys(e)->called;
    limit->policy.on_error = on_error_of(check->request);
    check->policy = &limit->policy;
    check->is_named = true;
    return charges_of_one(e, check, diag);
}

/* ---- without one ---------------------------------------------------------------------- */

struct scoped {
    int64_t algorithm, window; /* the start and the lockout are beside the algorithm */
    struct identity identity;
};

enum { ABOVE_WIRE_ALGORITHMS = 8 }; /* bits */
_Static_assert(RULE_MOST_BLOCK_FOR <= INT64_MAX >> ABOVE_WIRE_ALGORITHMS, "a lockout has room");

static void put_scope(const struct rule *r, struct scoped *out)
{
    out->algorithm = rule_wire_algorithm(r) + (r->block_for << ABOVE_WIRE_ALGORITHMS);
    out->window = r->window;
}

struct hash_start unnamed_start(const struct engine *e, const struct rule *r)
{
    struct scoped scoped;

    put_scope(r, &scoped);
    return hash_start_of(&engine_keys(e)->unnamed,
                         (struct span){ (const char *)&scoped, offsetof(struct scoped, identity) });
}

static struct key unnamed_key(const struct engine *e, struct scoped *scoped, const struct rule *r)
{
    struct hash_key key;
    char scope[128], block[32] = "";
    int len;

    if (!e->store->ops->is_shared) {
        put_scope(r, scoped);
        return hash_identity(
            &engine_keys(e)->unnamed,
            (struct span){ (const char *)scoped,
                           offsetof(struct scoped, identity.bytes) + scoped->identity.len });
    }
    if (r->block_for > 0)
        snprintf(block, sizeof block, " block %" PRId64, r->block_for);
    len = snprintf(scope, sizeof scope, "%s%c%s%c%" PRId64 "%s%s", unnamed_scope, 0,
                   weir_algorithm_name(r->algorithm), 0, r->window,
                   r->start == START_FIRST ? " first" : "", block);
    key = hash_key_of(engine_secret(e), (struct span){ scope, (size_t)len });
    return hash_shared(&key, (struct span){ scoped->identity.bytes, scoped->identity.len });
}

weir_err charges_of_limit(struct engine *e, struct check *check, weir_diag *diag)
{
    const weir_request *r = check->request;
    struct scoped scoped;
    struct span bytes;
    weir_err err = check_request(r, diag);

    if (err)
        return err;
    check->unnamed = (struct rule){
        .algorithm = r->algorithm,
        .limit = r->limit,
        .window = r->window_ms,
        .burst = r->burst,
        .precision = r->precision_ms,
        .start = r->start == WEIR_START_FIRST ? START_FIRST : START_EPOCH,
        .block_for = r->block_for_ms,
    };
    err = rule_check(&check->unnamed, diag);
    if (!err && r->name)
        return charges_of_named(e, check, diag);
    if (!err)
        err = identity_of_key(request_key(r), &scoped.identity, diag);
    if (err)
        return err;
    check->on_error = on_error_of(r);
    if (r->exempt || !policies_enabled(check->policies)) {
        charges_are_none(check, r->exempt ? WEIR_FROM_EXEMPT : WEIR_FROM_OFF);
        return WEIR_OK;
    }
    bytes = (struct span){ scoped.identity.bytes, scoped.identity.len };
    charge_put(e, check, NULL, &check->unnamed, unnamed_key(e, &scoped, &check->unnamed), bytes);
    charge_name(e, check, "-", weir_algorithm_name(check->unnamed.algorithm), bytes);
    check->live = 1;
    return WEIR_OK;
}
