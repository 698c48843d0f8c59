/* test_resp.c - commands as they come off the wire, in whatever pieces, and values written. */
#include "support/unit.h"

#include "proto/resp.h"

/* `words` are separated by '|'; NULL: the bytes are no command, and `why` is said. */
struct fixture {
    const char *bytes;
    const char *words;
    const char *why;
};

#define PROTOCOL "Protocol error: "

static const struct fixture fixtures[] = {
    { "*1\r\n$4\r\nPING\r\n", "PING", NULL },
    { "*3\r\n$10\r\nWEIR.CHECK\r\n$5\r\nlogin\r\n$7\r\n1.2.3.4\r\n", "WEIR.CHECK|login|1.2.3.4",
      NULL },
    { "*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", "ECHO|", NULL },
    { "*2\r\n$4\r\nECHO\r\n$4\r\n\r\n\r\n\r\n", "ECHO|\r\n\r\n", NULL },
    { "*2\r\n$4\r\nECHO\r\n$12\r\n*1\r\n$4\r\nPING\r\n", "ECHO|*1\r\n$4\r\nPING", NULL },
    { "*0\r\n", "", NULL },
    { "\r\n", "", NULL },

    { "\r*1\r\n", NULL, PROTOCOL "expected '*'" },
    { "\n", NULL, PROTOCOL "expected '*'" },
    { "PING\r\n", NULL, PROTOCOL "expected '*'" },
    { "*1\r\n+PING\r\n", NULL, PROTOCOL "expected '$'" },
    { "*-1\r\n", NULL, PROTOCOL "invalid multibulk length" },
    { "*\r\n", NULL, PROTOCOL "invalid multibulk length" },
    { "*+1\r\n", NULL, PROTOCOL "invalid multibulk length" },
    { "*01\r\n", NULL, PROTOCOL "invalid multibulk length" },
    { "*65\r\n", NULL, PROTOCOL "invalid multibulk length" },
    { "*99999999999999999999999\r\n", NULL, PROTOCOL "invalid multibulk length" },
    { "*1\n", NULL, PROTOCOL "invalid multibulk length" },
    { "*1\r$", NULL, PROTOCOL "invalid multibulk length" },
    { "*1 \r\n", NULL, PROTOCOL "invalid multibulk length" },
    { "*1\r\n$-1\r\n", NULL, PROTOCOL "invalid bulk length" },
    { "*1\r\n$004\r\nPING\r\n", NULL, PROTOCOL "invalid bulk length" },
    { "*1\r\n$65537\r\n", NULL, PROTOCOL "invalid bulk length" },
    { "*1\r\n$18446744073709551616\r\n", NULL, PROTOCOL "invalid bulk length" },
    { "*1\r\n$65536\r\n", NULL, PROTOCOL "the command is too long: at most 64 KiB" },
    { "*1\r\n$3\r\nPING\r\n", NULL, PROTOCOL "a word is longer than its length says" },
    { "*1\r\n$4\r\nPING\r\r", NULL, PROTOCOL "a word is longer than its length says" },
};

enum { FIXTURES = sizeof fixtures / sizeof *fixtures };

static void assert_words(const struct resp_command *c, const char *words)
{
    char joined[256] = "";
    size_t len = 0;

    for (size_t i = 0; i < c->count; i++) {
        assert_int_equal(c->words[i].at[c->words[i].len], '\0');
        if (i > 0)
            joined[len++] = '|';
        memcpy(joined + len, c->words[i].at, c->words[i].len);
        len += c->words[i].len;
    }
    joined[len] = '\0';
    assert_string_equal(joined, words);
}

/* The bytes in a block of exactly their size, so that a sanitizer sees what is read behind. */
static enum parse parse(const char *bytes, size_t len, struct resp_command *out, size_t *consumed,
                        const char **why, char **block)
{
    *block = malloc(len ? len : 1);
    assert_non_null(*block);
    memcpy(*block, bytes, len);
    return resp_parse(*block, len, out, consumed, why);
}

