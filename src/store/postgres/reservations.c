/* reservations.c - questions about reservations as the parameters of weir.judge_reservations(), and
 * its row as decisions.
 *
 * Only a reserve brings charges. Of all others the row has the charges of the record: they are
 * filled into the question. */
#include "store/postgres/reservations.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "limit/calendar.h"
#include "store/postgres/array.h"
#include "store/postgres/judge.h"

/* X(name, type): of each question, of each amount, of each charge. */
#define OF_QUESTIONS(X)                                                                            \
    X(VERBS, OID_INT4S)                                                                            \
    X(IDS, OID_UUIDS)                                                                              \
    X(FINGERPRINTS, OID_INT8S)                                                                     \
    X(TTLS, OID_INT8S)                                                                             \
    X(MOST_TTLS, OID_INT8S)                                                                        \
    X(FLAGS, OID_BOOLS)                                                                            \
    X(NOWS, OID_INT8S)                                                                             \
    X(NAME_COUNTS, OID_INT4S)
#define OF_AMOUNTS(X)                                                                              \
    X(NAMES, OID_TEXTS)                                                                            \
    X(AMOUNTS, OID_INT8S)
#define OF_CHARGES(X)                                                                              \
    X(COUNTS, OID_INT4S)                                                                           \
    X(KEYS, OID_UUIDS)                                                                             \
    X(ALGORITHMS, OID_INT4S)                                                                       \
    X(LIMITS, OID_INT8S)                                                                           \
    X(WINDOWS, OID_INT8S)                                                                          \
    X(BURSTS, OID_INT8S)                                                                           \
    X(PRECISIONS, OID_INT8S)                                                                       \
    X(BLOCKS, OID_INT8S)                                                                           \
    X(BOUNDS, OID_INT8S)                                                                           \
    X(CALENDARS, OID_TEXTS)                                                                        \
    X(COSTS, OID_INT8S)                                                                            \
    X(POLICIES, OID_TEXTS)                                                                         \
    X(RULES, OID_TEXTS)                                                                            \
    X(COUNTED, OID_TEXTS)                                                                          \
    X(SHADOWS, OID_BOOLS)

enum parameter {
#define X(name, type) name,
    OF_QUESTIONS(X) OF_AMOUNTS(X) OF_CHARGES(X)
#undef X
};

static const unsigned types[] = {
#define X(name, type) type,
    OF_QUESTIONS(X) OF_AMOUNTS(X) OF_CHARGES(X)
#undef X
};

enum column {
    ERRORS,
    REPEATED,
    EXPIRED,
    EXPIRES_IN,
    OVER,
    CHARGE_COUNTS,
    RECORD_COUNTS,
    DECISIONS, /* as of weir.judge() */
    RECORD_KEYS = DECISIONS + 5,
    RECORD_ALGORITHMS,
    RECORD_LIMITS,
    RECORD_WINDOWS,
    RECORD_BURSTS,
    RECORD_PRECISIONS,
    RECORD_BLOCKS,
    RECORD_POLICIES,
    RECORD_RULES,
    RECORD_COUNTED,
    RECORD_SHADOWS,
    RECORD_HELD,
    COLUMNS,
};

const struct statement reservations_statement = {
    .name = "weir_reservations",
    .text = "SELECT errors, repeated, expired, expires_in, over, charge_counts, record_counts,"
            " allowed, remaining, retry_after, reset_after, delay, known_keys, known_algorithms,"
            " known_limits, known_windows, known_bursts, known_precisions, known_blocks,"
            " known_policies, known_rules, known_counts, known_shadows, known_held"
            " FROM weir.judge_reservations($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13,"
            " $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25)",
    .types = types,
    .parameter_count = sizeof types / sizeof types[0],
    .column_count = COLUMNS,
};

/* ---- writing --------------------------------------------------------------------------------- */

enum { CALENDAR_TEXT = 160 }; /* a period, a day and a zone */

static size_t write_calendar(char text[CALENDAR_TEXT], const struct rule *r)
{
    const int len = snprintf(text, CALENDAR_TEXT, "%s %d %s", period_names[r->calendar->period],
                             r->calendar->month_day, r->calendar->zone_name);

    return len < CALENDAR_TEXT ? (size_t)len : CALENDAR_TEXT - 1;
}

static char *write_text(char *to, const char *text)
{
    return array_bytes(to, text, strlen(text));
}

