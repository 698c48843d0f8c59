/* check_remote.c - a limiter that is behind the HTTP API of a server. */
#include "cli/check_remote.h"

#include <jansson.h>
#include <stdio.h>

#include "base/diag.h"
#include "base/json.h"
#include "base/utf8.h"
#include "cli/answer_print.h"
#include "cli/terminal.h"
#include "cli/told.h"

bool check_server_open(struct check_server *s, const char *url, const char *token_file)
{
    s->answer = NULL;
    s->tells_json = false;
    return client_open(&s->client, url, token_file);
}

void check_server_close(struct check_server *s)
{
    json_decref(s->answer);
    client_close(&s->client);
}

/* ---- what is asked ------------------------------------------------------------------------ */

static void add_attributes(struct json *j, const weir_request *r)
{
    if (r->attribute_count == 0)
        return;
    json_open(j, "attributes", '{');
    for (size_t i = 0; i < r->attribute_count; i++)
        json_text(j, r->attributes[i].name, r->attributes[i].value);
    json_close(j, '}');
}

static void add_policies(struct json *j, const weir_request *r)
{
    if (r->policy_count == 0)
        return;
    json_open(j, "policies", '[');
    for (size_t i = 0; i < r->policy_count; i++)
        json_text(j, NULL, r->policies[i]);
    json_close(j, ']');
}

static const char *on_error_name(weir_on_error on_error)
{
    switch (on_error) {
#define X(name, value, text)                                                                       \
    case WEIR_ON_ERROR_##name:                                                                     \
        return text;
        WEIR_ON_ERRORS(X)
#undef X
    case WEIR_DEFAULT_ON_ERROR:
        break;
    }
    return on_error_name(WEIR_ON_ERROR_LOCAL);
}

/* Zero stands for what is not given. */
static void add_int(struct json *j, const char *name, int64_t number)
{
    if (number != 0)
        json_int(j, name, number);
}

/* What JSON cannot carry would be counted as something else. */
static bool can_be_sent(const weir_request *r)
{
    bool good = !r->key || utf8_is_text((struct span){ r->key, r->key_len });

    for (size_t i = 0; i < r->attribute_count; i++)
        good = good && utf8_is_text(span_of(r->attributes[i].value));
    if (!good)
        trouble("the key or an attribute is not valid UTF-8, or contains a NUL byte");
    return good;
}

static void write_request(struct buf *out, const weir_request *r)
{
    struct json j = { .to = out };

    json_open(&j, NULL, '{');
    if (r->policy)
        json_text(&j, "policy", r->policy);
    add_policies(&j, r);
    if (r->key)
        json_span(&j, "key", (struct span){ r->key, r->key_len });
    add_attributes(&j, r);
    if (r->plan)
        json_text(&j, "plan", r->plan);
    if (r->cost == WEIR_COST_ZERO)
        json_int(&j, "cost", 0);
    else
        add_int(&j, "cost", r->cost);
    if (r->cost_count > 0) {
        json_open(&j, "costs", '{');
        for (size_t i = 0; i < r->cost_count; i++)
            json_int(&j, r->costs[i].name, r->costs[i].amount);
        json_close(&j, '}');
    }
    add_int(&j, "now", r->now);
    add_int(&j, "ttl_ms", r->ttl_ms);
    if (r->id)
        json_text(&j, "id", r->id);
    if (r->reservation)
        json_text(&j, "reservation", r->reservation[0] ? r->reservation : NULL);
    if (r->name)
        json_text(&j, "name", r->name);
    if (!r->policy && r->policy_count == 0 && !r->reservation) {
        json_int(&j, "limit", r->limit);
        json_int(&j, "window_ms", r->window_ms);
        add_int(&j, "burst", r->burst);
        add_int(&j, "precision_ms", r->precision_ms);
        if (r->algorithm != WEIR_DEFAULT_ALGORITHM)
            json_text(&j, "algorithm", weir_algorithm_name(r->algorithm));
        if (r->start == WEIR_START_FIRST)
            json_text(&j, "start", "first");
        add_int(&j, "block_for_ms", r->block_for_ms);
        if (r->on_error != WEIR_DEFAULT_ON_ERROR)
            json_text(&j, "on_error", on_error_name(r->on_error));
    }
    json_close(&j, '}');
}

