/* test_http.c - HTTP/1.1: what is a request, however it arrives, and what is none. */
#include "support/unit.h"

#include "base/buf.h"
#include "proto/http.h"

/* What was parsed, as text: one line a request, or why there was none. */
static void describe(struct buf *to, const struct http_request *r)
{
    buf_printf(to, "%d %s ?%s 1.%d %s", (int)r->method, r->path.at, r->query.at, r->minor,
               r->keep_alive ? "keep" : "close");
    assert_int_equal(strlen(r->path.at), r->path.len);
    assert_int_equal(strlen(r->query.at), r->query.len);
    for (size_t i = 0; i < r->header_count; i++) {
        buf_printf(to, " [%.*s=%s]", (int)r->headers[i].name.len, r->headers[i].name.at,
                   r->headers[i].value.at);
        assert_int_equal(strlen(r->headers[i].value.at), r->headers[i].value.len);
    }
    buf_printf(to, " {%.*s}\n", (int)r->body.len, r->body.at);
}

/* Feed `len` bytes: `first` of them, then `step` more at a time, each time in a block of their own
 * that is no larger than they are. */
static char *feed(const char *text, size_t len, size_t first, size_t step)
{
    static struct http_request r;
    struct http_parser p = { 0 };
    struct buf said;
    char *bytes = NULL;
    size_t have = 0, from = 0; /* bytes[0] is text[from] */
    weir_allocator a = heap();

    buf_init(&said, &a);
    buf_text(&said, "");
    for (size_t to = first; from < len; to = to + step < len ? to + step : len) {
        size_t consumed = 0;
        enum parse result = PARSE_MORE;
        char *moved = malloc(to - from + !(to - from));

        memcpy(moved, bytes ? bytes : "", have);
        memcpy(moved + have, text + from + have, to - from - have);
        free(bytes);
        bytes = moved;
        have = to - from;
        while (have > 0 && (result = http_parse(&p, bytes, have, &r, &consumed)) == PARSE_DONE) {
            describe(&said, &r);
            assert_in_range(consumed, 1, have);
            have -= consumed;
            from += consumed;
            moved = malloc(have + !have);
            memcpy(moved, bytes + consumed, have);
            free(bytes);
            bytes = moved;
        }
        if (result == PARSE_BAD) {
            buf_printf(&said, "%d %s", p.status, p.why);
            break;
        }
        if (to == len) {
            if (have > 0)
                buf_text(&said, p.wants_continue ? "continue" : "more");
            break;
        }
    }
    free(bytes);
    return said.at;
}

static void expect_bytes(const char *text, size_t len, const char *expected)
{
    char *said = feed(text, len, len, 1);

    assert_string_equal(said, expected);
    free(said);
    for (size_t cut = 0; cut < len && len < 2000; cut++) {
        said = feed(text, len, cut, len);
        assert_string_equal(said, expected);
        free(said);
    }
    said = feed(text, len, 0, 1);
    assert_string_equal(said, expected);
    free(said);
}

/* Whole, cut at every byte, byte by byte; and twice in a row if it is a request. */
static void expect(const char *text, const char *expected)
{
    expect_bytes(text, strlen(text), expected);
    if (expected[strlen(expected) - 1] == '\n' && strstr(text, "HTTP/1.1")) {
        struct buf twice, said;
        weir_allocator a = heap();

        buf_init(&twice, &a);
        buf_init(&said, &a);
        buf_printf(&twice, "%s%s", text, text);
        buf_printf(&said, "%s%s", expected, expected);
        expect_bytes(twice.at, twice.len, said.at);
        buf_done(&twice);
        buf_done(&said);
    }
}

static void expect_status(const char *text, int status)
{
    char *said = feed(text, strlen(text), strlen(text), 1);

    if (atoi(said) != status || strchr(said, '\n'))
        fail_msg("%s\nis answered by: %s", text, said);
    expect(text, said);
    free(said);
}

