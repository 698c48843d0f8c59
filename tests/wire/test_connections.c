/* test_connections.c - connections that behave badly, and that there are many of. */
#include <errno.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/test_server.h"
#include "support/unit.h"

static const char policies[] = "version: 1\n"
                               "policies:\n"
                               "  login: {limit: 5 per 15m, by: ip}\n";
static const char ping[] = "*1\r\n$4\r\nPING\r\n", pong[] = "+PONG\r\n";
static const char health[] = "GET /healthz HTTP/1.1\r\nHost: weir\r\n\r\n";

static struct buf new_buf(void)
{
    const weir_allocator allocator = heap();
    struct buf b;

    buf_init(&b, &allocator);
    return b;
}

/* What comes until the connection is closed. */
static void hear_to_the_end(struct test_server *h, int fd, struct buf *heard)
{
    for (;;) {
        char bytes[65536];
        ssize_t n = read(fd, bytes, sizeof bytes);

        if (n > 0)
            buf_add(heard, (struct span){ bytes, (size_t)n });
        else if (n == 0 || errno != EAGAIN)
            return;
        else
            test_server_turn(h);
    }
}

static bool begins_with(const struct buf *b, const char *text)
{
    return b->len >= strlen(text) && memcmp(b->at, text, strlen(text)) == 0;
}

static void a_client_that_sends_no_more_still_gets_its_answers(void **state)
{
    struct test_server h;
    struct buf heard = new_buf();
    int fd;

    (void)state;
    test_server_open(&h, policies, NULL);
    fd = test_server_connect(&h);
    assert_int_equal(write(fd, ping, strlen(ping)), (ssize_t)strlen(ping));
    shutdown(fd, SHUT_WR);
    hear_to_the_end(&h, fd, &heard);
    assert_string_equal(heard.at, pong);
    close(fd);
    test_server_close(&h);
    buf_done(&heard);
}

static void a_client_that_vanishes_leaves_nothing_behind(void **state)
{
    static const char half[] =
        "POST /v1/check HTTP/1.1\r\nHost: weir\r\nContent-Length: 100\r\n\r\n{";
    struct test_server h;

    (void)state;
    test_server_open(&h, policies, NULL);
    for (size_t len = 0; len < sizeof half; len++) {
        struct linger at_once = { .l_onoff = 1 };
        int fd = test_server_connect(&h);

        assert_int_equal(write(fd, half, len), (ssize_t)len);
        if (len % 2 == 0)
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        close(fd);
        test_server_turn(&h);
    }
    for (int i = 0; i < 100 && atomic_load(&h.server.connections) > 0; i++)
        test_server_turn(&h);
    assert_int_equal(atomic_load(&h.server.connections), 0);
    test_server_close(&h);
}

/* It is not read from, what waits for it stays bounded, and once it listens it has missed nothing. */
static void a_client_that_does_not_listen_is_held_back(void **state)
{
    enum { MOST = 1 << 20 };
    struct test_server h;
    struct buf heard = new_buf(), said = new_buf();
    size_t sent = 0, stuck = 0, asked;
    const struct conn *c;
    int fd;

    (void)state;
    test_server_open(&h, policies, NULL);
    fd = test_server_connect(&h);
    c = conn_pool_first(&h.server.loops[0].conns);
    while (said.len < 65536)
        buf_text(&said, ping);
    while (sent < MOST * 64u && stuck < 10) {
        ssize_t n = write(fd, said.at + sent % strlen(ping), said.len - sent % strlen(ping));

        stuck = n > 0 ? 0 : stuck + 1;
        sent += n > 0 ? (size_t)n : 0;
        test_server_turn(&h);
        assert_true(c->unsent.len + c->sending.len < MOST);
        assert_true(c->rest.len < MOST);
    }
    assert_int_equal(stuck, 10); /* it does not take everything */
    asked = sent / strlen(ping);
    shutdown(fd, SHUT_WR);
    hear_to_the_end(&h, fd, &heard);
    assert_int_equal(heard.len, asked * strlen(pong));
    close(fd);
    test_server_close(&h);
    buf_done(&heard);
    buf_done(&said);
}

