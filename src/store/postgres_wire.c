/* postgres_wire.c - a batch as the parameters of weir.judge(), and its row as decisions.
 *
 * FORMAT of an array: dimensions (1), whether there are NULLs, the elements' type, how many there
 * are, the first one's index (1), then each element's length (-1: NULL) and bytes. All numbers are
 * big-endian, those of the head and the lengths of 32 bits. */
#include "store/postgres_wire.h"

#include <endian.h>
#include <stdlib.h>

enum { HEAD = 20, LENGTH = 4 };
enum { RULES_TRIED = 16 }; /* looking for one that is there already; it may be there twice */

enum oid {
    OID_BOOL = 16,
    OID_INT8 = 20,
    OID_INT4 = 23,
    OID_UUID = 2950,
    OID_INT4S = 1007,
    OID_INT8S = 1016,
    OID_UUIDS = 2951,
};

enum parameter {
    KEYS,
    ALGORITHMS,
    LIMITS,
    WINDOWS,
    BURSTS,
    PRECISIONS,
    SLOTS,
    RULES,
    COUNTS,
    VERBS,
    COSTS,
    NOWS,
};

const unsigned judge_types[JUDGE_PARAMETERS] = {
    [KEYS] = OID_UUIDS,   [ALGORITHMS] = OID_INT4S, [LIMITS] = OID_INT8S, [WINDOWS] = OID_INT8S,
    [BURSTS] = OID_INT8S, [PRECISIONS] = OID_INT8S, [SLOTS] = OID_INT4S,  [RULES] = OID_INT4S,
    [COUNTS] = OID_INT4S, [VERBS] = OID_INT4S,      [COSTS] = OID_INT8S,  [NOWS] = OID_INT8S,
};

void judge_parameters_init(struct judge_parameters *p, const weir_allocator *allocator)
{
    buf_init(&p->bytes, allocator);
    buf_init(&p->scratch, allocator);
}

void judge_parameters_done(struct judge_parameters *p)
{
    buf_done(&p->bytes);
    buf_done(&p->scratch);
}

/* ---- numbers ----------------------------------------------------------------------------------- */

static char *put32(char *to, uint32_t n)
{
    n = htobe32(n);
    memcpy(to, &n, sizeof n);
    return to + sizeof n;
}

static char *put_int4(char *to, int64_t number)
{
    return put32(put32(to, 4), (uint32_t)number);
}

static char *put_int8(char *to, int64_t number)
{
    const uint64_t n = htobe64((uint64_t)number);

    to = put32(to, sizeof n);
    memcpy(to, &n, sizeof n);
    return to + sizeof n;
}

static char *put_head(char *to, enum oid type, size_t count, bool has_nulls)
{
    to = put32(to, 1);
    to = put32(to, has_nulls);
    to = put32(to, type);
    to = put32(to, (uint32_t)count);
    return put32(to, 1);
}

static uint32_t get32(const char *at)
{
    uint32_t n;

    memcpy(&n, at, sizeof n);
    return be32toh(n);
}

static int64_t get_int8(const char *at)
{
    uint64_t n;

    memcpy(&n, at, sizeof n);
    return (int64_t)be64toh(n);
}

/* ---- which keys and rules there are ------------------------------------------------------------ */

/* A charge's key, to be sorted. */
struct keyed {
    struct key key;
    size_t charge;
};

/* A batch as the function wants it: keys and rules once each, and by number. */
struct layout {
    const struct batch *batch;
    struct keyed *keyed;         /* of each charge; ascending */
    const struct rule **rules;   /* `rule_count` of them */
    uint32_t *slot_of, *rule_of; /* of each charge; from 1 */
    size_t key_count, rule_count;
};

static int compare_keyed(const void *a, const void *b)
{
    return memcmp(&((const struct keyed *)a)->key, &((const struct keyed *)b)->key,
                  sizeof(struct key));
}

static bool is_same_rule(const struct rule *a, const struct rule *b)
{
    return a == b ||
           (a->algorithm == b->algorithm && a->limit == b->limit && a->window == b->window &&
            a->burst == b->burst && a->precision == b->precision);
}