/* As weir.judge_reservations() numbers them. */
static int number_of(const struct question *q)
{
    switch (q->verb) {
    case VERB_RESERVE:
        return q->reserving->gives_back && !q->reserving->is_used ? 10 : 6;
    case VERB_SETTLE:
        return q->reserving->forgets ? 11 : 7;
    case VERB_GROW:
        return 8;
    case VERB_EXTEND:
        return 9;
    case VERB_CHECK:
    case VERB_REFUND:
    case VERB_RESET:
    case VERB_UNDO:
    case VERB_CHARGE:
        break;
    }
    abort(); /* of no reservation */
}

static char *write_question(char *to, const struct question *q, enum parameter parameter)
{
    const struct reserving *of = q->reserving;

    switch ((int)parameter) { /* those that are of one */
    case VERBS:
        return array_int4(to, number_of(q));
    case IDS:
        return array_bytes(to, &of->key, sizeof of->key);
    case FINGERPRINTS:
        return array_int8(to, (int64_t)of->fingerprint);
    case TTLS:
        return array_int8(to, of->ttl);
    case MOST_TTLS:
        return array_int8(to, of->most_ttl);
    case FLAGS:
        return array_bool(to, q->verb == VERB_RESERVE ? of->is_used : of->is_release);
    case NOWS:
        return q->ask.now ? array_int8(to, q->ask.now) : array_null(to);
    case NAME_COUNTS:
        return array_int4(to, (int64_t)of->amount_count);
    default:
        return array_int4(to, (int64_t)q->count);
    }
}

static char *write_bounds(char *to, const struct question *q, const struct rule *r)
{
    struct calendar_bounds bounds = { 0 };

    if (r->start == START_CALENDAR)
        calendar_bounds(r->calendar, q->ask.now ? q->ask.now : clock_wall_ms(), &bounds);
    for (int i = 0; i < CALENDAR_BOUNDS; i++)
        to = array_int8(to, bounds.at[i]);
    return to;
}

static char *write_charge(char *to, const struct question *q, size_t i, enum parameter parameter)
{
    const struct charge *c = &q->charges[i];
    const struct charge_label *label = &q->reserving->labels[i];
    char text[CALENDAR_TEXT];

    switch ((int)parameter) { /* those that are of one */
    case KEYS:
        return array_bytes(to, &c->key, sizeof c->key);
    case ALGORITHMS:
        return array_int4(to, rule_wire_algorithm(c->rule));
    case LIMITS:
        return array_int8(to, c->rule->limit);
    case WINDOWS:
        return array_int8(to, c->rule->window);
    case BURSTS:
        return array_int8(to, c->rule->burst);
    case PRECISIONS:
        return array_int8(to, c->rule->precision);
    case BLOCKS:
        return array_int8(to, c->rule->block_for);
    case BOUNDS:
        return write_bounds(to, q, c->rule);
    case CALENDARS:
        return c->rule->start == START_CALENDAR
                   ? array_bytes(to, text, write_calendar(text, c->rule))
                   : array_null(to);
    case COSTS:
        return array_int8(to, c->cost);
    case POLICIES:
        return write_text(to, label->policy);
    case RULES:
        return write_text(to, label->rule);
    case COUNTED:
        return write_text(to, label->counts);
    default:
        return array_bool(to, label->is_shadow);
    }
}

static enum oid element_of(enum parameter parameter)
{
    switch (types[parameter]) {
    case OID_INT4S:
        return OID_INT4;
    case OID_INT8S:
        return OID_INT8;
    case OID_UUIDS:
        return OID_UUID;
    case OID_BOOLS:
        return OID_BOOL;
    default:
        return OID_TEXT;
    }
}

static char *write_questions(char *to, const struct batch *b, enum parameter parameter)
{
    to = array_head(to, element_of(parameter), b->count, parameter == NOWS);
    for (size_t i = 0; i < b->count; i++)
        to = write_question(to, b->questions[i], parameter);
    return to;
}

static char *write_amounts(char *to, const struct batch *b, size_t count, enum parameter parameter)
{
    if (count == 0)
        return to;
    to = array_head(to, element_of(parameter), count, false);
    for (size_t i = 0; i < b->count; i++)
        for (size_t j = 0; j < b->questions[i]->reserving->amount_count; j++) {
            const struct amount *a = &b->questions[i]->reserving->amounts[j];

            to = parameter == NAMES ? array_bytes(to, a->name.at, a->name.len)
                                    : array_int8(to, a->amount);
        }
    return to;
}

static char *write_charges(char *to, const struct batch *b, enum parameter parameter)
{
    if (b->charge_count == 0)
        return to;
    to = array_head(to, element_of(parameter),
                    b->charge_count * (parameter == BOUNDS ? CALENDAR_BOUNDS : 1),
                    parameter == CALENDARS);
    for (size_t i = 0; i < b->count; i++)
        for (size_t j = 0; j < b->questions[i]->count; j++)
            to = write_charge(to, b->questions[i], j, parameter);
    return to;
}