static void thousands_in_one_pipeline_are_answered_in_order(void **state)
{
    enum { COUNT = 20000 };
    struct test_server h;
    struct buf heard = new_buf(), said = new_buf(), wanted = new_buf();
    int fd;

    (void)state;
    test_server_open(&h, policies, NULL);
    fd = test_server_connect(&h);
    for (int i = 0; i < COUNT; i++) {
        char word[16];
        int len = snprintf(word, sizeof word, "%d", i);

        if (i % 3 == 0) { /* some wait for a commit, others do not */
            buf_text(&said, "*3\r\n$10\r\nWEIR.CHECK\r\n$5\r\nlogin\r\n$7\r\n1.2.3.4\r\n");
            if (i / 3 < 5)
                buf_printf(&wanted, "*7\r\n:1\r\n:5\r\n:%d\r\n:0\r\n:900000\r\n", 4 - i / 3);
            else
                buf_text(&wanted, "*7\r\n:0\r\n:5\r\n:0\r\n:900000\r\n:900000\r\n");
            buf_text(&wanted, "$7\r\ndefault\r\n$5\r\nstore\r\n");
        } else {
            buf_printf(&said, "*2\r\n$4\r\nECHO\r\n$%d\r\n%s\r\n", len, word);
            buf_printf(&wanted, "$%d\r\n%s\r\n", len, word);
        }
    }
    for (size_t at = 0; at < said.len;) {
        const size_t piece = said.len - at < 50000 ? said.len - at : 50000;

        assert_true(test_server_say(&h, fd, (struct span){ said.at + at, piece }, &heard));
        at += piece;
    }
    shutdown(fd, SHUT_WR);
    hear_to_the_end(&h, fd, &heard);
    assert_int_equal(heard.len, wanted.len);
    assert_memory_equal(heard.at, wanted.at, wanted.len);
    close(fd);
    test_server_close(&h);
    buf_done(&heard);
    buf_done(&said);
    buf_done(&wanted);
}

/* What is read at once ends somewhere in the head that asks, and the answers to all before it are
 * encoded by then, but not sent. */
static void expect_100_continue_is_answered_after_earlier_answers(void **state)
{
    enum { READ_AT_ONCE = 65536, CHECKS = 300 };
    static const char check[] =
        "GET /v1/check?policy=login&ip=1.2.3.4 HTTP/1.1\r\nHost: weir\r\nX: ",
                      head[] = "POST /v1/check HTTP/1.1\r\nHost: weir\r\n"
                               "Expect: 100-continue\r\nContent-Length: 39\r\n\r\n",
                      body[] = "{\"policy\":\"login\",\"key\":\"203.0.113.77\"}",
                      go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct test_server h;

    (void)state;
    test_server_open(&h, policies, NULL);
    for (size_t cut = 0; cut <= strlen(head); cut += 5) {
        struct buf heard = new_buf(), said = new_buf();
        int fd = test_server_connect(&h), answers = 0;

        for (size_t i = 1; i <= CHECKS; i++) {
            const size_t end = (READ_AT_ONCE - cut) * i / CHECKS;

            buf_text(&said, check);
            while (said.len < end - 4)
                buf_text(&said, "x");
            buf_text(&said, "\r\n\r\n");
        }
        buf_text(&said, head);
        assert_int_equal(write(fd, said.at, said.len), (ssize_t)said.len);
        test_server_turn(&h);
        assert_true(test_server_say(&h, fd, (struct span){ body, 1 }, &heard));
        for (const char *at = heard.at; (at = strstr(at, "HTTP/1.1 ")); at++, answers++)
            assert_int_equal(strncmp(at, go_on, strlen(go_on)) == 0, answers == CHECKS);
        assert_int_equal(answers, CHECKS + 1);
        heard.len = 0;
        assert_true(test_server_say(&h, fd, (struct span){ body + 1, strlen(body) - 1 }, &heard));
        assert_true(begins_with(&heard, "HTTP/1.1 200 OK\r\n") ||
                    begins_with(&heard, "HTTP/1.1 429 "));
        close(fd);
        buf_done(&heard);
        buf_done(&said);
    }
    test_server_close(&h);
}

