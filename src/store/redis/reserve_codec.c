/* reserve_codec.c - questions about reservations as a call of lua/reserve.lua, and its reply. */
#include "store/redis/reserve_codec.h"

#include <endian.h>
#include <stdlib.h>

#include "base/clock.h"
#include "store/redis/msgpack.h"

/* As lua/reserve.lua numbers them. */
enum { RESERVE = 6, SETTLE, GROW, EXTEND, UNDO, POINT, LOOK };
enum {
    DONE,
    DENIED,
    UNKNOWN,
    REUSED,
    SETTLED,
    EXPIRED,
    ELSEWHERE,
    NOT_COUNTED,
    TOO_LONG,
    OUTCOMES
};
enum { REPEATED = 1, HAD_EXPIRED = 2, IN_THE_WAY = 4 };
enum { NO_TOKEN = -1 };
enum { USED_AT_ONCE = 1, GIVES_BACK = 2 };
enum { IS_RELEASE = 1, FORGETS = 2 };

enum {
    CLOCK = 8, /* bytes of a reply before the first question */
    HEAD = 24, /* of each question */
    HELD = 34, /* of each charge: where its held amount is */
    ROW = 42,  /* … and all of it */
    TAG = 2,   /* of each tag, the high byte first */
};

static const struct question *question_at(const struct call *c, size_t i)
{
    return c->batch->questions[c->numbers[i]];
}

static bool is_main(const struct reserving *of)
{
    return !of->part || of->part->is_main;
}

/* ---- writing --------------------------------------------------------------------------------- */

struct words {
    struct buf *to;
    uint32_t count;
};

static void add(struct words *w, int64_t number)
{
    char *room = buf_room(w->to, MSGPACK_NUMBER);

    if (room)
        buf_wrote(w->to, (size_t)(msgpack_put_number(room, number) - room));
    w->count++;
}

static void add_text(struct words *w, struct span text)
{
    char head[MSGPACK_HEAD];

    msgpack_put(head, MSGPACK_TEXT, text.len, 4);
    buf_add(w->to, (struct span){ head, sizeof head });
    buf_add(w->to, text);
    w->count++;
}

static void add_fingerprint(struct words *w, uint64_t fingerprint)
{
    const uint64_t bytes = htole64(fingerprint);

    add_text(w, (struct span){ (const char *)&bytes, sizeof bytes });
}

static int verb_of_part(const struct reserving_part *part)
{
    switch (part ? part->pointing : POINTS_TO_NONE) {
    case POINTS_TO_NONE:
        break;
    case POINTS:
    case REPLACES:
        return POINT;
    case LOOKS_BEHIND:
        return LOOK;
    }
    return RESERVE;
}

static int wire_verb(const struct question *q)
{
    switch (q->verb) {
    case VERB_RESERVE:
        return verb_of_part(q->reserving->part);
    case VERB_SETTLE:
        return SETTLE;
    case VERB_GROW:
        return GROW;
    case VERB_EXTEND:
        return EXTEND;
    case VERB_UNDO:
        return UNDO;
    case VERB_CHECK: /* these are not about reservations */
    case VERB_CHARGE:
    case VERB_REFUND:
    case VERB_RESET:
        break;
    }
    abort();
}

static size_t key_count(const struct question *q)
{
    return wire_verb(q) == RESERVE ? 1 + q->count : 1;
}

static void add_keys(struct buf *out, const struct question *q)
{
    const struct reserving *of = q->reserving;
    const struct charge_name name = { "reservation", "", of->part ? of->part->tag : of->tag };
    const size_t count = key_count(q);

    call_add_key(out, &name, of->key);
    for (size_t i = 1; i < count; i++)
        call_add_key(out, &q->charges[i - 1].name, q->charges[i - 1].key);
}

