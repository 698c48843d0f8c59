/* test_postgres_charge.c - plain checks as parameters of weir.charge_one() and weir.charge_many(), and
 * rows that these leave behind as what each question was told. */
#include "support/unit.h"

#include "store/postgres/charge.h"

enum { KEYS, ALGORITHM, ALGORITHMS, LIMITS, WINDOWS, BURSTS, PRECISIONS, RULES, AMOUNTS, NOWS };
enum { COUNTS = NOWS + 1, COSTS };
enum { COLUMNS = 10, MOST = 8, START = 1700000 };

static const struct rule fixed = { WEIR_FIXED_WINDOW, 5, 1000, 5, .precision = 0 };
static const struct rule sliding = { WEIR_SLIDING_WINDOW, 7, 2000, 7, .precision = 1 };

static struct batch batch;
static struct question questions[MOST];
static struct charge charges[MOST];
static struct parameters parameters;
static struct buf scratch;
static struct layout layout;
static uint16_t slots[MOST];

static void begin(void)
{
    const weir_allocator allocator = heap();

    memset(&batch, 0, sizeof batch);
    memset(questions, 0, sizeof questions);
    memset(charges, 0, sizeof charges);
    buf_init(&parameters.bytes, &allocator);
    buf_init(&scratch, &allocator);
}

static void done(void)
{
    buf_done(&parameters.bytes);
    buf_done(&scratch);
}

static struct question *ask(char key, const struct rule *rule, int64_t cost)
{
    struct question *q = &questions[batch.count];

    q->charges = &charges[batch.count];
    q->count = 1;
    q->charges->cost = cost;
    memcpy(&q->charges->key, &key, 1);
    q->charges->rule = rule;
    batch.charges[batch.count] = 1;
    batch.charge_count++;
    batch.questions[batch.count++] = q;
    return q;
}

static bool plain(bool brings_now)
{
    assert_true(lay_out(&layout, &batch, &scratch));
    for (size_t i = 0; i < batch.count; i++)
        slots[i] = (uint16_t)layout.slot_of[i];
    return is_plain(&layout, brings_now);
}

/* ---- which are plain ----------------------------------------------------------------------------- */

static void only_checks_that_cost_something_are_plain(void **state)
{
    (void)state;
    begin();
    ask('a', &fixed, 1);
    ask('b', &sliding, 3);
    ask('a', &fixed, 2);
    assert_true(plain(false));
    questions[1].ask.peek = true;
    assert_false(plain(false));
    questions[1].ask.peek = false;
    questions[1].charges->cost = 0;
    assert_false(plain(false));
    questions[1].charges->cost = 1;
    questions[1].verb = VERB_REFUND;
    assert_false(plain(false));
    done();
}

static void questions_of_several_charges_are_not_plain(void **state)
{
    (void)state;
    begin();
    ask('a', &fixed, 1);
    ask('b', &fixed, 1);
    questions[0].count = 2; /* the next charge is its own as well */
    batch.charges[0] = 2;
    batch.charge_count = 2;
    batch.count = 1;
    assert_false(plain(false));
    done();
}

static void questions_of_one_key_must_agree(void **state)
{
    static const struct rule other = { WEIR_FIXED_WINDOW, 6, 1000, 6, .precision = 0 };

    (void)state;
    begin();
    ask('a', &fixed, 1)->ask.now = 1;
    ask('a', &fixed, 1)->ask.now = 2;
    assert_true(plain(false));
    assert_false(plain(true)); /* they bring different times */
    questions[1].ask.now = 1;
    assert_true(plain(true));
    charges[1].rule = &other;
    assert_false(plain(true));
    done();
}

/* ---- parameters ---------------------------------------------------------------------------------- */

static int64_t number_at(const char *at, size_t size)
{
    int64_t n = 0;

    for (size_t i = 0; i < size; i++)
        n = (int64_t)((uint64_t)n << 8 | (unsigned char)at[i]);
    return n;
}

/* The elements are these; -1 is NULL, and of a key its first byte. */
static void has(int parameter, size_t count, const int64_t *expected)
{
    const char *at = parameters.values[parameter], *end = at + parameters.lengths[parameter];

    assert_non_null(at);
    assert_int_equal(number_at(at + 12, 4), count);
    at += 20;
    for (size_t i = 0; i < count; i++) {
        const int32_t len = (int32_t)number_at(at, 4);

        at += 4;
        assert_int_equal(len < 0 ? -1 : number_at(at, len > 8 ? 1 : (size_t)len), expected[i]);
        at += len < 0 ? 0 : len;
    }
    assert_ptr_equal(at, end);
}

