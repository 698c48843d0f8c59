/* charge.c - a batch of plain checks as the parameters of weir.charge_one() and
 * weir.charge_many(), and what those answer as decisions.
 *
 * If all questions of a key have passed, the answer is the state that they left behind. We go back
 * from there, from the last question to the first, to the state that each has found. From that
 * state the arithmetic of src/limit computes its decision. Questions that are done already came
 * first, and are not needed. */
#include "store/postgres/charge.h"

#include "store/postgres/array.h"
#include "store/postgres/judge.h"
#include "store/remote/wire_verb.h"

enum {
    STATE = 4,
    JUDGED = 5,
    NS_PER_MS = 1000000
}; /* how many numbers weir.charge_one() answers */

enum parameter {
    KEYS,
    ALGORITHM,
    ALGORITHMS,
    LIMITS,
    WINDOWS,
    BURSTS,
    PRECISIONS,
    RULES,
    AMOUNTS,
    NOWS,
    COUNTS,
    COSTS,
};

enum column { PASSED, ATS, USEDS, OTHERS, CLOCK, VERDICTS, COLUMNS = VERDICTS + 5 };

static const unsigned one_types[] = { OID_UUID, OID_INT4, OID_INT8, OID_INT8,
                                      OID_INT8, OID_INT8, OID_INT8, OID_INT8 };

const struct statement charge_statement = {
    .name = "weir_charge",
    .text = "SELECT weir.charge_one($1, $2, $3, $4, $5, $6, $7, $8)",
    .types = one_types,
    .parameter_count = sizeof one_types / sizeof one_types[0],
    .column_count = 1,
};

static const unsigned many_types[] = {
    [KEYS] = OID_UUIDS,    [ALGORITHM] = OID_INT4, [ALGORITHMS] = OID_INT4S, [LIMITS] = OID_INT8S,
    [WINDOWS] = OID_INT8S, [BURSTS] = OID_INT8S,   [PRECISIONS] = OID_INT8S, [RULES] = OID_INT4S,
    [AMOUNTS] = OID_INT8S, [NOWS] = OID_INT8S,     [COUNTS] = OID_INT4S,     [COSTS] = OID_INT8S,
};

const struct statement charge_many_statement = {
    .name = "weir_charge_many",
    .text = "SELECT passed, ats, useds, others, clock,"
            " allowed, remaining, retry_after, reset_after, delay "
            "FROM weir.charge_many($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
    .types = many_types,
    .parameter_count = sizeof many_types / sizeof many_types[0],
    .column_count = COLUMNS,
};

/* ---- which are plain ------------------------------------------------------------------------- */

static const struct question *question_at(const struct layout *l, size_t i)
{
    return l->batch->questions[l->keyed[i].charge];
}

