/* judge.c - a batch as the parameters of weir.judge(), and its row as decisions. */
#include "store/postgres/judge.h"

#include "store/postgres/array.h"
#include "store/postgres/layout.h"
#include "store/remote/wire_verb.h"

enum { COLUMNS = 5 };

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
    BLOCKS,
    BOUNDS,
};

static const unsigned types[] = {
    [KEYS] = OID_UUIDS,   [ALGORITHMS] = OID_INT4S, [LIMITS] = OID_INT8S, [WINDOWS] = OID_INT8S,
    [BURSTS] = OID_INT8S, [PRECISIONS] = OID_INT8S, [SLOTS] = OID_INT4S,  [RULES] = OID_INT4S,
    [COUNTS] = OID_INT4S, [VERBS] = OID_INT4S,      [COSTS] = OID_INT8S,  [NOWS] = OID_INT8S,
    [BLOCKS] = OID_INT8S, [BOUNDS] = OID_INT8S,
};

const struct statement judge_statement = {
    .name = "weir_judge",
    .text = "SELECT allowed, remaining, retry_after, reset_after, delay "
            "FROM weir.judge($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)",
    .types = types,
    .parameter_count = sizeof types / sizeof types[0],
    .column_count = COLUMNS,
};

/* ---- writing --------------------------------------------------------------------------------- */

static char *write_numbers(char *to, const uint32_t *numbers, size_t count)
{
    to = array_head(to, OID_INT4, count, false);
    for (size_t i = 0; i < count; i++)
        to = array_int4(to, numbers[i]);
    return to;
}

static int64_t number_of(const struct question *q, enum parameter parameter)
{
    return parameter == COUNTS ? (int64_t)q->count : (int64_t)wire_verb_of(q);
}

static bool is_usual(const struct batch *b, enum parameter parameter)
{
    const int64_t usual = parameter == VERBS ? WIRE_CHECK : 1;

    for (size_t i = 0; i < b->count; i++)
        if (number_of(b->questions[i], parameter) != usual)
            return false;
    return true;
}

/* Nothing, if all is as usual: one charge, a check. */
static char *write_questions(char *to, const struct batch *b, enum parameter parameter)
{
    if (is_usual(b, parameter))
        return to;
    to = array_head(to, OID_INT4, b->count, false);
    for (size_t i = 0; i < b->count; i++)
        to = array_int4(to, number_of(b->questions[i], parameter));
    return to;
}

static bool cost_one_each(const struct batch *b)
{
    for (size_t i = 0; i < b->count; i++)
        for (size_t j = 0; j < b->questions[i]->count; j++)
            if (b->questions[i]->charges[j].cost != 1)
                return false;
    return true;
}

static char *write_costs(char *to, const struct batch *b)
{
    if (cost_one_each(b))
        return to;
    to = array_head(to, OID_INT8, b->charge_count, false);
    for (size_t i = 0; i < b->count; i++)
        for (size_t j = 0; j < b->questions[i]->count; j++)
            to = array_int8(to, b->questions[i]->charges[j].cost);
    return to;
}

static char *write_nows(char *to, const struct batch *b)
{
    to = array_head(to, OID_INT8, b->count, true);
    for (size_t i = 0; i < b->count; i++) {
        const int64_t now = b->questions[i]->ask.now;

        to = now ? array_int8(to, now) : array_null(to);
    }
    return to;
}

static char *write_parameter(char *to, const struct layout *l, bool brings_now,
                             enum parameter parameter)
{
    switch (parameter) {
    case KEYS:
        return layout_write_keys(to, l);
    case ALGORITHMS:
        return layout_write_algorithms(to, l);
    case LIMITS:
        return layout_write_limits(to, l);
    case WINDOWS:
        return layout_write_windows(to, l);
    case BURSTS:
        return layout_write_bursts(to, l);
    case PRECISIONS:
        return layout_write_precisions(to, l);
    case SLOTS:
        return write_numbers(to, l->slot_of, l->batch->charge_count);
    case RULES:
        return write_numbers(to, l->rule_of, l->batch->charge_count);
    case NOWS:
        return brings_now ? write_nows(to, l->batch) : to;
    case BLOCKS:
        return layout_locks(l) ? layout_write_blocks(to, l) : to;
    case BOUNDS:
        return layout_has_calendars(l) ? layout_write_bounds(to, l) : to;
    case COUNTS:
    case VERBS:
        return write_questions(to, l->batch, parameter);
    case COSTS:
        return write_costs(to, l->batch);
    }
    return to;
}

bool judge_write(struct parameters *p, const struct layout *l, bool brings_now)
{
    const struct batch *b = l->batch;
    const size_t most = sizeof types / sizeof types[0] * ARRAY_HEAD +
                        b->charge_count *
                            (15 * ARRAY_LENGTH + sizeof(struct key) + 3 * 4 + 11 * 8) +
                        b->count * (3 * ARRAY_LENGTH + 2 * 4 + 8);
    char *at = parameters_begin(p, &judge_statement, most);

    if (!at)
        return false;
    for (int i = 0; i < judge_statement.parameter_count; i++)
        at = parameters_add(p, at, write_parameter(at, l, brings_now, (enum parameter)i));
    return true;
}

/* ---- reading --------------------------------------------------------------------------------- */

void judge_read_decision(const struct span *columns, size_t i, struct decision *out)
{
    out->allowed = *array_element(columns[0], 1, i) != 0;
    out->remaining = get_64(array_element(columns[1], 8, i));
    out->retry_after = get_64(array_element(columns[2], 8, i));
    out->reset_after = get_64(array_element(columns[3], 8, i));
    out->delay = get_64(array_element(columns[4], 8, i));
}

static void read_decisions(const struct span *columns, size_t at, struct question *q)
{
    q->allowed = true;
    for (size_t i = 0; i < q->count; i++) {
        struct decision *d = &q->charges[i].step.decision;

        judge_read_decision(columns, at + i, d);
        q->allowed = q->allowed && d->allowed;
    }
}

bool judge_is_answer(const struct span *columns, size_t count)
{
    if (!is_array(columns[0], OID_BOOL, 1, count))
        return false;
    for (int i = 1; i < COLUMNS; i++)
        if (!is_array(columns[i], OID_INT8, 8, count))
            return false;
    return true;
}

bool judge_read(const struct span *columns, struct batch *b)
{
    size_t at = 0;

    if (!judge_is_answer(columns, b->charge_count))
        return false;
    for (size_t i = 0; i < b->count; i++) {
        if (i >= b->first)
            read_decisions(columns, at, b->questions[i]);
        at += b->charges[i];
    }
    return true;
}
