/* override_json.c - the JSON body of an operator's change, by jansson. */
#include "server/http/override_json.h"

#include <inttypes.h>
#include <jansson.h>
#include <stddef.h>

#include "base/diag.h"
#include "base/printable.h"
#include "base/suggest.h"
#include "policy/rate.h"

/* The members as they come; what they mean together is settled when all are there. */
struct reading {
    struct override_json *json;
    struct override_request r;
    const char *effect, *duration; /* `for` */
    int64_t expires_ms;            /* -1: not given */
};

enum wants { WANTS_TEXT, WANTS_IDENTITY, WANTS_NUMBER, WANTS_BOOL, WANTS_ATTRIBUTES, WANTS_NAMES };

static const struct member {
    const char *name;
    enum wants wants;
    size_t at;
} members[] = {
    { "policy", WANTS_TEXT, offsetof(struct reading, r.policy) },
    { "named", WANTS_BOOL, offsetof(struct reading, r.is_named) },
    { "rule", WANTS_TEXT, offsetof(struct reading, r.rule) },
    { "key", WANTS_IDENTITY, offsetof(struct reading, r.key) },
    { "attributes", WANTS_ATTRIBUTES, 0 },
    { "tag", WANTS_TEXT, offsetof(struct reading, r.tag) },
    { "by", WANTS_NAMES, 0 },
    { "effect", WANTS_TEXT, offsetof(struct reading, effect) },
    { "limit", WANTS_NUMBER, offsetof(struct reading, r.limit) },
    { "burst", WANTS_NUMBER, offsetof(struct reading, r.burst) },
    { "plan", WANTS_TEXT, offsetof(struct reading, r.plan) },
    { "mode", WANTS_TEXT, offsetof(struct reading, r.mode) },
    { "cost", WANTS_NUMBER, offsetof(struct reading, r.cost) },
    { "for", WANTS_TEXT, offsetof(struct reading, duration) },
    { "expires_ms", WANTS_NUMBER, offsetof(struct reading, expires_ms) },
    { "who", WANTS_TEXT, offsetof(struct reading, r.who) },
    { "reason", WANTS_TEXT, offsetof(struct reading, r.reason) },
    { "id", WANTS_NUMBER, offsetof(struct reading, r.id) },
};
enum { MEMBERS = sizeof members / sizeof *members };

static weir_err unknown_member(const char *name, weir_diag *diag)
{
    const char *names[MEMBERS], *near;

    for (size_t i = 0; i < MEMBERS; i++)
        names[i] = members[i].name;
    near = suggest(span_of(name), names, MEMBERS);
    return diag_fail(diag, WEIR_EREQUEST, "there is no member '%s'%s%s%s",
                     printable(span_of(name)).text, near ? ": did you mean '" : "",
                     near ? near : "", near ? "'?" : "");
}

static weir_err read_number(const char *name, const json_t *value, int64_t *out, weir_diag *diag)
{
    const int64_t number = json_integer_value(value);

    if (!json_is_integer(value) || number < 0 || number > WEIR_MAX_AMOUNT)
        return diag_fail(diag, WEIR_EREQUEST, "'%s' must be a whole number from 0 to 2^53", name);
    *out = number;
    return WEIR_OK;
}