#define HAS(parameter, ...)                                                                        \
    has(parameter, sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t), (int64_t[]){ __VA_ARGS__ })

static void one_question_is_its_numbers(void **state)
{
    const int64_t numbers[] = { 'k', WEIR_SLIDING_WINDOW, 7, 2000, 7, 1, 3, 1234 };
    const size_t sizes[] = { 1, 4, 8, 8, 8, 8, 8, 8 };

    (void)state;
    begin();
    ask('k', &sliding, 3)->ask.now = 1234;
    assert_true(charge_write(&parameters, &batch, true));
    assert_int_equal(parameters.count, 8);
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(number_at(parameters.values[i], sizes[i]), numbers[i]);
    assert_int_equal(parameters.lengths[0], 16);
    assert_true(charge_write(&parameters, &batch, false));
    assert_null(parameters.values[7]); /* the database's clock */
    done();
}

static void defaults_are_left_out(void **state)
{
    (void)state;
    begin();
    ask('b', &fixed, 1);
    ask('a', &fixed, 1);
    assert_true(plain(false) && charge_many_write(&parameters, &layout, false));
    HAS(KEYS, 'a', 'b');
    assert_int_equal(number_at(parameters.values[ALGORITHM], 4), WEIR_FIXED_WINDOW);
    HAS(ALGORITHMS, WEIR_FIXED_WINDOW);
    HAS(LIMITS, 5);
    HAS(WINDOWS, 1000);
    HAS(BURSTS, 5);
    HAS(PRECISIONS, 0);
    for (int i = RULES; i <= COSTS; i++)
        assert_null(parameters.values[i]);
    done();
}

static void questions_on_a_key_are_summed_up(void **state)
{
    (void)state;
    begin();
    ask('b', &sliding, 2)->ask.now = 11;
    ask('a', &fixed, 1)->ask.now = 12;
    ask('b', &sliding, 3)->ask.now = 11;
    ask('c', &fixed, INT64_MAX);
    ask('c', &fixed, INT64_MAX);
    assert_true(plain(true) && charge_many_write(&parameters, &layout, true));
    HAS(KEYS, 'a', 'b', 'c');
    assert_null(parameters.values[ALGORITHM]); /* they differ */
    HAS(RULES, 2, 1, 2);
    HAS(AMOUNTS, 1, 5, 6); /* the last is more than can ever pass, and no more than that */
    HAS(NOWS, 12, 11, -1);
    HAS(COUNTS, 1, 2, 2);
    HAS(COSTS, 1, 2, 3, INT64_MAX, INT64_MAX);
    done();
}

/* ---- answers ------------------------------------------------------------------------------------- */

struct column {
    char bytes[20 + MOST * 12];
    size_t len;
};

static struct column columns[COLUMNS];
static struct span spans[COLUMNS];

static void put(struct column *c, int64_t number, size_t size)
{
    for (size_t i = size; i > 0; i--)
        c->bytes[c->len++] = (char)((uint64_t)number >> 8 * (i - 1));
}

static void column(int number, int64_t type, size_t size, size_t count, const int64_t *elements)
{
    struct column *c = &columns[number];

    c->len = 0;
    put(c, 1, 4);
    put(c, 0, 4);
    put(c, type, 4);
    put(c, (int64_t)count, 4);
    put(c, 1, 4);
    for (size_t i = 0; i < count; i++) {
        put(c, (int64_t)size, 4);
        put(c, elements[i], size);
    }
    spans[number] = (struct span){ c->bytes, count ? c->len : 0 };
}

struct left {
    int64_t slot, at, used, other;
};

static void answer(size_t count, const struct left *left, int64_t clock)
{
    int64_t numbers[4][MOST];

    for (size_t i = 0; i < count; i++) {
        numbers[0][i] = left[i].slot;
        numbers[1][i] = left[i].at;
        numbers[2][i] = left[i].used;
        numbers[3][i] = left[i].other;
    }
    column(0, 23, 4, count, numbers[0]);
    for (int i = 1; i < 4; i++)
        column(i, 20, 8, count, numbers[i]);
    columns[4].len = 0;
    put(&columns[4], clock, 8);
    spans[4] = (struct span){ columns[4].bytes, 8 };
    for (int i = 5; i < COLUMNS; i++)
        column(i, i == 5 ? 16 : 20, i == 5 ? 1 : 8, 0, NULL);
}

