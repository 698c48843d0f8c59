/* test_replies.c - what servers answer, as a client reads it: HTTP and RESP, in whatever pieces. */
#include "support/unit.h"

#include "proto/http_response_parser.h"
#include "proto/resp_reply_parser.h"

#define OK "HTTP/1.1 200 OK\r\n"

/* ---- HTTP ---------------------------------------------------------------------------------- */

static const struct http_fixture {
    const char *bytes;
    int status;
    const char *body;
    bool keep_alive;
} http_fixtures[] = {
    { OK "Content-Length: 2\r\n\r\nhi", 200, "hi", true },
    { OK "content-length:2\t\r\nX: y\r\n\r\nhi", 200, "hi", true },
    { OK "Content-Length: 0\r\nConnection: close\r\n\r\n", 200, "", false },
    { OK "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n", 200, "abcde",
      true },
    { OK "Transfer-Encoding: Chunked\r\n\r\nA\r\n0123456789\r\n0\r\nT: x\r\n\r\n", 200,
      "0123456789", true },
    { OK "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 200, "", true },
    { "HTTP/1.0 429 Too Many Requests\r\nContent-Length: 1\r\n\r\n.", 429, ".", false },
    { "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 1\r\n\r\n.", 200, ".", true },
    { "HTTP/1.1 204 No Content\r\n\r\n", 204, "", true },
    { "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", 304, "", true },
    { "HTTP/1.1 100 Continue\r\n\r\n" OK "Content-Length: 2\r\n\r\nhi", 200, "hi", true },
    { "HTTP/1.1 200\nContent-Length: 2\n\nhi", 200, "hi", true },
};
enum { HTTP_FIXTURES = sizeof http_fixtures / sizeof *http_fixtures };

static enum parse read_http(const char *bytes, size_t len, struct http_reply *out, size_t *consumed,
                            char *copy)
{
    const char *why = NULL;

    memcpy(copy, bytes, len);
    return http_reply_parse(copy, len, out, consumed, &why);
}

static void http_is_read_whole_and_asks_for_more_of_every_part(void **state)
{
    (void)state;
    for (size_t i = 0; i < HTTP_FIXTURES; i++) {
        const struct http_fixture *f = &http_fixtures[i];
        const size_t len = strlen(f->bytes);

        for (size_t cut = 0; cut <= len; cut++) {
            char *copy = malloc(cut + 1); /* exactly as long: reading on would be noticed */
            struct http_reply reply;
            size_t consumed = 0;
            enum parse p = read_http(f->bytes, cut, &reply, &consumed, copy);

            assert_int_equal(p, cut == len ? PARSE_DONE : PARSE_MORE);
            if (p == PARSE_DONE) {
                assert_int_equal(consumed, len);
                assert_int_equal(reply.status, f->status);
                assert_true(span_is(reply.body, f->body));
                assert_int_equal(reply.keep_alive, f->keep_alive);
            } else if (!reply.ends_at_close) {
                assert_memory_equal(copy, f->bytes, cut); /* so that it can be read again */
            }
            free(copy);
        }
    }
}

static void http_answers_follow_each_other(void **state)
{
    (void)state;
    for (size_t i = 0; i < HTTP_FIXTURES; i++)
        for (size_t j = 0; j < HTTP_FIXTURES; j++) {
            char both[512], copy[512];
            struct http_reply reply;
            size_t first, second;

            snprintf(both, sizeof both, "%s%s", http_fixtures[i].bytes, http_fixtures[j].bytes);
            assert_int_equal(read_http(both, strlen(both), &reply, &first, copy), PARSE_DONE);
            assert_int_equal(reply.status, http_fixtures[i].status);
            assert_int_equal(read_http(both + first, strlen(both) - first, &reply, &second, copy),
                             PARSE_DONE);
            assert_int_equal(reply.status, http_fixtures[j].status);
            assert_int_equal(first + second, strlen(both));
        }
}

static void http_without_a_length_ends_with_the_connection(void **state)
{
    char copy[64];
    struct http_reply reply;
    size_t consumed;

    (void)state;
    assert_int_equal(read_http(OK "\r\nall of it", strlen(OK) + 11, &reply, &consumed, copy),
                     PARSE_MORE);
    assert_true(reply.ends_at_close);
    assert_false(reply.keep_alive);
    assert_true(span_is(reply.body, "all of it"));
}

static void bytes_that_are_not_http_are_rejected(void **state)
{
    static const char *const bad[] = {
        "+PONG\r\n",
        "HTTP/2 200 OK\r\n\r\n",
        "HTTP/1.1 20x OK\r\n\r\n",
        OK "Content-Length: x\r\n\r\n",
        OK "Content-Length: -1\r\n\r\n",
        OK "Content-Length: 99999999999999999999\r\n\r\n",
        OK "Transfer-Encoding: gzip\r\n\r\n",
        OK "Transfer-Encoding: chunked\r\n\r\nx\r\n",
        OK "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
        OK "Transfer-Encoding: chunked\r\n\r\nffffffffff\r\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char copy[256];
        const char *why = NULL;
        struct http_reply reply;
        size_t consumed;

        strcpy(copy, bad[i]);
        assert_int_equal(http_reply_parse(copy, strlen(copy), &reply, &consumed, &why), PARSE_BAD);
        assert_non_null(why);
    }
}

static void a_head_without_end_is_rejected(void **state)
{
    const size_t len = HTTP_REPLY_MAX_HEAD + 64;
    char *bytes = malloc(len);
    const char *why;
    struct http_reply reply;
    size_t consumed;

    (void)state;
    memset(bytes, 'x', len);
    memcpy(bytes, OK "X: ", strlen(OK "X: "));
    assert_int_equal(http_reply_parse(bytes, len, &reply, &consumed, &why), PARSE_BAD);
    free(bytes);
}

static void a_body_may_be_so_long_and_no_longer(void **state)
{
    static const struct {
        const char *head;
        const char *format;
    } forms[] = {
        { OK "Content-Length: ", "%s%lld\r\n\r\n" },
        { OK "Transfer-Encoding: chunked\r\n\r\n", "%s%llx\r\n" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        for (int beyond = 0; beyond <= 1; beyond++) {
            char bytes[256], copy[256];
            struct http_reply reply;
            size_t consumed;

            snprintf(bytes, sizeof bytes, forms[i].format, forms[i].head,
                     (long long)HTTP_REPLY_MAX_BODY + beyond);
            assert_int_equal(read_http(bytes, strlen(bytes), &reply, &consumed, copy),
                             beyond ? PARSE_BAD : PARSE_MORE);
        }
}

/* ---- RESP ---------------------------------------------------------------------------------- */

static const struct resp_fixture {
    const char *bytes;
    char type;
    const char *text;
    int64_t number; /* -1: none */
} resp_fixtures[] = {
    { "+PONG\r\n", '+', "PONG", -1 },
    { "-ERR no\r\n", '-', "ERR no", -1 },
    { ":7\r\n", ':', "7", 7 },
    { ":1234567\r\n", ':', "1234567", 1234567 },
    { "$5\r\nhello\r\n", '$', "5", -1 },
    { "$4\r\n\r\n\r\n\r\n", '$', "4", -1 },
    { "$0\r\n\r\n", '$', "0", -1 },
    { "$-1\r\n", '$', "-1", -1 },
    { "*-1\r\n", '*', "-1", -1 },
    { "*0\r\n", '*', "0", -1 },
    { "*5\r\n:1\r\n:16\r\n:0\r\n:-1\r\n:2\r\n", '*', "5", 1 },
    { "*3\r\n$1\r\na\r\n*2\r\n:42\r\n:43\r\n+x\r\n", '*', "3", 42 },
    { "%1\r\n+a\r\n:3\r\n", '%', "1", 3 },
    { "~2\r\n#t\r\n_\r\n", '~', "2", -1 },
    { "|1\r\n+ttl\r\n:9\r\n+OK\r\n", '|', "1", 9 },
    { ",1.5\r\n", ',', "1.5", -1 },
};
enum { RESP_FIXTURES = sizeof resp_fixtures / sizeof *resp_fixtures };

static void resp_is_read_whole_and_asks_for_more_of_every_part(void **state)
{
    (void)state;
    for (size_t i = 0; i < RESP_FIXTURES; i++) {
        const struct resp_fixture *f = &resp_fixtures[i];
        const size_t len = strlen(f->bytes);

        for (size_t cut = 0; cut <= len; cut++) {
            char *copy = malloc(cut + 1);
            struct resp_reply reply;
            size_t consumed = 0;
            enum parse p;

            memcpy(copy, f->bytes, cut);
            p = resp_reply_parse(copy, cut, &reply, &consumed);
            assert_int_equal(p, cut == len ? PARSE_DONE : PARSE_MORE);
            if (p == PARSE_DONE) {
                assert_int_equal(consumed, len);
                assert_int_equal(reply.type, f->type);
                assert_true(span_is(reply.text, f->text));
                assert_int_equal(reply.has_number, f->number >= 0);
                assert_true(f->number < 0 || reply.first_number == f->number);
            }
            free(copy);
        }
    }
}

static void resp_answers_follow_each_other(void **state)
{
    (void)state;
    for (size_t i = 0; i < RESP_FIXTURES; i++) {
        char twice[128];
        struct resp_reply reply;
        size_t consumed;

        snprintf(twice, sizeof twice, "%s%s", resp_fixtures[i].bytes, resp_fixtures[i].bytes);
        assert_int_equal(resp_reply_parse(twice, strlen(twice), &reply, &consumed), PARSE_DONE);
        assert_int_equal(consumed, strlen(twice) / 2);
    }
}

static void bytes_that_are_not_resp_are_rejected(void **state)
{
    static const char *const bad[] = {
        "HTTP/1.1 400 Bad Request\r\n",
        "+PONG\n",
        "\r\n",
        "$x\r\n",
        "$-2\r\n",
        "*99999999999\r\n",
        "*1\r\n?\r\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct resp_reply reply;
        size_t consumed;

        assert_int_equal(resp_reply_parse(bad[i], strlen(bad[i]), &reply, &consumed), PARSE_BAD);
    }
}

static void a_text_may_be_so_long_and_no_longer(void **state)
{
    (void)state;
    for (int beyond = 0; beyond <= 1; beyond++) {
        char bytes[32];
        struct resp_reply reply;
        size_t consumed;

        snprintf(bytes, sizeof bytes, "$%lld\r\n", (long long)RESP_REPLY_MAX_BULK + beyond);
        assert_int_equal(resp_reply_parse(bytes, strlen(bytes), &reply, &consumed),
                         beyond ? PARSE_BAD : PARSE_MORE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(http_is_read_whole_and_asks_for_more_of_every_part),
        cmocka_unit_test(http_answers_follow_each_other),
        cmocka_unit_test(http_without_a_length_ends_with_the_connection),
        cmocka_unit_test(bytes_that_are_not_http_are_rejected),
        cmocka_unit_test(a_head_without_end_is_rejected),
        cmocka_unit_test(a_body_may_be_so_long_and_no_longer),
        cmocka_unit_test(a_text_may_be_so_long_and_no_longer),
        cmocka_unit_test(resp_is_read_whole_and_asks_for_more_of_every_part),
        cmocka_unit_test(resp_answers_follow_each_other),
        cmocka_unit_test(bytes_that_are_not_resp_are_rejected),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
