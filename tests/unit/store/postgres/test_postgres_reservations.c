/* test_postgres_reservations.c - questions about reservations as the arrays of
 * weir.judge_reservations(), and arrays as their answers. */
#include "support/unit.h"

#include "store/postgres/reservations.h"

/* The parameters that are looked at, in the order of the function's. */
enum { VERBS, IDS, TTLS = 3, FLAGS = 5, NOWS, NAME_COUNTS, NAMES, AMOUNTS, COUNTS, KEYS };
enum { CALENDARS = 19, COSTS, POLICIES, SHADOWS = 24, PARAMETERS };

enum { RESERVED, SETTLED, UNKNOWN, QUESTIONS, CHARGES = 2 };

static const struct rule windows = { WEIR_FIXED_WINDOW, 5, 1000, 5, .precision = 0 };
static const struct rule slots = { WEIR_CONCURRENCY, 7, 0, 7, .precision = 0 };

static struct batch batch;
static struct question questions[QUESTIONS];
static struct charge charges[QUESTIONS][RESERVATION_MOST_CHARGES];
static struct charge_label labels[QUESTIONS][RESERVATION_MOST_CHARGES];
static struct rule rules[QUESTIONS][RESERVATION_MOST_CHARGES];
static char texts[QUESTIONS][RESERVATION_MOST_TEXT];
static struct reserving reserving[QUESTIONS];
static struct parameters parameters;

/* A reserve of two rules, a settle of two amounts, and a release. */
static void begin(void)
{
    static const struct amount used[] = { { { "requests", 8 }, 1 }, { { "tokens", 6 }, 840 } };
    const weir_allocator allocator = heap();

    memset(&batch, 0, sizeof batch);
    memset(questions, 0, sizeof questions);
    memset(charges, 0, sizeof charges);
    memset(reserving, 0, sizeof reserving);
    buf_init(&parameters.bytes, &allocator);
    for (int i = 0; i < QUESTIONS; i++) {
        reserving[i] = (struct reserving){
            .key = { .low = (uint64_t)i }, .labels = labels[i], .rules = rules[i], .text = texts[i]
        };
        questions[i] = (struct question){ .verb = VERB_SETTLE,
                                          .charges = charges[i],
                                          .reserving = &reserving[i] };
        batch.questions[batch.count++] = &questions[i];
    }
    questions[RESERVED].verb = VERB_RESERVE;
    questions[RESERVED].count = batch.charges[RESERVED] = CHARGES;
    batch.charge_count = CHARGES;
    reserving[RESERVED].ttl = 60000;
    charges[RESERVED][0].rule = &windows;
    charges[RESERVED][1].rule = &slots;
    charges[RESERVED][0].cost = 3;
    charges[RESERVED][1].cost = 1;
    labels[RESERVED][0] = (struct charge_label){ .policy = "jobs",
                                                 .rule = "units",
                                                 .counts = "tokens" };
    labels[RESERVED][1] = (struct charge_label){
        .policy = "jobs", .rule = "running", .counts = "requests", .is_shadow = true
    };
    reserving[SETTLED].amounts = used;
    reserving[SETTLED].amount_count = 2;
    reserving[UNKNOWN].is_release = true;
    questions[SETTLED].ask.now = 1234;
}

static void done(void)
{
    buf_done(&parameters.bytes);
}

/* How many elements the array of a parameter has. */
static uint32_t count_of(int parameter)
{
    const unsigned char *at = (const unsigned char *)parameters.values[parameter];

    assert_non_null(at);
    return (uint32_t)at[12] << 24 | (uint32_t)at[13] << 16 | (uint32_t)at[14] << 8 | at[15];
}

static bool contains(int parameter, const char *text)
{
    return memmem(parameters.values[parameter], (size_t)parameters.lengths[parameter], text,
                  strlen(text)) != NULL;
}

static void what_is_asked_is_sent(void **state)
{
    (void)state;
    begin();
    assert_true(reservations_write(&parameters, &batch, false));
    assert_int_equal(parameters.count, PARAMETERS);
    for (int i = VERBS; i <= NAME_COUNTS; i++)
        if (i != NOWS)
            assert_int_equal(count_of(i), QUESTIONS);
    assert_null(parameters.values[NOWS]);
    assert_int_equal(count_of(NAMES), 2);
    assert_true(contains(NAMES, "requests") && contains(NAMES, "tokens"));
    assert_int_equal(count_of(COUNTS), QUESTIONS);
    for (int i = KEYS; i < PARAMETERS; i++)
        assert_int_equal(count_of(i), i == CALENDARS - 1 ? CHARGES * 5 : CHARGES);
    assert_true(contains(POLICIES, "jobs") && contains(POLICIES + 1, "running"));
    assert_true(contains(POLICIES + 2, "tokens"));
    done();
}

