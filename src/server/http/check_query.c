/* check_query.c - a check as the query of a URL says it: `policy=login&ip=203.0.113.7`. */
#include "server/http/check_query.h"

#include "base/diag.h"
#include "proto/http.h"

enum parameter {
    POLICY,
    KEY,
    COST,
    PLAN,
    PEEK,
    EXEMPT,
    NOW,
    LIMIT,
    WINDOW,
    ALGORITHM,
    BURST,
    PRECISION,
    START,
    BLOCK_FOR,
    NAME,
    ON_ERROR,
    PARAMETERS,
};

static const char *const names[PARAMETERS] = {
    [POLICY] = "policy",    [KEY] = "key",
    [COST] = "cost",        [PLAN] = "plan",
    [PEEK] = "peek",        [EXEMPT] = "exempt",
    [NOW] = "now",          [LIMIT] = "limit",
    [WINDOW] = "window_ms", [ALGORITHM] = "algorithm",
    [BURST] = "burst",      [PRECISION] = "precision_ms",
    [START] = "start",      [BLOCK_FOR] = "block_for_ms",
    [NAME] = "name",        [ON_ERROR] = "on_error",
};

weir_err check_query_int(const char *name, struct span value, int64_t *out, weir_diag *diag)
{
    const bool is_negative = value.len > 0 && value.at[0] == '-';
    int64_t number = 0;
    size_t at = is_negative;

    for (; at < value.len && value.at[at] >= '0' && value.at[at] <= '9'; at++)
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_sub_overflow(number, value.at[at] - '0', &number))
            break;
    if (at < value.len || value.len == is_negative || (!is_negative && number == INT64_MIN))
        return diag_fail(diag, WEIR_EREQUEST, "%s must be a whole number", name);
    *out = is_negative ? number : -number;
    return WEIR_OK;
}

/* `?peek` alone is a yes. */
weir_err check_query_bool(const char *name, struct span value, bool *out, weir_diag *diag)
{
    *out = value.len == 0 || span_is(value, "true") || span_is(value, "1");
    if (*out || span_is(value, "false") || span_is(value, "0"))
        return WEIR_OK;
    return diag_fail(diag, WEIR_EREQUEST, "%s must be true or false", name);
}

static weir_err read_cost(struct span value, weir_request *r, weir_diag *diag)
{
    weir_err err = check_query_int("cost", value, &r->cost, diag);

    if (err)
        return err;
    if (r->cost == WEIR_COST_ZERO)
        return diag_fail(diag, WEIR_ECOST, "cost must be from 0 to 2^53");
    if (r->cost == 0)
        r->cost = WEIR_COST_ZERO;
    return WEIR_OK;
}

static weir_err read_parameter(enum parameter which, struct span value, struct parsed_request *out,
                               weir_diag *diag)
{
    weir_request *r = &out->request;

    switch (which) {
    case POLICY:
        if (parsed_request_add_policy(out, value.at))
            return WEIR_OK;
        return diag_fail(diag, WEIR_EREQUEST, "there are more than %d policies", WEIR_MAX_RULES);
    case NAME:
        r->name = value.at;
        return WEIR_OK;
    case ON_ERROR:
        if (parsed_request_on_error(value, &r->on_error))
            return WEIR_OK;
        return diag_fail(diag, WEIR_EREQUEST, "on_error must be local, allow or deny");
    case KEY:
        r->key = value.at;
        r->key_len = value.len;
        return WEIR_OK;
    case PLAN:
        r->plan = value.at;
        return WEIR_OK;
    case COST:
        return read_cost(value, r, diag);
    case PEEK:
        return check_query_bool(names[which], value, &out->peek, diag);
    case EXEMPT:
        return check_query_bool(names[which], value, &r->exempt, diag);
    case ALGORITHM:
        return parsed_request_named_algorithm(value, &r->algorithm, diag);
    case NOW:
        return check_query_int(names[which], value, &r->now, diag);
    case LIMIT:
        return check_query_int(names[which], value, &r->limit, diag);
    case WINDOW:
        return check_query_int(names[which], value, &r->window_ms, diag);
    case BURST:
        return check_query_int(names[which], value, &r->burst, diag);
    case PRECISION:
        return check_query_int(names[which], value, &r->precision_ms, diag);
    case START:
        if (parsed_request_start(value, &r->start))
            return WEIR_OK;
        return diag_fail(diag, WEIR_EREQUEST, "start must be epoch or first");
    case BLOCK_FOR:
        return check_query_int(names[which], value, &r->block_for_ms, diag);
    case PARAMETERS:
        break;
    }
    return WEIR_OK;
}

static const char cost_of[] = "cost.";

/* `cost.tokens=1200` */
static bool is_named_cost(struct span name)
{
    return name.len > sizeof cost_of - 1 && memcmp(name.at, cost_of, sizeof cost_of - 1) == 0;
}

static weir_err read_named_cost(struct span name, struct span value, struct parsed_request *out,
                                weir_diag *diag)
{
    int64_t amount;
    const weir_err err = check_query_int("a cost", value, &amount, diag);

    if (err)
        return err;
    if (parsed_request_add_cost(out, name.at + sizeof cost_of - 1, amount))
        return WEIR_OK;
    return diag_fail(diag, WEIR_EREQUEST, "there are more than %d costs", WEIR_MAX_COSTS);
}

weir_err check_query_attribute(struct parsed_request *out, const char *name, struct span value,
                               weir_diag *diag)
{
    weir_request *r = &out->request;

    if (r->attribute_count == WEIR_MAX_ATTRIBUTES)
        return diag_fail(diag, WEIR_EREQUEST, "there are more than %d attributes",
                         WEIR_MAX_ATTRIBUTES);
    out->attributes[r->attribute_count++] = (weir_attribute){ name, value.at, value.len };
    r->attributes = out->attributes;
    return WEIR_OK;
}

static enum parameter parameter_of(struct span name)
{
    size_t i = 0;

    while (i < PARAMETERS && !span_is(name, names[i]))
        i++;
    return (enum parameter)i;
}

weir_err check_query_read(struct span query, const struct query_own *own,
                          struct parsed_request *out, weir_diag *diag)
{
    struct span name, value;
    bool is_bad = false;
    unsigned seen = 0;
    weir_err err = WEIR_OK;

    out->request = (weir_request){ 0 };
    out->peek = out->wants_tag = out->is_release = false;
    while (!err && http_query_next(&query, &name, &value, &is_bad)) {
        const enum parameter which = parameter_of(name);

        if (name.len == 0)
            return diag_fail(diag, WEIR_EREQUEST, "the query has a value without a name");
        if (own && own->take(own->ctx, out, name, value, &err, diag))
            continue;
        if (is_named_cost(name)) {
            err = read_named_cost(name, value, out, diag);
            continue;
        }
        if (which == PARAMETERS) {
            err = check_query_attribute(out, name.at, value, diag);
            continue;
        }
        if (seen & 1U << which && which != POLICY)
            return diag_fail(diag, WEIR_EREQUEST, "%s is given twice", names[which]);
        seen |= 1U << which;
        err = read_parameter(which, value, out, diag);
    }
    if (is_bad)
        return diag_fail(diag, WEIR_EREQUEST,
                         "the query has a %% without two hex digits after it, or %%00");
    return err;
}
