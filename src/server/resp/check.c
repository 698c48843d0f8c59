/* check.c - the commands that ask: checks, charges, refunds, resets and reservations. */
#include "server/resp/reading.h"

/* ---- the reply --------------------------------------------------------------------------- */

static void put_name(struct buf *out, const char *name, int version)
{
    if (name)
        resp_bulk(out, span_of(name));
    else
        resp_null(out, version);
}

static void put_source(struct buf *out, const struct reply *r)
{
    const weir_answer *a = &r->first->answer;

    put_name(out, a->rule, r->resp_version);
    resp_bulk(out, span_of(weir_source_name(a->source)));
}

/* Of `count` values the first ones: these numbers, the rule and the source. */
static void put_short(struct buf *out, size_t count, const struct reply *r, const int64_t *numbers,
                      size_t n)
{
    resp_numbers(out, count, numbers, n);
    put_source(out, r);
}

/* ---- answers like the last one ------------------------------------------------------------- */

/* A short answer: how many values it has, and the first of them. The first two are mostly the same
 * as before, as the rule and the source behind the numbers are. */
struct short_answer {
    size_t values;
    int64_t first;      /* before the limit */
    int64_t numbers[3]; /* behind it */
    size_t count;       /* of them: 2 or 3 */
};

/* The names of rules stay where they are: the pointer tells them. */
static bool is_as_before(const struct last_answer *last, const weir_answer *a, int64_t first)
{
    return a->rule == last->rule && a->rule && a->source == last->source &&
           a->limit == last->limit && first == last->value;
}

/* What is encoded from `at` on is its rule and its source. */
static void remember(struct last_answer *last, const weir_answer *a, const struct short_answer *is,
                     const struct buf *out, size_t at)
{
    char *end;

    last->rule = NULL;
    if (out->failed || out->len - at > sizeof last->last)
        return;
    last->last_len = out->len - at;
    memcpy(last->last, out->at + at, last->last_len);
    end = resp_write_header(last->first, '*', (int64_t)is->values);
    end = resp_write_int(end, is->first);
    last->first_len = (size_t)(resp_write_int(end, a->limit) - last->first);
    last->rule = a->rule;
    last->source = a->source;
    last->limit = a->limit;
    last->value = is->first;
}

enum {
    SHORT_MOST = sizeof((struct last_answer *)0)->first + 3 * RESP_INT_MOST +
                 sizeof((struct last_answer *)0)->last
};

/* More bytes than the texts have are copied, as a copy of a known size is faster; what follows goes
 * over them. */
static inline __attribute__((always_inline)) char *write_as_before(char *at,
                                                                   const struct last_answer *last,
                                                                   const struct short_answer is)
{
    memcpy(at, last->first, sizeof last->first);
    at += last->first_len;
    at = resp_write_int(at, is.numbers[0]);
    at = resp_write_int(at, is.numbers[1]);
    if (is.count > 2)
        at = resp_write_int(at, is.numbers[2]);
    memcpy(at, last->last, sizeof last->last);
    return at + last->last_len;
}

__attribute__((noinline)) static void put_anew(struct buf *out, const struct reply *r,
                                               const struct short_answer *is,
                                               struct last_answer *last)
{
    const weir_answer *a = &r->first->answer;
    int64_t numbers[5] = { is->first, a->limit };
    size_t at;

    memcpy(numbers + 2, is->numbers, sizeof is->numbers);
    resp_numbers(out, is->values, numbers, 2 + is->count);
    at = out->len;
    put_source(out, r);
    remember(last, a, is, out, at);
}

/* Followed by room for `more` bytes, of which those that are written are to be added. NULL: there is
 * no memory for it. */
static inline __attribute__((always_inline)) char *put_like_last(struct buf *out,
                                                                 const struct reply *r,
                                                                 enum last_kind kind,
                                                                 const struct short_answer is,
                                                                 size_t more)
{
    struct last_answer *last = &session_loop(r->session)->answers[kind];
    char *to, *end;

    if (!is_as_before(last, &r->first->answer, is.first)) {
        const struct short_answer kept = is; /* in memory here alone */

        put_anew(out, r, &kept, last);
        return buf_room(out, more);
    }
    to = buf_room(out, SHORT_MOST + more);
    if (!to)
        return NULL;
    end = write_as_before(to, last, is);
    buf_wrote(out, (size_t)(end - to));
    return end;
}