static void the_time_is_sent_where_callers_bring_it(void **state)
{
    (void)state;
    begin();
    assert_true(reservations_write(&parameters, &batch, true));
    assert_int_equal(count_of(NOWS), QUESTIONS);
    done();
}

/* Nothing is read behind the end of a name. */
static void a_settlement_alone_has_no_charges(void **state)
{
    (void)state;
    begin();
    batch.questions[0] = &questions[UNKNOWN];
    batch.count = 1;
    batch.charge_count = 0;
    assert_true(reservations_write(&parameters, &batch, false));
    for (int i = KEYS; i < PARAMETERS; i++)
        assert_null(parameters.values[i]);
    assert_null(parameters.values[NAMES]);
    done();
}

/* ---- answers ---------------------------------------------------------------------------------- */

enum { COLUMNS = 24, FIRST_DECISION = 7, FIRST_OF_RECORD = 12, FIRST_TEXT = 19, LAST_TEXT = 21 };

struct column {
    char bytes[256];
    size_t len;
};

static void put(struct column *c, int64_t number, size_t size)
{
    for (size_t i = size; i > 0; i--)
        c->bytes[c->len++] = (char)((uint64_t)number >> 8 * (i - 1));
}

static void put_head(struct column *c, int64_t type, int64_t count)
{
    c->len = 0;
    put(c, 1, 4);
    put(c, 0, 4);
    put(c, type, 4);
    put(c, count, 4);
    put(c, 1, 4);
}

static void put_numbers(struct column *c, int64_t type, size_t size, int64_t count, int64_t first)
{
    put_head(c, type, count);
    for (int64_t i = 0; i < count; i++) {
        put(c, (int64_t)size, 4);
        if (size == 16)
            put(c, 0, 8);
        put(c, size == 1 ? first : first + i, size == 16 ? 8 : size);
    }
}

static void put_texts(struct column *c, const char *first, const char *second)
{
    put_head(c, 25, 2);
    for (int i = 0; i < 2; i++) {
        const char *text = i ? second : first;

        put(c, (int64_t)strlen(text), 4);
        memcpy(c->bytes + c->len, text, strlen(text));
        c->len += strlen(text);
    }
}

/* The first question is denied in shadow alone; the second was of two rules; the third is unknown. */
static void answer(struct column *columns, struct span *spans)
{
    static const int64_t int4 = 23, int8 = 20, boolean = 16, uuid = 2950;
    int c = 0;

    put_numbers(&columns[c++], int4, 4, QUESTIONS, 12); /* 12, 13, 14 */
    columns[0].bytes[20 + 7] = columns[0].bytes[20 + 8 + 7] = 0;
    put_numbers(&columns[c++], boolean, 1, QUESTIONS, 1);
    put_numbers(&columns[c++], boolean, 1, QUESTIONS, 1);
    put_numbers(&columns[c++], int8, 8, QUESTIONS, 600);
    put_numbers(&columns[c++], int8, 8, QUESTIONS, 30);
    for (int counts = 0; counts < 2; counts++, c++) {
        put_numbers(&columns[c], int4, 4, QUESTIONS, 0);
        columns[c].bytes[20 + 7] = counts == 0 ? CHARGES : 0;
        columns[c].bytes[20 + 8 + 7] = CHARGES;
        columns[c].bytes[20 + 16 + 7] = 0;
    }
    put_numbers(&columns[c], boolean, 1, 2 * CHARGES, 1);
    columns[c].bytes[20 + 5 + 4] = 0; /* the one in shadow */
    c++;
    for (; c < FIRST_OF_RECORD; c++)
        put_numbers(&columns[c], int8, 8, 2 * CHARGES, 100 * c);
    put_numbers(&columns[c++], uuid, 16, CHARGES, 7);
    put_numbers(&columns[c++], int4, 4, CHARGES, 17); /* a window from its first; 18 */
    for (; c < FIRST_TEXT; c++)
        put_numbers(&columns[c], int8, 8, CHARGES, 100 * c);
    put_texts(&columns[c++], "jobs", "jobs");
    put_texts(&columns[c++], "units", "running");
    put_texts(&columns[c++], "tokens", "requests");
    put_numbers(&columns[c++], boolean, 1, CHARGES, 0);
    put_numbers(&columns[c++], int8, 8, CHARGES, 70);
    assert_int_equal(c, COLUMNS);
    for (int i = 0; i < COLUMNS; i++)
        spans[i] = (struct span){ columns[i].bytes, columns[i].len };
}

