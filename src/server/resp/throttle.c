/* throttle.c - CL.THROTTLE as redis-cell answers it, THROTTLE as throttlecrab does, and DEL.
 *
 * Both count in the same states, by their key: see cell.c. throttlecrab differs in three things.
 * Its max_burst is all that passes at once, and not one less. Its seconds are truncated. And its
 * reset_after is not when the limit is untouched again but when it forgets the key: later by
 * max_burst - 2 intervals. What it does not differ in here is that it lets up to twice the burst
 * pass after a rest: no limit is exceeded here. */
#include "base/printable.h"
#include "server/resp/counters.h"

enum { FEWEST_WORDS = 5, MOST_WORDS = 6, FIRST_NUMBER = 2, NUMBERS = 4, ANSWERS = 5 };

/* Whole seconds; a part of one counts if it has a whole ms. */
static int64_t rounded_up(int64_t ms)
{
    return ms / 1000 + (ms % 1000 > 0);
}

/* max_burst, count, period and quantity. Returns which of them is no number, or NUMBERS. */
static size_t read_numbers(const struct resp_command *c, int64_t numbers[NUMBERS])
{
    numbers[NUMBERS - 1] = 1;
    for (size_t i = 0; i + FIRST_NUMBER < c->count; i++)
        if (!resp_word_number(c->words[i + FIRST_NUMBER], &numbers[i]))
            return i;
    return NUMBERS;
}

static void ask(struct session *s, const struct throttle *t, const struct resp_command *c)
{
    struct reply *r = reply_begin(s, t->encode);
    struct call *call;

    if (!r)
        return;
    call = reply_ask_cell(r, c->words[1], &t->rule, t->quantity);
    if (call)
        again_remember(s, c, (struct again_places){ 1, 0 }, call, PATTERN_CELL, t->encode);
    reply_end(r);
}

/* The numbers as they came, with all that is between them. */
static struct span text_of(const struct resp_command *c)
{
    const char *from = c->words[FIRST_NUMBER].at;
    const struct span last = c->words[c->count - 1];

    return (struct span){ from, (size_t)(last.at + last.len - from) };
}

/* As many words out of the same bytes: none of those that were numbers has the end of another in
 * it, so they are the same words. */
static bool is_as_before(const struct throttle *t, const struct resp_command *c,
                         void (*encode)(struct reply *, struct buf *))
{
    return t->encode == encode && t->words == c->count &&
           span_equal((struct span){ t->text, t->len }, text_of(c));
}

static void remember(struct throttle *t, const struct resp_command *c,
                     void (*encode)(struct reply *, struct buf *), const struct rule *rule,
                     int64_t quantity)
{
    const struct span text = text_of(c);

    t->encode = encode;
    t->rule = *rule;
    t->quantity = quantity;
    t->words = text.len <= sizeof t->text ? c->count : 0;
    if (t->words == 0)
        return;
    t->len = text.len;
    memcpy(t->text, text.at, text.len);
}

static void begin_anew(struct throttle *t, const int64_t numbers[ANSWERS])
{
    char *at = resp_write_header(t->begun.text, '*', ANSWERS);

    for (size_t i = 0; i < 2; i++)
        at = resp_write_int(at, t->begun.numbers[i] = numbers[i]);
    t->begun.len = (size_t)(at - t->begun.text);
}

/* The first two mostly are those of the last answer. More bytes than their text has are copied, as a copy
 * of a known size is faster; what follows goes over them. */
static void put_answer(struct throttle *t, struct buf *out, const int64_t numbers[ANSWERS])
{
    char *to = buf_room(out, sizeof t->begun.text + 3 * RESP_INT_MOST), *at = to;

    if (!to)
        return;
    if (t->begun.len == 0 || t->begun.numbers[0] != numbers[0] || t->begun.numbers[1] != numbers[1])
        begin_anew(t, numbers);
    memcpy(at, t->begun.text, sizeof t->begun.text);
    at += t->begun.len;
    for (size_t i = 2; i < ANSWERS; i++)
        at = resp_write_int(at, numbers[i]);
    buf_wrote(out, (size_t)(at - to));
}

/* ---- CL.THROTTLE --------------------------------------------------------------------------- */

static void encode_cl_throttle(struct reply *r, struct buf *out)
{
    const struct call *call = r->first;
    const weir_answer *a;

    if (!resp_has_answer(r, call, "Cell error: ", out))
        return;
    a = &call->answer;
    put_answer(
        &session_loop(r->session)->throttle, out,
        (const int64_t[ANSWERS]){
            !a->allowed,
            a->limit,
            a->remaining,
            a->allowed || a->retry_after_ms == WEIR_NEVER ? -1 : rounded_up(a->retry_after_ms),
            rounded_up(a->reset_after_ms),
        });
}

