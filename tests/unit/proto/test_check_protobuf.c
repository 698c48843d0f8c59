/* test_check_protobuf.c - requests of weir.v1: what protoc writes is read as the same in JSON would be. */
#include "support/unit.h"

#include "proto/check_protobuf.h"
#include "support/protobuf_vector.h"

static struct parsed_request got;
static weir_diag diag;

/* policy:"cleanup" policies:"a" policies:"b" key:"203.0.113.7" attributes{key:"ip" value:"192.0.2.1"}
 * cost:0 costs{key:"tokens" value:-5} plan:"free" peek:true exempt:true now:1700000000000 name:"n"
 * limit:10 window_ms:60000 burst:20 precision_ms:1000 algorithm:ALGORITHM_TOKEN_BUCKET
 * start:START_FIRST block_for_ms:900000 tag:true on_error:ON_ERROR_DENY id:"id-1" ttl_ms:30000
 * reservation:"" */
static const char full[] =
    "0a07636c65616e75701201611201621a0b3230332e302e3131332e37220f0a02697012093139322e302e322e"
    "31280032130a06746f6b656e7310fbffffffffffffffff013a0466726565400148015080d095ffbc315a016e"
    "600a68e0d403701478e8078001048801019001a0f736980101a00103aa010469642d31b001b0ea01ba0100";

/* Reads one; its texts live until the message is freed. */
static weir_err read_one(struct span message, bool *is_malformed)
{
    struct check_protobuf m;
    weir_err err;

    diag.text[0] = '\0';
    assert_int_equal(check_protobuf_open(&m, (char *)message.at, message.len, false, &diag),
                     PROTOBUF_FINE);
    assert_int_equal(m.count, 1);
    err = check_protobuf_next(&m, &got, &diag);
    assert_true((diag.text[0] != '\0') == (err != WEIR_OK));
    assert_true(err || !m.is_malformed);
    *is_malformed = m.is_malformed;
    return err;
}

/* Is it wrong, with a text like this, and was it well formed? */
static void check_wrong(const char *hex, const char *text)
{
    const struct span message = message_of(hex);
    bool is_malformed;

    assert_int_equal(read_one(message, &is_malformed), WEIR_EREQUEST);
    assert_false(is_malformed);
    assert_non_null(strstr(diag.text, text));
    message_free(message);
}

static void a_request_is_read_with_all_it_has(void **state)
{
    const struct span message = message_of(full);
    const weir_request *r = &got.request;
    bool is_malformed;

    (void)state;
    assert_int_equal(read_one(message, &is_malformed), WEIR_OK);
    assert_string_equal(r->policy, "cleanup");
    assert_int_equal(r->policy_count, 2);
    assert_string_equal(r->policies[0], "a");
    assert_string_equal(r->policies[1], "b");
    assert_string_equal(r->key, "203.0.113.7");
    assert_int_equal(r->key_len, 11);
    assert_int_equal(r->attribute_count, 1);
    assert_string_equal(r->attributes[0].name, "ip");
    assert_string_equal(r->attributes[0].value, "192.0.2.1");
    assert_int_equal(r->attributes[0].value_len, 9);
    assert_true(r->cost == WEIR_COST_ZERO);
    assert_int_equal(r->cost_count, 1);
    assert_string_equal(r->costs[0].name, "tokens");
    assert_int_equal(r->costs[0].amount, -5);
    assert_string_equal(r->plan, "free");
    assert_true(got.peek && got.wants_tag && r->exempt && !got.is_release);
    assert_true(r->now == 1700000000000);
    assert_string_equal(r->name, "n");
    assert_int_equal(r->limit, 10);
    assert_int_equal(r->window_ms, 60000);
    assert_int_equal(r->burst, 20);
    assert_int_equal(r->precision_ms, 1000);
    assert_int_equal(r->algorithm, WEIR_TOKEN_BUCKET);
    assert_int_equal(r->start, WEIR_START_FIRST);
    assert_int_equal(r->block_for_ms, 900000);
    assert_int_equal(r->on_error, WEIR_ON_ERROR_DENY);
    assert_string_equal(r->id, "id-1");
    assert_int_equal(r->ttl_ms, 30000);
    assert_string_equal(r->reservation, "");
    message_free(message);
}