/* What a client is told of its charges when it is settled. */
static bool add_about(struct words *w, const struct question *q, int64_t now)
{
    const struct question *whole = q->reserving->part ? q->reserving->part->whole : q;
    struct reservation *r;

    if (!is_main(q->reserving)) {
        add_text(w, span_of(""));
        return true;
    }
    for (size_t i = 0; i < whole->count; i++) /* boundaries of the calendar are around it */
        whole->charges[i].step.now = now ? now : clock_wall_ms();
    r = reservation_new(q->reserving, whole->charges, whole->count, 0, &w->to->allocator);
    if (!r)
        return false;
    add_text(w, (struct span){ (const char *)r, r->block.size });
    alloc_free(&w->to->allocator, r);
    return true;
}

static void add_tags(struct words *w, const struct reserving_part *part)
{
    char tags[TAG * RESERVATION_MOST_CHARGES], *to = tags;

    for (size_t i = 0; part && part->is_main && i < part->tag_count; i++) {
        *to++ = (char)(part->tags[i] >> 8);
        *to++ = (char)part->tags[i];
    }
    add_text(w, (struct span){ tags, (size_t)(to - tags) });
}

/* What the whole counts: other amounts are refused. The main record alone knows. */
static void add_names(struct words *w, const struct question *q)
{
    const struct reserving *of = q->reserving;
    const size_t count = !is_main(of) ? 0 : of->part ? of->part->whole->count : q->count;

    add(w, (int64_t)count);
    for (size_t i = 0; i < count; i++)
        add_text(w, span_of(of->labels[i].counts));
}

static void add_charge(struct words *w, const struct question *q, size_t i, int64_t key,
                       int64_t now)
{
    const struct reserving *of = q->reserving;
    const size_t place = of->part && of->part->places ? of->part->places[i] : i;
    const struct charge *c = &q->charges[i];
    int64_t words[CALL_RULE_WORDS];
    const size_t count = call_rule_words(c->rule, c->cost, now, words);

    add(w, key);
    add(w, (int64_t)place);
    add(w, of->labels[place].is_shadow);
    add_text(w, span_of(of->labels[place].counts));
    add(w, c->cost);
    for (size_t k = 0; k < count; k++)
        add(w, words[k]);
}

static bool add_reserve(struct words *w, const struct question *q, int64_t key, int64_t now)
{
    const struct reserving *of = q->reserving;

    add_fingerprint(w, of->fingerprint);
    add(w, of->ttl);
    add(w, of->most_ttl);
    add(w, of->is_used ? USED_AT_ONCE : of->gives_back ? GIVES_BACK : 0);
    add(w, of->part ? of->part->token : 0);
    if (!add_about(w, q, now))
        return false;
    add_tags(w, of->part);
    add_names(w, q);
    add(w, (int64_t)q->count);
    for (size_t i = 0; i < q->count; i++)
        add_charge(w, q, i, key + 1 + (int64_t)i, now);
    return true;
}

static void add_amounts(struct words *w, const struct reserving *of)
{
    add(w, (int64_t)of->amount_count);
    for (size_t i = 0; i < of->amount_count; i++) {
        add_text(w, of->amounts[i].name);
        add(w, of->amounts[i].amount);
    }
}

static int64_t settle_bits(const struct reserving *of)
{
    return (of->is_release ? IS_RELEASE : 0) | (of->forgets ? FORGETS : 0);
}

/* `key` is the number of its record's key; those of its charges follow. */
static bool add_question(struct words *w, const struct question *q, int64_t key, int64_t now)
{
    const struct reserving *of = q->reserving;
    const int verb = wire_verb(q);

    add(w, verb);
    add(w, now);
    add(w, key);
    if (verb == RESERVE)
        return add_reserve(w, q, key, now);
    if (verb == POINT) {
        add_fingerprint(w, of->fingerprint);
        add(w, of->ttl);
        add(w, of->part->token);
        add(w, of->part->whole->charges[0].name.tag);
        add(w, of->part->pointing == REPLACES ? of->part->stale : NO_TOKEN);
    } else if (verb == UNDO || verb == LOOK) {
        add(w, of->part->token);
    } else if (verb == EXTEND) {
        add(w, of->ttl);
    } else {
        add(w, verb == SETTLE ? settle_bits(of) : of->part ? of->part->token : 0);
        add_amounts(w, of);
    }
    return true;
}