static void beyond_the_ceiling_a_rejected_connection_gets_an_error(void **state)
{
    struct server_settings settings = { .max_connections = 2 };
    struct test_server h;
    struct buf known = new_buf(), http = new_buf(), resp = new_buf(), later = new_buf();
    int first, second, third, fourth;

    (void)state;
    test_server_open(&h, policies, &settings);
    first = test_server_connect(&h);
    second = test_server_connect(&h);
    test_server_say(&h, first, span_of(ping), &known);
    test_server_say(&h, second, span_of(ping), &known);
    assert_string_equal(known.at, "+PONG\r\n+PONG\r\n");
    third = test_server_connect(&h);
    fourth = test_server_connect(&h);
    test_server_say(&h, third, span_of(health), &http);
    assert_true(begins_with(&http, "HTTP/1.1 503 "));
    assert_non_null(strstr(http.at, "too many connections"));
    test_server_say(&h, fourth, span_of(ping), &resp);
    assert_true(begins_with(&resp, "-ERR "));
    assert_non_null(strstr(resp.at, "too many connections"));
    close(first);
    close(third);
    close(fourth);
    for (int i = 0; i < 10; i++)
        test_server_turn(&h);
    first = test_server_connect(&h);
    test_server_say(&h, first, span_of(ping), &later);
    assert_string_equal(later.at, pong);
    assert_int_equal(atomic_load(&h.server.refused_connections), 2);
    close(first);
    close(second);
    test_server_close(&h);
    buf_done(&known);
    buf_done(&http);
    buf_done(&resp);
    buf_done(&later);
}

static bool is_closed(struct test_server *h, int fd)
{
    char byte;

    test_server_turn(h);
    return read(fd, &byte, 1) == 0;
}

/* Silent connections are closed first, then unauthenticated ones; in each class the one that was
 * idle longest. Authenticated clients stay. */
static void beyond_the_ceiling_a_newcomer_has_the_place_of_a_silent_one(void **state)
{
    struct server_settings settings = { .max_connections = 5 };
    enum { GUEST, KNOWN, SILENT, LAST_GUEST, HALF, SIXTH, SEVENTH, EIGHTH, NINTH, TENTH, ALL };
    struct test_server h;
    struct buf heard = new_buf();
    int fd[ALL];

    (void)state;
    test_server_open(&h, policies, &settings);
    for (int i = 0; i <= HALF; i++)
        fd[i] = test_server_connect(&h);
    test_server_say(&h, fd[LAST_GUEST], span_of(health), &heard);
    test_server_say(&h, fd[GUEST], span_of(health), &heard);
    test_server_say(&h, fd[KNOWN], span_of(ping), &heard);
    test_server_say(&h, fd[HALF], (struct span){ health, 10 }, &heard);
    test_server_say(&h, fd[LAST_GUEST], span_of(health), &heard);
    for (int i = SIXTH; i < ALL; i++) {
        static const int goes[] = { SILENT, HALF, GUEST, LAST_GUEST };

        fd[i] = test_server_connect(&h);
        heard.len = 0;
        test_server_say(&h, fd[i], span_of(ping), &heard);
        if (i < TENTH) {
            assert_string_equal(heard.at, pong);
            assert_true(is_closed(&h, fd[goes[i - SIXTH]]));
        } else {
            assert_true(begins_with(&heard, "-ERR there are too many connections"));
        }
    }
    heard.len = 0;
    test_server_say(&h, fd[KNOWN], span_of(ping), &heard);
    assert_string_equal(heard.at, pong);
    assert_int_equal(atomic_load(&h.server.loops[0].conns.dropped), 4);
    for (int i = 0; i < ALL; i++)
        close(fd[i]);
    test_server_close(&h);
    buf_done(&heard);
}

/* A stranger that leaves its answers unread, as long as it may. */
static int connect_deaf(struct test_server *h, const struct buf *said)
{
    const int fd = test_server_connect(h);

    for (int i = 0; i < 64; i++) {
        if (write(fd, said->at, said->len) < 0 && errno != EAGAIN)
            break;
        test_server_turn(h);
    }
    return fd;
}

