/* test_protobuf.c - the wire format of protobuf: what is read, and what is not. */
#include "support/unit.h"

#include "proto/health_protobuf.h"
#include "proto/protobuf.h"
#include "proto/reflection.h"
#include "support/protobuf_vector.h"

/* How many fields it has; -1: it is bad. */
static int fields_of(const char *hex)
{
    const struct span message = message_of(hex);
    struct protobuf m = protobuf_of(message);
    struct protobuf_field f;
    int n = 0;

    while (protobuf_next(&m, &f))
        n++;
    message_free(message);
    return m.is_bad ? -1 : n;
}

static uint64_t number_of(const char *hex)
{
    const struct span message = message_of(hex);
    struct protobuf m = protobuf_of(message);
    struct protobuf_field f;

    assert_true(protobuf_next(&m, &f));
    assert_int_equal(f.key, PROTOBUF_KEY(1, VARINT));
    assert_true(m.at == m.end);
    message_free(message);
    return f.number;
}

static void a_varint_has_up_to_64_bits(void **state)
{
    (void)state;
    assert_int_equal(number_of("0800"), 0);
    assert_int_equal(number_of("087f"), 127);
    assert_int_equal(number_of("08ac02"), 300);
    assert_int_equal(number_of("08808000"), 0); /* longer than need be */
    assert_true(number_of("08ffffffffffffffffff01") == UINT64_MAX);
    assert_int_equal(fields_of("08ffffffffffffffffff02"), -1); /* 65 bits */
    assert_int_equal(fields_of("08ffffffffffffffffffff01"), -1);
    assert_int_equal(fields_of("08ff"), -1);
    assert_int_equal(fields_of("08"), -1);
}

static void lengths_do_not_reach_beyond_the_end(void **state)
{
    (void)state;
    assert_int_equal(fields_of(""), 0);
    assert_int_equal(fields_of("0a00"), 1);
    assert_int_equal(fields_of("0a0161"), 1);
    assert_int_equal(fields_of("0a0261"), -1);
    assert_int_equal(fields_of("0a"), -1);
    assert_int_equal(fields_of("0affffffffffffffffff0161"), -1);
    assert_int_equal(fields_of("0d01020304"), 1); /* 32 bits */
    assert_int_equal(fields_of("0d010203"), -1);
    assert_int_equal(fields_of("090102030405060708"), 1); /* 64 bits */
    assert_int_equal(fields_of("0901020304050607"), -1);
}

static void field_numbers_are_from_1_to_2_29(void **state)
{
    (void)state;
    assert_int_equal(fields_of("0000"), -1);
    assert_int_equal(fields_of("f8ffffff0f00"), 1);
    assert_int_equal(fields_of("808080801000"), -1);
    assert_int_equal(fields_of("0e00"), -1); /* types 6 and 7 do not exist */
    assert_int_equal(fields_of("0f00"), -1);
}

static void groups_are_skipped_with_what_is_in_them(void **state)
{
    char deep[2 * 2 * (PROTOBUF_MAX_GROUPS + 1) + 1];

    (void)state;
    assert_int_equal(fields_of("0b0c"), 1);
    assert_int_equal(fields_of("0b08011001120161130b0c140c0801"), 2);
    assert_int_equal(fields_of("0b130c14"), -1); /* ends another one */
    assert_int_equal(fields_of("0b0801130802141901020304050607080c0801"), 2);
    assert_int_equal(fields_of("0b"), -1);
    assert_int_equal(fields_of("0c"), -1);
    assert_int_equal(fields_of("0b14"), -1);
    for (int depth = PROTOBUF_MAX_GROUPS; depth <= PROTOBUF_MAX_GROUPS + 1; depth++) {
        for (int i = 0; i < depth; i++) {
            memcpy(deep + 2 * i, "0b", 2);
            memcpy(deep + 2 * (depth + i), "0c", 2);
        }
        deep[4 * depth] = '\0';
        assert_int_equal(fields_of(deep), depth <= PROTOBUF_MAX_GROUPS ? 1 : -1);
    }
}

