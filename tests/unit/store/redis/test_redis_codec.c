/* test_redis_codec.c - questions as a call of the script, and replies as decisions. */
#include "support/unit.h"

#include "store/redis/codec.h"
#include "store/redis/slots.h"

enum { MOST = 4 };

static const struct rule one = { WEIR_FIXED_WINDOW, 5, 1000, 5, .precision = 0 };
static const struct rule same = { WEIR_FIXED_WINDOW, 5, 1000, 5, .precision = 0 };
static const struct rule other = { WEIR_SLIDING_WINDOW, 300, 70000, 300, .precision = 1 };
static const struct rule cell = { ALGORITHM_CELL, 3, 1500000, 3, .precision = 0 };

static struct batch batch;
static struct question questions[MOST];
static struct charge charges[2 * MOST];
static const uint16_t numbers[MOST] = { 0, 1, 2, 3 };
static struct call_writer writer;
static struct buf out;

static int begin(void **state)
{
    const weir_allocator allocator = heap();

    (void)state;
    memset(&batch, 0, sizeof batch);
    memset(questions, 0, sizeof questions);
    memset(charges, 0, sizeof charges);
    call_writer_init(&writer, &allocator);
    buf_init(&out, &allocator);
    return 0;
}

static int end(void **state)
{
    (void)state;
    call_writer_done(&writer);
    buf_done(&out);
    return 0;
}

/* A question of one charge. */
static struct question *ask(const struct rule *rule, unsigned char key)
{
    struct question *q = &questions[batch.count];

    q->charges = &charges[batch.charge_count++];
    q->count = 1;
    q->ask = (struct asked){ .now = 77 };
    q->charges[0].cost = 1;
    q->charges[0].rule = rule;
    memcpy(&q->charges[0].key, &key, 1);
    q->charges[0].name = (struct charge_name){ "login", "ip", 0x3fa9 };
    batch.charges[batch.count] = 1;
    batch.questions[batch.count++] = q;
    return q;
}

static struct call all(void)
{
    return (struct call){ &batch, numbers, batch.count };
}

static void writes(bool brings_now, const char *expected, size_t size)
{
    const struct call call = all();

    assert_true(call_write(&writer, &call, (struct call_options){ brings_now, false }, &out));
    assert_int_equal(out.len, size);
    assert_memory_equal(out.at, expected, size);
}

#define KEY(first) "$51\r\nrl:{3fa9}:login:ip:" first "000000000000000000000000000000\r\n"

static void key_and_rule_are_written_once(void **state)
{
    static const unsigned char words[] = {
        0xdd, 0,    0,    0,    31,   2,    1, 5,    0xcd, 0x03, 0xe8, 5,    0, 0, /* one */
        2,    0xcd, 0x01, 0x2c, 0xce, 0,    1, 0x11, 0x70, 0xcd, 0x01, 0x2c, 1, 0, /* other */
        0,    0,    1,    1,    1,    1,    0, 0,    1,    1,    1,    1,    0, 0,
        1,    2,    2,    1,    '\r', '\n',
    };
    char expected[512];
    int len;

    (void)state;
    ask(&one, 0xab);
    ask(&same, 0xab);
    ask(&other, 0x01);
    len = snprintf(expected, sizeof expected,
                   "*6\r\n$7\r\nEVALSHA\r\n$40\r\n%s\r\n$1\r\n2\r\n" KEY("ab") KEY("01") "$%zu\r\n",
                   scripts[SCRIPT_JUDGE].sha, sizeof words - 2);
    memcpy(expected + len, words, sizeof words);
    writes(false, expected, (size_t)len + sizeof words);
}

/* Of the numbers, those from the question on. */
static void question_is(bool brings_now, const unsigned char *expected, size_t size)
{
    const struct call call = all();

    assert_true(call_write(&writer, &call, (struct call_options){ brings_now, false }, &out));
    assert_true(out.len > size + 2);
    assert_memory_equal(out.at + out.len - 2 - size, expected, size);
}

