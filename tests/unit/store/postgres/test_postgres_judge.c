/* test_postgres_judge.c - a batch as the arrays of weir.judge(), and arrays as its decisions. */
#include "support/unit.h"

#include "store/postgres/judge.h"

enum {
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
    NOWS
};
enum { MOST = 8 };

static const struct rule one = { WEIR_FIXED_WINDOW, 5, 1000, 5, .precision = 0 };
static const struct rule same = { WEIR_FIXED_WINDOW, 5, 1000, 5, .precision = 0 };
static const struct rule other = { WEIR_SLIDING_WINDOW, 7, 2000, 7, .precision = 1 };

static struct batch batch;
static struct question questions[MOST];
static struct charge charges[2 * MOST];
static struct parameters parameters;
static struct buf scratch;
enum { JUDGE_COLUMNS = 5 };

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

static bool write_batch(bool brings_now)
{
    struct layout l;

    return lay_out(&l, &batch, &scratch) && judge_write(&parameters, &l, brings_now);
}

static struct key key_of(unsigned char first)
{
    struct key key = { 0 };

    memcpy(&key, &first, 1);
    return key;
}

/* One charge for each rule; the keys' first bytes. */
static struct question *ask(size_t n, const struct rule *const *rules, const char *keys)
{
    struct question *q = &questions[batch.count];

    q->charges = &charges[batch.charge_count];
    q->count = n;
    for (size_t i = 0; i < n; i++) {
        q->charges[i].rule = rules[i];
        q->charges[i].cost = 1;
        q->charges[i].key = key_of((unsigned char)keys[i]);
    }
    batch.charges[batch.count] = (uint16_t)n;
    batch.charge_count += n;
    batch.questions[batch.count++] = q;
    return q;
}

static int64_t number_at(const char *at, size_t size)
{
    int64_t n = 0;

    for (size_t i = 0; i < size; i++)
        n = (int64_t)((uint64_t)n << 8 | (unsigned char)at[i]);
    return n;
}

/* The elements of an array; NULL is `none`. */
static size_t elements(int parameter, int64_t *out, int64_t none)
{
    const char *at = parameters.values[parameter], *end = at + parameters.lengths[parameter];
    size_t count;

    assert_non_null(at);
    assert_int_equal(number_at(at, 4), 1);
    count = (size_t)number_at(at + 12, 4);
    assert_int_equal(number_at(at + 16, 4), 1);
    at += 20;
    for (size_t i = 0; i < count; i++) {
        const int32_t len = (int32_t)number_at(at, 4);

        at += 4;
        out[i] = len < 0 ? none : number_at(at, len > 8 ? 1 : (size_t)len);
        at += len < 0 ? 0 : len;
    }
    assert_ptr_equal(at, end);
    return count;
}

static void has(int parameter, size_t count, const int64_t *expected)
{
    int64_t found[2 * MOST];

    assert_int_equal(elements(parameter, found, -1), count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(found[i], expected[i]);
}

#define HAS(parameter, ...)                                                                        \
    has(parameter, sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t), (int64_t[]){ __VA_ARGS__ })

static void keys_are_sorted_and_rules_are_sent_once(void **state)
{
    (void)state;
    begin();
    ask(1, (const struct rule *[]){ &one }, "c");
    ask(2, (const struct rule *[]){ &same, &other }, "ab");
    ask(1, (const struct rule *[]){ &one }, "c");
    assert_true(write_batch(false));
    HAS(KEYS, 'a', 'b', 'c');
    HAS(ALGORITHMS, WEIR_FIXED_WINDOW, WEIR_SLIDING_WINDOW);
    HAS(LIMITS, 5, 7);
    HAS(WINDOWS, 1000, 2000);
    HAS(BURSTS, 5, 7);
    HAS(PRECISIONS, 0, 1);
    HAS(SLOTS, 3, 1, 2, 3);
    HAS(RULES, 1, 1, 2, 1);
    HAS(COUNTS, 1, 2, 1);
    done();
}

static void defaults_are_left_out(void **state)
{
    (void)state;
    begin();
    ask(1, (const struct rule *[]){ &one }, "a")->ask.now = 1234;
    assert_true(write_batch(false));
    for (int i = COUNTS; i <= NOWS; i++)
        assert_null(parameters.values[i]);
    done();
}

static void a_question_is_sent(void **state)
{
    (void)state;
    begin();
    ask(1, (const struct rule *[]){ &one }, "a")->ask.now = 1234;
    ask(1, (const struct rule *[]){ &one }, "b")->ask.peek = true;
    ask(1, (const struct rule *[]){ &one }, "c")->verb = VERB_REFUND;
    questions[2].charges->cost = 1LL << 50;
    ask(1, (const struct rule *[]){ &one }, "d")->verb = VERB_RESET;
    questions[3].charges->cost = -3;
    assert_true(write_batch(true));
    HAS(VERBS, 0, 1, 2, 3);
    HAS(COSTS, 1, 1, 1LL << 50, -3);
    HAS(NOWS, 1234, -1, -1, -1); /* the others' by the database's clock */
    done();
}