bool reserve_call_write(struct call_writer *w, const struct call *call, struct call_options options,
                        struct buf *out)
{
    char head[MSGPACK_HEAD] = { 0 };
    struct words words = { &w->words, 0 };
    size_t keys = 0;

    w->words.len = 0;
    buf_add(&w->words, (struct span){ head, sizeof head });
    for (size_t i = 0; i < call->count; i++) {
        const struct question *q = question_at(call, i);

        if (!add_question(&words, q, (int64_t)keys + 1, options.brings_now ? q->ask.now : 0))
            return false;
        keys += key_count(q);
    }
    if (w->words.failed)
        return false;
    msgpack_put(w->words.at, MSGPACK_ARRAY, words.count, 4);
    call_begin(out, &scripts[SCRIPT_RESERVE], options.has_script, keys);
    for (size_t i = 0; i < call->count; i++)
        add_keys(out, question_at(call, i));
    call_add_word(out, buf_span(&w->words));
    return !out->failed;
}

/* ---- reading --------------------------------------------------------------------------------- */

struct answered {
    int outcome, bits;
    int64_t expires_in, over, clock;
    size_t count;
    const char *rows;
    struct span about, tags;
};

static size_t get_short(const char *at)
{
    return (size_t)(unsigned char)at[0] | (size_t)(unsigned char)at[1] << 8;
}

/* The next question's part of a reply. False: this is none. */
static bool cut(struct span *rest, int64_t clock, struct answered *out)
{
    size_t size;

    if (rest->len < HEAD)
        return false;
    *out = (struct answered){
        .outcome = (unsigned char)rest->at[0],
        .bits = (unsigned char)rest->at[1],
        .expires_in = call_get_number(rest->at + 2),
        .over = call_get_number(rest->at + 10),
        .clock = clock,
        .count = get_short(rest->at + 18),
        .rows = rest->at + HEAD,
    };
    out->about = (struct span){ out->rows + out->count * ROW, get_short(rest->at + 20) };
    out->tags = (struct span){ out->about.at + out->about.len, get_short(rest->at + 22) };
    size = HEAD + out->count * ROW + out->about.len + out->tags.len;
    if (size > rest->len || out->outcome >= OUTCOMES || out->count > RESERVATION_MOST_CHARGES)
        return false;
    *rest = (struct span){ rest->at + size, rest->len - size };
    return true;
}

static weir_err refusal_of(int outcome)
{
    static const weir_err refusals[OUTCOMES] = {
        [UNKNOWN] = WEIR_ENORESERVATION, [REUSED] = WEIR_EREUSED,    [SETTLED] = WEIR_ESETTLED,
        [EXPIRED] = WEIR_EEXPIRED,       [NOT_COUNTED] = WEIR_ECOST, [TOO_LONG] = WEIR_ETTL,
    };

    return refusals[outcome];
}

/* To reserve, or to undo that, a question has its own charges; else it has those of the whole. */
static bool has_own_charges(const struct question *q)
{
    const struct reserving_part *part = q->reserving->part;

    return verb_makes_reservation(q->verb) || (part && part->places);
}

static void read_rows(const struct answered *a, struct question *q)
{
    const size_t most = has_own_charges(q) ? q->count : q->charges ? RESERVATION_MOST_CHARGES : 0;

    for (size_t i = 0; i < a->count; i++) {
        const char *row = a->rows + i * ROW;
        const size_t place = has_own_charges(q) ? i : (unsigned char)row[0];

        if (place >= most)
            continue;
        call_read_decision(row + 1, &q->charges[place].step.decision);
        q->charges[place].step.now = a->clock;
        if (!has_own_charges(q)) /* what it counts is known if the record said so */
            q->charges[place].cost = place < q->count
                                         ? reservation_added(q, place, call_get_number(row + HELD))
                                         : 0;
    }
}

