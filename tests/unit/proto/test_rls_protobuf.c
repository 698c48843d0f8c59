/* test_rls_protobuf.c - Envoy's messages: what protoc writes is read, and what is written protoc reads. */
#include "support/unit.h"

#include "proto/rls_protobuf.h"
#include "support/protobuf_vector.h"

/* domain:"shop"
 * descriptors{entries{key:"path" value:"/login"} entries{key:"remote_address" value:"192.0.2.1"}}
 * descriptors{entries{key:"tenant" value:"M\303\203\302\274ller"}
 *     limit{requests_per_unit:4294967295 unit:YEAR} hits_addend{value:300} is_negative_hits:true}
 * descriptors{entries{key:"k"} hits_addend{}} descriptors{} hits_addend:7 */
static const char full[] =
    "0a0473686f70122d0a0e0a047061746812062f6c6f67696e0a1b0a0e72656d6f74655f616464726573731209"
    "3139322e302e322e3112260a130a0674656e616e7412094dc383c2bc6c6c6572120808ffffffff0f10061a03"
    "08ac02200112070a030a016b1a0012001807";

static struct rls_protobuf got;

static enum protobuf_fault read_hex(const char *hex)
{
    const struct span message = message_of(hex);
    weir_diag diag = { "" };
    const enum protobuf_fault fault = rls_protobuf_read(&got, message, &diag);

    assert_true((diag.text[0] != '\0') == (fault != PROTOBUF_FINE));
    message_free(message);
    return fault;
}

static void a_request_is_read_with_all_it_has(void **state)
{
    const struct span message = message_of(full);
    const struct rls_descriptor *d = got.descriptors;
    weir_diag diag;

    (void)state;
    assert_int_equal(rls_protobuf_read(&got, message, &diag), PROTOBUF_FINE);
    assert_true(span_is(got.request.domain, "shop"));
    assert_int_equal(got.request.descriptor_count, 4);
    assert_int_equal(got.request.hits_addend, 7);
    assert_int_equal(d[0].entry_count, 2);
    assert_true(span_is(d[0].entries[0].key, "path") && span_is(d[0].entries[0].value, "/login"));
    assert_true(span_is(d[0].entries[1].key, "remote_address"));
    assert_true(span_is(d[0].entries[1].value, "192.0.2.1"));
    assert_false(d[0].has_limit || d[0].has_hits || d[0].is_negative);
    assert_int_equal(d[1].entry_count, 1);
    assert_true(span_is(d[1].entries[0].value, "M\303\203\302\274ller"));
    assert_true(d[1].has_limit && d[1].has_hits && d[1].is_negative);
    assert_int_equal(d[1].requests_per_unit, UINT32_MAX);
    assert_int_equal(d[1].unit, 6);
    assert_int_equal(d[1].hits, 300);
    assert_true(d[2].has_hits && d[2].hits == 0);
    assert_true(d[2].entry_count == 1 && d[2].entries[0].value.len == 0);
    assert_true(d[3].entry_count == 0 && !d[3].has_hits);
    message_free(message);
}

/* Between two fields a message may end; nowhere else. */
static void a_cut_is_found_wherever_it_is(void **state)
{
    static const size_t ends[] = { 0, 6, 53, 93, 102, 104, 106 };
    const struct span message = message_of(full);
    size_t next = 0;

    (void)state;
    for (size_t len = 0; len <= message.len; len++) {
        const struct span cut = cut_of(message, len);
        weir_diag diag;
        const enum protobuf_fault fault = rls_protobuf_read(&got, cut, &diag);

        assert_int_equal(fault, len == ends[next] ? PROTOBUF_FINE : PROTOBUF_MALFORMED);
        next += len == ends[next];
        message_free(cut);
    }
    assert_int_equal(next, 7);
    message_free(message);
}