static void requests_are_read_however_they_arrive(void **state)
{
    (void)state;
    expect("GET / HTTP/1.1\r\nHost: x\r\n\r\n", "0 / ? 1.1 keep [Host=x] {}\n");
    expect("GET /v1/check?policy=login&ip=1.2.3.4 HTTP/1.1\r\nHost:x\r\nAccept: */*  \r\n\r\n",
           "0 /v1/check ?policy=login&ip=1.2.3.4 1.1 keep [Host=x] [Accept=*/*] {}\n");
    expect("POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
           "2 /v1/check ? 1.1 keep [Host=x] [Content-Length=5] {hello}\n");
    expect("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
           "2 / ? 1.1 keep [Host=x] [Content-Length=0] {}\n");
    expect("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\na\r\n"
           "\r\nDELETE /a HTTP/1.1\r\nHost:\t x \t \r\nX-Empty:\r\nX-Blank:   \r\n\r\n",
           "3 / ? 1.1 keep [Host=x] [Content-Length=3] {a\r\n}\n"
           "4 /a ? 1.1 keep [Host=x] [X-Empty=] [X-Blank=] {}\n");
    expect("\r\n\r\nHEAD / HTTP/1.1\r\nHost: x\r\n\r\n", "1 / ? 1.1 keep [Host=x] {}\n");
    expect("PATCH / HTTP/1.1\r\nHost: x\r\n\r\n", "6 / ? 1.1 keep [Host=x] {}\n");
    expect("GET / HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
           "0 / ? 1.1 keep [Host=x] [Upgrade=h2c] [Connection=Upgrade] {}\n");
    expect("GET / HTTP/1.1\r\nHost: x\r\nContent-Length: \t1\t \r\n\r\na",
           "0 / ? 1.1 keep [Host=x] [Content-Length=1] {a}\n");
    expect("GET / HTTP/1.1\r\nHost: x\r\n", "more");
}

static void targets_have_four_forms_of_which_three_are_served(void **state)
{
    (void)state;
    expect("GET http://example.com:80/a?b=c HTTP/1.1\r\nHost: x\r\n\r\n",
           "0 /a ?b=c 1.1 keep [Host=x] {}\n");
    expect("GET HTTPS://example.com HTTP/1.1\r\nHost: x\r\n\r\n", "0 / ? 1.1 keep [Host=x] {}\n");
    expect("GET http://example.com?q HTTP/1.1\r\nHost: x\r\n\r\n", "0 / ?q 1.1 keep [Host=x] {}\n");
    expect("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", "5 * ? 1.1 keep [Host=x] {}\n");
    expect("GET /? HTTP/1.1\r\nHost: x\r\n\r\n", "0 / ? 1.1 keep [Host=x] {}\n");
    expect("GET /a?b?c HTTP/1.1\r\nHost: x\r\n\r\n", "0 /a ?b?c 1.1 keep [Host=x] {}\n");
    expect_status("GET * HTTP/1.1\r\nHost: x\r\n\r\n", 400);
    expect_status("CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n", 400);
    expect("GET http://[::1]:7878/a HTTP/1.1\r\nHost: x\r\n\r\n", "0 /a ? 1.1 keep [Host=x] {}\n");
    expect_status("GET http://a\\b/ HTTP/1.1\r\nHost: x\r\n\r\n", 400);
    expect_status("GET http:///a HTTP/1.1\r\nHost: x\r\n\r\n", 400);
    expect_status("GET http://user@example.com/ HTTP/1.1\r\nHost: x\r\n\r\n", 400);
    expect_status("GET ftp://example.com/ HTTP/1.1\r\nHost: x\r\n\r\n", 400);
    expect_status("GET /a#b HTTP/1.1\r\nHost: x\r\n\r\n", 400);
    expect_status("GET a HTTP/1.1\r\nHost: x\r\n\r\n", 400);
    expect_status("GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n", 400);
    expect_status("GET /\x01 HTTP/1.1\r\nHost: x\r\n\r\n", 400);
    expect_status("GET /a b HTTP/1.1\r\nHost: x\r\n\r\n", 400);
}

static void a_connection_is_kept_by_version_and_by_word(void **state)
{
    (void)state;
    expect("GET / HTTP/1.0\r\n\r\n", "0 / ? 1.0 close {}\n");
    expect("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n",
           "0 / ? 1.0 keep [Connection=Keep-Alive] {}\n");
    expect("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
           "0 / ? 1.1 close [Host=x] [Connection=close] {}\n");
    expect("GET / HTTP/1.1\r\nHost: x\r\nConnection: x,\tClose ,te\r\n\r\n",
           "0 / ? 1.1 close [Host=x] [Connection=x,\tClose ,te] {}\n");
    expect("GET / HTTP/1.1\r\nHost: x\r\nConnection: te\r\nConnection: close\r\n\r\n",
           "0 / ? 1.1 close [Host=x] [Connection=te] [Connection=close] {}\n");
    expect("GET / HTTP/1.1\r\nHost: x\r\nConnection: closed, not-close, enclose\r\n\r\n",
           "0 / ? 1.1 keep [Host=x] [Connection=closed, not-close, enclose] {}\n");
    expect("GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n",
           "0 / ? 1.0 close [Connection=keep-alive, close] {}\n");
}