static void verbs_and_times_are_written(void **state)
{
    struct question *q = ask(&one, 1);

    (void)state;
    question_is(true, (const unsigned char[]){ 0, 77, 1, 1, 1, 1 }, 6);
    q->ask.peek = true;
    question_is(false, (const unsigned char[]){ 1, 0, 1, 1, 1, 1 }, 6);
    q->verb = VERB_REFUND;
    q->charges->cost = 200;
    question_is(false, (const unsigned char[]){ 2, 0, 1, 1, 1, 0xcc, 200 }, 7);
    q->verb = VERB_RESET;
    question_is(false, (const unsigned char[]){ 3, 0, 1, 1, 1, 0xcc, 200 }, 7);
    q->verb = VERB_UNDO;
    q->charges[0].step.now = 99;
    q->charges[0].step.decision.reset_after = 9;
    question_is(false, (const unsigned char[]){ 4, 0, 1, 1, 1, 0xcc, 200, 99, 90 }, 9);
}

static void a_cell_has_its_cost_in_its_rule(void **state)
{
    (void)state;
    ask(&cell, 1);
    ask(&cell, 1)->charges->cost = -1;
    /* 1.5 ms, three of them, one; then minus one. */
    question_is(false,
                (const unsigned char[]){
                    2,    15,   1,    0xce, 0,    0x07, 0xa1, 0x20, 4,    0xce, 0,    0x07,
                    0xa1, 0x20, 1,    0xce, 0,    0x07, 0xa1, 0x20, 0,    0,    15,   1,
                    0xce, 0,    0x07, 0xa1, 0x20, 4,    0xce, 0,    0x07, 0xa1, 0x20, 0xd3,
                    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe, 0xce, 0,    0x07, 0xa1,
                    0x20, 0,    0,    0,    0,    1,    1,    1,    1,    0,    0,    1,
                    1,    2,    0xd3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                },
                71);
}

static char *put(char *to, bool allowed, double remaining, double retry, double reset, double delay)
{
    const double numbers_of[] = { remaining, retry, reset, delay };

    *to++ = allowed;
    memcpy(to, numbers_of, sizeof numbers_of);
    return to + sizeof numbers_of;
}

static void replies_are_read(void **state)
{
    const double clock = 1234567890123.0;
    char reply[128], *at = reply + 8;
    struct call call;

    (void)state;
    ask(&one, 1)->allowed = true;
    ask(&one, 2);
    ask(&one, 3);
    batch.first = 1; /* the first was told before that there is no answer */
    memcpy(reply, &clock, sizeof clock);
    at = put(at, false, 0, 5, 6, 0);
    at = put(at, true, 4, 0, 1e15, 7);
    at = put(at, false, __builtin_inf(), -1, 3, __builtin_nan(""));
    call = all();
    assert_true(call_read((struct span){ reply, (size_t)(at - reply) }, &call));
    assert_true(questions[0].allowed);
    assert_true(questions[1].allowed);
    assert_int_equal(charges[1].step.decision.remaining, 4);
    assert_int_equal(charges[1].step.decision.reset_after, 1000000000000000);
    assert_int_equal(charges[1].step.decision.delay, 7);
    assert_int_equal(charges[1].step.now, 1234567890123);
    assert_false(questions[2].allowed);
    assert_int_equal(charges[2].step.decision.remaining, INT64_MAX);
    assert_int_equal(charges[2].step.decision.retry_after, WEIR_NEVER);
    assert_int_equal(charges[2].step.decision.delay, 0);
    assert_false(call_read((struct span){ reply, (size_t)(at - reply) - 1 }, &call));
    assert_false(call_read((struct span){ reply, 0 }, &call));
}

static void slots_are_those_of_redis(void **state)
{
    (void)state;
    assert_int_equal(redis_slot_of(0x0000), 6794); /* CLUSTER KEYSLOT rl:{0000} */
    assert_int_equal(redis_slot_of(0x3fa9), 415);
    assert_int_equal(redis_slot_of(0xffff), 14956);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(key_and_rule_are_written_once, begin, end),
        cmocka_unit_test_setup_teardown(verbs_and_times_are_written, begin, end),
        cmocka_unit_test_setup_teardown(a_cell_has_its_cost_in_its_rule, begin, end),
        cmocka_unit_test_setup_teardown(replies_are_read, begin, end),
        cmocka_unit_test(slots_are_those_of_redis),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