static void the_last_of_two_holds_and_messages_add_up(void **state)
{
    (void)state;
    assert_int_equal(read_hex("0a01610a016218011802"), PROTOBUF_FINE); /* domain, hits */
    assert_int_equal(got.request.domain.len, 1);
    assert_int_equal(got.request.hits_addend, 2);
    /* limit{requests_per_unit:5} limit{unit:HOUR}, hits_addend{value:3} hits_addend{} */
    assert_int_equal(read_hex("120e12020805120210031a0208031a00"), PROTOBUF_FINE);
    assert_int_equal(got.descriptors[0].requests_per_unit, 5);
    assert_int_equal(got.descriptors[0].unit, 3);
    assert_int_equal(got.descriptors[0].hits, 3);
}

static void fields_that_are_not_known_are_left_alone(void **state)
{
    (void)state;
    /* 9: a number, 10: a text that is none, 11 and 12: fixed, 13: a group; 1, 2 of other types */
    assert_int_equal(read_hex("48015201ff5d010203046101020304050607086b48016c080510011a0161"
                              "0a0161"),
                     PROTOBUF_FINE);
    assert_int_equal(got.request.domain.len, 1);
    assert_int_equal(got.request.descriptor_count, 0);
    assert_int_equal(got.request.hits_addend, 0);
    assert_int_equal(read_hex("18ffffffff1f"), PROTOBUF_FINE); /* 33 bits: the lower 32 */
    assert_int_equal(got.request.hits_addend, UINT32_MAX);
    assert_int_equal(read_hex("120d120b10ffffffffffffffffff01"), PROTOBUF_FINE); /* unit: -1 */
    assert_int_equal(got.descriptors[0].unit, -1);
}

static void texts_are_utf8(void **state)
{
    (void)state;
    assert_int_equal(read_hex("0a01ff"), PROTOBUF_MALFORMED);
    assert_int_equal(read_hex("12050a030a01ff"), PROTOBUF_MALFORMED);
    assert_int_equal(read_hex("12050a031201ff"), PROTOBUF_MALFORMED);
    assert_int_equal(read_hex("12050a03120100"), PROTOBUF_FINE); /* a NUL */
}

static void descriptors_and_entries_are_bounded(void **state)
{
    char text[4 * (RLS_MAX_DESCRIPTORS + 2)];
    char entries[4 + 4 * (RLS_MAX_ENTRIES + 2)];

    (void)state;
    for (int n = RLS_MAX_DESCRIPTORS; n <= RLS_MAX_DESCRIPTORS + 1; n++) {
        for (int i = 0; i < n; i++)
            memcpy(text + 4 * i, "1200", 5);
        assert_int_equal(read_hex(text),
                         n == RLS_MAX_DESCRIPTORS ? PROTOBUF_FINE : PROTOBUF_INVALID);
    }
    for (int n = RLS_MAX_ENTRIES; n <= RLS_MAX_ENTRIES + 1; n++) {
        snprintf(entries, sizeof entries, "12%02x", (unsigned)(2 * n));
        for (int i = 0; i < n; i++)
            memcpy(entries + 4 + 4 * i, "0a00", 5);
        assert_int_equal(read_hex(entries),
                         n == RLS_MAX_ENTRIES ? PROTOBUF_FINE : PROTOBUF_INVALID);
    }
}

/* ---- answers -------------------------------------------------------------------------------- */

static void check_answer(const struct rls_answer *a, const char *hex)
{
    const struct span expected = message_of(hex);
    const weir_allocator usual = heap();
    struct buf out;

    buf_init(&out, &usual);
    rls_protobuf_answer(&out, a);
    assert_int_equal(out.len, expected.len);
    assert_memory_equal(out.at, expected.at, expected.len);
    buf_done(&out);
    message_free(expected);
}

