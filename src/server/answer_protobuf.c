/* answer_protobuf.c - answers as the messages of weir.v1.
 *
 * What is 0, false or empty is left out: that is what it is read as. So unlike in JSON, nothing has
 * to be left out only because it does not belong to what was asked. */
#include "server/answer_protobuf.h"

#include "proto/protobuf.h"

static void add_name(struct buf *out, unsigned field, const char *name)
{
    if (name)
        protobuf_text(out, field, name);
}

static void add_tag(struct buf *out, unsigned field, const struct call *call, size_t i)
{
    char tag[TAG_HEX + 1];

    if (call_tag(call, i, tag))
        protobuf_text(out, field, tag);
}

static void add_rule(struct buf *out, const struct call *call, size_t row, bool has_policy)
{
    const weir_rule_answer *r = &call->answer.rules[row];
    const size_t rule = protobuf_open(out, 19);

    if (has_policy)
        add_name(out, 1, r->policy);
    add_name(out, 2, r->rule);
    protobuf_number(out, 3, r->allowed);
    protobuf_int(out, 4, r->limit);
    protobuf_int(out, 5, r->remaining);
    protobuf_int(out, 6, r->retry_after_ms);
    protobuf_int(out, 7, r->reset_after_ms);
    protobuf_number(out, 8, r->shadow);
    protobuf_number(out, 9, r->shadow_denied);
    add_tag(out, 10, call, 1 + row);
    if (verb_forces(call->check.verb)) {
        protobuf_int(out, 11, r->used);
        protobuf_int(out, 12, r->over);
    }
    protobuf_close(out, rule);
}

static void add_reservation(struct buf *out, const struct call *call)
{
    const weir_answer *a = &call->answer;

    if (!verb_reserves(call->check.verb))
        return;
    add_name(out, 15, a->reservation);
    if (a->reservation[0] && !verb_settles(call->check.verb))
        protobuf_int(out, 16, a->expires_in_ms);
    protobuf_number(out, 17, a->repeated);
    protobuf_number(out, 18, verb_settles(call->check.verb) && a->expired);
}

void answer_protobuf(struct buf *out, const struct call *call)
{
    const weir_answer *a = &call->answer;
    const enum verb verb = call->check.verb;

    protobuf_number(out, 1, a->allowed);
    add_name(out, 2, a->policy);
    add_name(out, 3, a->rule);
    protobuf_int(out, 4, a->limit);
    protobuf_int(out, 5, a->remaining);
    protobuf_int(out, 6, a->retry_after_ms);
    protobuf_int(out, 7, a->reset_after_ms);
    protobuf_int(out, 8, a->delay_ms);
    protobuf_number(out, 9, (unsigned)a->source + 1); /* 0: it is not known */
    protobuf_number(out, 10, a->shadow);
    if (a->override_id > 0)
        protobuf_int(out, 11, a->override_id);
    add_tag(out, 12, call, 0);
    if (verb_forces(verb))
        protobuf_int(out, 13, a->used);
    if (verb_forces(verb) || verb_settles(verb))
        protobuf_int(out, 14, a->over);
    add_reservation(out, call);
    if (a->rule_count > 1) {
        const bool is_several = answer_is_of_several(a);

        for (size_t i = 0; i < a->rule_count; i++)
            add_rule(out, call, i, is_several);
    }
}

static void add_error(struct buf *out, const struct call *call)
{
    const size_t error = protobuf_open(out, 2);

    protobuf_text(out, 1, problem_code(problem_of(call->answer.err)));
    protobuf_text(out, 2, call_problem(call));
    protobuf_close(out, error);
}

void answer_protobuf_many(struct buf *out, const struct reply *reply)
{
    for (const struct call *call = reply->first; call; call = call->next) {
        const size_t outcome = protobuf_open(out, 1);

        if (call->answer.err) {
            add_error(out, call);
        } else {
            const size_t answer = protobuf_open(out, 1);

            answer_protobuf(out, call);
            protobuf_close(out, answer);
        }
        protobuf_close(out, outcome);
    }
}