static bool is_of_amounts(enum parameter parameter)
{
    return parameter == NAMES || parameter == AMOUNTS;
}

static bool is_of_questions(enum parameter parameter)
{
    return parameter < NAMES || parameter == COUNTS;
}

bool reservations_write(struct parameters *p, const struct batch *b, bool brings_now)
{
    enum { ELEMENT = ARRAY_LENGTH + sizeof(struct key) };
    size_t amounts = 0, most = COLUMNS * ARRAY_HEAD + b->count * (NAMES + 1) * ELEMENT +
                               b->charge_count * ((SHADOWS - COUNTS + CALENDAR_BOUNDS) * ELEMENT +
                                                  CALENDAR_TEXT + 3 * (WEIR_MAX_NAME + 1));
    char *at;

    for (size_t i = 0; i < b->count; i++)
        amounts += b->questions[i]->reserving->amount_count;
    most += PARAMETERS_MOST * ARRAY_HEAD + amounts * (2 * ELEMENT + WEIR_MAX_NAME + 1);
    at = parameters_begin(p, &reservations_statement, most);
    if (!at)
        return false;
    for (enum parameter i = 0; i < sizeof types / sizeof types[0]; i++) {
        char *end = at;

        if (is_of_questions(i))
            end = i == NOWS && !brings_now ? at : write_questions(at, b, i);
        else if (is_of_amounts(i))
            end = write_amounts(at, b, amounts, i);
        else
            end = write_charges(at, b, i);
        at = parameters_add(p, at, end);
    }
    return true;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The next text of an array, and its length. */
static const char *next_text(const char **at, size_t *len)
{
    const char *text = *at + ARRAY_LENGTH;

    *len = get_32(*at);
    *at = text + *len;
    return text;
}

/* Where the texts of the charges of records are. */
struct texts {
    const char *policy, *rule, *counted;
};

static const char *keep_text(const char **from, char **to)
{
    size_t len;
    const char *text = next_text(from, &len);
    const char *kept = *to;

    memcpy(*to, text, len);
    (*to)[len] = '\0';
    *to += len + 1;
    return kept;
}

static void read_label(struct texts *texts, struct charge_label *label, char **to)
{
    label->policy = keep_text(&texts->policy, to);
    label->rule = keep_text(&texts->rule, to);
    label->counts = keep_text(&texts->counted, to);
    label->is_kept = false;
}

static void skip_labels(struct texts *texts, size_t count)
{
    size_t len;

    for (size_t i = 0; i < count; i++) {
        next_text(&texts->policy, &len);
        next_text(&texts->rule, &len);
        next_text(&texts->counted, &len);
    }
}

static int64_t number_at(const struct span *columns, enum column column, size_t i)
{
    return get_64(array_element(columns[column], 8, i));
}

static void read_rule(const struct span *columns, size_t i, struct rule *out)
{
    const uint32_t wire = get_32(array_element(columns[RECORD_ALGORITHMS], 4, i));

    *out = (struct rule){
        .algorithm = (weir_algorithm)(wire % 16),
        .limit = number_at(columns, RECORD_LIMITS, i),
        .window = number_at(columns, RECORD_WINDOWS, i),
        .burst = number_at(columns, RECORD_BURSTS, i),
        .precision = number_at(columns, RECORD_PRECISIONS, i),
        .start = (enum rule_start)(wire / 16),
        .block_for = number_at(columns, RECORD_BLOCKS, i),
    };
}

/* The charges of the record, from the i-th on. */
static void read_record(const struct span *columns, size_t i, size_t count, struct texts *texts,
                        struct question *q)
{
    struct reserving *of = q->reserving;
    char *text = of->text;

    if (!q->charges) { /* it does not want to know */
        skip_labels(texts, count);
        return;
    }
    q->count = count;
    for (size_t k = 0; k < count; k++) {
        read_rule(columns, i + k, &of->rules[k]);
        q->charges[k].rule = &of->rules[k];
        memcpy(&q->charges[k].key, array_element(columns[RECORD_KEYS], sizeof(struct key), i + k),
               sizeof(struct key));
        q->charges[k].class = 0;
        of->labels[k].is_shadow = *array_element(columns[RECORD_SHADOWS], 1, i + k) != 0;
        read_label(texts, &of->labels[k], &text);
        q->charges[k].cost = reservation_added(q, k, number_at(columns, RECORD_HELD, i + k));
    }
}

static void read_decisions(const struct span *columns, size_t at, struct question *q)
{
    q->allowed = true;
    for (size_t i = 0; i < q->count; i++) {
        struct decision *d = &q->charges[i].step.decision;

        judge_read_decision(&columns[DECISIONS], at + i, d);
        if (d->remaining < 0) /* what stands is told, not by how much it is exceeded */
            d->remaining = 0;
        q->allowed = q->allowed && (d->allowed || q->reserving->labels[i].is_shadow);
    }
}

static void read_outcome(const struct span *columns, size_t i, struct question *q)
{
    struct reserving *of = q->reserving;

    of->refusal = (weir_err)get_32(array_element(columns[ERRORS], 4, i));
    of->is_repeated = *array_element(columns[REPEATED], 1, i) != 0;
    of->has_expired = *array_element(columns[EXPIRED], 1, i) != 0;
    of->expires_in = number_at(columns, EXPIRES_IN, i);
    of->over = number_at(columns, OVER, i);
    q->allowed = false;
}

static size_t count_at(struct span column, size_t i)
{
    return get_32(array_element(column, 4, i));
}

/* An array of no elements comes as NULL. */
static bool is_array_or_none(struct span column, enum oid type, size_t size, size_t count)
{
    return count == 0 ? column.len == 0 : is_array(column, type, size, count);
}

static bool are_decisions(const struct span *columns, size_t count)
{
    return count == 0 ? columns[DECISIONS].len == 0 : judge_is_answer(&columns[DECISIONS], count);
}

static bool are_records(const struct span *columns, size_t count)
{
    bool are = is_array_or_none(columns[RECORD_KEYS], OID_UUID, sizeof(struct key), count) &&
               is_array_or_none(columns[RECORD_ALGORITHMS], OID_INT4, 4, count) &&
               is_array_or_none(columns[RECORD_SHADOWS], OID_BOOL, 1, count) &&
               is_array_or_none(columns[RECORD_HELD], OID_INT8, 8, count);

    for (int i = RECORD_LIMITS; i <= RECORD_BLOCKS; i++)
        are = are && is_array_or_none(columns[i], OID_INT8, 8, count);
    for (int i = RECORD_POLICIES; i <= RECORD_COUNTED; i++)
        are = are && (count == 0 ? columns[i].len == 0
                                 : is_array_of_texts(columns[i], WEIR_MAX_NAME, count));
    return are;
}

/* Each question has as many charges as it may have, and all of them are there. */
static bool is_answer(const struct span *columns, const struct batch *b)
{
    size_t charges = 0, known = 0;

    if (!is_array(columns[ERRORS], OID_INT4, 4, b->count) ||
        !is_array(columns[REPEATED], OID_BOOL, 1, b->count) ||
        !is_array(columns[EXPIRED], OID_BOOL, 1, b->count) ||
        !is_array(columns[EXPIRES_IN], OID_INT8, 8, b->count) ||
        !is_array(columns[OVER], OID_INT8, 8, b->count) ||
        !is_array(columns[CHARGE_COUNTS], OID_INT4, 4, b->count) ||
        !is_array(columns[RECORD_COUNTS], OID_INT4, 4, b->count))
        return false;
    for (size_t i = 0; i < b->count; i++) {
        const size_t told = count_at(columns[CHARGE_COUNTS], i),
                     of_record = count_at(columns[RECORD_COUNTS], i);

        if (told > RESERVATION_MOST_CHARGES || (of_record > 0 && of_record != told) ||
            (of_record == 0 && told > 0 && told != b->charges[i]))
            return false;
        charges += told;
        known += of_record;
    }
    return are_decisions(columns, charges) && are_records(columns, known);
}

static const char *first_of(struct span column)
{
    return column.len > 0 ? column.at + ARRAY_HEAD : NULL;
}

bool reservations_read(const struct span *columns, struct batch *b)
{
    struct texts texts = { first_of(columns[RECORD_POLICIES]), first_of(columns[RECORD_RULES]),
                           first_of(columns[RECORD_COUNTED]) };
    size_t charge = 0, known = 0;

    if (!is_answer(columns, b))
        return false;
    for (size_t i = 0; i < b->count; i++) {
        const size_t told = count_at(columns[CHARGE_COUNTS], i),
                     of_record = count_at(columns[RECORD_COUNTS], i);

        if (i >= b->first) {
            read_outcome(columns, i, b->questions[i]);
            if (of_record > 0)
                read_record(columns, known, of_record, &texts, b->questions[i]);
            if (told > 0)
                read_decisions(columns, charge, b->questions[i]);
        } else {
            skip_labels(&texts, of_record);
        }
        charge += told;
        known += of_record;
    }
    return true;
}