/* The i-th is refused, and its numbers are 100 x column + i. */
static void judge(size_t count)
{
    int64_t numbers[MOST];

    for (int c = 5; c < COLUMNS; c++) {
        for (size_t i = 0; i < count; i++)
            numbers[i] = c == 5 ? 0 : 100 * c + (int64_t)i;
        column(c, c == 5 ? 16 : 20, c == 5 ? 1 : 8, count, numbers);
    }
}

static struct rule roll_rule(struct dice *dice, weir_algorithm algorithm)
{
    struct rule r = { .algorithm = algorithm,
                      .limit = 20 + dice_below(dice, 100),
                      .window = 1 + dice_below(dice, 5000) };
    weir_diag diag;

    if (algorithm == ALGORITHM_CELL)
        assert_int_equal(cell_rule(r.limit, 1 + dice_below(dice, 9), 60, &r, &diag), WEIR_OK);
    else
        assert_int_equal(rule_check(&r, &diag), WEIR_OK);
    return r;
}

/* What the row holds after the last step, as weir.states has it. */
static struct left row_of(const struct rule *r, const struct state *s, const struct step *last)
{
    if (r->algorithm == ALGORITHM_CELL)
        return (struct left){ 1, s->arrival.ms, s->arrival.ns, 0 };
    switch (r->algorithm) {
    case WEIR_FIXED_WINDOW:
        return (struct left){ 1, s->fixed_window.start, s->fixed_window.count, 0 };
    case WEIR_SLIDING_COUNTER:
        return (struct left){ 1, s->sliding_counter.start, s->sliding_counter.current,
                              s->sliding_counter.previous };
    case WEIR_SLIDING_WINDOW:
        return (struct left){ 1, last->next.sliding_window.start,
                              r->limit - last->decision.remaining, 0 };
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
        return (struct left){ 1, s->bucket.at, s->bucket.used, 0 };
    case WEIR_CONCURRENCY:
    case WEIR_DEFAULT_ALGORITHM:
        break;
    }
    fail();
    return (struct left){ 0 };
}

static void take(struct state *s, const struct rule *r, int64_t now, int64_t cost, struct step *out)
{
    const struct ask a = { .now = now, .cost = cost };
    const weir_allocator allocator = heap();

    state_take(s, r, &a, out);
    if (!out->decision.allowed)
        return;
    assert_true(state_reserve(s, r, out, &allocator));
    state_apply(s, r, out);
}

static void is_same(const struct decision *a, const struct decision *b)
{
    assert_int_equal(a->allowed, b->allowed);
    assert_int_equal(a->remaining, b->remaining);
    assert_int_equal(a->retry_after, b->retry_after);
    assert_int_equal(a->reset_after, b->reset_after);
    assert_int_equal(a->delay, b->delay);
}

static void is_told_the_same(struct dice *dice, weir_algorithm algorithm)
{
    const struct rule r = roll_rule(dice, algorithm);
    const size_t n = 1 + (size_t)dice_below(dice, MOST),
                 gone = (size_t)dice_below(dice, (int64_t)n);
    const weir_allocator allocator = heap();
    int64_t now = START + dice_below(dice, 5000);
    struct decision expected[MOST];
    struct state s = { 0 };
    struct step step;
    struct left row;

    for (int64_t i = dice_below(dice, 5); i > 0; i--) /* charged before */
        take(&s, &r, now, 1 + dice_below(dice, 2), &step);
    now += dice_below(dice, 1 + 3 * r.window % 7000) - 10; /* it may have stepped back */
    begin();
    for (size_t i = 0; i < n; i++) {
        struct question *q = ask('k', &r, 1);

        take(&s, &r, now, q->charges->cost, &step);
        assert_true(step.decision.allowed);
        expected[i] = step.decision;
    }
    row = row_of(&r, &s, &step);
    assert_true(plain(false));
    batch.first = gone;
    for (size_t i = 0; i < gone; i++)
        batch.questions[i] = NULL;
    answer(1, &row, now);
    assert_true(charge_many_read(spans, &batch, slots, false));
    for (size_t i = gone; i < n; i++) {
        assert_true(questions[i].allowed);
        is_same(&charges[i].step.decision, &expected[i]);
    }
    state_done(&s, r.algorithm, &allocator);
    done();
}

static void each_question_gets_its_own_answer(void **state)
{
#define X(name, value, text, has_burst, has_precision) WEIR_##name,
    static const weir_algorithm algorithms[] = { ALGORITHM_CELL, WEIR_ALGORITHMS(X) };
#undef X
    struct dice dice = dice_new();

    (void)state;
    for (int i = 0; i < scaled(5000); i++)
        is_told_the_same(&dice, algorithms[dice_below(&dice, ALGORITHM_COUNTED + 1)]);
}