static void a_request_that_has_nothing_says_nothing(void **state)
{
    /* All that is 0 and empty, and not optional, as some write it. */
    const struct span zeros = message_of("0a003a004000480050005a0060006800700078008001008801009001"
                                         "00980100a00100aa0100b00100");
    const weir_request *r = &got.request;
    bool is_malformed;

    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(read_one(i == 0 ? zeros : (struct span){ "", 0 }, &is_malformed), WEIR_OK);
        assert_true(!r->policy && !r->key && !r->plan && !r->name && !r->id && !r->reservation);
        assert_true(r->cost == 0 && r->limit == 0 && r->now == 0 && r->ttl_ms == 0);
        assert_true(!got.peek && !got.wants_tag && !r->exempt);
    }
    message_free(zeros);
}

/* What is there though it is empty: a key, a reservation, a name and a value in a map. */
static void an_empty_text_may_be_there(void **state)
{
    const struct span message = message_of("1a00ba010022040a001200220612010a0a0162");
    const weir_request *r = &got.request;
    bool is_malformed;

    (void)state;
    assert_int_equal(read_one(message, &is_malformed), WEIR_OK);
    assert_string_equal(r->key, "");
    assert_string_equal(r->reservation, "");
    assert_int_equal(r->attribute_count, 2);
    assert_string_equal(r->attributes[0].name, "");
    assert_string_equal(r->attributes[0].value, "");
    assert_string_equal(r->attributes[1].name, "b"); /* behind its value */
    assert_string_equal(r->attributes[1].value, "\n");
    message_free(message);
}

/* Between two fields a message may end; nowhere else. */
static void a_cut_is_found_wherever_it_is(void **state)
{
    static const size_t ends[] = { 0,  9,  12, 15, 28,  45,  47,  68,  74,  76,  78,  85, 88,
                                   90, 94, 96, 99, 102, 105, 110, 113, 116, 123, 128, 131 };
    const struct span message = message_of(full);
    size_t next = 0;

    (void)state;
    for (size_t len = 0; len <= message.len; len++) {
        const struct span cut = cut_of(message, len);
        bool is_malformed;

        (void)read_one(cut, &is_malformed);
        assert_int_equal(is_malformed, len != ends[next]);
        next += len == ends[next];
        message_free(cut);
    }
    assert_int_equal(next, sizeof ends / sizeof *ends);
    message_free(message);
}

static void what_is_wrong_is_told(void **state)
{
    static const char *const bounded[] = { "22030a01%02x", "32030a01%02x", "1201%02x" };
    static const char *const texts[] = { "too many attributes", "too many costs",
                                         "too many policies" };
    char text[12 * (WEIR_MAX_ATTRIBUTES + 1) + 1];

    (void)state;
    check_wrong("288180808080808010", "'cost' is more than 2^53");
    check_wrong("28fffffffffffffffff801", "2^53");
    check_wrong("800107", "no 'algorithm' of the number 7");
    check_wrong("8001ffffffffffffffffff01", "no 'algorithm' of the number -1");
    check_wrong("880102", "'start'");
    check_wrong("a00104", "'on_error'");
    check_wrong("0a03610062", "NUL");
    check_wrong("220a0a036100621203610062", "NUL");
    check_wrong("32070a036100621001", "NUL");
    check_wrong("22030a016122030a0161", "a stands twice in 'attributes'");
    check_wrong("32030a016132030a0161", "a stands twice in 'costs'");
    for (size_t kind = 0; kind < 3; kind++) {
        size_t len = 0;

        for (unsigned i = 0; i <= WEIR_MAX_ATTRIBUTES; i++)
            len += (size_t)snprintf(text + len, sizeof text - len, bounded[kind], 'a' + i);
        check_wrong(text, texts[kind]);
    }
    /* The first thing is told. */
    check_wrong("8001070a03610062", "'algorithm'");
}

static void what_is_malformed_behind_a_mistake_is_malformed(void **state)
{
    static const char *const wrong[] = { "8001070a",   "8001070a01ff", "0a01ff", "22030a01ff",
                                         "22031201ff", "32030a01ff",   "1201ff", "22020a05" };

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const struct span message = message_of(wrong[i]);
        bool is_malformed;

        assert_int_equal(read_one(message, &is_malformed), WEIR_EREQUEST);
        assert_true(is_malformed);
        message_free(message);
    }
}