static void assert_result(const struct fixture *f, const char *bytes, size_t len)
{
    struct resp_command command;
    const char *why = NULL;
    size_t consumed = 0;
    char *block;
    enum parse got = parse(bytes, len, &command, &consumed, &why, &block);

    if (f->words) {
        assert_int_equal(got, PARSE_DONE);
        assert_int_equal(consumed, strlen(f->bytes));
        assert_words(&command, f->words);
    } else {
        assert_int_equal(got, PARSE_BAD);
        assert_string_equal(why, f->why);
    }
    free(block);
}

static void every_fixture_is_read_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < FIXTURES; i++)
        assert_result(&fixtures[i], fixtures[i].bytes, strlen(fixtures[i].bytes));
}

/* What is cut off is not all there, or is bad already and stays so. */
static void every_fixture_may_be_cut_at_every_byte(void **state)
{
    (void)state;
    for (size_t i = 0; i < FIXTURES; i++) {
        bool was_bad = false;

        for (size_t len = 0; len < strlen(fixtures[i].bytes); len++) {
            struct resp_command command;
            const char *why;
            size_t consumed;
            char *block;
            enum parse got = parse(fixtures[i].bytes, len, &command, &consumed, &why, &block);

            if (fixtures[i].words || !was_bad)
                assert_true(got == PARSE_MORE || (!fixtures[i].words && got == PARSE_BAD));
            else
                assert_int_equal(got, PARSE_BAD);
            was_bad = got == PARSE_BAD;
            free(block);
        }
    }
}

/* In one block that is read again and again, as a connection's is: a look changes nothing. */
static void every_fixture_may_come_byte_by_byte(void **state)
{
    (void)state;
    for (size_t i = 0; i < FIXTURES; i++) {
        const size_t len = strlen(fixtures[i].bytes);
        char *block = malloc(len);
        enum parse got = PARSE_MORE;
        struct resp_command command;
        const char *why = NULL;
        size_t consumed = 0;

        assert_non_null(block);
        for (size_t n = 1; n <= len && got == PARSE_MORE; n++) {
            block[n - 1] = fixtures[i].bytes[n - 1];
            got = resp_parse(block, n, &command, &consumed, &why);
        }
        if (fixtures[i].words) {
            assert_int_equal(got, PARSE_DONE);
            assert_int_equal(consumed, len);
            assert_words(&command, fixtures[i].words);
        } else {
            assert_int_equal(got, PARSE_BAD);
            assert_string_equal(why, fixtures[i].why);
        }
        free(block);
    }
}

static void bytes_after_a_command_are_not_consumed(void **state)
{
    (void)state;
    for (size_t i = 0; i < FIXTURES; i++) {
        const size_t len = strlen(fixtures[i].bytes);
        char doubled[512];
        struct resp_command command;
        const char *why;
        size_t consumed;

        snprintf(doubled, sizeof doubled, "%s%s", fixtures[i].bytes, fixtures[i].bytes);
        if (!fixtures[i].words) {
            assert_int_equal(resp_parse(doubled, 2 * len, &command, &consumed, &why), PARSE_BAD);
            continue;
        }
        for (int k = 0; k < 2; k++) {
            assert_int_equal(resp_parse(doubled + (size_t)k * len, (size_t)(2 - k) * len, &command,
                                        &consumed, &why),
                             PARSE_DONE);
            assert_int_equal(consumed, len);
            assert_words(&command, fixtures[i].words);
        }
    }
}

/* "*1\r\n", then one word of so many bytes. */
static size_t make_long(char *bytes, size_t word)
{
    size_t len = (size_t)sprintf(bytes, "*1\r\n$%zu\r\n", word);

    memset(bytes + len, 'x', word);
    memcpy(bytes + len + word, "\r\n", 2);
    return len + word + 2;
}

static void a_command_may_be_as_long_as_the_limit_and_no_longer(void **state)
{
    static char bytes[RESP_MAX_COMMAND + 64];
    const size_t around = strlen("*1\r\n$65000\r\n\r\n");
    struct resp_command command;
    const char *why;
    size_t consumed, len;

    (void)state;
    len = make_long(bytes, RESP_MAX_COMMAND - around);
    assert_int_equal(resp_parse(bytes, len, &command, &consumed, &why), PARSE_DONE);
    assert_int_equal(consumed, RESP_MAX_COMMAND);
    make_long(bytes, RESP_MAX_COMMAND - around + 1);
    assert_int_equal(resp_parse(bytes, around - 2, &command, &consumed, &why), PARSE_BAD);
}

