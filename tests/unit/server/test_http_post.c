/* test_http_post.c - one POST to another server: what is sent, and what is made of its answer. */
#include "support/unit.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "server/http_post.h"

/* A server that reads one request and says this, if it says anything. */
struct receiver {
    int fd, port;
    const char *answer;
    size_t repeats; /* of the answer's last byte */
    char request[2048];
    pthread_t thread;
};

static void read_request(struct receiver *r, int fd)
{
    size_t len = 0;
    ssize_t n;

    while (!strstr(r->request, "{}") && len < sizeof r->request - 1 &&
           (n = recv(fd, r->request + len, sizeof r->request - 1 - len, 0)) > 0) {
        len += (size_t)n;
        r->request[len] = '\0';
    }
}

static void *serve(void *ctx)
{
    struct receiver *r = ctx;
    const int fd = accept(r->fd, NULL, NULL);

    assert_true(fd >= 0);
    read_request(r, fd);
    if (r->answer) {
        const size_t len = strlen(r->answer);

        send(fd, r->answer, len, MSG_NOSIGNAL);
        for (size_t i = 0; i < r->repeats && send(fd, r->answer + len - 1, 1, MSG_NOSIGNAL) > 0;)
            i++;
        shutdown(fd, SHUT_WR);
    }
    while (recv(fd, (char[64]){ 0 }, 64, 0) > 0) /* until the client has had enough */
        ;
    close(fd);
    return NULL;
}

static void receiver_start(struct receiver *r)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof address;

    r->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(r->fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(r->fd, 1), 0);
    assert_int_equal(getsockname(r->fd, (struct sockaddr *)&address, &len), 0);
    r->port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&r->thread, NULL, serve, r), 0);
}

static void receiver_stop(struct receiver *r)
{
    pthread_join(r->thread, NULL);
    close(r->fd);
}

/* To /base, with a header more. */
static weir_err post_to(struct receiver *r, struct http_post_reply *reply, struct buf *body,
                        weir_diag *diag)
{
    char url[64];
    const int cancel = eventfd(0, EFD_CLOEXEC);
    const struct http_post post = {
        .url = url,
        .path = "/v1/traces",
        .headers = "Api-Key: secret\r\n",
        .body = { "{}", 2 },
        .cancel = cancel,
        .timeout_ms = 10000,
    };
    weir_err err;

    receiver_start(r);
    snprintf(url, sizeof url, "http://127.0.0.1:%d/base", r->port);
    err = http_post_send(&post, reply, body, diag);
    receiver_stop(r);
    close(cancel);
    return err;
}

static void a_request_has_its_path_headers_and_body(void **state)
{
    struct receiver r = { .answer = "HTTP/1.1 204 No Content\r\n\r\n" };
    struct http_post_reply reply;
    weir_diag diag;
    char host[64];

    (void)state;
    assert_int_equal(post_to(&r, &reply, NULL, &diag), WEIR_OK);
    assert_int_equal(reply.status, 204);
    assert_true(reply.retry_after_ms == -1);
    assert_true(strncmp(r.request, "POST /base/v1/traces HTTP/1.1\r\n", 31) == 0);
    snprintf(host, sizeof host, "\r\nHost: 127.0.0.1:%d\r\n", r.port);
    assert_non_null(strstr(r.request, host));
    assert_non_null(strstr(r.request, "\r\nContent-Type: application/json\r\n"));
    assert_non_null(strstr(r.request, "\r\nContent-Length: 2\r\n"));
    assert_non_null(strstr(r.request, "\r\nApi-Key: secret\r\n"));
    assert_non_null(strstr(r.request, "\r\n\r\n{}"));
}

static void any_answer_is_handed_on_with_its_body_and_retry_after(void **state)
{
    struct receiver r = { .answer = "HTTP/1.1 429 Too Many\r\nretry-after: 7\r\n"
                                    "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" };
    const weir_allocator usual = heap();
    struct http_post_reply reply;
    weir_diag diag;
    struct buf body;

    (void)state;
    buf_init(&body, &usual);
    assert_int_equal(post_to(&r, &reply, &body, &diag), WEIR_OK);
    assert_int_equal(reply.status, 429);
    assert_true(reply.retry_after_ms == 7000);
    assert_string_equal(body.at, "abc");
    buf_done(&body);
}

