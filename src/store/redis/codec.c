/* codec.c - questions as a call of lua/judge.lua, and its reply as decisions. */
#include "store/redis/codec.h"

#include <endian.h>
#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/decimal.h"
#include "base/hex.h"
#include "limit/calendar.h"
#include "store/redis/msgpack.h"
#include "store/remote/wire_verb.h"

enum {
    RULES_TRIED = 16, /* looking for one that is there already; it may be there twice */
    NS_PER_MS = 1000000,
    REPLY_HEAD = 8,    /* bytes: the server's time */
    REPLY_CHARGE = 33, /* bytes of each charge */
    KEY_TEXT = 2 * WEIR_MAX_NAME + 64,
};

extern const char judge_script[], judge_sha[], reserve_script[], reserve_sha[];

const struct script scripts[SCRIPT_COUNT] = {
    [SCRIPT_JUDGE] = { judge_script, judge_sha },
    [SCRIPT_RESERVE] = { reserve_script, reserve_sha },
};

void call_writer_init(struct call_writer *w, const weir_allocator *allocator)
{
    buf_init(&w->words, allocator);
    buf_init(&w->scratch, allocator);
}

void call_writer_done(struct call_writer *w)
{
    buf_done(&w->words);
    buf_done(&w->scratch);
}

static const struct question *question_at(const struct call *c, size_t i)
{
    return c->batch->questions[c->numbers[i]];
}

static size_t count_charges(const struct call *c)
{
    size_t n = 0;

    for (size_t i = 0; i < c->count; i++)
        n += c->batch->charges[c->numbers[i]];
    return n;
}

/* ---- which keys and rules there are ---------------------------------------------------------- */

/* A rule as it is written. A cell's has the cost in it. */
struct numbered {
    const struct rule *rule;
    int64_t cost;
    int64_t now; /* what boundaries of the calendar are around; 0: this machine's clock */
};

struct layout {
    const struct charge **keys; /* one charge of each */
    struct numbered *rules;
    uint16_t *key_of, *rule_of; /* of each charge; from 1 */
    uint16_t *table;            /* open addressing: a key's number, 0 is empty */
    size_t mask;
    size_t key_count, rule_count;
};

static uint16_t number_key(struct layout *l, const struct charge *c)
{
    size_t at = c->key.high & l->mask;

    for (; l->table[at]; at = (at + 1) & l->mask) {
        const struct key *k = &l->keys[l->table[at] - 1]->key;

        if (k->high == c->key.high && k->low == c->key.low)
            return l->table[at];
    }
    l->keys[l->key_count++] = c;
    l->table[at] = (uint16_t)l->key_count;
    return l->table[at];
}

static bool is_same_rule(const struct numbered *a, const struct rule *b, int64_t cost, int64_t now)
{
    return (b->start != START_CALENDAR || a->now == now) &&
           (b->algorithm != ALGORITHM_CELL || a->cost == cost) && rule_is_same(a->rule, b);
}

static uint16_t number_rule(struct layout *l, const struct rule *r, int64_t cost, int64_t now)
{
    const size_t oldest = l->rule_count > RULES_TRIED ? l->rule_count - RULES_TRIED : 0;

    for (size_t i = l->rule_count; i > oldest; i--)
        if (is_same_rule(&l->rules[i - 1], r, cost, now))
            return (uint16_t)i;
    l->rules[l->rule_count++] = (struct numbered){ r, cost, now };
    return (uint16_t)l->rule_count;
}

static bool lay_out(struct layout *l, const struct call *c, size_t n, struct buf *scratch)
{
    size_t size = 4, at = 0;
    char *room;

    while (size < 2 * n)
        size *= 2;
    scratch->len = 0;
    room = buf_room(scratch, n * (sizeof *l->keys + sizeof *l->rules + 2 * sizeof *l->key_of) +
                                 size * sizeof *l->table);
    if (!room)
        return false;
    *l = (struct layout){ .keys = (const struct charge **)(void *)room, .mask = size - 1 };
    l->rules = (struct numbered *)(void *)(l->keys + n);
    l->key_of = (uint16_t *)(void *)(l->rules + n);
    l->rule_of = l->key_of + n;
    l->table = l->rule_of + n;
    memset(l->table, 0, size * sizeof *l->table);
    for (size_t i = 0; i < c->count; i++) {
        const struct question *q = question_at(c, i);

        for (size_t j = 0; j < q->count; j++, at++) {
            l->key_of[at] = number_key(l, &q->charges[j]);
            l->rule_of[at] = number_rule(l, q->charges[j].rule, q->charges[j].cost, q->ask.now);
        }
    }
    return true;
}