static void a_short_word_may_not_reach_beyond_the_limit_either(void **state)
{
    static char bytes[RESP_MAX_COMMAND + 64];
    const size_t around = strlen("*2\r\n$65000\r\n\r\n$4\r\n....\r\n");
    struct resp_command command;
    const char *why;
    size_t consumed;

    (void)state;
    for (size_t beyond = 0; beyond <= 1; beyond++) {
        const size_t len = make_long(bytes, RESP_MAX_COMMAND - around + beyond);

        bytes[1] = '2';
        memcpy(bytes + len, "$4\r\n....\r\n", 10);
        assert_int_equal(resp_parse(bytes, len + 10, &command, &consumed, &why),
                         beyond ? PARSE_BAD : PARSE_DONE);
    }
}

static void a_command_may_have_as_many_words_as_the_limit(void **state)
{
    static char bytes[8 * RESP_MAX_WORDS + 16];
    struct resp_command command;
    const char *why;
    size_t consumed, len = (size_t)sprintf(bytes, "*%d\r\n", RESP_MAX_WORDS);

    (void)state;
    for (int i = 0; i < RESP_MAX_WORDS; i++)
        len += (size_t)sprintf(bytes + len, "$1\r\nx\r\n");
    assert_int_equal(resp_parse(bytes, len, &command, &consumed, &why), PARSE_DONE);
    assert_int_equal(command.count, RESP_MAX_WORDS);
    assert_int_equal(consumed, len);
}

static void values_are_written_as_either_version_has_them(void **state)
{
    const weir_allocator memory = heap();
    struct buf out;

    (void)state;
    buf_init(&out, &memory);
    resp_simple(&out, "OK");
    resp_error(&out, "ERR one\r\n+two\n");
    resp_int(&out, 0);
    resp_int(&out, -1);
    resp_int(&out, INT64_MAX);
    resp_int(&out, INT64_MIN);
    resp_bulk(&out, span_of("two\r\nlines"));
    resp_bulk(&out, (struct span){ 0 });
    resp_array(&out, 7);
    resp_null(&out, 2);
    resp_null(&out, 3);
    resp_map(&out, 2, 2);
    resp_map(&out, 2, 3);
    assert_string_equal(out.at, "+OK\r\n"
                                "-ERR one  +two \r\n"
                                ":0\r\n"
                                ":-1\r\n"
                                ":9223372036854775807\r\n"
                                ":-9223372036854775808\r\n"
                                "$10\r\ntwo\r\nlines\r\n"
                                "$0\r\n\r\n"
                                "*7\r\n"
                                "$-1\r\n"
                                "_\r\n"
                                "*4\r\n"
                                "%2\r\n");
    assert_false(out.failed);
    buf_done(&out);
}

static void *no_memory(void *ctx, void *block, size_t size)
{
    (void)ctx;
    (void)size;
    assert_null(block);
    return NULL;
}

static void without_memory_nothing_is_written(void **state)
{
    const weir_allocator none = { no_memory, NULL };
    struct buf out;

    (void)state;
    buf_init(&out, &none);
    resp_error(&out, "ERR x");
    resp_bulk(&out, span_of("x"));
    assert_true(out.failed);
    assert_int_equal(out.len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_fixture_is_read_whole),
        cmocka_unit_test(every_fixture_may_be_cut_at_every_byte),
        cmocka_unit_test(every_fixture_may_come_byte_by_byte),
        cmocka_unit_test(bytes_after_a_command_are_not_consumed),
        cmocka_unit_test(a_command_may_be_as_long_as_the_limit_and_no_longer),
        cmocka_unit_test(a_short_word_may_not_reach_beyond_the_limit_either),
        cmocka_unit_test(a_command_may_have_as_many_words_as_the_limit),
        cmocka_unit_test(values_are_written_as_either_version_has_them),
        cmocka_unit_test(without_memory_nothing_is_written),
    };

    return cmocka_run_group_tests_name("resp", tests, NULL, NULL);
}