/* ---- what is answered --------------------------------------------------------------------- */

static int64_t int_of(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

static bool bool_of(const json_t *object, const char *name)
{
    return json_is_true(json_object_get(object, name));
}

static weir_source source_of(const json_t *object)
{
    const char *name = json_string_value(json_object_get(object, "source"));

#define X(name_, value, text)                                                                      \
    if (name && strcmp(name, text) == 0)                                                           \
        return WEIR_FROM_##name_;
    WEIR_SOURCES(X)
#undef X
    return WEIR_FROM_STORE;
}

static bool read_rule(const json_t *object, weir_rule_answer *r)
{
    *r = (weir_rule_answer){
        .policy = json_string_value(json_object_get(object, "policy")),
        .rule = json_string_value(json_object_get(object, "rule")),
        .limit = int_of(object, "limit"),
        .remaining = int_of(object, "remaining"),
        .retry_after_ms = int_of(object, "retry_after_ms"),
        .reset_after_ms = int_of(object, "reset_after_ms"),
        .delay_ms = int_of(object, "delay_ms"),
        .used = int_of(object, "used"),
        .over = int_of(object, "over"),
        .allowed = bool_of(object, "allowed"),
        .shadow = bool_of(object, "shadow"),
        .shadow_denied = bool_of(object, "shadow_denied"),
    };
    return r->rule;
}

/* A policy with one rule has no list: then the answer is all there is to know about it. */
static bool read_answer(const json_t *object, weir_answer *a)
{
    const json_t *rules = json_object_get(object, "rules");

    if (!json_is_boolean(json_object_get(object, "allowed")) ||
        !json_is_integer(json_object_get(object, "remaining")) ||
        json_array_size(rules) > WEIR_MAX_RULES)
        return false;
    *a = (weir_answer){
        .allowed = bool_of(object, "allowed"),
        .shadow = bool_of(object, "shadow"),
        .source = source_of(object),
        .policy = json_string_value(json_object_get(object, "policy")),
        .rule = json_string_value(json_object_get(object, "rule")),
        .limit = int_of(object, "limit"),
        .remaining = int_of(object, "remaining"),
        .retry_after_ms = int_of(object, "retry_after_ms"),
        .reset_after_ms = int_of(object, "reset_after_ms"),
        .delay_ms = int_of(object, "delay_ms"),
        .used = int_of(object, "used"),
        .over = int_of(object, "over"),
        .expires_in_ms = int_of(object, "expires_in_ms"),
        .repeated = bool_of(object, "repeated"),
        .expired = bool_of(object, "expired"),
        .rule_count = json_array_size(rules),
    };
    snprintf(a->reservation, sizeof a->reservation, "%s", told_text(object, "reservation"));
    for (size_t i = 0; i < a->rule_count; i++)
        if (!read_rule(json_array_get(rules, i), &a->rules[i]))
            return false;
    return !a->policy || a->rule;
}

static void report_problem(const struct check_server *s, const char *detail)
{
    json_t *problem = told_read(s->client.reply.body);
    const char *code = json_string_value(json_object_get(problem, "code"));

    if (code)
        answer_print_error(code, detail);
    json_decref(problem);
}

bool check_server_ask(struct check_server *s, const char *verb, const weir_request *r,
                      weir_answer *a)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    struct buf body;
    weir_diag diag;
    char path[32];
    bool called;

    if (!can_be_sent(r))
        return false;
    snprintf(path, sizeof path, "/v1/%s", verb);
    buf_init(&body, &usual);
    write_request(&body, r);
    diag_set(&diag, "out of memory");
    called = !body.failed && client_call(&s->client, "POST", path, buf_span(&body), &diag);
    buf_done(&body);
    if (called && s->client.reply.status != 200) {
        client_explain(&s->client, &diag);
        if (s->tells_json)
            report_problem(s, diag.text);
        called = false;
    }
    if (!called) {
        trouble("%s", diag.text);
        return false;
    }
    json_decref(s->answer);
    s->answer = told_read(s->client.reply.body);
    if (!read_answer(s->answer, a)) {
        trouble("cannot parse the answer of %s: is it a weir server?", s->client.url.text);
        return false;
    }
    return true;
}