/* The text of a value, or of the number that takes its place; it lives as long as the tree. */
static weir_err read_identity(const char *name, json_t *object, json_t *value, const char **out,
                              weir_diag *diag)
{
    char digits[24];

    if (json_is_integer(value)) {
        snprintf(digits, sizeof digits, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        value = json_string(digits);
        if (!value || json_object_set_new(object, name, value))
            return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    }
    if (!json_is_string(value))
        return diag_fail(diag, WEIR_EREQUEST, "'%s' must be a string or a whole number",
                         printable(span_of(name)).text);
    *out = json_string_value(value);
    return WEIR_OK;
}

static weir_err read_attributes(struct reading *c, json_t *object, weir_diag *diag)
{
    size_t *count = &c->r.attribute_count;
    void *i, *next;
    weir_err err = WEIR_OK;

    if (!json_is_object(object))
        return diag_fail(diag, WEIR_EREQUEST, "'attributes' must be an object");
    for (i = json_object_iter(object); i && !err; i = next) {
        const char *name = json_object_iter_key(i), *text = NULL;

        next = json_object_iter_next(object, i);
        if (json_is_null(json_object_iter_value(i)))
            continue;
        if (*count == WEIR_MAX_ATTRIBUTES)
            return diag_fail(diag, WEIR_EREQUEST, "there are too many attributes: at most %d",
                             WEIR_MAX_ATTRIBUTES);
        err = read_identity(name, object, json_object_iter_value(i), &text, diag);
        if (!err)
            c->json->attributes[(*count)++] = (weir_attribute){ .name = name, .value = text };
    }
    return err;
}

/* A name, or a list of them. */
static weir_err read_names(struct reading *c, const json_t *value, weir_diag *diag)
{
    const size_t n = json_is_array(value) ? json_array_size(value) : 1;

    for (size_t i = 0; i < n; i++) {
        const json_t *name = json_is_array(value) ? json_array_get(value, i) : value;

        if (!json_is_string(name) || i == POLICY_MAX_BY)
            return diag_fail(diag, WEIR_EREQUEST,
                             "'by' must be the name of an attribute, or a list of at most %d",
                             POLICY_MAX_BY);
        c->r.by[c->r.by_count++] = json_string_value(name);
    }
    return WEIR_OK;
}

static weir_err read_member(struct reading *c, const char *name, json_t *value, weir_diag *diag)
{
    const struct member *m = members;

    while (m < members + MEMBERS && strcmp(m->name, name) != 0)
        m++;
    if (m == members + MEMBERS)
        return unknown_member(name, diag);
    if (json_is_null(value))
        return WEIR_OK;
    switch (m->wants) {
    case WANTS_NUMBER:
        return read_number(name, value, (int64_t *)(void *)((char *)c + m->at), diag);
    case WANTS_BOOL:
        if (!json_is_boolean(value))
            return diag_fail(diag, WEIR_EREQUEST, "'%s' must be true or false", name);
        *(bool *)((char *)c + m->at) = json_is_true(value);
        return WEIR_OK;
    case WANTS_ATTRIBUTES:
        return read_attributes(c, value, diag);
    case WANTS_NAMES:
        return read_names(c, value, diag);
    case WANTS_TEXT:
        if (!json_is_string(value))
            return diag_fail(diag, WEIR_EREQUEST, "'%s' must be a string", name);
        break;
    case WANTS_IDENTITY:
        break;
    }
    return read_identity(name, c->json->tree, value, (const char **)(void *)((char *)c + m->at),
                         diag);
}

static weir_err read_members(struct reading *c, struct span body, weir_diag *diag)
{
    json_error_t error;
    json_t *tree;
    void *i, *next;
    weir_err err = WEIR_OK;

    if (body.len == 0)
        return WEIR_OK;
    c->json->tree = tree = json_loadb(body.at, body.len, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(tree))
        return diag_fail(diag, WEIR_EREQUEST,
                         "the body must be a JSON object, with each member once (line %d)",
                         tree ? 1 : error.line);
    for (i = json_object_iter(tree); i && !err; i = next) {
        const char *name = json_object_iter_key(i);

        next = json_object_iter_next(tree, i);
        err = read_member(c, name, json_object_iter_value(i), diag);
    }
    return err;
}

/* ---- what the members mean together --------------------------------------------------------- */

static weir_err refuse_member(const char *name, const char *where, weir_diag *diag)
{
    return diag_fail(diag, WEIR_EREQUEST, "'%s' does not belong %s: leave it out", name, where);
}

/* A correction has its effect at once, in all rules of a policy, on what is counted. */
static weir_err check_correction(const struct reading *c, weir_diag *diag)
{
    const struct override_request *r = &c->r;
    const struct {
        const char *name;
        bool is_given;
    } others[] = { { "rule", r->rule },        { "tag", r->tag },
                   { "by", r->by_count > 0 },  { "limit", r->limit >= 0 },
                   { "burst", r->burst >= 0 }, { "plan", r->plan },
                   { "mode", r->mode },        { "named", r->is_named },
                   { "for", c->duration },     { "expires_ms", c->expires_ms >= 0 },
                   { "id", r->id >= 0 } };

    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i].is_given)
            return refuse_member(others[i].name, "to a correction", diag);
    return WEIR_OK;
}

/* It is known who reloads; what and why, the file says. */
static weir_err check_reload(const struct reading *c, weir_diag *diag)
{
    const size_t own = c->r.who ? 1 : 0;

    return json_object_size(c->json->tree) > own
               ? diag_fail(diag, WEIR_EREQUEST, "the body of a reload may have 'who' only")
               : WEIR_OK;
}

/* What is not for this route would be taken for having had an effect. */
static weir_err check_members(const struct reading *c, bool removes, weir_diag *diag)
{
    const struct override_request *r = &c->r;
    const bool is_override = r->subject == LEDGER_OVERRIDE, is_mode = r->subject == LEDGER_MODE;

    if (r->subject == LEDGER_RELOAD)
        return check_reload(c, diag);
    if (r->subject == LEDGER_CORRECTION && !removes)
        return check_correction(c, diag);
    if (r->cost > 0)
        return refuse_member("cost", "here", diag);
    if (!removes && r->id >= 0)
        return refuse_member("id", "to what is set", diag);
    if (r->mode && (!is_mode || removes))
        return refuse_member("mode", "here", diag);
    if ((c->effect || r->limit >= 0 || r->burst >= 0) && (!is_override || removes))
        return refuse_member(c->effect       ? "effect"
                             : r->limit >= 0 ? "limit"
                                             : "burst",
                             "here", diag);
    if (r->is_named && r->subject == LEDGER_PLAN)
        return refuse_member("named", "to a plan, which limits that come with requests do not have",
                             diag);
    if (r->plan && (is_mode || removes))
        return refuse_member("plan", "here", diag);
    if (is_mode && (r->rule || r->key || r->attribute_count > 0 || r->tag || r->by_count > 0))
        return refuse_member(r->rule           ? "rule"
                             : r->key          ? "key"
                             : r->tag          ? "tag"
                             : r->by_count > 0 ? "by"
                                               : "attributes",
                             "to the mode of a policy", diag);
    if (is_mode && r->policy)
        return refuse_member("policy", "into the body: the path names it", diag);
    if (removes && (c->duration || c->expires_ms >= 0))
        return refuse_member(c->duration ? "for" : "expires_ms", "to what is removed", diag);
    return WEIR_OK;
}