static void an_answer_is_what_protoc_would_write(void **state)
{
    static const struct rls_status statuses[] = {
        { .code = RLS_OVER_LIMIT,
          .has_limit = true,
          .requests_per_unit = 3,
          .unit = 3,
          .name = "login",
          .until_reset_s = 3600 },
        { .code = RLS_OK, .remaining = UINT32_MAX },
        { .code = RLS_OK, .has_limit = true, .unit = 7, .name = "", .remaining = 1 },
    };
    const struct rls_answer a = {
        .code = RLS_OVER_LIMIT,
        .statuses = statuses,
        .status_count = 3,
        .headers = { { "RateLimit-Limit", "3" }, { "RateLimit-Remaining", "0" } },
        .header_count = 2,
    };

    (void)state;
    /* overall_code:OVER_LIMIT
     * statuses{code:OVER_LIMIT current_limit{requests_per_unit:3 unit:HOUR name:"login"}
     *     duration_until_reset{seconds:3600}}
     * statuses{code:OK limit_remaining:4294967295}
     * statuses{code:OK current_limit{unit:WEEK} limit_remaining:1 duration_until_reset{}}
     * response_headers_to_add{key:"RateLimit-Limit" value:"3"}
     * response_headers_to_add{key:"RateLimit-Remaining" value:"0"} */
    check_answer(
        &a,
        "080212140802120b080310031a056c6f67696e220308901c1208080118ffffffff0f120a0801120210071801"
        "22001a140a0f526174654c696d69742d4c696d69741201331a180a13526174654c696d69742d52656d61696e"
        "696e67120130");
}

static void metadata_are_a_struct(void **state)
{
    struct value *root, *list, *inner;
    struct rls_answer a = { 0 };
    const weir_allocator usual = heap();
    struct arena arena;
    char x[131];

    (void)state;
    arena_init(&arena, &usual);
    memset(x, 'x', 130);
    x[130] = '\0';
    root = arena_take(&arena, sizeof *root);
    root->kind = VALUE_MAP;
    value_add(&arena, root, span_of("n"), VALUE_NULL);
    value_add(&arena, root, span_of("d"), VALUE_NUMBER)->number = -1.5;
    value_add_text(&arena, root, span_of("t"), span_of(""));
    value_add(&arena, root, span_of("b"), VALUE_BOOL)->number = 1;
    value_add(&arena, root, span_of("f"), VALUE_BOOL);
    inner = value_add(&arena, root, span_of("m"), VALUE_MAP);
    value_add(&arena, inner, span_of("x"), VALUE_MAP);
    list = value_add(&arena, root, span_of("l"), VALUE_LIST);
    value_add_text(&arena, list, span_of(""), span_of("a"));
    value_add(&arena, list, span_of(""), VALUE_NUMBER)->number = 2;
    value_add(&arena, list, span_of(""), VALUE_LIST);
    value_add_text(&arena, root, span_of("long"), span_of(x));
    a.metadata = root;
    /* {"n":null,"d":-1.5,"t":"","b":true,"f":false,"m":{"x":{}},"l":["a",2,[]],"long":"x…"} */
    check_answer(
        &a,
        "32f4010a070a016e120208000a0e0a0164120911000000000000f8bf0a070a017412021a000a070a01621202"
        "20010a070a0166120220000a100a016d120b2a090a070a017812022a000a1b0a016c121632140a031a01610a"
        "091100000000000000400a0232000a8e010a046c6f6e671285011a8201787878787878787878787878787878"
        "7878787878787878787878787878787878787878787878787878787878787878787878787878787878787878"
        "7878787878787878787878787878787878787878787878787878787878787878787878787878787878787878"
        "787878787878787878787878787878787878787878787878787878");
    arena_done(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_read_with_all_it_has),
        cmocka_unit_test(a_cut_is_found_wherever_it_is),
        cmocka_unit_test(the_last_of_two_holds_and_messages_add_up),
        cmocka_unit_test(fields_that_are_not_known_are_left_alone),
        cmocka_unit_test(texts_are_utf8),
        cmocka_unit_test(descriptors_and_entries_are_bounded),
        cmocka_unit_test(an_answer_is_what_protoc_would_write),
        cmocka_unit_test(metadata_are_a_struct),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