static void encode_answer(struct reply *r, struct buf *out)
{
    const weir_answer *a;

    if (!resp_has_answer(r, r->first, NULL, out))
        return;
    a = &r->first->answer;
    put_like_last(out, r, a->allowed ? LAST_ALLOWED : LAST_DENIED,
                  (struct short_answer){
                      7, a->allowed, { a->remaining, a->retry_after_ms, a->reset_after_ms }, 3 },
                  0);
}

static void encode_charged(struct reply *r, struct buf *out)
{
    const weir_answer *a;

    if (!resp_has_answer(r, r->first, NULL, out))
        return;
    a = &r->first->answer;
    put_short(out, 7, r,
              (const int64_t[]){ a->over, a->limit, a->remaining, a->used, a->reset_after_ms }, 5);
}

static const char *reservation_of(const weir_answer *a)
{
    return a->reservation[0] ? a->reservation : NULL;
}

enum { ID_MOST = 1 + DECIMAL_MOST + 2 + WEIR_MAX_ID + 2 };

/* An id has no NUL, and zeros behind it. */
static char *write_id(char *at, const char id[WEIR_MAX_ID + 1])
{
    const size_t len = strlen(id);

    at = resp_write_header(at, '$', (int64_t)len);
    memcpy(at, id, WEIR_MAX_ID); /* a known size is faster; what follows goes over the rest */
    memcpy(at + len, "\r\n", 2);
    return at + len + 2;
}

/* One that is held: reserved, grown or extended. */
static void encode_held(struct reply *r, struct buf *out)
{
    const weir_answer *a;
    char *to, *at;

    if (!resp_has_answer(r, r->first, NULL, out))
        return;
    a = &r->first->answer;
    to = put_like_last(
        out, r, LAST_HELD,
        (struct short_answer){
            10, a->allowed, { a->remaining, a->retry_after_ms, a->reset_after_ms }, 3 },
        ID_MOST + 2 * RESP_INT_MOST);
    if (!to)
        return;
    if (!reservation_of(a)) {
        resp_null(out, r->resp_version);
        to = buf_room(out, 2 * RESP_INT_MOST);
        if (!to)
            return;
    }
    at = reservation_of(a) ? write_id(to, a->reservation) : to;
    at = resp_write_int(at, a->expires_in_ms);
    at = resp_write_int(at, a->repeated);
    buf_wrote(out, (size_t)(at - to));
}

static void encode_settled(struct reply *r, struct buf *out)
{
    const weir_answer *a;
    char *to, *at;

    if (!resp_has_answer(r, r->first, NULL, out))
        return;
    a = &r->first->answer;
    to = put_like_last(out, r, LAST_SETTLED,
                       (struct short_answer){ 8, a->over, { a->remaining, a->reset_after_ms }, 2 },
                       2 * RESP_INT_MOST);
    if (!to)
        return;
    at = resp_write_int(to, a->expired);
    at = resp_write_int(at, a->repeated);
    buf_wrote(out, (size_t)(at - to));
}

static void put_number(struct buf *out, const char *name, int64_t number)
{
    resp_bulk(out, span_of(name));
    resp_int(out, number);
}

static void put_text(struct buf *out, const char *name, const char *text, int version)
{
    resp_bulk(out, span_of(name));
    put_name(out, text, version);
}

static void put_rule(struct buf *out, const struct call *call, size_t row, int version)
{
    const weir_rule_answer *r = &call->answer.rules[row];
    char tag[TAG_HEX + 1];
    const bool has_tag = call_tag(call, 1 + row, tag);
    const bool has_used = verb_forces(call->check.verb);

    resp_map(out, 11u + has_tag + 2u * has_used, version);
    put_text(out, "policy", r->policy, version);
    put_text(out, "rule", r->rule, version);
    put_number(out, "allowed", r->allowed);
    put_number(out, "limit", r->limit);
    put_number(out, "window_ms", r->window_ms);
    put_number(out, "remaining", r->remaining);
    put_number(out, "retry_after_ms", r->retry_after_ms);
    put_number(out, "reset_after_ms", r->reset_after_ms);
    put_number(out, "delay_ms", r->delay_ms);
    if (has_used) {
        put_number(out, "used", r->used);
        put_number(out, "over", r->over);
    }
    put_number(out, "shadow", r->shadow);
    put_number(out, "shadow_denied", r->shadow_denied);
    if (has_tag)
        put_text(out, "tag", tag, version);
}

