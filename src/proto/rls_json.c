/* rls_json.c - requests to Envoy's rate limit service and its answers, as protobuf writes them in
 * JSON.
 *
 * What is wrong with a request is told without quoting it: it may be a person's address. */
#include "proto/rls_json.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/diag.h"
#include "base/json.h"
#include "base/printable.h"

const char *const rls_code_names[3] = { "UNKNOWN", "OK", "OVER_LIMIT" };
const char *const rls_unit_names[8] = { "UNKNOWN", "SECOND", "MINUTE", "HOUR",
                                        "DAY",     "MONTH",  "YEAR",   "WEEK" };

/* ---- members -------------------------------------------------------------------------------- */

/* A member that a message has: what it is called, in both forms. */
struct member {
    const char *camel, *snake;
    weir_err (*read)(struct rls_json *j, json_t *value, void *to, weir_diag *diag);
};

static weir_err wrong(weir_diag *diag, const char *name, const char *what)
{
    return diag_fail(diag, WEIR_EREQUEST, "'%s' must be %s", name, what);
}

/* Members of one object, each once; null is as if it were left out. */
static weir_err read_members(struct rls_json *j, json_t *object, const char *what,
                             const struct member *members, size_t n, void *to, weir_diag *diag)
{
    unsigned seen = 0;

    if (!json_is_object(object))
        return wrong(diag, what, "an object");
    for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at)) {
        const char *name = json_object_iter_key(at);
        json_t *value = json_object_iter_value(at);
        size_t i = 0;
        weir_err err;

        while (i < n && strcmp(name, members[i].camel) != 0 && strcmp(name, members[i].snake) != 0)
            i++;
        if (i == n)
            return diag_fail(diag, WEIR_EREQUEST, "there is no member '%s' in %s",
                             printable(span_of(name)).text, what);
        if (seen >> i & 1)
            return diag_fail(diag, WEIR_EREQUEST, "'%s' is given twice", members[i].camel);
        seen |= 1u << i;
        err = json_is_null(value) ? WEIR_OK : members[i].read(j, value, to, diag);
        if (err)
            return err;
    }
    return WEIR_OK;
}

/* A whole number, which may be a text, and may be written with a point or an exponent. */
static bool read_whole(const json_t *value, uint64_t most, uint64_t *out)
{
    const char *text = json_string_value(value);
    char *end;

    if (json_is_integer(value)) {
        const json_int_t number = json_integer_value(value);

        *out = (uint64_t)number;
        return number >= 0 && *out <= most;
    }
    if (json_is_real(value)) {
        const double number = json_real_value(value);

        if (!(number >= 0 && number < 9007199254740992.0))
            return false;
        *out = (uint64_t)number;
        return (double)*out == number && *out <= most;
    }
    if (!text || text[0] < '0' || text[0] > '9' || strlen(text) > 20)
        return false;
    *out = strtoull(text, &end, 10);
    return *end == '\0' && *out <= most;
}

static bool read_text(const json_t *value, struct span *out)
{
    if (!json_is_string(value))
        return false;
    *out = (struct span){ json_string_value(value), json_string_length(value) };
    return true;
}

/* ---- limits and entries --------------------------------------------------------------------- */

static weir_err read_requests_per_unit(struct rls_json *j, json_t *value, void *to, weir_diag *diag)
{
    struct rls_descriptor *d = to;
    uint64_t number;

    (void)j;
    if (!read_whole(value, UINT32_MAX, &number))
        return wrong(diag, "requestsPerUnit", "a whole number below 2^32");
    d->requests_per_unit = (uint32_t)number;
    return WEIR_OK;
}