bool is_plain(const struct layout *l, bool brings_now)
{
    const struct batch *b = l->batch;

    if (b->charge_count != b->count)
        return false;
    for (size_t i = 0; i < b->count; i++) {
        const struct question *q = question_at(l, i), *last = question_at(l, i > 0 ? i - 1 : 0);

        if (q->count != 1 || wire_verb_of(q) != WIRE_CHECK || q->charges->cost < 1 ||
            q->charges->rule->start != START_EPOCH ||
            q->charges->rule->block_for > 0) /* weir.charge() does not know those */
            return false;
        if (!layout_begins(l, i) && (!rule_is_same(q->charges->rule, last->charges->rule) ||
                                     (brings_now && q->ask.now != last->ask.now)))
            return false;
    }
    return true;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* No more than it takes to be too much. */
static int64_t bounded(const struct rule *r, int64_t amount)
{
    const int64_t most = r->burst > r->limit ? r->burst : r->limit;

    return amount > most ? most + 1 : amount;
}

bool charge_write(struct parameters *p, const struct batch *b, bool brings_now)
{
    const struct question *q = b->questions[0];
    const struct rule *r = q->charges->rule;
    const int64_t numbers[] = { r->limit, r->window, r->burst, r->precision,
                                bounded(r, q->charges->cost) };
    char *at = parameters_begin(p, &charge_statement, sizeof(struct key) + 4 + 6 * 8);

    if (!at)
        return false;
    memcpy(at, &q->charges->key, sizeof(struct key));
    at = parameters_add(p, at, at + sizeof(struct key));
    at = parameters_add(p, at, put_32(at, r->algorithm));
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        at = parameters_add(p, at, put_64(at, numbers[i]));
    parameters_add(p, at, brings_now && q->ask.now ? put_64(at, q->ask.now) : at);
    return true;
}

static char *write_algorithm(char *to, const struct layout *l)
{
    for (size_t i = 1; i < l->rule_count; i++)
        if (l->rules[i]->algorithm != l->rules[0]->algorithm)
            return to;
    return put_32(to, l->rules[0]->algorithm);
}

static char *write_rules(char *to, const struct layout *l)
{
    if (l->rule_count == 1)
        return to;
    to = array_head(to, OID_INT4, l->key_count, false);
    for (size_t i = 0; i < l->batch->count; i++)
        if (layout_begins(l, i))
            to = array_int4(to, l->rule_of[l->keyed[i].charge]);
    return to;
}

static bool are_usual(const struct layout *l)
{
    for (size_t i = 0; i < l->batch->count; i++)
        if (question_at(l, i)->charges->cost != 1)
            return false;
    return true;
}

static char *write_amounts(char *to, const struct layout *l)
{
    const size_t count = l->batch->count;

    if (l->key_count == count && are_usual(l))
        return to;
    to = array_head(to, OID_INT8, l->key_count, false);
    for (size_t i = 0; i < count;) {
        const struct rule *r = question_at(l, i)->charges->rule;
        int64_t amount = 0;

        do
            amount = bounded(r, amount + bounded(r, question_at(l, i++)->charges->cost));
        while (i < count && !layout_begins(l, i));
        to = array_int8(to, amount);
    }
    return to;
}

static char *write_counts(char *to, const struct layout *l)
{
    const size_t count = l->batch->count;

    if (l->key_count == count)
        return to;
    to = array_head(to, OID_INT4, l->key_count, false);
    for (size_t i = 0; i < count;) {
        const size_t first = i;

        do
            i++;
        while (i < count && !layout_begins(l, i));
        to = array_int4(to, (int64_t)(i - first));
    }
    return to;
}

static char *write_costs(char *to, const struct layout *l)
{
    if (are_usual(l))
        return to;
    to = array_head(to, OID_INT8, l->batch->count, false);
    for (size_t i = 0; i < l->batch->count; i++)
        to = array_int8(to, question_at(l, i)->charges->cost);
    return to;
}

static char *write_nows(char *to, const struct layout *l)
{
    to = array_head(to, OID_INT8, l->key_count, true);
    for (size_t i = 0; i < l->batch->count; i++) {
        const int64_t now = question_at(l, i)->ask.now;

        if (layout_begins(l, i))
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
    case ALGORITHM:
        return write_algorithm(to, l);
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
    case RULES:
        return write_rules(to, l);
    case AMOUNTS:
        return write_amounts(to, l);
    case NOWS:
        return brings_now ? write_nows(to, l) : to;
    case COUNTS:
        return write_counts(to, l);
    case COSTS:
        return write_costs(to, l);
    }
    return to;
}

bool charge_many_write(struct parameters *p, const struct layout *l, bool brings_now)
{
    const size_t most = sizeof many_types / sizeof many_types[0] * ARRAY_HEAD +
                        l->batch->count * (11 * ARRAY_LENGTH + sizeof(struct key) + 3 * 4 + 7 * 8);
    char *at = parameters_begin(p, &charge_many_statement, most);

    if (!at)
        return false;
    for (int i = 0; i < charge_many_statement.parameter_count; i++)
        at = parameters_add(p, at, write_parameter(at, l, brings_now, (enum parameter)i));
    return true;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* What a row of weir.states holds. */
struct row {
    int64_t at, used, other;
};

/* The state before a question that charged this much and left the row. */
static struct state state_before(const struct row *row, const struct rule *r, int64_t cost)
{
    struct state s = { 0 };
    int64_t ns;

    if (r->algorithm == ALGORITHM_CELL) {
        ns = row->at * NS_PER_MS + row->used - cost * r->window;
        s.arrival = (struct arrival){ ns / NS_PER_MS, ns % NS_PER_MS };
        return s;
    }
    switch (r->algorithm) {
    case WEIR_FIXED_WINDOW:
        s.fixed_window = (struct fixed_window){ row->at, row->used - cost, 0 };
        break;
    case WEIR_SLIDING_COUNTER:
        s.sliding_counter = (struct sliding_counter){ row->at, row->used - cost, row->other };
        break;
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
        s.bucket = (struct bucket){ .used = row->used - cost * r->window, .at = row->at };
        break;
    case WEIR_SLIDING_WINDOW: /* answer_window() */
    case WEIR_CONCURRENCY:    /* not in a shared store */
    case WEIR_DEFAULT_ALGORITHM:
        break;
    }
    return s;
}

static struct row row_of(const struct state *s, const struct rule *r)
{
    if (r->algorithm == ALGORITHM_CELL)
        return (struct row){ s->arrival.ms, s->arrival.ns, 0 };
    switch (r->algorithm) {
    case WEIR_FIXED_WINDOW:
        return (struct row){ s->fixed_window.start, s->fixed_window.count, 0 };
    case WEIR_SLIDING_COUNTER:
        return (struct row){ s->sliding_counter.start, s->sliding_counter.current,
                             s->sliding_counter.previous };
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
        return (struct row){ s->bucket.at, s->bucket.used, 0 };
    case WEIR_SLIDING_WINDOW: /* answer_window() */
    case WEIR_CONCURRENCY:    /* not in a shared store */
    case WEIR_DEFAULT_ALGORITHM:
        break;
    }
    return (struct row){ 0 };
}

/* Of a sliding window the row tells all that is told: how much counts, and the newest bucket. */
static void answer_window(struct row *row, const struct rule *r, const struct ask *ask,
                          struct decision *out)
{
    const int64_t now = ask->now > row->at ? ask->now : row->at;

    *out = (struct decision){
        .allowed = true,
        .remaining = r->limit - row->used,
        .reset_after = row->at + r->window + r->precision - 1 - now,
    };
    row->used -= ask->cost;
}

/* Answer the question that left the row, and make the row what it has found. */
static bool answer(struct question *q, struct row *row, int64_t now)
{
    const struct rule *r = q->charges->rule;
    const struct ask ask = { .now = now, .cost = q->charges->cost };
    struct step step;

    if (row->used < 0 || row->at < 0)
        return false;
    if (state_is_log(r->algorithm)) {
        answer_window(row, r, &ask, &q->charges->step.decision);
    } else {
        const struct state before = state_before(row, r, ask.cost);

        state_take(&before, r, &ask, &step);
        q->charges->step.decision = step.decision;
        *row = row_of(&before, r);
    }
    q->allowed = q->charges->step.decision.allowed;
    return q->allowed;
}

static int64_t time_of(const struct question *q, int64_t clock, bool brings_now)
{
    return brings_now && q->ask.now ? q->ask.now : clock;
}

bool charge_read(const struct span *columns, struct batch *b, bool brings_now)
{
    int64_t numbers[JUDGED] = { 0 };
    const bool has_passed = is_array(columns[0], OID_INT8, 8, STATE);
    struct question *q = b->questions[0];
    struct row row;

    if (!has_passed && !is_array(columns[0], OID_INT8, 8, JUDGED))
        return false;
    if (b->first > 0)
        return true;
    for (size_t i = 0; i < (has_passed ? STATE : JUDGED); i++)
        numbers[i] = get_64(array_element(columns[0], 8, i));
    if (has_passed) {
        row = (struct row){ numbers[0], numbers[1], numbers[2] };
        return answer(q, &row, time_of(q, numbers[3], brings_now));
    }
    q->allowed = numbers[0] != 0;
    q->charges->step.decision = (struct decision){
        q->allowed, numbers[1], numbers[2], numbers[3], numbers[4],
    };
    return true;
}

/* What is known of a key when its answer is read. */
struct found {
    bool has_passed;
    struct row row;
    size_t verdict; /* of its next question, if it has not */
};

static size_t count_elements(struct span column)
{
    return column.len < ARRAY_HEAD ? 0 : get_32(column.at + 12);
}

/* Which keys have passed; how many there are is known by then. */
static bool read_passed(const struct span *columns, struct found *found, size_t key_count)
{
    const size_t count = count_elements(columns[PASSED]);

    if (count == 0)
        return true;
    if (!is_array(columns[PASSED], OID_INT4, 4, count) ||
        !is_array(columns[ATS], OID_INT8, 8, count) ||
        !is_array(columns[USEDS], OID_INT8, 8, count) ||
        !is_array(columns[OTHERS], OID_INT8, 8, count))
        return false;
    for (size_t i = 0; i < count; i++) {
        const uint32_t slot = get_32(array_element(columns[PASSED], 4, i));

        if (slot < 1 || slot > key_count || found[slot].has_passed)
            return false;
        found[slot].has_passed = true;
        found[slot].row = (struct row){
            get_64(array_element(columns[ATS], 8, i)),
            get_64(array_element(columns[USEDS], 8, i)),
            get_64(array_element(columns[OTHERS], 8, i)),
        };
    }
    return true;
}

/* Where the verdicts on each of the other keys' questions begin; returns how many there are. */
static size_t number_verdicts(struct found *found, size_t key_count, const uint16_t *slots,
                              size_t count)
{
    size_t verdicts = 0;

    for (size_t i = 0; i < count; i++)
        found[slots[i]].verdict++;
    for (size_t slot = 1; slot <= key_count; slot++) {
        const size_t own = found[slot].has_passed ? 0 : found[slot].verdict;

        found[slot].verdict = verdicts;
        verdicts += own;
    }
    return verdicts;
}

static bool answer_all(const struct span *columns, struct batch *b, const uint16_t *slots,
                       struct found *found, bool brings_now)
{
    const int64_t clock = get_64(columns[CLOCK].at);

    for (size_t i = b->count; i > b->first; i--) {
        struct question *q = b->questions[i - 1];
        struct found *f = &found[slots[i - 1]];

        if (f->has_passed && !answer(q, &f->row, time_of(q, clock, brings_now)))
            return false;
    }
    for (size_t i = 0; i < b->count; i++) {
        struct found *f = &found[slots[i]];

        if (f->has_passed)
            continue;
        if (i >= b->first) {
            struct question *q = b->questions[i];

            judge_read_decision(&columns[VERDICTS], f->verdict, &q->charges->step.decision);
            q->allowed = q->charges->step.decision.allowed;
        }
        f->verdict++;
    }
    return true;
}

bool charge_many_read(const struct span *columns, struct batch *b, const uint16_t *slots,
                      bool brings_now)
{
    struct found found[BATCH_MOST + 1] = { 0 };
    size_t key_count = 0, verdicts;

    for (size_t i = 0; i < b->count; i++)
        if (slots[i] > key_count)
            key_count = slots[i];
    if (columns[CLOCK].len != 8 || !read_passed(columns, found, key_count))
        return false;
    verdicts = number_verdicts(found, key_count, slots, b->count);
    if (verdicts > 0 && !judge_is_answer(&columns[VERDICTS], verdicts))
        return false;
    return answer_all(columns, b, slots, found, brings_now);
}