/* What only verbs about reservations answer. */
static unsigned count_reserved(const struct call *call)
{
    return !verb_reserves(call->check.verb) ? 0 : verb_settles(call->check.verb) ? 4 : 3;
}

static void put_reserved(struct buf *out, const struct call *call, int version)
{
    const weir_answer *a = &call->answer;

    if (!verb_reserves(call->check.verb))
        return;
    put_text(out, "reservation", reservation_of(a), version);
    put_number(out, "repeated", a->repeated);
    if (verb_settles(call->check.verb)) {
        put_number(out, "expired", a->expired);
        put_number(out, "over", a->over);
    } else {
        put_number(out, "expires_in_ms", a->expires_in_ms);
    }
}

/* All that is known, by its name: new names may come, and none goes. */
static void encode_full(struct reply *r, struct buf *out)
{
    const struct call *call = r->first;
    const int version = r->resp_version;
    const weir_answer *a;
    char tag[TAG_HEX + 1];
    bool has_tag, has_used;

    if (!resp_has_answer(r, call, NULL, out))
        return;
    a = &call->answer;
    has_tag = call_tag(call, 0, tag);
    has_used = verb_forces(call->check.verb);
    resp_map(out, 12u + has_tag + 2u * has_used + count_reserved(call), version);
    put_number(out, "allowed", a->allowed);
    put_text(out, "policy", a->policy, version);
    put_text(out, "rule", a->rule, version);
    put_number(out, "limit", a->limit);
    put_number(out, "remaining", a->remaining);
    put_number(out, "retry_after_ms", a->retry_after_ms);
    put_number(out, "reset_after_ms", a->reset_after_ms);
    put_number(out, "delay_ms", a->delay_ms);
    if (has_used) {
        put_number(out, "used", a->used);
        put_number(out, "over", a->over);
    }
    put_text(out, "source", weir_source_name(a->source), version);
    put_number(out, "shadow", a->shadow);
    put_number(out, "override", a->override_id);
    if (has_tag)
        put_text(out, "tag", tag, version);
    put_reserved(out, call, version);
    resp_bulk(out, span_of("rules"));
    resp_array(out, a->rule_count);
    for (size_t i = 0; i < a->rule_count; i++)
        put_rule(out, call, i, version);
}

typedef void encode(struct reply *r, struct buf *out);

/* The word that this text is; 0: none. */
static size_t find_word(const struct resp_command *c, const char *text)
{
    for (size_t i = 1; i < c->count && text; i++)
        if (c->words[i].at == text)
            return i;
    return 0;
}

static enum pattern_kind kind_of(const struct reading *in)
{
    const weir_request *r = &in->asked.request;

    return r->reservation ? PATTERN_KNOWN : r->policy ? PATTERN_POLICY : PATTERN_LIMIT;
}

/* One that may come again with another key, which is in this word; 0: there is none. */
static void ask_again(const struct reading *in, enum verb verb, encode *encode_short, size_t word)
{
    const bool is_full = in->is_full || in->asked.wants_tag; /* the short one has no place for it */
    struct reply *r = reply_begin(in->session, is_full ? encode_full : encode_short);
    struct call *call;

    if (!r)
        return;
    if (in->trace.at && loop_tracing(session_loop(in->session)))
        traceparent_read(in->trace, &r->trace);
    call = reply_ask(r, verb, &in->asked);
    if (word > 0 && call && !is_full && !in->trace.at)
        again_remember(in->session, in->command,
                       (struct again_places){ word, find_word(in->command, in->asked.request.id) },
                       call, kind_of(in), encode_short);
    reply_end(r);
}

/* ---- policies ---------------------------------------------------------------------------- */