/* An override says what it does in a word, or by the numbers or the plan it brings. */
static weir_err read_effect(struct reading *c, weir_diag *diag)
{
    struct override_request *r = &c->r;
    const bool has_numbers = r->limit >= 0 || r->burst >= 0;

    r->effect = c->effect     ? ledger_effect_of(span_of(c->effect))
                : has_numbers ? LEDGER_LIMIT
                : r->plan     ? LEDGER_ON_PLAN
                              : LEDGER_EFFECTS;
    if (r->effect < LEDGER_EXEMPT || r->effect > LEDGER_ON_PLAN)
        return diag_fail(
            diag, WEIR_EREQUEST,
            "the effect is missing: give effect (exempt or block), or limit or burst, or plan");
    if ((r->effect == LEDGER_LIMIT) != has_numbers ||
        (r->effect == LEDGER_ON_PLAN) != (r->plan != NULL))
        return diag_fail(diag, WEIR_EREQUEST,
                         "an override has one effect: exempt, block, limit and burst, or plan");
    return WEIR_OK;
}

static weir_err read_correction(struct reading *c, weir_diag *diag)
{
    struct override_request *r = &c->r;

    r->effect = c->effect ? ledger_effect_of(span_of(c->effect)) : LEDGER_EFFECTS;
    if (r->effect != LEDGER_RESET && r->effect != LEDGER_REFUND && r->effect != LEDGER_CHARGE)
        return diag_fail(diag, WEIR_EREQUEST,
                         "the effect is missing: give effect: reset, refund or charge");
    if ((r->effect == LEDGER_RESET) != (r->cost == 0))
        return diag_fail(diag, WEIR_EREQUEST,
                         r->cost > 0 ? "a reset is of all that is counted: leave 'cost' out"
                                     : "how much is missing: give 'cost'");
    return WEIR_OK;
}

/* What is set. */
static weir_err read_purpose(struct reading *c, weir_diag *diag)
{
    switch (c->r.subject) {
    case LEDGER_OVERRIDE:
        return read_effect(c, diag);
    case LEDGER_PLAN:
        c->r.effect = LEDGER_ON_PLAN;
        return c->r.plan ? WEIR_OK
                         : diag_fail(diag, WEIR_EREQUEST, "the plan is missing: give 'plan'");
    case LEDGER_MODE:
        c->r.effect = LEDGER_IN_MODE;
        return c->r.mode ? WEIR_OK
                         : diag_fail(diag, WEIR_EREQUEST,
                                     "the mode is missing: give 'mode': enforce, shadow or off");
    case LEDGER_CORRECTION:
        return read_correction(c, diag);
    case LEDGER_RELOAD:
        return WEIR_OK;
    case LEDGER_SUBJECTS:
        break;
    }
    return WEIR_EREQUEST;
}

static weir_err read_expiry(struct reading *c, int64_t now, weir_diag *diag)
{
    weir_diag why;
    int64_t ms;

    c->r.expires = c->expires_ms > 0 ? c->expires_ms : 0;
    if (!c->duration)
        return WEIR_OK;
    if (c->expires_ms >= 0)
        return diag_fail(diag, WEIR_EREQUEST, "give 'for' or 'expires_ms', not both");
    if (duration_read(span_of(c->duration), &ms, &why))
        return diag_fail(diag, WEIR_EREQUEST, "'for': %s", why.text);
    if (ms > WEIR_MAX_AMOUNT - now)
        return diag_fail(diag, WEIR_EREQUEST, "'for' is too long: leave it out for no end");
    c->r.expires = now + ms;
    return WEIR_OK;
}

weir_err override_json_open(struct override_json *j, struct span body, int64_t now,
                            struct override_request *request, weir_diag *diag)
{
    const bool removes = request->effect == LEDGER_REMOVED;
    struct reading c = { .json = j,
                         .r = { .subject = request->subject,
                                .effect = request->effect,
                                .attributes = j->attributes,
                                .limit = LEDGER_UNCHANGED,
                                .burst = LEDGER_UNCHANGED,
                                .id = -1 },
                         .expires_ms = -1 };
    weir_err err;

    j->tree = NULL;
    err = read_members(&c, body, diag);
    if (!err)
        err = check_members(&c, removes, diag);
    if (!err && !removes)
        err = read_purpose(&c, diag);
    if (!err)
        err = read_expiry(&c, now, diag);
    if (request->policy)
        c.r.policy = request->policy;
    if (!c.r.who || !c.r.who[0])
        c.r.who = request->who;
    if (!c.r.reason)
        c.r.reason = "";
    *request = c.r;
    return err;
}

void override_json_close(struct override_json *j)
{
    json_decref(j->tree);
    j->tree = NULL;
}