static uint32_t number_rule(struct layout *l, const struct rule *r)
{
    const size_t oldest = l->rule_count > RULES_TRIED ? l->rule_count - RULES_TRIED : 0;

    for (size_t i = l->rule_count; i > oldest; i--)
        if (is_same_rule(l->rules[i - 1], r))
            return (uint32_t)i;
    l->rules[l->rule_count++] = r;
    return (uint32_t)l->rule_count;
}

static void number_charges(struct layout *l)
{
    const struct batch *b = l->batch;
    size_t at = 0;

    for (size_t i = 0; i < b->count; i++)
        for (size_t j = 0; j < b->charges[i]; j++, at++) {
            const struct charge *c = &b->questions[i]->charges[j];

            l->keyed[at] = (struct keyed){ c->key, at };
            l->rule_of[at] = number_rule(l, c->rule);
        }
    qsort(l->keyed, b->charge_count, sizeof l->keyed[0], compare_keyed);
    for (at = 0; at < b->charge_count; at++) {
        if (at == 0 || compare_keyed(&l->keyed[at], &l->keyed[at - 1]) != 0)
            l->key_count++;
        l->slot_of[l->keyed[at].charge] = (uint32_t)l->key_count;
    }
}

static bool lay_out(struct layout *l, const struct batch *b, struct buf *scratch)
{
    const size_t n = b->charge_count;
    char *room;

    scratch->len = 0;
    room = buf_room(scratch, n * (sizeof *l->keyed + sizeof *l->rules + 2 * sizeof *l->slot_of));
    if (!room)
        return false;
    *l = (struct layout){ .batch = b, .keyed = (struct keyed *)(void *)room };
    l->rules = (const struct rule **)(void *)(l->keyed + n);
    l->slot_of = (uint32_t *)(void *)(l->rules + n);
    l->rule_of = l->slot_of + n;
    number_charges(l);
    return true;
}

/* ---- writing ------------------------------------------------------------------------------------ */

static char *write_keys(char *to, const struct layout *l)
{
    to = put_head(to, OID_UUID, l->key_count, false);
    for (size_t i = 0; i < l->batch->charge_count; i++)
        if (i == 0 || compare_keyed(&l->keyed[i], &l->keyed[i - 1]) != 0) {
            to = put32(to, sizeof l->keyed[i].key);
            memcpy(to, &l->keyed[i].key, sizeof l->keyed[i].key);
            to += sizeof l->keyed[i].key;
        }
    return to;
}

static char *write_algorithms(char *to, const struct layout *l)
{
    to = put_head(to, OID_INT4, l->rule_count, false);
    for (size_t i = 0; i < l->rule_count; i++)
        to = put_int4(to, l->rules[i]->algorithm);
    return to;
}

static char *write_rules(char *to, const struct layout *l, size_t member)
{
    to = put_head(to, OID_INT8, l->rule_count, false);
    for (size_t i = 0; i < l->rule_count; i++) {
        int64_t number;

        memcpy(&number, (const char *)l->rules[i] + member, sizeof number);
        to = put_int8(to, number);
    }
    return to;
}

static char *write_numbers(char *to, const uint32_t *numbers, size_t count)
{
    to = put_head(to, OID_INT4, count, false);
    for (size_t i = 0; i < count; i++)
        to = put_int4(to, numbers[i]);
    return to;
}

static int64_t verb_of(const struct question *q)
{
    enum { CHECK, PEEK, REFUND, RESET };

    switch (q->verb) {
    case VERB_REFUND:
        return REFUND;
    case VERB_RESET:
        return RESET;
    default:
        return q->ask.peek ? PEEK : CHECK;
    }
}

static int64_t number_of(const struct question *q, enum parameter parameter)
{
    return parameter == COUNTS ? (int64_t)q->count : parameter == VERBS ? verb_of(q) : q->ask.cost;
}

static bool is_usual(const struct batch *b, enum parameter parameter)
{
    const int64_t usual = parameter == VERBS ? 0 : 1;

    for (size_t i = 0; i < b->count; i++)
        if (number_of(b->questions[i], parameter) != usual)
            return false;
    return true;
}

/* Nothing, if all is as usual: one charge, a check, a cost of 1. */
static char *write_questions(char *to, const struct batch *b, enum parameter parameter)
{
    const bool is_long = parameter == COSTS;

    if (is_usual(b, parameter))
        return to;
    to = put_head(to, is_long ? OID_INT8 : OID_INT4, b->count, false);
    for (size_t i = 0; i < b->count; i++)
        to = (is_long ? put_int8 : put_int4)(to, number_of(b->questions[i], parameter));
    return to;
}

