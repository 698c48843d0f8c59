/* scripts.c - SCRIPT, EVAL and EVALSHA: the scripts of other limiters, done without Lua.
 *
 * A script is recognised by its SHA-1, and the engine does what it does: counted as everything
 * else, in every store. So a limiter that keeps its counters in Redis keeps them here, once it is
 * told to connect to this port. Any other script is refused. */
#include "base/printable.h"
#include "server/resp/counters.h"
#include "server/resp/known_scripts.h"

typedef void encode(struct reply *r, struct buf *out);

static encode encode_counted, encode_banned, encode_blocked, encode_read, encode_read_numbers,
    encode_taken_back;

enum { FIRST_KEY = 3, NONE = 0 };

/* What each kind reads of which argument; they are counted from 1. */
static const struct shape {
    uint8_t keys, arguments;
    encode *encode;
    uint8_t window, points, max, ban, block;
    uint8_t later, backoff; /* flags: a hit expires later */
    int64_t unit;           /* of the window, in ms */
} shapes[] = {
    [SCRIPT_ADD] = { 1, 2, encode_counted, .points = 1, .window = 2, .unit = 1000 },
    [SCRIPT_COUNT] = { 1, 1, encode_counted, .window = 1, .unit = 1 },
    [SCRIPT_COUNT_LATER] = { 1, 2, encode_counted, .later = 1, .window = 2, .unit = 1 },
    [SCRIPT_READ] = { 1, 0, encode_read, NONE },
    [SCRIPT_READ_NUMBERS] = { 1, 0, encode_read_numbers, NONE },
    [SCRIPT_TAKE_BACK] = { 1, 0, encode_taken_back, NONE },
    [SCRIPT_OVER] = { 1, 3, encode_counted, .window = 1, .max = 2, .later = 3, .unit = 1 },
    [SCRIPT_BAN] = { 1, 4, encode_banned, .window = 1, .max = 2, .ban = 3, .later = 4, .unit = 1 },
    [SCRIPT_BACKOFF] = { 1, 4, encode_counted, .window = 1, .max = 2, .later = 3, .backoff = 4,
                         .unit = 1 },
    [SCRIPT_BLOCK] = { 2, 4, encode_blocked, .window = 2, .max = 3, .block = 4, .unit = 1 },
};

/* One that is to be run. */
struct script_run {
    struct session *session;
    const struct shape *shape;
    const struct span *keys;
    const struct span *arguments; /* the first is the word before the first argument */
    int64_t window, points, max, ban, block;
};

/* ---- replies ------------------------------------------------------------------------------- */

static void encode_counted(struct reply *r, struct buf *out)
{
    const struct call *call = r->first;

    if (counters_have_answers(r, out))
        resp_numbers(out, 2, (const int64_t[]){ counter_value(call), counter_set_to(call) }, 2);
}

static void encode_banned(struct reply *r, struct buf *out)
{
    const int64_t max = r->numbers[0], ban = r->numbers[1];
    int64_t value;

    if (!counters_have_answers(r, out))
        return;
    value = counter_value(r->first);
    resp_numbers(out, 3, (const int64_t[]){ value, counter_set_to(r->first) }, 2);
    if (ban != -1 && value - max > ban)
        resp_int(out, 1);
    else
        resp_null(out, r->resp_version);
}

/* The calls are the hit, how the block stands, and the block if it begins now: when the hit is
 * known to be one too many. Other hits may come in between. They find no block either and ask for
 * it, and it begins once. */
static void encode_blocked(struct reply *r, struct buf *out)
{
    const struct call *hit = r->first, *block = hit ? hit->next : NULL;
    int64_t left;

    if (block && !hit->answer.err && !block->answer.err && !block->next &&
        counter_expires_in(block) == COUNTER_MISSING && counter_value(hit) > r->numbers[0]) {
        reply_ask_counter_again(r, block, VERB_CHARGE, 1);
        return;
    }
    if (!counters_have_answers(r, out))
        return;
    left = counter_expires_in(r->last);
    resp_numbers(
        out, 4,
        (const int64_t[]){ counter_value(hit), counter_set_to(hit), left > 0, left > 0 ? left : 0 },
        4);
}

