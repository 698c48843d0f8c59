/* answer_json.c - answers as JSON. */
#include "server/answer_json.h"

#include "base/json.h"

#define LITERAL(text) ((struct span){ (text), sizeof(text) - 1 })

/* A `,"name":` and a number. Names of members and of rules need no escapes. */
static void add_int(struct buf *out, struct span member, int64_t number)
{
    buf_add(out, member);
    buf_int(out, number);
}

static void add_bool(struct buf *out, struct span member, bool value)
{
    buf_add(out, member);
    if (value)
        buf_text(out, "true");
    else
        buf_text(out, "false");
}

static void add_name(struct buf *out, struct span member, const char *name)
{
    buf_add(out, member);
    if (!name) {
        buf_text(out, "null");
        return;
    }
    buf_byte(out, '"');
    buf_text(out, name);
    buf_byte(out, '"');
}

static void add_tag(struct buf *out, const struct call *call, size_t i)
{
    char tag[TAG_HEX + 1];

    if (call_tag(call, i, tag))
        add_name(out, LITERAL(",\"tag\":"), tag);
}

static void add_used(struct buf *out, int64_t used, int64_t over)
{
    add_int(out, LITERAL(",\"used\":"), used);
    add_int(out, LITERAL(",\"over\":"), over);
}

static void add_rule(struct buf *out, const struct call *call, size_t row, bool has_policy)
{
    const weir_rule_answer *r = &call->answer.rules[row];

    buf_byte(out, '{');
    if (has_policy) {
        add_name(out, LITERAL("\"policy\":"), r->policy);
        buf_byte(out, ',');
    }
    add_name(out, LITERAL("\"rule\":"), r->rule);
    add_bool(out, LITERAL(",\"allowed\":"), r->allowed);
    add_int(out, LITERAL(",\"limit\":"), r->limit);
    add_int(out, LITERAL(",\"remaining\":"), r->remaining);
    add_int(out, LITERAL(",\"retry_after_ms\":"), r->retry_after_ms);
    add_int(out, LITERAL(",\"reset_after_ms\":"), r->reset_after_ms);
    if (verb_forces(call->check.verb))
        add_used(out, r->used, r->over);
    if (r->shadow)
        buf_text(out, ",\"shadow\":true");
    if (r->shadow_denied)
        buf_text(out, ",\"shadow_denied\":true");
    add_tag(out, call, 1 + row);
    buf_byte(out, '}');
}

/* What only verbs about reservations answer. */
static void add_reservation(struct buf *out, const struct call *call)
{
    const weir_answer *a = &call->answer;

    if (!verb_reserves(call->check.verb))
        return;
    add_name(out, LITERAL(",\"reservation\":"), a->reservation[0] ? a->reservation : NULL);
    if (a->reservation[0] && !verb_settles(call->check.verb))
        add_int(out, LITERAL(",\"expires_in_ms\":"), a->expires_in_ms);
    add_bool(out, LITERAL(",\"repeated\":"), a->repeated);
    if (verb_settles(call->check.verb)) {
        add_bool(out, LITERAL(",\"expired\":"), a->expired);
        add_int(out, LITERAL(",\"over\":"), a->over);
    }
}

void answer_json(struct buf *out, const struct call *call)
{
    const weir_answer *a = &call->answer;

    add_bool(out, LITERAL("{\"allowed\":"), a->allowed);
    add_name(out, LITERAL(",\"policy\":"), a->policy);
    add_name(out, LITERAL(",\"rule\":"), a->rule);
    add_int(out, LITERAL(",\"limit\":"), a->limit);
    add_int(out, LITERAL(",\"remaining\":"), a->remaining);
    add_int(out, LITERAL(",\"retry_after_ms\":"), a->retry_after_ms);
    add_int(out, LITERAL(",\"reset_after_ms\":"), a->reset_after_ms);
    add_int(out, LITERAL(",\"delay_ms\":"), a->delay_ms);
    if (verb_forces(call->check.verb))
        add_used(out, a->used, a->over);
    add_name(out, LITERAL(",\"source\":"), weir_source_name(a->source));
    add_bool(out, LITERAL(",\"shadow\":"), a->shadow);
    if (a->override_id > 0)
        add_int(out, LITERAL(",\"override\":"), a->override_id);
    add_tag(out, call, 0);
    add_reservation(out, call);
    if (a->rule_count > 1) {
        const bool is_several = answer_is_of_several(a);

        buf_text(out, ",\"rules\":[");
        for (size_t i = 0; i < a->rule_count; i++) {
            if (i > 0)
                buf_byte(out, ',');
            add_rule(out, call, i, is_several);
        }
        buf_byte(out, ']');
    }
    buf_byte(out, '}');
}

static void add_error(struct buf *out, const struct call *call)
{
    struct json j = { .to = out };

    json_open(&j, NULL, '{');
    json_open(&j, "error", '{');
    json_text(&j, "code", problem_code(problem_of(call->answer.err)));
    json_text(&j, "detail", call_problem(call));
    json_close(&j, '}');
    json_close(&j, '}');
}

void answer_json_many(struct buf *out, const struct reply *reply)
{
    buf_text(out, "{\"answers\":[");
    for (const struct call *call = reply->first; call; call = call->next) {
        if (call != reply->first)
            buf_byte(out, ',');
        if (call->answer.err)
            add_error(out, call);
        else
            answer_json(out, call);
    }
    buf_text(out, "]}");
}