/* More rules than are looked through may be sent twice, but never mixed up. */
static void many_rules_keep_their_numbers(void **state)
{
    static struct rule many[BATCH_MOST];
    static struct charge own[BATCH_MOST];
    static struct question asked[BATCH_MOST];
    struct dice dice = dice_new();
    int64_t limits[BATCH_MOST], numbers[BATCH_MOST];

    (void)state;
    begin();
    for (size_t i = 0; i < BATCH_MOST; i++) {
        many[i] = (struct rule){ WEIR_FIXED_WINDOW, 1 + dice_below(&dice, 40), 1000, 1,
                                 .precision = 0 };
        own[i] = (struct charge){ .rule = &many[i],
                                  .key = { dice_roll(&dice) % 64, 7 },
                                  .cost = 1 };
        asked[i] = (struct question){ .charges = &own[i], .count = 1 };
        batch.questions[i] = &asked[i];
        batch.charges[i] = 1;
    }
    batch.count = batch.charge_count = BATCH_MOST;
    assert_true(write_batch(false));
    elements(LIMITS, limits, -1);
    assert_int_equal(elements(RULES, numbers, -1), BATCH_MOST);
    for (size_t i = 0; i < BATCH_MOST; i++)
        assert_int_equal(limits[numbers[i] - 1], many[i].limit);
    done();
}

/* ---- answers ------------------------------------------------------------------------------------ */

struct column {
    char bytes[20 + 2 * MOST * 12];
    size_t len;
};

static void put(struct column *c, int64_t number, size_t size)
{
    for (size_t i = size; i > 0; i--)
        c->bytes[c->len++] = (char)((uint64_t)number >> 8 * (i - 1));
}

/* Charge i is allowed unless it is `refused`, and its numbers are 100 x column + i. */
static void answer(struct column *columns, struct span *spans, size_t count, size_t refused)
{
    for (int c = 0; c < JUDGE_COLUMNS; c++) {
        const size_t size = c == 0 ? 1 : 8;

        columns[c].len = 0;
        put(&columns[c], 1, 4);
        put(&columns[c], 0, 4);
        put(&columns[c], c == 0 ? 16 : 20, 4);
        put(&columns[c], (int64_t)count, 4);
        put(&columns[c], 1, 4);
        for (size_t i = 0; i < count; i++) {
            put(&columns[c], (int64_t)size, 4);
            put(&columns[c], c == 0 ? i != refused : 100 * c + (int64_t)i, size);
        }
        spans[c] = (struct span){ columns[c].bytes, columns[c].len };
    }
}

static void an_answer_is_read(void **state)
{
    struct column columns[JUDGE_COLUMNS];
    struct span spans[JUDGE_COLUMNS];
    const struct decision *d = &charges[1].step.decision;

    (void)state;
    begin();
    ask(1, (const struct rule *[]){ &one }, "a");
    ask(2, (const struct rule *[]){ &one, &other }, "bc");
    answer(columns, spans, 3, 2);
    assert_true(judge_read(spans, &batch));
    assert_true(questions[0].allowed);
    assert_false(questions[1].allowed);
    assert_true(d->allowed);
    assert_int_equal(d->remaining, 101);
    assert_int_equal(d->retry_after, 201);
    assert_int_equal(d->reset_after, 301);
    assert_int_equal(d->delay, 401);
    assert_false(charges[2].step.decision.allowed);
}

static void nothing_is_written_to_a_closed_connection(void **state)
{
    struct column columns[JUDGE_COLUMNS];
    struct span spans[JUDGE_COLUMNS];

    (void)state;
    begin();
    ask(2, (const struct rule *[]){ &one, &other }, "ab");
    ask(1, (const struct rule *[]){ &one }, "c");
    batch.first = 1;
    batch.questions[0] = NULL;
    answer(columns, spans, 3, 9);
    assert_true(judge_read(spans, &batch));
    assert_false(charges[0].step.decision.allowed);
    assert_int_equal(charges[2].step.decision.remaining, 102);
}

/* Whatever byte of the answer's form is another: it is no answer. */
static void invalid_answers_are_rejected(void **state)
{
    struct column columns[JUDGE_COLUMNS];
    struct span spans[JUDGE_COLUMNS];

    (void)state;
    begin();
    ask(2, (const struct rule *[]){ &one, &other }, "ab");
    for (int c = 0; c < JUDGE_COLUMNS; c++) {
        answer(columns, spans, 2, 9);
        spans[c].len--;
        assert_false(judge_read(spans, &batch));
        spans[c].len = 0;
        assert_false(judge_read(spans, &batch));
        for (size_t at = 0; at < 24; at++) {
            if ((at >= 4 && at < 8) || (at >= 16 && at < 20))
                continue; /* whether there might be NULLs, and where indexes begin */
            answer(columns, spans, 2, 9);
            columns[c].bytes[at] = (char)(columns[c].bytes[at] + 1);
            assert_false(judge_read(spans, &batch));
        }
    }
    answer(columns, spans, 3, 9);
    assert_false(judge_read(spans, &batch));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_sorted_and_rules_are_sent_once),
        cmocka_unit_test(defaults_are_left_out),
        cmocka_unit_test(a_question_is_sent),
        cmocka_unit_test(many_rules_keep_their_numbers),
        cmocka_unit_test(an_answer_is_read),
        cmocka_unit_test(nothing_is_written_to_a_closed_connection),
        cmocka_unit_test(invalid_answers_are_rejected),
    };

    return cmocka_run_group_tests_name("postgres_judge", tests, NULL, NULL);
}