#define CHUNKED "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\n\r\n"
#define JOINED "2 / ? 1.1 keep [Host=x] [Transfer-Encoding=Chunked] "

static void chunks_are_joined(void **state)
{
    (void)state;
    expect(CHUNKED "0\r\n\r\n", JOINED "{}\n");
    expect(CHUNKED "5\r\nhello\r\n0\r\n\r\n", JOINED "{hello}\n");
    expect(CHUNKED "1\r\na\r\n2;x=\"y\"\r\nbc\r\n0a\r\n0123456789\r\n00;z\r\n\r\n",
           JOINED "{abc0123456789}\n");
    expect(CHUNKED "3\r\n\r\n0\r\n0\r\nDigest: x\r\nA:\r\n\r\n", JOINED "{\r\n0}\n");
    expect_status(CHUNKED "\r\n", 400);
    expect_status(CHUNKED "g\r\n", 400);
    expect_status(CHUNKED "-1\r\n", 400);
    expect_status(CHUNKED "0x1\r\n", 400);
    expect_status(CHUNKED " 1\r\n", 400);
    expect_status(CHUNKED "1 \r\n", 400);
    expect_status(CHUNKED "1\n", 400);
    expect_status(CHUNKED "1;\x01\r\n", 400);
    expect_status(CHUNKED "1;\r\r\n", 400);
    expect_status(CHUNKED "1\r\nabc", 400);
    expect_status(CHUNKED "1\r\na\n\n", 400);
    expect_status(CHUNKED "0\r\nno colon\r\n", 400);
    expect_status(CHUNKED "0\r\n: no name\r\n", 400);
    expect_status(CHUNKED "100001\r\n", 413);
    expect_status(CHUNKED "fffffffffffffffffffffffffffffffff\r\n", 413);
    expect_status(CHUNKED "10000000000000001\r\n", 413);
}

