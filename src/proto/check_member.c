/* check_member.c - the members of a request object, and what each of them wants. */
#include "proto/check_member.h"

#include "base/diag.h"
#include "base/printable.h"
#include "base/suggest.h"

static const char *const names[MEMBER_UNKNOWN] = {
    [MEMBER_POLICY] = "policy",
    [MEMBER_POLICIES] = "policies",
    [MEMBER_KEY] = "key",
    [MEMBER_ATTRIBUTES] = "attributes",
    [MEMBER_COST] = "cost",
    [MEMBER_COSTS] = "costs",
    [MEMBER_PLAN] = "plan",
    [MEMBER_PEEK] = "peek",
    [MEMBER_EXEMPT] = "exempt",
    [MEMBER_NOW] = "now",
    [MEMBER_NAME] = "name",
    [MEMBER_LIMIT] = "limit",
    [MEMBER_WINDOW_MS] = "window_ms",
    [MEMBER_BURST] = "burst",
    [MEMBER_PRECISION_MS] = "precision_ms",
    [MEMBER_ALGORITHM] = "algorithm",
    [MEMBER_START] = "start",
    [MEMBER_BLOCK_FOR_MS] = "block_for_ms",
    [MEMBER_TAG] = "tag",
    [MEMBER_ON_ERROR] = "on_error",
    [MEMBER_ID] = "id",
    [MEMBER_TTL_MS] = "ttl_ms",
    [MEMBER_RESERVATION] = "reservation",
};

static enum check_member if_named(enum check_member member, struct span name)
{
    return memcmp(names[member], name.at, name.len) == 0 ? member : MEMBER_UNKNOWN;
}

enum check_member check_member_of(struct span name)
{
    switch (name.len) {
    case 2:
        return if_named(MEMBER_ID, name);
    case 3:
        return if_named(name.at[0] == 'k'   ? MEMBER_KEY
                        : name.at[0] == 'n' ? MEMBER_NOW
                                            : MEMBER_TAG,
                        name);
    case 4:
        return if_named(name.at[0] == 'c'   ? MEMBER_COST
                        : name.at[0] == 'n' ? MEMBER_NAME
                        : name.at[1] == 'l' ? MEMBER_PLAN
                                            : MEMBER_PEEK,
                        name);
    case 5:
        return if_named(name.at[0] == 'l'   ? MEMBER_LIMIT
                        : name.at[0] == 'c' ? MEMBER_COSTS
                        : name.at[0] == 's' ? MEMBER_START
                                            : MEMBER_BURST,
                        name);
    case 6:
        return if_named(name.at[0] == 'p'   ? MEMBER_POLICY
                        : name.at[0] == 't' ? MEMBER_TTL_MS
                                            : MEMBER_EXEMPT,
                        name);
    case 8:
        return if_named(name.at[0] == 'p' ? MEMBER_POLICIES : MEMBER_ON_ERROR, name);
    case 9:
        return if_named(name.at[0] == 'w' ? MEMBER_WINDOW_MS : MEMBER_ALGORITHM, name);
    case 10:
        return if_named(MEMBER_ATTRIBUTES, name);
    case 11:
        return if_named(MEMBER_RESERVATION, name);
    case 12:
        return if_named(name.at[0] == 'p' ? MEMBER_PRECISION_MS : MEMBER_BLOCK_FOR_MS, name);
    default:
        return MEMBER_UNKNOWN;
    }
}

enum check_wants check_member_wants(enum check_member member)
{
    switch (member) {
    case MEMBER_POLICY:
    case MEMBER_PLAN:
    case MEMBER_NAME:
    case MEMBER_ALGORITHM:
    case MEMBER_START:
    case MEMBER_ON_ERROR:
    case MEMBER_ID:
    case MEMBER_RESERVATION:
        return WANTS_TEXT;
    case MEMBER_POLICIES:
        return WANTS_NAMES;
    case MEMBER_COSTS:
        return WANTS_COSTS;
    case MEMBER_KEY:
        return WANTS_IDENTITY;
    case MEMBER_ATTRIBUTES:
        return WANTS_ATTRIBUTES;
    case MEMBER_PEEK:
    case MEMBER_EXEMPT:
    case MEMBER_TAG:
        return WANTS_BOOL;
    case MEMBER_COST:
    case MEMBER_NOW:
    case MEMBER_LIMIT:
    case MEMBER_WINDOW_MS:
    case MEMBER_BURST:
    case MEMBER_PRECISION_MS:
    case MEMBER_BLOCK_FOR_MS:
    case MEMBER_TTL_MS:
    case MEMBER_UNKNOWN:
        break;
    }
    return WANTS_NUMBER;
}

const char *check_member_name(enum check_member member)
{
    return names[member];
}