/* What the record says of its charges. One that another version or another kind of machine has
 * written says nothing: what was asked is done all the same. False: out of memory. */
static bool read_about(const struct answered *a, struct question *q,
                       const weir_allocator *allocator)
{
    struct reservation *r;

    if (a->about.len == 0 || has_own_charges(q) || !q->charges)
        return true;
    r = alloc_zeroed(allocator, a->about.len);
    if (!r)
        return false;
    memcpy(r, a->about.at, a->about.len);
    q->count = 0;
    if (reservation_is_sound(r, a->about.len)) {
        q->count = r->charge_count;
        reservation_read(r, q->reserving, q->charges);
    }
    alloc_free(allocator, r);
    return true;
}

static void read_part(const struct answered *a, const struct question *q)
{
    struct reserving_part *part = q->reserving->part;

    part->is_unknown = a->outcome == UNKNOWN;
    part->is_elsewhere = a->outcome == ELSEWHERE;
    part->elsewhere = (uint16_t)a->over;
    if (has_own_charges(q))
        return;
    part->tag_count = a->tags.len / TAG;
    if (part->tag_count > RESERVATION_MOST_CHARGES)
        part->tag_count = RESERVATION_MOST_CHARGES;
    for (size_t i = 0; i < part->tag_count; i++)
        part->tags[i] = (uint16_t)((unsigned char)a->tags.at[TAG * i] << 8 |
                                   (unsigned char)a->tags.at[TAG * i + 1]);
}

static void go_on_at(struct reserving_part *part, enum pointing how, uint16_t tag)
{
    part->pointing = how;
    part->is_elsewhere = true;
    part->elsewhere = tag;
}

/* To find a pointer of another question is no answer yet. */
static void read_pointer(const struct answered *a, struct question *q)
{
    struct reserving_part *part = q->reserving->part;

    if (part->pointing == POINTS && a->outcome == REUSED && a->bits & IN_THE_WAY) {
        part->stale = a->expires_in;
        go_on_at(part, LOOKS_BEHIND, (uint16_t)a->over);
    } else if (part->pointing == LOOKS_BEHIND && a->outcome == UNKNOWN) {
        go_on_at(part, REPLACES, q->reserving->tag);
    } else if (part->pointing == LOOKS_BEHIND) {
        q->reserving->refusal = WEIR_EREUSED;
        q->allowed = false;
    }
}

static bool read_question(const struct answered *a, struct question *q,
                          const weir_allocator *allocator)
{
    struct reserving *of = q->reserving;

    if (a->outcome == ELSEWHERE && !of->part)
        return false;
    if (wire_verb(q) == UNDO) { /* what was told before it holds, but for how things stand */
        read_rows(a, q);
        return true;
    }
    if (!read_about(a, q, allocator))
        return false;
    of->refusal = refusal_of(a->outcome);
    of->expires_in = a->expires_in;
    of->is_repeated = a->bits & REPEATED;
    of->has_expired = a->bits & HAD_EXPIRED;
    of->over = a->outcome == ELSEWHERE ? 0 : a->over;
    q->allowed = a->outcome == DONE;
    read_rows(a, q);
    if (of->part)
        read_part(a, q);
    if (of->part && of->part->pointing != POINTS_TO_NONE)
        read_pointer(a, q);
    return true;
}

bool reserve_call_read(struct span reply, const struct call *call, const weir_allocator *allocator)
{
    struct span rest = reply;
    bool is_read = reply.len >= CLOCK;

    if (is_read)
        rest = (struct span){ reply.at + CLOCK, reply.len - CLOCK };
    for (size_t i = 0; i < call->count && is_read; i++) {
        const size_t number = call->numbers[i];
        struct answered a;

        is_read = cut(&rest, call_get_number(reply.at), &a);
        if (is_read && number >= call->batch->first)
            is_read = read_question(&a, call->batch->questions[number], allocator);
    }
    return is_read && rest.len == 0;
}