static void a_text_is_utf8_and_may_have_a_nul(void **state)
{
    (void)state;
    assert_true(protobuf_is_text((struct span){ NULL, 0 }));
    assert_true(protobuf_is_text((struct span){ "M\xc3\xbcller", 7 }));
    assert_true(protobuf_is_text((struct span){ "a\0b\0", 4 }));
    assert_true(protobuf_is_text((struct span){ "\0\0\0\0\0\0\0\0\xc3\xbc", 10 }));
    assert_false(protobuf_is_text((struct span){ "M\xfcller", 6 }));
    assert_false(protobuf_is_text((struct span){ "\0\xfc", 2 }));
    assert_false(protobuf_is_text((struct span){ "\xc3\0\xbc", 3 }));
    assert_false(protobuf_is_text((struct span){ "\xed\xa0\x80", 3 })); /* a surrogate */
    assert_false(protobuf_is_text((struct span){ "\xc0\x80", 2 }));     /* a NUL, overlong */
}

/* The length of a message is known only when it is written, and moves it. */
static void messages_of_any_length_are_written(void **state)
{
    static const size_t lengths[] = { 0, 1, 127, 128, 129, 16383, 16384, 70000 };
    const weir_allocator usual = heap();
    char *text = malloc(70000);

    (void)state;
    memset(text, 'x', 70000);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct protobuf m, inner;
        struct protobuf_field f;
        struct buf out;
        size_t at;

        buf_init(&out, &usual);
        protobuf_number(&out, 1, 5);
        at = protobuf_open(&out, 2);
        protobuf_bytes_always(&out, 3, (struct span){ text, lengths[i] });
        protobuf_close(&out, at);
        protobuf_number(&out, 4, 6);
        m = protobuf_of(buf_span(&out));
        assert_true(protobuf_next(&m, &f) && f.key == PROTOBUF_KEY(1, VARINT) && f.number == 5);
        assert_true(protobuf_next(&m, &f) && f.key == PROTOBUF_KEY(2, BYTES));
        inner = protobuf_of(f.bytes);
        assert_true(protobuf_next(&inner, &f) && f.key == PROTOBUF_KEY(3, BYTES));
        assert_true(span_equal(f.bytes, (struct span){ text, lengths[i] }));
        assert_true(inner.at == inner.end);
        assert_true(protobuf_next(&m, &f) && f.key == PROTOBUF_KEY(4, VARINT) && f.number == 6);
        assert_true(m.at == m.end && !m.is_bad);
        buf_done(&out);
    }
    free(text);
}

/* ---- health ------------------------------------------------------------------------------- */

static void health_is_asked_by_the_name_of_a_service(void **state)
{
    const struct span named = message_of("0a09776569722e78797a21"); /* weir.xyz! */
    const weir_allocator usual = heap();
    struct span service;
    struct buf out;
    weir_diag diag;

    (void)state;
    assert_int_equal(health_protobuf_read((struct span){ "", 0 }, &service, &diag), PROTOBUF_FINE);
    assert_true(service.len == 0 && health_protobuf_knows(service));
    assert_int_equal(health_protobuf_read(named, &service, &diag), PROTOBUF_FINE);
    assert_true(span_is(service, "weir.xyz!") && !health_protobuf_knows(service));
    assert_int_equal(health_protobuf_read((struct span){ named.at, 5 }, &service, &diag),
                     PROTOBUF_MALFORMED);
    assert_int_equal(health_protobuf_read((struct span){ "\x0a\x01\xff", 3 }, &service, &diag),
                     PROTOBUF_MALFORMED);
    assert_true(health_protobuf_knows(span_of("ratelimit")));
    assert_true(health_protobuf_knows(span_of("envoy.service.ratelimit.v3.RateLimitService")));
    assert_true(health_protobuf_knows(span_of("weir.v1.Weir")));
    buf_init(&out, &usual);
    health_protobuf_answer(&out, HEALTH_NOT_SERVING);
    assert_true(span_equal(buf_span(&out), (struct span){ "\x08\x02", 2 }));
    buf_done(&out);
    message_free(named);
}

