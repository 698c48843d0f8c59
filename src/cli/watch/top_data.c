/* top_data.c - what a server was asked for a view, and what it said. */
#include "cli/watch/top_data.h"

#include <jansson.h>
#include <string.h>

#include "base/diag.h"
#include "cli/told.h"

static const struct {
    const char *path, *member;
    int looks;
} docs_of[TOP_DOC_COUNT] = {
#define X(name, path, member, looks) [TOP_DOC_##name] = { path, member, looks },
    TOP_DOCS(X)
#undef X
};

void top_data_init(struct top_data *d)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });

    *d = (struct top_data){ .client = { .fd = -1 } };
    buf_init(&d->stats_body, &usual);
    buf_init(&d->lookup, &usual);
}

void top_data_done(struct top_data *d)
{
    for (size_t i = 0; i < TOP_DOC_COUNT; i++)
        json_decref(d->docs[i]);
    json_decref(d->numbers);
    json_decref(d->token);
    top_stats_done(&d->stats);
    buf_done(&d->stats_body);
    buf_done(&d->lookup);
}

static bool is_refusal(int status)
{
    return status == 401 || status == 403;
}

static bool call(struct top_data *d, const char *method, const char *path, struct span body)
{
    if (!client_call(&d->client, method, path, body, &d->diag))
        return false;
    if (d->client.reply.status == 200)
        return true;
    client_explain(&d->client, &d->diag);
    return false;
}

static bool is_foreign(struct top_data *d)
{
    diag_set(&d->diag, "cannot parse the answer of %s: is it a weir server?", d->client.url.text);
    return false;
}

static bool look_at_stats(struct top_data *d)
{
    struct top_stats next;
    json_t *numbers;

    if (!call(d, "GET", "/v1/stats", (struct span){ "", 0 }))
        return false;
    d->stats_body.len = 0;
    buf_add(&d->stats_body, d->client.reply.body);
    numbers = told_read(buf_span(&d->stats_body));
    if (!top_stats_read(&next, d->stats.rows ? &d->stats : NULL, buf_span(&d->stats_body),
                        (struct span){ "", 0 })) {
        top_stats_done(&next);
        json_decref(numbers);
        return is_foreign(d);
    }
    top_stats_done(&d->stats);
    d->stats = next;
    json_decref(d->numbers);
    d->numbers = numbers;
    return true;
}

/* A server without tokens, and one that is older than this route, permit what they permit. */
static bool look_at_token(struct top_data *d)
{
    if (!client_call(&d->client, "GET", "/v1/token", (struct span){ "", 0 }, &d->diag))
        return false;
    json_decref(d->token);
    d->token = d->client.reply.status == 200 ? told_read(d->client.reply.body) : NULL;
    return true;
}

static bool look_at(struct top_data *d, enum top_doc doc)
{
    const bool asks = doc == TOP_DOC_LOOKUP;
    json_t *said;

    if (asks && d->lookup.len == 0)
        return true;
    if (!call(d, asks ? "POST" : "GET", docs_of[doc].path,
              asks ? buf_span(&d->lookup) : (struct span){ "", 0 })) {
        d->is_refused[doc] = is_refusal(d->client.reply.status);
        if (!d->is_refused[doc])
            return false;
        json_decref(d->docs[doc]);
        d->docs[doc] = NULL;
        return true;
    }
    d->is_refused[doc] = false;
    said = told_read(d->client.reply.body);
    if (!json_is_array(json_object_get(said, docs_of[doc].member))) {
        json_decref(said);
        return is_foreign(d);
    }
    json_decref(d->docs[doc]);
    d->docs[doc] = said;
    return true;
}

bool top_data_look(struct top_data *d, unsigned docs, bool is_late)
{
    d->client.reply.status = 0;
    if (!look_at_stats(d))
        return false;
    if ((is_late || !d->token) && !look_at_token(d))
        return false;
    for (size_t i = 0; i < TOP_DOC_COUNT; i++)
        if ((docs & 1u << i) && (is_late || d->looks % docs_of[i].looks == 0) &&
            !look_at(d, (enum top_doc)i))
            return false;
    d->looks++;
    return true;
}

bool top_data_may(const struct top_data *d, const char *scope)
{
    const json_t *one;
    size_t i;

    json_array_foreach(json_object_get(d->token, "scopes"), i,
                       one) if (strcmp(json_string_value(one) ? json_string_value(one) : "",
                                       scope) == 0) return true;
    return false;
}

const json_t *top_data_rule(const struct top_data *d, const char *policy, const char *rule)
{
    const json_t *one, *r;
    size_t i, k;

    json_array_foreach(json_object_get(d->docs[TOP_DOC_POLICIES], "policies"), i,
                       one) if (strcmp(told_text(one, "policy"), policy) == 0)
        json_array_foreach(json_object_get(one, "rules"), k,
                           r) if (strcmp(told_text(r, "rule"), rule) == 0) return r;
    return NULL;
}

const json_t *top_data_override(const struct top_data *d, const char *policy, const char *rule,
                                const char *tag)
{
    const json_t *one;
    size_t i;

    json_array_foreach(json_object_get(d->docs[TOP_DOC_OVERRIDES], "overrides"), i, one)
    {
        const char *of = told_text(one, "rule");

        if (strcmp(told_text(one, "tag"), tag) == 0 &&
            strcmp(told_text(one, "policy"), policy) == 0 && (!*of || strcmp(of, rule) == 0))
            return one;
    }
    return NULL;
}