static void encode_read(struct reply *r, struct buf *out)
{
    if (!counters_have_answers(r, out))
        return;
    resp_array(out, 2);
    counter_put_value(r->first, out, r->resp_version);
    resp_int(out, counter_expires_in(r->first));
}

static void encode_read_numbers(struct reply *r, struct buf *out)
{
    int64_t left;

    if (!counters_have_answers(r, out))
        return;
    left = counter_expires_in(r->first);
    resp_numbers(out, 2, (const int64_t[]){ counter_value(r->first), left > 0 ? left : 0 }, 2);
}

static void encode_taken_back(struct reply *r, struct buf *out)
{
    if (counters_have_answers(r, out))
        resp_null(out, r->resp_version);
}

/* ---- running ------------------------------------------------------------------------------- */

static bool is_set(const struct script_run *run, uint8_t argument)
{
    return argument != NONE &&
           (span_is(run->arguments[argument], "true") || span_is(run->arguments[argument], "1"));
}

/* A limit below 1 is exceeded by each hit. */
static struct rule rule_of(const struct script_run *run)
{
    struct rule rule = counter_rule(run->window);

    if (is_set(run, run->shape->later)) {
        rule.start = run->shape->max != NONE && run->max > 0 ? START_OVER : START_EACH;
        rule.limit = rule.start == START_OVER ? run->max : rule.limit;
    } else if (is_set(run, run->shape->backoff)) {
        rule.start = START_BACKOFF;
        rule.limit = run->max;
    }
    return rule;
}

static void ask(const struct script_run *run, struct reply *r)
{
    const struct rule any = counter_rule(0), rule = rule_of(run), block = counter_rule(run->block);

    if (run->shape->encode == encode_taken_back)
        counter_add(r, run->keys[0], &any, -1);
    else if (run->shape->window == NONE)
        counter_peek(r, run->keys[0]);
    else if (counter_add(r, run->keys[0], &rule, run->points) && run->shape->block != NONE)
        reply_ask_counter(r, run->keys[1], &block, VERB_CHECK, 0);
}

/* False: an error was replied. */
static bool read_number(const struct script_run *run, uint8_t argument, int64_t least, int64_t *out)
{
    if (argument == NONE)
        return true;
    if (!resp_word_number(run->arguments[argument], out)) {
        resp_reply_error(run->session, "ERR ARGV[%d] must be a whole number, not '%s'", argument,
                         printable(run->arguments[argument]).text);
        return false;
    }
    if (*out >= least && *out <= AMOUNT_MOST)
        return true;
    resp_reply_error(run->session, "ERR ARGV[%d] must be from %lld to 2^53, not %lld", argument,
                     (long long)least, (long long)*out);
    return false;
}

static bool read_numbers(struct script_run *run)
{
    const struct shape *s = run->shape;

    run->window = run->block = 1;
    run->points = 1;
    if (!read_number(run, s->window, 1, &run->window) ||
        !read_number(run, s->points, -AMOUNT_MOST, &run->points) ||
        !read_number(run, s->max, is_set(run, s->backoff), &run->max) ||
        !read_number(run, s->ban, -AMOUNT_MOST, &run->ban) ||
        !read_number(run, s->block, 1, &run->block))
        return false;
    run->window = run->window < AMOUNT_MOST / 1000 ? run->window * (s->unit ? s->unit : 1)
                                                   : AMOUNT_MOST;
    return true;
}