static bool is_about_one_value(const struct reading *in)
{
    const weir_request *r = &in->asked.request;

    return r->policy && (r->key || r->attribute_count == 1);
}

static void serve_policy(struct session *s, struct resp_command *c, unsigned of, enum verb verb,
                         encode *encode_short)
{
    struct reading in;

    reading_begin(&in, s, c, 2);
    in.asked.request.policy = c->words[1].at;
    in.asked.peek = of == OF_PEEK;
    if (!resp_word_is_text(c->words[1]))
        resp_reply_error(s, "INVALID_REQUEST the name of a policy cannot contain a NUL byte");
    else if (reading_identity(&in, of))
        ask_again(&in, verb, encode_short, is_about_one_value(&in) ? 2 : 0);
}

void resp_serve_weir_check(struct session *s, struct resp_command *c)
{
    serve_policy(s, c, OF_CHECK, VERB_CHECK, encode_answer);
}

void resp_serve_weir_peek(struct session *s, struct resp_command *c)
{
    serve_policy(s, c, OF_PEEK, VERB_CHECK, encode_answer);
}

void resp_serve_weir_refund(struct session *s, struct resp_command *c)
{
    serve_policy(s, c, OF_REFUND, VERB_REFUND, encode_answer);
}

void resp_serve_weir_charge(struct session *s, struct resp_command *c)
{
    serve_policy(s, c, OF_CHARGE, VERB_CHARGE, encode_charged);
}

void resp_serve_weir_reset(struct session *s, struct resp_command *c)
{
    serve_policy(s, c, OF_RESET, VERB_RESET, encode_answer);
}

/* ---- limits that come with the request --------------------------------------------------- */

void resp_serve_weir_limit(struct session *s, struct resp_command *c)
{
    struct reading in;
    weir_request *request = &in.asked.request;
    weir_diag hint;

    reading_begin(&in, s, c, 5);
    request->key = c->words[1].at;
    request->key_len = c->words[1].len;
    if (!parsed_request_algorithm(c->words[2], &request->algorithm, &hint)) {
        resp_reply_error(s, "INVALID_REQUEST there is no such algorithm: %s", hint.text);
    } else if (!resp_word_number(c->words[3], &request->limit)) {
        resp_reply_error(s, "INVALID_REQUEST limit must be a whole number");
    } else if (!resp_word_number(c->words[4], &request->window_ms)) {
        resp_reply_error(s, "INVALID_REQUEST window_ms must be a whole number");
    } else if (reading_options(&in, OF_LIMIT)) {
        ask_again(&in, VERB_CHECK, encode_answer, 1);
    }
}

/* ---- reservations ------------------------------------------------------------------------ */

void resp_serve_weir_reserve(struct session *s, struct resp_command *c)
{
    serve_policy(s, c, OF_RESERVE, VERB_RESERVE, encode_held);
}

/* "" is the reservation of what was not counted, and has none. */
static void serve_reservation(struct session *s, struct resp_command *c, unsigned of,
                              enum verb verb, encode *encode_short)
{
    struct reading in;

    reading_begin(&in, s, c, 2);
    in.asked.request.reservation = c->words[1].at;
    in.asked.is_release = of == OF_RELEASE;
    if (!resp_word_is_text(c->words[1]))
        resp_reply_error(s, "INVALID_REQUEST a reservation cannot contain a NUL byte");
    else if (reading_options(&in, of))
        ask_again(&in, verb, encode_short, 1);
}

void resp_serve_weir_commit(struct session *s, struct resp_command *c)
{
    serve_reservation(s, c, OF_COMMIT, VERB_SETTLE, encode_settled);
}

void resp_serve_weir_release(struct session *s, struct resp_command *c)
{
    serve_reservation(s, c, OF_RELEASE, VERB_SETTLE, encode_settled);
}

void resp_serve_weir_grow(struct session *s, struct resp_command *c)
{
    serve_reservation(s, c, OF_GROW, VERB_GROW, encode_held);
}

void resp_serve_weir_extend(struct session *s, struct resp_command *c)
{
    serve_reservation(s, c, OF_EXTEND, VERB_EXTEND, encode_held);
}