/* ---- many ----------------------------------------------------------------------------------- */

/* checks{policy:"login" key:"a"} checks{policy:"login" key:"b" cost:2} checks{} */
static const char many[] = "0a0a0a056c6f67696e1a01610a0c0a056c6f67696e1a016228020a00";

static void checks_are_handed_out_in_order(void **state)
{
    const struct span message = message_of(many);
    struct check_protobuf m;

    (void)state;
    assert_int_equal(check_protobuf_open(&m, (char *)message.at, message.len, true, &diag),
                     PROTOBUF_FINE);
    assert_int_equal(m.count, 3);
    assert_int_equal(check_protobuf_next(&m, &got, &diag), WEIR_OK);
    assert_string_equal(got.request.policy, "login");
    assert_string_equal(got.request.key, "a");
    assert_int_equal(check_protobuf_next(&m, &got, &diag), WEIR_OK);
    assert_string_equal(got.request.key, "b");
    assert_int_equal(got.request.cost, 2);
    assert_int_equal(check_protobuf_next(&m, &got, &diag), WEIR_OK);
    assert_null(got.request.policy);
    message_free(message);
}

/* Nothing must be charged of a message that turns out to be none. */
static void many_are_read_to_the_end_first(void **state)
{
    static const size_t ends[] = { 0, 12, 26, 28 };
    const struct span message = message_of(many), bad = message_of("0a000a030a01ff");
    struct check_protobuf m;
    size_t next = 0;

    (void)state;
    for (size_t len = 0; len <= message.len; len++) {
        const struct span cut = cut_of(message, len);
        const enum protobuf_fault fault = check_protobuf_open(&m, (char *)cut.at, len, true, &diag);

        assert_int_equal(fault, len == ends[next] ? PROTOBUF_FINE : PROTOBUF_MALFORMED);
        next += len == ends[next];
        assert_memory_equal(cut.at, message.at, len); /* and nothing was changed */
        message_free(cut);
    }
    assert_int_equal(check_protobuf_open(&m, (char *)bad.at, bad.len, true, &diag),
                     PROTOBUF_MALFORMED);
    message_free(message);
    message_free(bad);
}

static void a_mistake_is_of_one_check_only(void **state)
{
    const struct span message = message_of("0a038001070a030a0161");
    struct check_protobuf m;

    (void)state;
    assert_int_equal(check_protobuf_open(&m, (char *)message.at, message.len, true, &diag),
                     PROTOBUF_FINE);
    assert_int_equal(check_protobuf_next(&m, &got, &diag), WEIR_EREQUEST);
    assert_false(m.is_malformed);
    assert_int_equal(check_protobuf_next(&m, &got, &diag), WEIR_OK);
    assert_string_equal(got.request.policy, "a");
    message_free(message);
}

static void there_are_at_most_1000(void **state)
{
    char *text = malloc(4 * (CHECK_PROTOBUF_MAX_CHECKS + 1) + 1);

    (void)state;
    for (int i = 0; i <= CHECK_PROTOBUF_MAX_CHECKS; i++)
        memcpy(text + 4 * i, "0a00", 5);
    for (size_t n = CHECK_PROTOBUF_MAX_CHECKS; n <= CHECK_PROTOBUF_MAX_CHECKS + 1; n++) {
        const struct span message = message_of(text + 4 * (CHECK_PROTOBUF_MAX_CHECKS + 1 - n));
        struct check_protobuf m;

        assert_int_equal(check_protobuf_open(&m, (char *)message.at, message.len, true, &diag),
                         n > CHECK_PROTOBUF_MAX_CHECKS ? PROTOBUF_INVALID : PROTOBUF_FINE);
        message_free(message);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_read_with_all_it_has),
        cmocka_unit_test(a_request_that_has_nothing_says_nothing),
        cmocka_unit_test(an_empty_text_may_be_there),
        cmocka_unit_test(a_cut_is_found_wherever_it_is),
        cmocka_unit_test(what_is_wrong_is_told),
        cmocka_unit_test(what_is_malformed_behind_a_mistake_is_malformed),
        cmocka_unit_test(checks_are_handed_out_in_order),
        cmocka_unit_test(many_are_read_to_the_end_first),
        cmocka_unit_test(a_mistake_is_of_one_check_only),
        cmocka_unit_test(there_are_at_most_1000),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