/* The bound is on all of them together: those that hold most of it are closed, and not those that
 * may ask. */
static void the_memory_of_all_connections_is_bounded(void **state)
{
    enum { MOST = 1 << 20, DEAF = 40 };
    struct test_server h;
    struct conn_pool *pool;
    struct buf heard = new_buf(), said = new_buf();
    int fd[DEAF], known, closed = 0;

    (void)state;
    test_server_open(&h, policies, NULL);
    pool = &h.server.loops[0].conns;
    pool->most_held = MOST;
    while (said.len < 8192)
        buf_text(&said, "GET / HTTP/1.1\r\nHost: weir\r\n\r\n");
    known = test_server_connect(&h);
    test_server_say(&h, known, span_of(ping), &heard);
    test_server_say(&h, known, (struct span){ ping, 5 }, &heard);
    for (int i = 0; i < DEAF; i++) {
        fd[i] = connect_deaf(&h, &said);
        pool->relief_at = 0; /* the loop's clock stands still while it is not turned */
        assert_true(pool->held < MOST + 2 * LOOP_MOST_UNSENT);
    }
    test_server_turn(&h);
    assert_true(pool->held <= MOST);
    closed = (int)atomic_load(&pool->dropped);
    assert_in_range(closed, DEAF / 4, DEAF - 2);
    heard.len = 0;
    test_server_say(&h, known, span_of(ping + 5), &heard);
    assert_string_equal(heard.at, pong);
    for (int i = 0; i < DEAF; i++)
        close(fd[i]);
    close(known);
    test_server_close(&h);
    buf_done(&heard);
    buf_done(&said);
}

/* Byte by byte does not help: the time is that of the whole request. */
static void a_request_that_does_not_end_is_ended(void **state)
{
    struct server_settings settings = { .request_timeout_ms = 30 };
    struct test_server h;
    struct buf heard = new_buf();
    int fd;

    (void)state;
    test_server_open(&h, policies, &settings);
    fd = test_server_connect(&h);
    assert_true(test_server_say(&h, fd, span_of("GET / HTTP/1.1\r\nHost: weir\r\nX: "), &heard));
    while (heard.len == 0 && test_server_say(&h, fd, span_of("a"), &heard))
        for (int k = 0; k < 100; k++)
            test_server_turn(&h);
    hear_to_the_end(&h, fd, &heard);
    assert_true(begins_with(&heard, "HTTP/1.1 408 "));
    close(fd);
    test_server_close(&h);
    buf_done(&heard);
}

/* It has as long as a request has; one that has asked for something has longer. */
static void a_silent_connection_is_closed(void **state)
{
    static const char nonsense[] = "GET /nothing HTTP/1.1\r\nHost: weir\r\n\r\n";
    struct server_settings settings = { .request_timeout_ms = 30 };
    struct test_server h;
    struct buf heard = new_buf();
    int silent, wrong, guest;

    (void)state;
    test_server_open(&h, policies, &settings);
    guest = test_server_connect(&h);
    assert_true(test_server_say(&h, guest, span_of(health), &heard));
    wrong = test_server_connect(&h);
    assert_true(test_server_say(&h, wrong, span_of(nonsense), &heard));
    silent = test_server_connect(&h);
    heard.len = 0;
    hear_to_the_end(&h, silent, &heard);
    hear_to_the_end(&h, wrong, &heard);
    assert_int_equal(heard.len, 0);
    assert_true(test_server_say(&h, guest, span_of(health), &heard));
    assert_true(begins_with(&heard, "HTTP/1.1 200 "));
    close(silent);
    close(wrong);
    close(guest);
    test_server_close(&h);
    buf_done(&heard);
}

static void a_connection_without_further_requests_is_closed(void **state)
{
    struct server_settings settings = { .idle_timeout_ms = 30 };
    struct test_server h;
    struct buf heard = new_buf();
    int fd;

    (void)state;
    test_server_open(&h, policies, &settings);
    fd = test_server_connect(&h);
    assert_true(test_server_say(&h, fd, span_of(ping), &heard));
    hear_to_the_end(&h, fd, &heard);
    assert_string_equal(heard.at, pong);
    close(fd);
    test_server_close(&h);
    buf_done(&heard);
}