/* ---- the numbers of a call ------------------------------------------------------------------- */

struct words {
    char *at;
    uint32_t count;
};

static void add(struct words *w, int64_t number)
{
    w->at = msgpack_put_number(w->at, number);
    w->count++;
}

/* As whole ms, and the ns from 0 to 999,999 above them. */
static int64_t *put_ns(int64_t *to, int64_t ns)
{
    const int64_t above = (ns % NS_PER_MS + NS_PER_MS) % NS_PER_MS;

    *to++ = (ns - above) / NS_PER_MS;
    *to++ = above;
    return to;
}

size_t call_rule_words(const struct rule *r, int64_t cost, int64_t now,
                       int64_t words[CALL_RULE_WORDS])
{
    int64_t *to = words;

    *to++ = rule_wire_algorithm(r);
    if (r->algorithm == ALGORITHM_CELL) {
        to = put_ns(to, r->window);
        to = put_ns(to, r->window * r->limit);
        to = put_ns(to, r->window * cost);
        return (size_t)(put_ns(to, r->precision) - words);
    }
    *to++ = r->limit;
    *to++ = r->window;
    *to++ = r->burst;
    *to++ = r->precision;
    *to++ = r->block_for;
    if (r->start == START_CALENDAR) {
        struct calendar_bounds bounds;

        calendar_bounds(r->calendar, now ? now : clock_wall_ms(), &bounds);
        for (int i = 0; i < CALENDAR_BOUNDS; i++)
            *to++ = bounds.at[i];
    }
    return (size_t)(to - words);
}

static void add_rule(struct words *w, const struct numbered *n)
{
    int64_t words[CALL_RULE_WORDS];
    const size_t count = call_rule_words(n->rule, n->cost, n->now, words);

    for (size_t i = 0; i < count; i++)
        add(w, words[i]);
}

static void add_question(struct words *w, const struct layout *l, const struct question *q,
                         size_t at, bool brings_now)
{
    add(w, wire_verb_of(q));
    add(w, brings_now ? q->ask.now : 0);
    add(w, (int64_t)q->count);
    for (size_t i = 0; i < q->count; i++) {
        add(w, l->key_of[at + i]);
        add(w, l->rule_of[at + i]);
        add(w, q->charges[i].cost);
        if (q->verb == VERB_UNDO) {
            const struct step *charged = &q->charges[i].step;

            add(w, charged->now);
            add(w, charged->now - charged->decision.reset_after);
        }
    }
}

/* One array; its length is known in the end. */
static bool write_words(struct buf *to, const struct layout *l, const struct call *c, size_t n,
                        bool brings_now)
{
    const size_t most = MSGPACK_HEAD + MSGPACK_NUMBER * (1 + CALL_RULE_WORDS * l->rule_count +
                                                         3 * c->count + 5 * n);
    size_t at = 0;
    char *begin;
    struct words w;

    to->len = 0;
    begin = buf_room(to, most);
    if (!begin)
        return false;
    w = (struct words){ .at = begin + MSGPACK_HEAD };
    add(&w, (int64_t)l->rule_count);
    for (size_t i = 0; i < l->rule_count; i++)
        add_rule(&w, &l->rules[i]);
    for (size_t i = 0; i < c->count; i++) {
        add_question(&w, l, question_at(c, i), at, brings_now);
        at += question_at(c, i)->count;
    }
    msgpack_put(begin, MSGPACK_ARRAY, w.count, 4);
    buf_wrote(to, (size_t)(w.at - begin));
    return true;
}

/* ---- the command ----------------------------------------------------------------------------- */