/* ---- reflection ----------------------------------------------------------------------------- */

/* The field of the answer that is not the request, and its bytes. */
static unsigned reflected(const char *hex, struct buf *out, struct span *bytes)
{
    const struct span message = message_of(hex);
    struct protobuf m;
    struct protobuf_field f;
    unsigned field = 0;
    weir_diag diag;

    out->len = 0;
    assert_int_equal(reflection_answer(out, message, &diag), PROTOBUF_FINE);
    m = protobuf_of(buf_span(out));
    while (protobuf_next(&m, &f))
        if (f.key == PROTOBUF_KEY(2, BYTES)) {
            assert_true(span_equal(f.bytes, message));
        } else if (f.key >> 3 > 2) {
            assert_int_equal(field, 0);
            field = f.key >> 3;
            *bytes = f.bytes;
        }
    assert_false(m.is_bad);
    message_free(message);
    return field;
}

static size_t count_of(struct span message)
{
    struct protobuf m = protobuf_of(message);
    struct protobuf_field f;
    size_t n = 0;

    while (protobuf_next(&m, &f))
        n++;
    assert_false(m.is_bad);
    return n;
}

static void reflection_tells_services_files_and_symbols(void **state)
{
    const weir_allocator usual = heap();
    struct span bytes;
    struct buf out;
    weir_diag diag;

    (void)state;
    buf_init(&out, &usual);
    assert_int_equal(reflected("3a00", &out, &bytes), 6);
    assert_int_equal(count_of(bytes), 5);
    /* weir.v1.Weir.Check, weir/v1/weir.proto, which needs no other file */
    assert_int_equal(reflected("2212776569722e76312e576569722e436865636b", &out, &bytes), 4);
    assert_int_equal(count_of(bytes), 1);
    assert_int_equal(reflected("1a12776569722f76312f776569722e70726f746f", &out, &bytes), 4);
    assert_int_equal(count_of(bytes), 1);
    /* envoy.service.ratelimit.v3.RateLimitService, which needs six others */
    assert_int_equal(reflected("222b656e766f792e736572766963652e726174656c696d69742e7633"
                               "2e526174654c696d697453657276696365",
                               &out, &bytes),
                     4);
    assert_int_equal(count_of(bytes), 7);
    assert_int_equal(reflected("2203612e62", &out, &bytes), 7);
    assert_int_equal(reflected("1a03612e62", &out, &bytes), 7);
    assert_int_equal(reflected("2a00", &out, &bytes), 7);
    assert_int_equal(reflected("320f776569722e76312e52657175657374", &out, &bytes), 5);
    assert_int_equal(reflected("3203612e62", &out, &bytes), 7);
    assert_int_equal(reflected("", &out, &bytes), 7);
    assert_int_equal(reflected("0a0161", &out, &bytes), 7);
    assert_int_equal(reflection_answer(&out,
                                       (struct span){ "\x22\x05"
                                                      "a",
                                                      3 },
                                       &diag),
                     PROTOBUF_MALFORMED);
    assert_int_equal(reflection_answer(&out, (struct span){ "\x22\x01\xff", 3 }, &diag),
                     PROTOBUF_MALFORMED);
    buf_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_varint_has_up_to_64_bits),
        cmocka_unit_test(lengths_do_not_reach_beyond_the_end),
        cmocka_unit_test(field_numbers_are_from_1_to_2_29),
        cmocka_unit_test(groups_are_skipped_with_what_is_in_them),
        cmocka_unit_test(a_text_is_utf8_and_may_have_a_nul),
        cmocka_unit_test(messages_of_any_length_are_written),
        cmocka_unit_test(health_is_asked_by_the_name_of_a_service),
        cmocka_unit_test(reflection_tells_services_files_and_symbols),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