/* What has begun is finished; what is idle goes at once. */
static void draining_ends_idle_connections_and_finishes_the_others(void **state)
{
    struct test_server h;
    struct buf idle_heard = new_buf(), busy_heard = new_buf();
    int idle, busy;

    (void)state;
    test_server_open(&h, policies, NULL);
    idle = test_server_connect(&h);
    assert_true(test_server_say(&h, idle, span_of(ping), &idle_heard));
    busy = test_server_connect(&h);
    assert_true(test_server_say(&h, busy, (struct span){ ping, 5 }, &busy_heard));
    atomic_store(&h.server.is_draining, true);
    loop_wake(&h.server.loops[0]);
    test_server_turn(&h);
    hear_to_the_end(&h, idle, &idle_heard);
    assert_string_equal(idle_heard.at, pong);
    test_server_say(&h, busy, span_of(ping + 5), &busy_heard);
    hear_to_the_end(&h, busy, &busy_heard);
    assert_string_equal(busy_heard.at, pong);
    close(idle);
    close(busy);
    test_server_close(&h);
    buf_done(&idle_heard);
    buf_done(&busy_heard);
}

static void note_late(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}

/* In 30 s, and nothing else ends a wait. */
static void begin_to_be_late(struct test_server *h, uv_timer_t *timer, bool *is_late)
{
    struct loop *loop = &h->server.loops[0];

    uv_timer_stop(&loop->conns.timer);
    uv_timer_init(&loop->uv, timer);
    timer->data = is_late;
    uv_timer_start(timer, note_late, 30000, 0);
}

/* A loop that waits has sent all of what it had to, and closed what it had to. */
static void no_answer_and_no_end_waits_for_another_event(void **state)
{
    static const char *const said[] = {
        "*1\r\n$4\r\nQUIT\r\n",
        "GET /healthz HTTP/1.1\r\nHost: weir\r\n\r\n"
        "GET /console HTTP/1.1\r\nHost: weir\r\n\r\n"
        "GET /healthz HTTP/1.1\r\nHost: weir\r\nConnection: close\r\n\r\n",
    };
    struct test_server h;
    struct loop *loop;
    bool is_late = false;
    uv_timer_t timer;

    (void)state;
    test_server_open(&h, policies, NULL);
    loop = &h.server.loops[0];
    begin_to_be_late(&h, &timer, &is_late);
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        int fd = test_server_connect(&h);
        char bytes[65536];
        ssize_t n;

        assert_int_equal(write(fd, said[i], strlen(said[i])), (ssize_t)strlen(said[i]));
        while ((n = read(fd, bytes, sizeof bytes)) != 0 && !is_late)
            if (n < 0)
                loop_turn(loop, true);
        assert_false(is_late);
        close(fd);
        test_server_turn(&h);
    }
    uv_close((uv_handle_t *)&timer, NULL);
    test_server_close(&h);
}

static void hear_some(int fd, struct buf *heard)
{
    char bytes[65536];

    for (ssize_t n; (n = read(fd, bytes, sizeof bytes)) > 0;)
        buf_add(heard, (struct span){ bytes, (size_t)n });
}

static bool has_unread(int fd)
{
    int bytes = 0;

    assert_int_equal(ioctl(fd, SIOCOUTQ, &bytes), 0);
    return bytes > 0;
}