static void an_answer_is_read(void **state)
{
    struct column columns[COLUMNS];
    struct span spans[COLUMNS];
    const struct question *settled = &questions[SETTLED];

    (void)state;
    begin();
    answer(columns, spans);
    assert_true(reservations_read(spans, &batch));
    assert_true(questions[RESERVED].allowed);
    assert_false(charges[RESERVED][1].step.decision.allowed);
    assert_int_equal(charges[RESERVED][1].step.decision.remaining, 801);
    assert_int_equal(reserving[RESERVED].expires_in, 600);
    assert_int_equal(settled->count, CHARGES);
    assert_int_equal(settled->charges[0].rule->algorithm, WEIR_FIXED_WINDOW);
    assert_int_equal(settled->charges[0].rule->start, START_FIRST);
    assert_int_equal(settled->charges[1].rule->limit, 1401);
    assert_int_equal(settled->charges[1].step.decision.reset_after, 1003);
    assert_string_equal(labels[SETTLED][1].rule, "running");
    assert_string_equal(labels[SETTLED][0].counts, "tokens");
    assert_int_equal(settled->charges[0].cost, 840 - 70);
    assert_int_equal(settled->charges[1].cost, 1 - 71);
    assert_int_equal(reserving[SETTLED].over, 31);
    assert_int_equal(reserving[UNKNOWN].refusal, WEIR_ENORESERVATION);
    assert_false(questions[UNKNOWN].allowed);
    done();
}

static void nothing_is_written_to_a_question_that_is_done(void **state)
{
    struct column columns[COLUMNS];
    struct span spans[COLUMNS];

    (void)state;
    begin();
    batch.first = SETTLED + 1;
    batch.questions[RESERVED] = batch.questions[SETTLED] = NULL;
    answer(columns, spans);
    assert_true(reservations_read(spans, &batch));
    assert_int_equal(questions[SETTLED].count, 0);
    assert_int_equal(reserving[UNKNOWN].refusal, WEIR_ENORESERVATION);
    done();
}

/* Whatever is another in the form of a column: it is no answer. */
static void invalid_answers_are_rejected(void **state)
{
    struct column columns[COLUMNS];
    struct span spans[COLUMNS];

    (void)state;
    begin();
    for (int c = 0; c < COLUMNS; c++) {
        answer(columns, spans);
        spans[c].len--;
        assert_false(reservations_read(spans, &batch));
        spans[c].len = 0;
        assert_false(reservations_read(spans, &batch));
        for (size_t at = 0; at < 24; at++) {
            if ((at >= 4 && at < 8) || (at >= 16 && at < 20))
                continue; /* whether there might be NULLs, and where indexes begin */
            answer(columns, spans);
            columns[c].bytes[at] = (char)(columns[c].bytes[at] + 1);
            assert_false(reservations_read(spans, &batch));
        }
    }
    done();
}

/* More charges than a question has room for, or than it was told. */
static void counts_that_do_not_fit_are_rejected(void **state)
{
    struct column columns[COLUMNS];
    struct span spans[COLUMNS];

    (void)state;
    begin();
    for (int question = 0; question < QUESTIONS; question++)
        for (int c = FIRST_DECISION - 2; c < FIRST_DECISION; c++)
            for (int n = 0; n < 256; n++) {
                char *at;

                answer(columns, spans);
                at = &columns[c].bytes[20 + 8 * question + 7];
                if (*at == (char)n)
                    continue;
                *at = (char)n;
                assert_false(reservations_read(spans, &batch));
            }
    done();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_asked_is_sent),
        cmocka_unit_test(the_time_is_sent_where_callers_bring_it),
        cmocka_unit_test(a_settlement_alone_has_no_charges),
        cmocka_unit_test(an_answer_is_read),
        cmocka_unit_test(nothing_is_written_to_a_question_that_is_done),
        cmocka_unit_test(invalid_answers_are_rejected),
        cmocka_unit_test(counts_that_do_not_fit_are_rejected),
    };

    return cmocka_run_group_tests_name("postgres_reservations", tests, NULL, NULL);
}
