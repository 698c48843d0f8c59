/* counters.c - counters as clients of Redis keep them, and the commands on them: GET, PTTL, INCRBY,
 * DECR and SET. DEL is in throttle.c. */
#include "server/resp/counters.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/printable.h"

/* The window of one that does not expire: none that a client can name is as long. */
#define FOREVER ((int64_t)1 << 52)

#define NOT_AN_INTEGER "ERR value is not an integer or out of range"

struct rule counter_rule(int64_t window)
{
    return (struct rule){
        .algorithm = WEIR_FIXED_WINDOW,
        .limit = AMOUNT_MOST,
        .window = window == 0 ? FOREVER : window,
        .start = START_FIRST,
    };
}

struct call *counter_add(struct reply *r, struct span key, const struct rule *rule, int64_t amount)
{
    const int64_t most = amount > AMOUNT_MOST    ? AMOUNT_MOST
                         : amount < -AMOUNT_MOST ? -AMOUNT_MOST
                                                 : amount;

    return most < 0 ? reply_ask_counter(r, key, rule, VERB_REFUND, -most)
                    : reply_ask_counter(r, key, rule, VERB_CHARGE, most);
}

struct call *counter_peek(struct reply *r, struct span key)
{
    const struct rule any = counter_rule(0);

    return reply_ask_counter(r, key, &any, VERB_CHECK, 0);
}

struct call *counter_forget(struct reply *r, struct span key)
{
    const struct rule any = counter_rule(0);

    return reply_ask_counter(r, key, &any, VERB_RESET, 0);
}

/* ---- answers ------------------------------------------------------------------------------- */

bool counters_have_answers(const struct reply *r, struct buf *out)
{
    for (const struct call *call = r->first; call; call = call->next) {
        if (call->answer.err)
            return resp_has_answer(r, call, "ERR ", out);
        if (!call->answer.allowed) { /* the store is away, and this process may not count */
            resp_has_answer(r, call, "ERR ", out);
            resp_error(out, "ERR the store cannot be asked");
            return false;
        }
    }
    return resp_has_answer(r, r->first, "ERR ", out);
}

int64_t counter_value(const struct call *call)
{
    const weir_answer *a = &call->answer;

    if (a->source == WEIR_FROM_OFF) /* as if it were the first */
        return verb_forces(call->check.verb) ? call->check.ask.cost : 0;
    return verb_forces(call->check.verb) ? a->used : a->limit - a->remaining;
}

int64_t counter_expires_in(const struct call *call)
{
    const int64_t ms = call->answer.source == WEIR_FROM_OFF && verb_forces(call->check.verb)
                           ? call->check.unnamed.window
                           : call->answer.reset_after_ms;

    return ms == 0 ? COUNTER_MISSING : ms > FOREVER / 2 ? COUNTER_LASTS : ms;
}

/* What clients double again and again ends at 2^53 - 1. */
int64_t counter_set_to(const struct call *call)
{
    return call->answer.reset_after_ms > FOREVER ? AMOUNT_MOST : counter_expires_in(call);
}

void counter_put_value(const struct call *call, struct buf *out, int version)
{
    char text[24];

    if (counter_expires_in(call) == COUNTER_MISSING) {
        resp_null(out, version);
        return;
    }
    snprintf(text, sizeof text, "%" PRId64, counter_value(call));
    resp_bulk(out, span_of(text));
}

/* ---- commands ------------------------------------------------------------------------------ */

static void encode_value(struct reply *r, struct buf *out)
{
    if (counters_have_answers(r, out))
        counter_put_value(r->first, out, r->resp_version);
}

static void encode_expiry(struct reply *r, struct buf *out)
{
    if (counters_have_answers(r, out))
        resp_int(out, counter_expires_in(r->first));
}

static void encode_sum(struct reply *r, struct buf *out)
{
    if (counters_have_answers(r, out))
        resp_int(out, counter_value(r->first));
}

static void encode_set(struct reply *r, struct buf *out)
{
    if (counters_have_answers(r, out))
        resp_simple(out, "OK");
}

static void read_one(struct session *s, struct span key,
                     void (*encode)(struct reply *r, struct buf *out))
{
    struct reply *r = reply_begin(s, encode);

    if (!r)
        return;
    counter_peek(r, key);
    reply_end(r);
}

void resp_serve_get(struct session *s, struct resp_command *c)
{
    read_one(s, c->words[1], encode_value);
}

void resp_serve_pttl(struct session *s, struct resp_command *c)
{
    read_one(s, c->words[1], encode_expiry);
}

static void add(struct session *s, struct span key, int64_t amount)
{
    const struct rule lasting = counter_rule(0);
    struct reply *r = reply_begin(s, encode_sum);

    if (!r)
        return;
    counter_add(r, key, &lasting, amount);
    reply_end(r);
}

void resp_serve_incrby(struct session *s, struct resp_command *c)
{
    int64_t amount;

    if (!resp_word_number(c->words[2], &amount))
        resp_reply_error(s, NOT_AN_INTEGER);
    else
        add(s, c->words[1], amount);
}

void resp_serve_decr(struct session *s, struct resp_command *c)
{
    add(s, c->words[1], -1);
}

/* `EX seconds` or `PX ms`, or nothing. False: an error was replied. */
static bool read_expiry(struct session *s, const struct resp_command *c, int64_t *window)
{
    const bool has_seconds = c->count == 5 && resp_word_is(c->words[3], "EX");

    *window = 0;
    if (c->count == 3)
        return true;
    if (c->count != 5 || !(has_seconds || resp_word_is(c->words[3], "PX"))) {
        resp_reply_error(s, "ERR of the options of SET there are EX and PX alone");
        return false;
    }
    if (!resp_word_number(c->words[4], window)) {
        resp_reply_error(s, NOT_AN_INTEGER);
        return false;
    }
    if (*window < 1 || (has_seconds && *window > FOREVER / 2 / 1000) || *window > FOREVER / 2) {
        resp_reply_error(s, "ERR invalid expire time in 'set' command");
        return false;
    }
    if (has_seconds)
        *window *= 1000;
    return true;
}

/* Forgotten, and counted anew. One of 0 is counted and taken back: it is there, and expires. */
void resp_serve_set(struct session *s, struct resp_command *c)
{
    int64_t value, window;
    struct rule rule;
    struct reply *r;

    if (!read_expiry(s, c, &window))
        return;
    if (!resp_word_number(c->words[2], &value) || value < 0 || value > AMOUNT_MOST) {
        resp_reply_error(s,
                         "ERR SET is for counters: its value must be a whole number from 0 to "
                         "2^53, not '%s'",
                         printable(c->words[2]).text);
        return;
    }
    r = reply_begin(s, encode_set);
    if (!r)
        return;
    rule = counter_rule(window);
    if (counter_forget(r, c->words[1]) && counter_add(r, c->words[1], &rule, value ? value : 1) &&
        value == 0)
        counter_add(r, c->words[1], &rule, -1);
    reply_end(r);
}