/* The kernel tells of it once: a loop that waits has read all. */
static void more_than_is_read_at_once_waits_for_no_other_event(void **state)
{
    bool is_late = false;
    struct test_server h;
    struct buf said = new_buf(), heard = new_buf();
    uv_timer_t timer;
    ssize_t sent;
    int fd;

    (void)state;
    test_server_open(&h, policies, NULL);
    begin_to_be_late(&h, &timer, &is_late);
    fd = test_server_connect(&h);
    while (said.len < 1 << 20)
        buf_text(&said, ping);
    sent = write(fd, said.at, said.len);
    assert_true(sent > 2 * CONN_ROOM);
    while (has_unread(fd)) {
        loop_turn(&h.server.loops[0], true);
        assert_false(is_late);
        hear_some(fd, &heard);
    }
    test_server_turn(&h);
    shutdown(fd, SHUT_WR);
    hear_to_the_end(&h, fd, &heard);
    assert_int_equal(heard.len, (size_t)sent / strlen(ping) * strlen(pong));
    close(fd);
    uv_close((uv_handle_t *)&timer, NULL);
    test_server_close(&h);
    buf_done(&said);
    buf_done(&heard);
}

static void close_first(uv_timer_t *timer)
{
    conn_close(conn_pool_first(timer->data));
}

/* By libuv, when some of what it sent has been read: no event will come for the rest. */
static void one_that_is_closed_while_it_has_more_to_read_is_gone(void **state)
{
    struct test_server h;
    struct loop *loop;
    uv_timer_t timer;

    (void)state;
    test_server_open(&h, policies, NULL);
    loop = &h.server.loops[0];
    uv_timer_init(&loop->uv, &timer);
    timer.data = &loop->conns;
    for (int turns = 1; turns < 4; turns++) {
        struct buf said = new_buf();
        int fd = test_server_connect(&h);

        while (said.len < 1 << 20) /* few, so that it is not paused */
            buf_printf(&said, "*2\r\n$4\r\nPING\r\n$4000\r\n%04000d\r\n", 0);
        assert_true(write(fd, said.at, said.len) > 2 * CONN_ROOM);
        for (int i = 0; i < turns; i++)
            loop_turn(loop, false);
        uv_timer_start(&timer, close_first, 0, 0);
        test_server_turn(&h);
        assert_int_equal(atomic_load(&h.server.connections), 0);
        close(fd);
        buf_done(&said);
    }
    uv_close((uv_handle_t *)&timer, NULL);
    test_server_close(&h);
}

/* The ring may hold what it sends to often. */
static void one_that_is_closed_after_many_answers_has_ended_for_its_client(void **state)
{
    struct test_server h;

    (void)state;
    test_server_open(&h, policies, NULL);
    for (int answers = 0; answers < 20; answers++) {
        struct buf heard = new_buf();
        int fd = test_server_connect(&h);
        char byte;

        for (int i = 0; i < answers; i++)
            assert_true(test_server_say(&h, fd, span_of(ping), &heard));
        assert_int_equal(heard.len, (size_t)answers * strlen(pong));
        conn_close(conn_pool_first(&h.server.loops[0].conns));
        test_server_turn(&h);
        assert_int_equal(read(fd, &byte, 1), 0);
        close(fd);
        buf_done(&heard);
    }
    test_server_close(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_answer_and_no_end_waits_for_another_event),
        cmocka_unit_test(a_client_that_sends_no_more_still_gets_its_answers),
        cmocka_unit_test(a_client_that_vanishes_leaves_nothing_behind),
        cmocka_unit_test(a_client_that_does_not_listen_is_held_back),
        cmocka_unit_test(thousands_in_one_pipeline_are_answered_in_order),
        cmocka_unit_test(expect_100_continue_is_answered_after_earlier_answers),
        cmocka_unit_test(beyond_the_ceiling_a_rejected_connection_gets_an_error),
        cmocka_unit_test(a_request_that_does_not_end_is_ended),
        cmocka_unit_test(a_silent_connection_is_closed),
        cmocka_unit_test(a_connection_without_further_requests_is_closed),
        cmocka_unit_test(beyond_the_ceiling_a_newcomer_has_the_place_of_a_silent_one),
        cmocka_unit_test(more_than_is_read_at_once_waits_for_no_other_event),
        cmocka_unit_test(the_memory_of_all_connections_is_bounded),
        cmocka_unit_test(one_that_is_closed_while_it_has_more_to_read_is_gone),
        cmocka_unit_test(one_that_is_closed_after_many_answers_has_ended_for_its_client),
        cmocka_unit_test(draining_ends_idle_connections_and_finishes_the_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