static void ambiguous_requests_are_rejected(void **state)
{
    static const char *const bad[] = {
        "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1, 1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 0x1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1 1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nContent-Length:\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
        "GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\n\tfolded\r\n\r\n",
        "GET / HTTP/1.1\r\n Host: x\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : x\r\n\r\n",
        "GET / HTTP/1.1\r\nHost\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\n: y\r\n\r\n",
        "GET / HTTP/1.1\r\nHo st: x\r\n\r\n",
        "GET / HTTP/1.1\r\nH\xc3\xb6st: x\r\n\r\n",
        "GET / HTTP/1.1\nHost: x\n\n",
        "GET / HTTP/1.1\r\nHost: x\nA: b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\rA: b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\rA: b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\n\rX\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\n\r\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\x01\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\x7f\r\n\r\n",
        "GET / HTTP/1.1\r\nA: b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nhost: x\r\n\r\n",
        "GET\r\n\r\n",
        "\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET  / HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET\t/ HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /  HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET / HTTP/1.1 \r\nHost: x\r\n\r\n",
        "GET / HTTP/1.1\t\r\nHost: x\r\n\r\n",
        " GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET / http/1.1\r\nHost: x\r\n\r\n",
        "GET / HTTP/1.10\r\nHost: x\r\n\r\n",
        "GET / HTTP/1\r\nHost: x\r\n\r\n",
        "GET / HTTP/1.1\rHost: x\r\n\r\n",
        "GET / HTTP/1.1\r\r\nHost: x\r\n\r\n",
        "GET /\r HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET / HTTP/1.1\r\nHost\t: x\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nA: b\r\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\n\n",
        "GET / HTTP/1.1\r\nHost: x\n\r\n",
        "{\"policy\":\"login\"}\r\n\r\n",
        "\x16\x03\x01\r\n\r\n",
        "\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        expect_status(bad[i], 400);
    expect_status("GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
                  "Transfer-Encoding: chunked\r\n\r\n",
                  400);
    expect_status("GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501);
    expect_status("GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501);
    expect_status("GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, gzip\r\n\r\n", 501);
    expect_status("GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n", 501);
    expect_status("GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked;q=1\r\n\r\n", 501);
    expect_status("BREW / HTTP/1.1\r\nHost: x\r\n\r\n", 501);
    expect_status("QUERY / HTTP/1.1\r\nHost: x\r\n\r\n", 501);
    expect_status("M-SEARCH * HTTP/1.1\r\nHost: x\r\n\r\n", 501);
    expect_status("get / HTTP/1.1\r\nHost: x\r\n\r\n", 501);
    expect_status("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505);
    expect_status("GET / HTTP/1.2\r\nHost: x\r\n\r\n", 505);
    expect_status("GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505);
    expect_status("GET /\r\n\r\n", 400);
    expect_status("GET / HTTP/0.9\r\nHost: x\r\n\r\n", 505);
    expect_status("GET / HTTP/1.1\r\nHost: x\r\nExpect: a miracle\r\n\r\n", 417);
}

/* The status for `before`, this byte and `behind`; 200 if it is a request. */
static int status_with(const char *before, int byte, const char *behind)
{
    char text[100];
    const size_t len = (size_t)snprintf(text, sizeof text, "%s%c%s", before, byte == 0 ? '?' : byte,
                                        behind);
    char *said;
    int status;

    text[strlen(before)] = (char)byte;
    said = feed(text, len, len, 1);
    status = strchr(said, '\n') ? 200 : atoi(said);
    free(said);
    return status;
}

/* Each of the 256, so that no table of characters has a hole. */
static void allowed_bytes_are_stated_for_each_place(void **state)
{
    static const char in_names[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
                                   "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

    (void)state;
    for (int c = 0; c < 256; c++) {
        const bool is_visible = c > ' ' && c < 0x7F, is_token = c != 0 && strchr(in_names, c);
        const bool is_value = c == '\t' || (c >= ' ' && c != 0x7F);

        if (c == '\n')
            continue;
        assert_int_equal(status_with("GET /a", c, "b HTTP/1.1\r\nHost: x\r\n\r\n"),
                         is_visible && c != '#' ? 200 : 400);
        assert_int_equal(status_with("GET / HTTP/1.1\r\nHost: x\r\nA", c, "b: c\r\n\r\n"),
                         is_token || c == ':' ? 200 : 400);
        assert_int_equal(status_with("GET / HTTP/1.1\r\nHost: x\r\nA: b", c, "c\r\n\r\n"),
                         is_value ? 200 : 400);
        assert_int_equal(status_with("GE", c, "T / HTTP/1.1\r\nHost: x\r\n\r\n"),
                         is_token ? 501 : 400);
        assert_int_equal(status_with("GET / HTTP/", c, ".1\r\nHost: x\r\n\r\n"),
                         c == '1'               ? 200
                         : c >= '0' && c <= '9' ? 505
                                                : 400);
    }
}

static void a_nul_is_rejected_wherever_it_is_in_a_head(void **state)
{
    static const char request[] = "GET /a?b HTTP/1.1\r\nHost: x\r\nA: b c\r\n\r\n";

    (void)state;
    for (size_t i = 0; i < sizeof request - 1; i++) {
        char bytes[sizeof request];
        char *said;

        memcpy(bytes, request, sizeof request);
        bytes[i] = '\0';
        said = feed(bytes, sizeof request - 1, sizeof request - 1, 1);
        if (strchr(said, '\n') || (atoi(said) < 400 && strcmp(said, "more") != 0))
            fail_msg("a NUL at %zu: %s", i, said);
        free(said);
    }
}

static void a_client_that_expects_100_continue_is_sent_one(void **state)
{
    const char *head = "POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-Continue\r\n"
                       "Content-Length: 2\r\n\r\n";
    static struct http_request r;
    struct http_parser p = { 0 };
    char bytes[200];
    size_t len = strlen(head), consumed;

    (void)state;
    expect(head, "continue");
    strcpy(bytes, head);
    strcat(bytes, "ok");
    assert_int_equal(http_parse(&p, bytes, len - 1, &r, &consumed), PARSE_MORE);
    assert_false(p.wants_continue);
    assert_int_equal(http_parse(&p, bytes, len, &r, &consumed), PARSE_MORE);
    assert_true(p.wants_continue);
    p.wants_continue = false; /* it was said */
    assert_int_equal(http_parse(&p, bytes, len, &r, &consumed), PARSE_MORE);
    assert_false(p.wants_continue);
    assert_int_equal(http_parse(&p, bytes, len + 2, &r, &consumed), PARSE_DONE);
    assert_int_equal(consumed, len + 2);
    assert_true(span_is(r.body, "ok"));

    expect("POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n1",
           "more");
    expect("POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n", "more");
    expect("GET / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n\r\n",
           "0 / ? 1.1 keep [Host=x] [Expect=100-continue] {}\n");
}

/* What `before`, n times `part` and `behind` are answered. */
static int status_of(const char *before, size_t n, const char *part, const char *behind)
{
    struct buf text;
    weir_allocator a = heap();
    char *whole, *single;
    int status;

    buf_init(&text, &a);
    buf_text(&text, before);
    for (size_t i = 0; i < n; i++)
        buf_text(&text, part);
    buf_text(&text, behind);
    whole = feed(text.at, text.len, text.len, 1);
    single = feed(text.at, text.len, 0, text.len / 1000 + 1);
    status = strchr(whole, '\n') ? 200 : atoi(whole);
    assert_int_equal(strchr(single, '\n') ? 200 : atoi(single), status);
    free(whole);
    free(single);
    buf_done(&text);
    return status;
}

static void every_length_has_a_bound(void **state)
{
    static const char request[] = "GET / HTTP/1.1\r\nHost: x\r\n", end[] = "\r\n";
    const size_t used = sizeof request - 1 + sizeof "A: \r\n\r\n" - 1;

    (void)state;
    assert_int_equal(status_of("GET /", HTTP_MAX_TARGET - 1, "a", " HTTP/1.1\r\nHost: x\r\n\r\n"),
                     200);
    assert_int_equal(status_of("GET /", HTTP_MAX_TARGET, "a", " HTTP/1.1\r\nHost: x\r\n\r\n"), 414);
    assert_int_equal(status_of("GET /", HTTP_MAX_TARGET + 100, "a", ""), 414);
    assert_int_equal(status_of(request, HTTP_MAX_HEADERS - 1, "A: b\r\n", end), 200);
    assert_int_equal(status_of(request, HTTP_MAX_HEADERS, "A: b\r\n", end), 431);
    assert_int_equal(
        status_of("GET / HTTP/1.1\r\nHost: x\r\nA: ", HTTP_MAX_HEAD - used, "a", "\r\n\r\n"), 200);
    assert_int_equal(
        status_of("GET / HTTP/1.1\r\nHost: x\r\nA: ", HTTP_MAX_HEAD - used + 1, "a", "\r\n\r\n"),
        431);
    assert_int_equal(status_of(request, HTTP_MAX_HEAD, "a", ""), 431);
    assert_int_equal(status_of("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 1048576\r\n\r\n",
                               HTTP_MAX_BODY, "a", ""),
                     200);
    assert_int_equal(
        status_of("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 1048577\r\n\r\n", 0, "", ""), 413);
    assert_int_equal(
        status_of("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: ", 18, "9", "\r\n\r\n"), 413);
    assert_int_equal(
        status_of("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: ", 40, "9", "\r\n\r\n"), 413);
    assert_int_equal(status_of(CHUNKED "1;", HTTP_MAX_CHUNK_LINE - 3, "a", "\r\na\r\n0\r\n\r\n"),
                     200);
    assert_int_equal(status_of(CHUNKED "1;", HTTP_MAX_CHUNK_LINE - 1, "a", "\r\na\r\n0\r\n\r\n"),
                     400);
    assert_int_equal(status_of(CHUNKED "0\r\n", HTTP_MAX_HEAD / 8 - 1, "A: bcdef\r\n", "\r\n"),
                     200);
    assert_int_equal(status_of(CHUNKED "0\r\n", HTTP_MAX_HEAD / 8 + 1, "A: bcdef\r\n", "\r\n"),
                     400);
    assert_int_equal(status_of(CHUNKED "0\r\nA:", HTTP_MAX_HEAD, "a", ""), 400);
}

static void small_chunks_cannot_take_more_room_than_is_allowed(void **state)
{
    (void)state;
    assert_int_equal(status_of(CHUNKED, 2 * HTTP_MAX_BODY / 6 - 1, "1\r\na\r\n", "0\r\n\r\n"), 200);
    assert_int_equal(status_of(CHUNKED, 2 * HTTP_MAX_BODY / 6 + 1, "1\r\na\r\n", ""), 413);
}

static void headers_are_found_by_any_case(void **state)
{
    char text[] = "GET / HTTP/1.1\r\nHOST: a\r\nX-Forwarded-For: 1.2.3.4\r\nx-forwarded-for: b\r\n"
                  "X-Empty:\r\n\r\n";
    static struct http_request r;
    struct http_parser p = { 0 };
    size_t consumed;

    (void)state;
    assert_int_equal(http_parse(&p, text, strlen(text), &r, &consumed), PARSE_DONE);
    assert_true(span_is(http_header(&r, "host"), "a"));
    assert_true(span_is(http_header(&r, "x-forwarded-for"), "1.2.3.4"));
    assert_true(span_is(http_header(&r, "x-empty"), ""));
    assert_non_null(http_header(&r, "x-empty").at);
    assert_null(http_header(&r, "x-forwarded").at);
}

static void expect_query(const char *query, const char *expected)
{
    weir_allocator a = heap();
    char *bytes = malloc(strlen(query) + 1);
    struct span left = { bytes, strlen(query) }, name, value;
    struct buf said;
    bool bad;

    strcpy(bytes, query);
    bytes[left.len] = ' '; /* as in a request line */
    buf_init(&said, &a);
    buf_text(&said, "");
    while (http_query_next(&left, &name, &value, &bad)) {
        assert_int_equal(strlen(name.at), name.len);
        assert_int_equal(strlen(value.at), value.len);
        buf_printf(&said, "(%s)=(%s)", name.at, value.at);
    }
    if (bad)
        buf_text(&said, "bad");
    assert_string_equal(said.at, expected);
    buf_done(&said);
    free(bytes);
}

static void queries_are_decoded(void **state)
{
    (void)state;
    expect_query("", "");
    expect_query("policy=login&ip=1.2.3.4", "(policy)=(login)(ip)=(1.2.3.4)");
    expect_query("&&a=&=b&c&", "(a)=()()=(b)(c)=()");
    expect_query("a%20b=c%3Dd%26+e&f==", "(a b)=(c=d& e)(f)=(=)");
    expect_query("e=%C3%A4%c3%a4", "(e)=(\xc3\xa4\xc3\xa4)");
    expect_query("a=b&c=%", "(a)=(b)bad");
    expect_query("a=%4", "bad");
    expect_query("a=%4&b", "bad");
    expect_query("a=%g0", "bad");
    expect_query("a%=b", "bad");
    expect_query("a=%00", "bad");
}

static void expect_name(const char *encoded, const char *expected)
{
    char bytes[64];
    struct span name = { bytes, strlen(encoded) };

    snprintf(bytes, sizeof bytes, "%s/mode", encoded);
    if (!expected) {
        assert_false(http_name_decode(&name));
        return;
    }
    assert_true(http_name_decode(&name));
    assert_string_equal(name.at, expected);
    assert_int_equal(name.len, strlen(expected));
}

static void a_name_in_a_path_is_decoded_once_and_a_plus_is_one(void **state)
{
    (void)state;
    expect_name("login", "login");
    expect_name("%2Fapi%2flogin", "/api/login");
    expect_name("exercise%3Acreate", "exercise:create");
    expect_name("a+b%20c", "a+b c");
    expect_name("%252F", "%2F");
    expect_name("%", NULL);
    expect_name("a%4", NULL); /* and not the slash behind it */
    expect_name("%-1", NULL);
    expect_name("a%00b", NULL);
}

static void every_status_has_a_reason(void **state)
{
    (void)state;
    assert_string_equal(http_reason(429), "Too Many Requests");
    assert_string_equal(http_reason(200), "OK");
    assert_string_equal(http_reason(799), "Unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_read_however_they_arrive),
        cmocka_unit_test(targets_have_four_forms_of_which_three_are_served),
        cmocka_unit_test(a_connection_is_kept_by_version_and_by_word),
        cmocka_unit_test(chunks_are_joined),
        cmocka_unit_test(ambiguous_requests_are_rejected),
        cmocka_unit_test(allowed_bytes_are_stated_for_each_place),
        cmocka_unit_test(a_nul_is_rejected_wherever_it_is_in_a_head),
        cmocka_unit_test(a_client_that_expects_100_continue_is_sent_one),
        cmocka_unit_test(every_length_has_a_bound),
        cmocka_unit_test(small_chunks_cannot_take_more_room_than_is_allowed),
        cmocka_unit_test(headers_are_found_by_any_case),
        cmocka_unit_test(queries_are_decoded),
        cmocka_unit_test(a_name_in_a_path_is_decoded_once_and_a_plus_is_one),
        cmocka_unit_test(every_status_has_a_reason),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