static weir_err read_unit(struct rls_json *j, json_t *value, void *to, weir_diag *diag)
{
    enum { NAMED = 7 }; /* of RateLimitUnit: it has no week */
    struct rls_descriptor *d = to;
    const char *name = json_string_value(value);
    uint64_t number;

    (void)j;
    for (int i = 0; name && i < NAMED; i++)
        if (strcmp(name, rls_unit_names[i]) == 0) {
            d->unit = i;
            return WEIR_OK;
        }
    if (name || !read_whole(value, INT32_MAX, &number))
        return wrong(diag, "unit", "SECOND, MINUTE, HOUR, DAY, MONTH or YEAR");
    d->unit = (int)number;
    return WEIR_OK;
}

static weir_err read_limit(struct rls_json *j, json_t *value, void *to, weir_diag *diag)
{
    static const struct member members[] = {
        { "requestsPerUnit", "requests_per_unit", read_requests_per_unit },
        { "unit", "unit", read_unit },
    };
    struct rls_descriptor *d = to;

    d->has_limit = true;
    return read_members(j, value, "limit", members, 2, d, diag);
}

static weir_err read_key(struct rls_json *j, json_t *value, void *to, weir_diag *diag)
{
    struct rls_entry *e = to;

    (void)j;
    return read_text(value, &e->key) ? WEIR_OK : wrong(diag, "key", "a text");
}

static weir_err read_value(struct rls_json *j, json_t *value, void *to, weir_diag *diag)
{
    struct rls_entry *e = to;

    (void)j;
    return read_text(value, &e->value) ? WEIR_OK : wrong(diag, "value", "a text");
}

static weir_err read_entries(struct rls_json *j, json_t *value, void *to, weir_diag *diag)
{
    static const struct member members[] = {
        { "key", "key", read_key },
        { "value", "value", read_value },
    };
    struct rls_descriptor *d = to;
    struct rls_entry *entries = &j->entries[(size_t)(d - j->descriptors) * RLS_MAX_ENTRIES];
    weir_err err = WEIR_OK;

    if (!json_is_array(value))
        return wrong(diag, "entries", "a list");
    d->entry_count = json_array_size(value);
    d->entries = entries;
    if (d->entry_count > RLS_MAX_ENTRIES)
        return diag_fail(diag, WEIR_EREQUEST, "a descriptor has %zu entries: at most %d",
                         d->entry_count, RLS_MAX_ENTRIES);
    for (size_t i = 0; i < d->entry_count && !err; i++) {
        entries[i] = (struct rls_entry){ { "", 0 }, { "", 0 } };
        err = read_members(j, json_array_get(value, i), "an entry", members, 2, &entries[i], diag);
    }
    return err;
}

/* ---- descriptors ---------------------------------------------------------------------------- */

static weir_err read_hits(struct rls_json *j, json_t *value, void *to, weir_diag *diag)
{
    struct rls_descriptor *d = to;

    (void)j;
    d->has_hits = true;
    return read_whole(value, UINT64_MAX, &d->hits) ? WEIR_OK
                                                   : wrong(diag, "hitsAddend", "a whole number");
}

static weir_err read_is_negative(struct rls_json *j, json_t *value, void *to, weir_diag *diag)
{
    struct rls_descriptor *d = to;

    (void)j;
    if (!json_is_boolean(value))
        return wrong(diag, "isNegativeHits", "true or false");
    d->is_negative = json_is_true(value);
    return WEIR_OK;
}

static weir_err read_domain(struct rls_json *j, json_t *value, void *to, weir_diag *diag)
{
    (void)to;
    return read_text(value, &j->request.domain) ? WEIR_OK : wrong(diag, "domain", "a text");
}

static weir_err read_descriptors(struct rls_json *j, json_t *value, void *to, weir_diag *diag)
{
    static const struct member members[] = {
        { "entries", "entries", read_entries },
        { "limit", "limit", read_limit },
        { "hitsAddend", "hits_addend", read_hits },
        { "isNegativeHits", "is_negative_hits", read_is_negative },
    };
    size_t count;
    weir_err err = WEIR_OK;

    (void)to;
    if (!json_is_array(value))
        return wrong(diag, "descriptors", "a list");
    count = json_array_size(value);
    if (count > RLS_MAX_DESCRIPTORS)
        return diag_fail(diag, WEIR_EREQUEST, "there are %zu descriptors: at most %d", count,
                         RLS_MAX_DESCRIPTORS);
    j->entries = count > 0 ? malloc(count * RLS_MAX_ENTRIES * sizeof *j->entries) : NULL;
    if (count > 0 && !j->entries)
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    j->request.descriptor_count = count;
    for (size_t i = 0; i < count && !err; i++) {
        j->descriptors[i] = (struct rls_descriptor){ 0 };
        err = read_members(j, json_array_get(value, i), "a descriptor", members, 4,
                           &j->descriptors[i], diag);
    }
    return err;
}