static void questions_that_did_not_pass_get_the_answer_of_judge(void **state)
{
    (void)state;
    begin();
    ask('c', &fixed, 1); /* the third key */
    ask('a', &fixed, 1);
    ask('b', &fixed, 1);
    ask('a', &fixed, 1);
    ask('c', &fixed, 1);
    assert_true(plain(false));
    answer(1, &(struct left){ 2, 1699000, 3, 0 }, 1699500);
    judge(4); /* both of the first key, then both of the third */
    batch.first = 1;
    batch.questions[0] = NULL;
    assert_true(charge_many_read(spans, &batch, slots, false));
    assert_int_equal(charges[1].step.decision.remaining, 600);
    assert_int_equal(charges[3].step.decision.remaining, 601);
    assert_int_equal(charges[4].step.decision.remaining, 603);
    assert_int_equal(charges[4].step.decision.delay, 903);
    assert_false(questions[4].allowed);
    assert_true(questions[2].allowed);
    assert_int_equal(charges[2].step.decision.remaining, 2);
    assert_int_equal(charges[2].step.decision.reset_after, 500);
    assert_int_equal(charges[0].step.decision.remaining, 0);
    done();
}

static void one_answer_is_a_row_or_a_judgement(void **state)
{
    (void)state;
    begin();
    ask('a', &fixed, 2);
    column(0, 20, 8, 4, (int64_t[]){ 1699000, 3, 0, 1699500 });
    assert_true(charge_read(spans, &batch, false));
    assert_true(questions[0].allowed);
    assert_int_equal(charges[0].step.decision.remaining, 2);
    column(0, 20, 8, 5, (int64_t[]){ 0, 1, 2, 3, 4 });
    assert_true(charge_read(spans, &batch, false));
    assert_false(questions[0].allowed);
    assert_int_equal(charges[0].step.decision.retry_after, 2);
    assert_int_equal(charges[0].step.decision.delay, 4);
    column(0, 20, 8, 3, (int64_t[]){ 0, 1, 2 });
    assert_false(charge_read(spans, &batch, false));
    batch.first = 1;
    batch.questions[0] = NULL;
    column(0, 20, 8, 4, (int64_t[]){ 1699000, 3, 0, 1699500 });
    assert_true(charge_read(spans, &batch, false)); /* all questions are done */
    done();
}

static void invalid_answers_are_rejected(void **state)
{
    const struct left two[] = { { 1, 1699000, 1, 0 }, { 2, 1699000, 1, 0 } };

    (void)state;
    begin();
    ask('a', &fixed, 1);
    ask('b', &fixed, 1);
    assert_true(plain(false));
    answer(2, two, 1699500);
    assert_true(charge_many_read(spans, &batch, slots, false));
    for (int c = 0; c < 5; c++) {
        answer(2, two, 1699500);
        spans[c].len--;
        assert_false(charge_many_read(spans, &batch, slots, false));
    }
    answer(1, two, 1699500); /* and nothing of the other */
    assert_false(charge_many_read(spans, &batch, slots, false));
    answer(2, (struct left[]){ two[0], two[0] }, 1699500);
    assert_false(charge_many_read(spans, &batch, slots, false));
    answer(2, (struct left[]){ two[0], { 3, 1699000, 1, 0 } }, 1699500);
    assert_false(charge_many_read(spans, &batch, slots, false));
    answer(2, (struct left[]){ two[0], { 2, 1699000, 9, 0 } }, 1699500); /* above its limit */
    assert_false(charge_many_read(spans, &batch, slots, false));
    done();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_checks_that_cost_something_are_plain),
        cmocka_unit_test(questions_of_several_charges_are_not_plain),
        cmocka_unit_test(questions_of_one_key_must_agree),
        cmocka_unit_test(one_question_is_its_numbers),
        cmocka_unit_test(defaults_are_left_out),
        cmocka_unit_test(questions_on_a_key_are_summed_up),
        cmocka_unit_test(each_question_gets_its_own_answer),
        cmocka_unit_test(questions_that_did_not_pass_get_the_answer_of_judge),
        cmocka_unit_test(one_answer_is_a_row_or_a_judgement),
        cmocka_unit_test(invalid_answers_are_rejected),
    };

    return cmocka_run_group_tests_name("postgres_charge", tests, NULL, NULL);
}