static char *put_key(char *to, const struct charge_name *name, struct key key)
{
    const unsigned char tag[2] = { (unsigned char)(name->tag >> 8), (unsigned char)name->tag };

    to = stpcpy(to, "rl:{");
    to = hex_write(to, tag, sizeof tag);
    to = stpcpy(to, "}:");
    to = stpcpy(to, name->policy);
    if (*name->rule) {
        *to++ = ':';
        to = stpcpy(to, name->rule);
    }
    *to++ = ':';
    return hex_write(to, (const unsigned char *)&key, sizeof key);
}

void call_add_word(struct buf *out, struct span word)
{
    char head[DECIMAL_MOST + 4], *end = decimal_write(head + 1, (int64_t)word.len);

    head[0] = '$';
    memcpy(end, "\r\n", 2);
    buf_add(out, (struct span){ head, (size_t)(end + 2 - head) });
    buf_add(out, word);
    buf_add(out, (struct span){ "\r\n", 2 });
}

void call_add_key(struct buf *out, const struct charge_name *name, struct key key)
{
    char text[KEY_TEXT];

    call_add_word(out, (struct span){ text, (size_t)(put_key(text, name, key) - text) });
}

void call_begin(struct buf *out, const struct script *script, bool has_script, size_t key_count)
{
    char count[DECIMAL_MOST];

    buf_byte(out, '*');
    buf_int(out, (int64_t)key_count + 4);
    buf_text(out, has_script ? "\r\n$4\r\nEVAL\r\n" : "\r\n$7\r\nEVALSHA\r\n");
    call_add_word(out, span_of(has_script ? script->text : script->sha));
    call_add_word(
        out, (struct span){ count, (size_t)(decimal_write(count, (int64_t)key_count) - count) });
}

bool call_write(struct call_writer *w, const struct call *call, struct call_options options,
                struct buf *out)
{
    const size_t n = count_charges(call);
    struct layout l;

    if (!lay_out(&l, call, n, &w->scratch) ||
        !write_words(&w->words, &l, call, n, options.brings_now))
        return false;
    call_begin(out, &scripts[SCRIPT_JUDGE], options.has_script, l.key_count);
    for (size_t i = 0; i < l.key_count; i++)
        call_add_key(out, &l.keys[i]->name, l.keys[i]->key);
    call_add_word(out, buf_span(&w->words));
    return !out->failed;
}

void redis_command(struct buf *out, const char *const *words, size_t count)
{
    buf_byte(out, '*');
    buf_int(out, (int64_t)count);
    buf_text(out, "\r\n");
    for (size_t i = 0; i < count; i++)
        call_add_word(out, span_of(words[i]));
}

/* ---- the reply ------------------------------------------------------------------------------- */

int64_t call_get_number(const char *at)
{
    uint64_t bits;
    double d;

    memcpy(&bits, at, sizeof bits);
    bits = le64toh(bits);
    memcpy(&d, &bits, sizeof d);
    return isnan(d) ? 0 : d >= 0x1p63 ? INT64_MAX : d < -0x1p63 ? INT64_MIN : (int64_t)d;
}

void call_read_decision(const char *at, struct decision *out)
{
    *out = (struct decision){
        .allowed = *at != 0,
        .remaining = call_get_number(at + 1),
        .retry_after = call_get_number(at + 9),
        .reset_after = call_get_number(at + 17),
        .delay = call_get_number(at + 25),
    };
}

static void read_question(const char *at, int64_t clock, struct question *q)
{
    q->allowed = true;
    for (size_t i = 0; i < q->count; i++) {
        struct step *step = &q->charges[i].step;

        call_read_decision(at + i * REPLY_CHARGE, &step->decision);
        step->now = clock;
        q->allowed = q->allowed && step->decision.allowed;
    }
}

bool call_read(struct span reply, const struct call *call)
{
    const char *at = reply.at + REPLY_HEAD;

    if (reply.len != REPLY_HEAD + count_charges(call) * REPLY_CHARGE)
        return false;
    for (size_t i = 0; i < call->count; i++) {
        const size_t number = call->numbers[i];

        if (number >= call->batch->first)
            read_question(at, call_get_number(reply.at), call->batch->questions[number]);
        at += call->batch->charges[number] * REPLY_CHARGE;
    }
    return true;
}