void resp_serve_cl_throttle(struct session *s, struct resp_command *c)
{
    struct throttle *last = &session_loop(s)->throttle;
    int64_t numbers[NUMBERS], capacity;
    struct rule rule;
    weir_diag diag;
    size_t bad;

    if (c->count < FEWEST_WORDS || c->count > MOST_WORDS) {
        resp_reply_error(s, "Cell error: Usage: cl.throttle <key> <max_burst> <count per period> "
                            "<period> [<quantity>]");
        return;
    }
    if (is_as_before(last, c, encode_cl_throttle)) {
        ask(s, last, c);
        return;
    }
    bad = read_numbers(c, numbers);
    if (bad < NUMBERS) {
        resp_reply_error(s, "Cell error: Couldn't parse as integer: %s",
                         printable(c->words[bad + FIRST_NUMBER]).text);
    } else if (__builtin_add_overflow(numbers[0], 1, &capacity)) {
        resp_reply_error(s, "Cell error: max_burst is too large");
    } else if (cell_rule(capacity, numbers[1], numbers[2], &rule, &diag)) {
        resp_reply_error(s, "Cell error: %s", diag.text);
    } else {
        remember(last, c, encode_cl_throttle, &rule, numbers[3]);
        ask(s, last, c);
    }
}

/* ---- THROTTLE ------------------------------------------------------------------------------ */

static void encode_throttle(struct reply *r, struct buf *out)
{
    const struct call *call = r->first;
    const weir_answer *a;

    if (!resp_has_answer(r, call, "ERR ", out))
        return;
    a = &call->answer;
    put_answer(&session_loop(r->session)->throttle, out,
               (const int64_t[ANSWERS]){
                   a->allowed,
                   a->limit,
                   a->remaining > 0 ? a->remaining : 0,
                   a->reset_after_ms > 0 ? a->reset_after_ms / 1000 : 0,
                   a->retry_after_ms == WEIR_NEVER ? -1 : a->retry_after_ms / 1000,
               });
}

void resp_serve_throttle(struct session *s, struct resp_command *c)
{
    static const char *const names[] = { "max_burst", "count_per_period", "period", "quantity" };
    struct throttle *last = &session_loop(s)->throttle;
    int64_t numbers[NUMBERS];
    struct rule rule;
    weir_diag diag;
    size_t bad;

    if (c->count < FEWEST_WORDS || c->count > MOST_WORDS) {
        resp_reply_wrong_count(s, "THROTTLE");
        return;
    }
    if (is_as_before(last, c, encode_throttle)) {
        ask(s, last, c);
        return;
    }
    bad = read_numbers(c, numbers);
    if (bad < NUMBERS) {
        resp_reply_error(s, "ERR invalid %s", names[bad]);
    } else if (numbers[3] < 0) {
        resp_reply_error(s, "ERR negative quantity: %lld", (long long)numbers[3]);
    } else if (numbers[0] <= 0 || numbers[1] <= 0 || numbers[2] <= 0) {
        resp_reply_error(s, "ERR invalid rate limit parameters");
    } else if (cell_rule(numbers[0], numbers[1], numbers[2], &rule, &diag)) {
        resp_reply_error(s, "ERR %s", diag.text);
    } else {
        rule.precision = rule.window * (rule.limit - 2);
        remember(last, c, encode_throttle, &rule, numbers[3]);
        ask(s, last, c);
    }
}

/* ---- DEL ----------------------------------------------------------------------------------- */

/* For each key four calls: is something counted, and forget it; once for each way of counting. */
enum { CALLS_OF_A_KEY = 4 };

static void encode_del(struct reply *r, struct buf *out)
{
    int64_t deleted = 0;
    bool is_there = false;
    size_t n = 0;

    for (const struct call *call = r->first; call; call = call->next) {
        if (call->answer.err) {
            resp_has_answer(r, call, "ERR ", out);
            return;
        }
        is_there = is_there || (verb_decides(call->check.verb) && call->answer.reset_after_ms > 0);
        if (++n % CALLS_OF_A_KEY > 0)
            continue;
        deleted += is_there;
        is_there = false;
    }
    if (resp_has_answer(r, r->first, "ERR ", out))
        resp_int(out, deleted);
}

void resp_serve_del(struct session *s, struct resp_command *c)
{
    /* One that refuses nothing. */
    const struct rule any = {
        .algorithm = ALGORITHM_CELL, .limit = INT64_MAX, .window = 1, .burst = 1
    };
    struct reply *r = reply_begin(s, encode_del);

    if (!r)
        return;
    for (size_t i = 1; i < c->count; i++)
        if (!reply_ask_cell(r, c->words[i], &any, 0) || !reply_ask_cell(r, c->words[i], NULL, 0) ||
            !counter_peek(r, c->words[i]) || !counter_forget(r, c->words[i]))
            break;
    reply_end(r);
}