static char *write_nows(char *to, const struct batch *b)
{
    to = put_head(to, OID_INT8, b->count, true);
    for (size_t i = 0; i < b->count; i++) {
        const int64_t now = b->questions[i]->ask.now;

        to = now ? put_int8(to, now) : put32(to, UINT32_MAX);
    }
    return to;
}

static char *write_parameter(char *to, const struct layout *l, bool brings_now,
                             enum parameter parameter)
{
    switch (parameter) {
    case KEYS:
        return write_keys(to, l);
    case ALGORITHMS:
        return write_algorithms(to, l);
    case LIMITS:
        return write_rules(to, l, offsetof(struct rule, limit));
    case WINDOWS:
        return write_rules(to, l, offsetof(struct rule, window));
    case BURSTS:
        return write_rules(to, l, offsetof(struct rule, burst));
    case PRECISIONS:
        return write_rules(to, l, offsetof(struct rule, precision));
    case SLOTS:
        return write_numbers(to, l->slot_of, l->batch->charge_count);
    case RULES:
        return write_numbers(to, l->rule_of, l->batch->charge_count);
    case NOWS:
        return brings_now ? write_nows(to, l->batch) : to;
    default:
        return write_questions(to, l->batch, parameter);
    }
}

bool judge_write(struct judge_parameters *p, const struct batch *b, bool brings_now)
{
    const size_t most = JUDGE_PARAMETERS * HEAD +
                        b->charge_count * (8 * LENGTH + sizeof(struct key) + 3 * 4 + 4 * 8) +
                        b->count * (4 * LENGTH + 2 * 4 + 2 * 8);
    struct layout l;
    char *at;

    p->bytes.len = 0;
    at = buf_room(&p->bytes, most);
    if (!at || !lay_out(&l, b, &p->scratch))
        return false;
    for (int i = 0; i < JUDGE_PARAMETERS; i++) {
        char *end = write_parameter(at, &l, brings_now, (enum parameter)i);

        p->values[i] = end > at ? at : NULL;
        p->lengths[i] = (int)(end - at);
        at = end;
    }
    return true;
}

/* ---- reading ------------------------------------------------------------------------------------ */

/* Elements of `size` bytes, so many, none of them NULL. */
static bool is_array(struct span column, enum oid type, size_t size, size_t count)
{
    if (column.len != HEAD + count * (LENGTH + size) || get32(column.at) != 1 ||
        get32(column.at + 8) != type || get32(column.at + 12) != count)
        return false;
    for (size_t i = 0; i < count; i++)
        if (get32(column.at + HEAD + i * (LENGTH + size)) != size)
            return false;
    return true;
}

static const char *element(struct span column, size_t size, size_t i)
{
    return column.at + HEAD + i * (LENGTH + size) + LENGTH;
}

static void read_decision(const struct span *columns, size_t i, struct decision *out)
{
    out->allowed = *element(columns[0], 1, i) != 0;
    out->remaining = get_int8(element(columns[1], 8, i));
    out->retry_after = get_int8(element(columns[2], 8, i));
    out->reset_after = get_int8(element(columns[3], 8, i));
    out->delay = get_int8(element(columns[4], 8, i));
}

static void read_decisions(const struct span *columns, size_t at, struct question *q)
{
    q->allowed = true;
    for (size_t i = 0; i < q->count; i++) {
        struct decision *d = &q->charges[i].step.decision;

        read_decision(columns, at + i, d);
        q->allowed = q->allowed && d->allowed;
    }
}

bool judge_read(const struct span columns[JUDGE_COLUMNS], struct batch *b)
{
    size_t at = 0;

    if (!is_array(columns[0], OID_BOOL, 1, b->charge_count))
        return false;
    for (int i = 1; i < JUDGE_COLUMNS; i++)
        if (!is_array(columns[i], OID_INT8, 8, b->charge_count))
            return false;
    for (size_t i = 0; i < b->count; i++) {
        if (i >= b->first)
            read_decisions(columns, at, b->questions[i]);
        at += b->charges[i];
    }
    return true;
}
