/* trace.c - each request that was judged, as a line of JSON. */
#include "cli/replay/trace.h"

#include <errno.h>

#include "base/json.h"
#include "cli/terminal.h"

bool trace_open(struct trace *t, const char *path)
{
    const weir_allocator allocator = alloc_or_default((weir_allocator){ 0 });

    *t = (struct trace){ 0 };
    buf_init(&t->line, &allocator);
    if (!path)
        return true;
    t->to = strcmp(path, "-") == 0 ? stdout : fopen(path, "we");
    if (!t->to)
        trouble("cannot write %s: %s", path, strerror(errno));
    return t->to;
}

/* As POST /v1/check takes it, and needs no more. */
static void put_request(struct json *j, const struct record *r, const weir_request *q)
{
    json_open(j, "request", '{');
    if (q->policy) {
        json_text(j, "policy", q->policy);
    } else {
        json_open(j, "policies", '[');
        for (size_t i = 0; i < q->policy_count; i++)
            json_text(j, NULL, q->policies[i]);
        json_close(j, ']');
    }
    json_open(j, "attributes", '{');
    for (size_t i = 0; i < q->attribute_count; i++)
        json_span(j, q->attributes[i].name,
                  (struct span){ q->attributes[i].value, q->attributes[i].value_len });
    json_close(j, '}');
    if (q->cost != 0)
        json_int(j, "cost", q->cost == WEIR_COST_ZERO ? 0 : q->cost);
    if (q->cost_count > 0) {
        json_open(j, "costs", '{');
        for (size_t i = 0; i < q->cost_count; i++)
            json_int(j, q->costs[i].name, q->costs[i].amount);
        json_close(j, '}');
    }
    if (q->plan)
        json_text(j, "plan", q->plan);
    json_int(j, "now", r->time);
    json_close(j, '}');
}

static void put_answer(struct json *j, const weir_answer *a)
{
    json_open(j, "answer", '{');
    json_bool(j, "allowed", a->allowed);
    json_text(j, "policy", a->policy);
    json_text(j, "rule", a->rule);
    json_int(j, "limit", a->limit);
    json_int(j, "remaining", a->remaining);
    json_int(j, "retry_after_ms", a->retry_after_ms);
    json_int(j, "reset_after_ms", a->reset_after_ms);
    json_text(j, "source", weir_source_name(a->source));
    json_bool(j, "shadow", a->shadow);
    json_close(j, '}');
}

void trace_write(struct trace *t, const struct record *r, const weir_request *request,
                 const weir_answer *answer)
{
    struct json j = { &t->line, false };

    t->line.len = 0;
    json_open(&j, NULL, '{');
    json_text(&j, "file", r->source);
    json_int(&j, "line", r->line);
    put_request(&j, r, request);
    put_answer(&j, answer);
    json_close(&j, '}');
    buf_byte(&t->line, '\n');
    if (t->line.failed || fwrite(t->line.at, 1, t->line.len, t->to) != t->line.len)
        t->failed = true;
}

bool trace_close(struct trace *t, const char *path)
{
    if (t->to && t->to != stdout && fclose(t->to) != 0)
        t->failed = true;
    buf_done(&t->line);
    if (t->failed)
        trouble("cannot write all of %s: %s", path, strerror(errno));
    return !t->failed;
}