static void a_body_may_end_with_the_connection(void **state)
{
    struct receiver r = { .answer = "HTTP/1.1 200 OK\r\n\r\nall of it" };
    const weir_allocator usual = heap();
    struct http_post_reply reply;
    weir_diag diag;
    struct buf body;

    (void)state;
    buf_init(&body, &usual);
    assert_int_equal(post_to(&r, &reply, &body, &diag), WEIR_OK);
    assert_string_equal(body.at, "all of it");
    buf_done(&body);
}

static void an_answer_that_is_too_long_is_refused(void **state)
{
    struct receiver r = { .answer = "HTTP/1.1 200 OK\r\n\r\nx", .repeats = HTTP_POST_MOST_REPLY };
    const weir_allocator usual = heap();
    struct http_post_reply reply;
    weir_diag diag;
    struct buf body;

    (void)state;
    buf_init(&body, &usual);
    assert_int_equal(post_to(&r, &reply, &body, &diag), WEIR_EIO);
    assert_non_null(strstr(diag.text, "the answer is too long"));
    buf_done(&body);
}

static void what_is_no_answer_is_said(void **state)
{
    struct receiver silent = { .answer = "" }, other = { .answer = "220 smtp.example\r\n" };
    struct http_post_reply reply;
    weir_diag diag;

    (void)state;
    assert_int_equal(post_to(&silent, &reply, NULL, &diag), WEIR_EIO);
    assert_non_null(strstr(diag.text, "without an answer"));
    assert_int_equal(post_to(&other, &reply, NULL, &diag), WEIR_EIO);
    assert_non_null(strstr(diag.text, "it is not HTTP"));
    assert_null(strstr(diag.text, "/base"));
}

static void a_deadline_and_a_cancel_end_the_wait(void **state)
{
    struct receiver r = { .answer = NULL };
    const int cancel = eventfd(0, EFD_CLOEXEC);
    char url[64];
    struct http_post post = { .url = url, .body = { "{}", 2 }, .cancel = cancel, .timeout_ms = 50 };
    struct http_post_reply reply;
    weir_diag diag;
    int64_t before;

    (void)state;
    receiver_start(&r);
    snprintf(url, sizeof url, "http://127.0.0.1:%d", r.port);
    assert_int_equal(http_post_send(&post, &reply, NULL, &diag), WEIR_EIO);
    assert_non_null(strstr(diag.text, "no answer in time"));
    receiver_stop(&r);
    post.timeout_ms = 60000;
    eventfd_write(cancel, 1);
    receiver_start(&r);
    snprintf(url, sizeof url, "http://127.0.0.1:%d", r.port);
    before = clock_monotonic_ms();
    assert_int_equal(http_post_send(&post, &reply, NULL, &diag), WEIR_EIO);
    assert_non_null(strstr(diag.text, "the server ends"));
    assert_true(clock_monotonic_ms() - before < 30000);
    receiver_stop(&r);
    close(cancel);
}

static int64_t retry_after(const char *text)
{
    return http_retry_after_read(span_of(text), 784111777); /* 1994-11-06 08:49:37 */
}

static void retry_after_is_seconds_or_a_date(void **state)
{
    (void)state;
    assert_true(retry_after("120") == 120000);
    assert_true(retry_after("0") == 0);
    assert_true(retry_after("99999999999999999999") == INT64_MAX);
    assert_true(retry_after("Sun, 06 Nov 1994 08:49:40 GMT") == 3000);
    assert_true(retry_after("Sun, 06 Nov 1994 08:49:30 GMT") == 0);
    assert_true(retry_after("") == -1);
    assert_true(retry_after("-1") == -1);
    assert_true(retry_after("soon") == -1);
    assert_true(retry_after("Sun, 06 Nov 1994 08:49:40 GMT and more") == -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_has_its_path_headers_and_body),
        cmocka_unit_test(any_answer_is_handed_on_with_its_body_and_retry_after),
        cmocka_unit_test(a_body_may_end_with_the_connection),
        cmocka_unit_test(an_answer_that_is_too_long_is_refused),
        cmocka_unit_test(what_is_no_answer_is_said),
        cmocka_unit_test(a_deadline_and_a_cancel_end_the_wait),
        cmocka_unit_test(retry_after_is_seconds_or_a_date),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