static weir_err read_all_hits(struct rls_json *j, json_t *value, void *to, weir_diag *diag)
{
    uint64_t hits;

    (void)to;
    if (!read_whole(value, UINT32_MAX, &hits))
        return wrong(diag, "hitsAddend", "a whole number below 2^32");
    j->request.hits_addend = (uint32_t)hits;
    return WEIR_OK;
}

weir_err rls_json_open(struct rls_json *j, struct span body, weir_diag *diag)
{
    static const struct member members[] = {
        { "domain", "domain", read_domain },
        { "descriptors", "descriptors", read_descriptors },
        { "hitsAddend", "hits_addend", read_all_hits },
    };
    json_error_t error;

    j->entries = NULL;
    j->request = (struct rls_request){ .domain = { "", 0 }, .descriptors = j->descriptors };
    j->tree = NULL;
    if (body.len > RLS_MAX_BODY)
        return diag_fail(diag, WEIR_EREQUEST, "the body has more than %d bytes", RLS_MAX_BODY);
    j->tree = json_loadb(body.at, body.len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (!j->tree)
        return diag_fail(diag, WEIR_EREQUEST, "the body is not valid JSON (line %d, column %d)",
                         error.line, error.column);
    return read_members(j, j->tree, "a request", members, 3, NULL, diag);
}

void rls_json_close(struct rls_json *j)
{
    free(j->entries);
    json_decref(j->tree);
}

/* ---- answers -------------------------------------------------------------------------------- */

static void write_limit(struct json *j, const struct rls_status *s)
{
    char until[32];

    json_open(j, "currentLimit", '{');
    if (s->requests_per_unit > 0)
        json_int(j, "requestsPerUnit", s->requests_per_unit);
    if (s->unit > 0)
        json_text(j, "unit", rls_unit_names[s->unit]);
    if (s->name[0])
        json_text(j, "name", s->name);
    json_close(j, '}');
    if (s->remaining > 0)
        json_int(j, "limitRemaining", s->remaining);
    snprintf(until, sizeof until, "%llds", (long long)s->until_reset_s);
    json_text(j, "durationUntilReset", until);
}

void rls_json_answer(struct buf *out, const struct rls_answer *a)
{
    struct json j = { .to = out };

    json_open(&j, NULL, '{');
    json_text(&j, "overallCode", rls_code_names[a->code]);
    json_open(&j, "statuses", '[');
    for (size_t i = 0; i < a->status_count; i++) {
        const struct rls_status *s = &a->statuses[i];

        json_open(&j, NULL, '{');
        json_text(&j, "code", rls_code_names[s->code]);
        if (s->has_limit)
            write_limit(&j, s);
        else if (s->remaining > 0)
            json_int(&j, "limitRemaining", s->remaining);
        json_close(&j, '}');
    }
    json_close(&j, ']');
    if (a->header_count > 0)
        json_open(&j, "responseHeadersToAdd", '[');
    for (size_t i = 0; i < a->header_count; i++) {
        json_open(&j, NULL, '{');
        json_text(&j, "key", a->headers[i].name);
        json_text(&j, "value", a->headers[i].value);
        json_close(&j, '}');
    }
    if (a->header_count > 0)
        json_close(&j, ']');
    if (a->metadata)
        value_json(&j, "dynamicMetadata", a->metadata);
    json_close(&j, '}');
}