weir_err check_unknown_member(struct span name, weir_diag *diag)
{
    /* Two letters are near any other two, and an attribute may be as short: `ip` is not `id`. */
    const char *near = span_is(name, "ttl") ? names[MEMBER_TTL_MS]
                       : name.len > 2       ? suggest(name, names, MEMBER_UNKNOWN)
                                            : NULL;

    if (span_is(name, "checks"))
        return diag_fail(diag, WEIR_EREQUEST,
                         "'checks' must be the only member: put the others into the checks");
    if (near)
        return diag_fail(diag, WEIR_EREQUEST, "there is no member '%s': did you mean '%s'?",
                         printable(name).text, near);
    return diag_fail(diag, WEIR_EREQUEST,
                     "there is no member '%s' (what a policy counts by goes into 'attributes')",
                     printable(name).text);
}

weir_err check_set_text(struct parsed_request *out, enum check_member member, struct span text,
                        weir_diag *diag)
{
    if (member == MEMBER_KEY) {
        out->request.key = text.at;
        out->request.key_len = text.len;
        return WEIR_OK;
    }
    if (memchr(text.at, '\0', text.len))
        return diag_fail(diag, WEIR_EREQUEST, "'%s' contains a NUL, which names cannot have",
                         names[member]);
    if (member == MEMBER_ALGORITHM)
        return parsed_request_named_algorithm(text, &out->request.algorithm, diag);
    if (member == MEMBER_START) {
        if (parsed_request_start(text, &out->request.start))
            return WEIR_OK;
        return diag_fail(diag, WEIR_EREQUEST, "'start' must be epoch or first");
    }
    if (member == MEMBER_ON_ERROR) {
        if (parsed_request_on_error(text, &out->request.on_error))
            return WEIR_OK;
        return diag_fail(diag, WEIR_EREQUEST, "'on_error' must be local, allow or deny");
    }
    *(member == MEMBER_POLICY        ? &out->request.policy
      : member == MEMBER_NAME        ? &out->request.name
      : member == MEMBER_ID          ? &out->request.id
      : member == MEMBER_RESERVATION ? &out->request.reservation
                                     : &out->request.plan) = text.at;
    return WEIR_OK;
}

weir_err check_add_policy(struct parsed_request *out, struct span name, weir_diag *diag)
{
    weir_request *r = &out->request;

    if (r->policy_count == WEIR_MAX_RULES)
        return diag_fail(diag, WEIR_EREQUEST, "there are too many policies: at most %d",
                         WEIR_MAX_RULES);
    if (memchr(name.at, '\0', name.len))
        return diag_fail(diag, WEIR_EREQUEST, "'policies' contains a NUL, which names cannot have");
    r->policies = out->policies;
    out->policies[r->policy_count++] = name.at;
    return WEIR_OK;
}

weir_err check_set_number(struct parsed_request *out, enum check_member member, int64_t number,
                          weir_diag *diag)
{
    weir_request *r = &out->request;

    switch (member) {
    case MEMBER_COST:
        r->cost = number ? number : WEIR_COST_ZERO;
        return WEIR_OK;
    case MEMBER_LIMIT:
        r->limit = number;
        return WEIR_OK;
    case MEMBER_WINDOW_MS:
        r->window_ms = number;
        return WEIR_OK;
    case MEMBER_NOW:
        r->now = number;
        break;
    case MEMBER_TTL_MS:
        r->ttl_ms = number;
        break;
    case MEMBER_BURST:
        r->burst = number;
        break;
    case MEMBER_PRECISION_MS:
        r->precision_ms = number;
        break;
    case MEMBER_BLOCK_FOR_MS:
        r->block_for_ms = number;
        break;
    case MEMBER_POLICY:
    case MEMBER_POLICIES:
    case MEMBER_KEY:
    case MEMBER_ATTRIBUTES:
    case MEMBER_COSTS:
    case MEMBER_PLAN:
    case MEMBER_PEEK:
    case MEMBER_EXEMPT:
    case MEMBER_NAME:
    case MEMBER_ALGORITHM:
    case MEMBER_START:
    case MEMBER_TAG:
    case MEMBER_ON_ERROR:
    case MEMBER_ID:
    case MEMBER_RESERVATION:
    case MEMBER_UNKNOWN:
        return WEIR_OK; /* not numbers: check_member_wants() */
    }
    if (number == 0 && member == MEMBER_TTL_MS)
        return diag_fail(diag, WEIR_ETTL, "'ttl_ms' must be at least 1");
    if (number == 0) /* which would mean that it was left out */
        return diag_fail(diag, WEIR_EREQUEST, "'%s' must be at least 1, if it is given",
                         names[member]);
    return WEIR_OK;
}

void check_set_bool(struct parsed_request *out, enum check_member member, bool value)
{
    *(member == MEMBER_PEEK  ? &out->peek
      : member == MEMBER_TAG ? &out->wants_tag
                             : &out->request.exempt) = value;
}

weir_err check_add_attribute(struct parsed_request *out, const char *name, struct span value,
                             weir_diag *diag)
{
    weir_request *r = &out->request;

    if (r->attribute_count == WEIR_MAX_ATTRIBUTES)
        return diag_fail(diag, WEIR_EREQUEST, "there are too many attributes: at most %d",
                         WEIR_MAX_ATTRIBUTES);
    r->attributes = out->attributes;
    out->attributes[r->attribute_count++] = (weir_attribute){ name, value.at, value.len };
    return WEIR_OK;
}