static void serve(struct session *s, const struct resp_command *c, const struct known_script *of)
{
    const struct shape *shape = &shapes[of->kind];
    struct script_run run = { .session = s, .shape = shape, .keys = &c->words[FIRST_KEY] };
    struct reply *r;
    int64_t keys;

    if (!resp_word_number(c->words[2], &keys) || keys != shape->keys ||
        c->count < FIRST_KEY + (size_t)shape->keys + shape->arguments) {
        resp_reply_error(s, "ERR this script has %d key%s and %d argument%s", shape->keys,
                         shape->keys == 1 ? "" : "s", shape->arguments,
                         shape->arguments == 1 ? "" : "s");
        return;
    }
    run.arguments = run.keys + shape->keys - 1;
    if (!read_numbers(&run))
        return;
    r = reply_begin(s, shape->encode);
    if (!r)
        return;
    r->numbers[0] = run.max;
    r->numbers[1] = run.ban;
    ask(&run, r);
    reply_end(r);
}

/* ---- commands ------------------------------------------------------------------------------ */

static void refuse_script(struct session *s, struct span text)
{
    if (text.len > SCRIPT_MOST_TEXT)
        resp_reply_error(s, "ERR the script is too long: at most %d bytes are looked at",
                         SCRIPT_MOST_TEXT);
    else
        resp_reply_error(s,
                         "ERR weir does not run scripts. It does what those of %s do, and this is "
                         "none of their releases: see docs/resp.md",
                         known_script_packages);
}

/* Most clients that send a text send the same each time: comparing costs less than a hash. */
static const struct known_script *script_of_text(struct session *s, struct span text)
{
    struct last_script *last = &session_loop(s)->script;
    const struct known_script *script;

    if (last->script && span_equal(text, (struct span){ last->text, last->len }))
        return last->script;
    script = known_script_by_text(text);
    if (script && text.len <= sizeof last->text) {
        last->script = script;
        last->len = text.len;
        memcpy(last->text, text.at, text.len);
    }
    return script;
}

void resp_serve_eval(struct session *s, struct resp_command *c)
{
    const struct known_script *script = script_of_text(s, c->words[1]);

    if (script)
        serve(s, c, script);
    else
        refuse_script(s, c->words[1]);
}

void resp_serve_evalsha(struct session *s, struct resp_command *c)
{
    const struct known_script *script = known_script_by_sha1(c->words[1]);

    if (script)
        serve(s, c, script);
    else /* in these words, so that clients send the text, which is refused with the reason */
        resp_reply_error(s, "NOSCRIPT No matching script. Please use EVAL.");
}

static void load(struct session *s, struct span text)
{
    const struct known_script *script = known_script_by_text(text);
    struct reply *r;

    if (!script) {
        refuse_script(s, text);
        return;
    }
    r = resp_reply_begin(s);
    if (!r)
        return;
    resp_bulk(&r->text, span_of(script->sha1));
    resp_reply_end(r);
}

static void tell_known(struct session *s, const struct resp_command *c)
{
    struct reply *r = resp_reply_begin(s);

    if (!r)
        return;
    resp_array(&r->text, c->count - 2);
    for (size_t i = 2; i < c->count; i++)
        resp_int(&r->text, known_script_by_sha1(c->words[i]) != NULL);
    resp_reply_end(r);
}

void resp_serve_script(struct session *s, struct resp_command *c)
{
    static const char *const known[] = { "LOAD", "EXISTS", "FLUSH" };

    if (resp_word_is(c->words[1], "LOAD") && c->count == 3)
        load(s, c->words[2]);
    else if (resp_word_is(c->words[1], "EXISTS") && c->count > 2)
        tell_known(s, c);
    else if (resp_word_is(c->words[1], "FLUSH")) /* what is known here is not forgotten */
        resp_reply_ok(s);
    else if (resp_word_is(c->words[1], "LOAD") || resp_word_is(c->words[1], "EXISTS"))
        resp_reply_wrong_count(s, "SCRIPT");
    else
        resp_reply_no_subcommand(s, "SCRIPT", c->words[1], known, sizeof known / sizeof *known);
}
