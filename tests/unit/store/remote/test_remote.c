/* test_remote.c - lanes, deadlines and the breaker, with a server that the test plays and a clock
 * that it turns. */
#include "support/unit.h"

#include "store/remote/server_lane.h"

enum { DEADLINE = 100, MOST_CONNECTIONS = 64, MOST_SENT = 64, MOST_ASKED = 6000 };

/* ---- a clock, and the timers that it wakes ----------------------------------------------------- */

struct watch {
    void (*due)(void *ctx);
    void *ctx;
    int64_t at; /* below 0: not set */
    bool is_there;
};

static struct world {
    struct reactor reactor;
    int64_t now;
    struct watch timers[8];
} world;

static struct watch *add_timer(struct reactor *r, void (*due)(void *ctx), void *ctx)
{
    (void)r;
    for (size_t i = 0; i < 8; i++)
        if (!world.timers[i].is_there) {
            world.timers[i] = (struct watch){ due, ctx, -1, true };
            return &world.timers[i];
        }
    return NULL;
}

static void set_timer(struct watch *w, int64_t ms)
{
    w->at = ms < 0 ? -1 : world.now + ms;
}

static void drop_watch(struct watch *w)
{
    if (w)
        *w = (struct watch){ .at = -1 };
}

static int64_t tell_time(const struct reactor *r)
{
    (void)r;
    return world.now;
}

static void pass(int64_t ms)
{
    const int64_t end = world.now + ms;

    for (;;) {
        struct watch *next = NULL;

        for (size_t i = 0; i < 8; i++)
            if (world.timers[i].at >= 0 && (!next || world.timers[i].at < next->at))
                next = &world.timers[i];
        if (!next || next->at > end)
            break;
        if (next->at > world.now)
            world.now = next->at;
        next->at = -1;
        next->due(next->ctx);
    }
    world.now = end;
}

/* ---- a server ---------------------------------------------------------------------------------- */

static struct connection {
    struct link *link;
    bool is_open, cannot_send;
    int64_t since;
    int sent[MOST_SENT][BATCH_MOST]; /* the questions' numbers */
    size_t sizes[MOST_SENT], sent_count, answered;
} connections[MOST_CONNECTIONS];
static size_t connection_count;
static bool nothing_opens;     /* out of memory */
static bool answers_when_read; /* the answers are here, but have not been read */

static void *open_connection(void *backend, struct link *link, struct reactor *reactor)
{
    struct connection *c = &connections[connection_count];

    assert_ptr_equal(backend, &world);
    assert_ptr_equal(reactor, &world.reactor);
    if (nothing_opens)
        return NULL;
    assert_true(connection_count < MOST_CONNECTIONS);
    connection_count++;
    memset(c, 0, sizeof *c);
    c->link = link;
    c->is_open = true;
    c->since = world.now;
    return c;
}

static bool send_batch(void *connection, const struct batch *b)
{
    struct connection *c = connection;

    assert_true(c->is_open);
    if (c->cannot_send)
        return false;
    assert_true(c->sent_count < MOST_SENT);
    for (size_t i = b->first; i < b->count; i++)
        c->sent[c->sent_count][i] = (int)(intptr_t)b->questions[i]->ctx;
    c->sizes[c->sent_count++] = b->count;
    return true;
}

static void answer(struct connection *c)
{
    struct batch *b = link_next(c->link);

    assert_non_null(b);
    assert_int_equal(b->count, c->sizes[c->answered]);
    for (size_t i = b->first; i < b->count; i++) {
        assert_int_equal((int)(intptr_t)b->questions[i]->ctx, c->sent[c->answered][i]);
        b->questions[i]->allowed = true;
    }
    c->answered++;
    link_answered(c->link);
}

static void read_connection(void *connection)
{
    struct connection *c = connection;

    while (answers_when_read && c->answered < c->sent_count)
        answer(c);
}

static void close_connection(void *connection)
{
    struct connection *c = connection;

    assert_true(c->is_open);
    c->is_open = false;
}

static const struct backend_ops server = { open_connection, send_batch, read_connection,
                                           close_connection };

static struct connection *newest(void)
{
    assert_true(connection_count > 0);
    return &connections[connection_count - 1];
}

/* ---- callers ----------------------------------------------------------------------------------- */

static struct parsed_request {
    struct question question;
    struct charge charge;
    int times_done;
    int64_t at, done_at;
} asked[MOST_ASKED];
static int asked_count;
static int done_order[MOST_ASKED], done_count;
static struct pending pending;
static void (*when_done)(int number);

static void done(struct question *q)
{
    const int number = (int)(intptr_t)q->ctx;

    asked[number].times_done++;
    asked[number].done_at = world.now;
    done_order[done_count++] = number;
    if (when_done)
        when_done(number);
}

static int submit(void)
{
    const int number = asked_count++;
    struct parsed_request *a = &asked[number];

    assert_true(number < MOST_ASKED);
    *a = (struct parsed_request){ .at = world.now };
    a->question = (struct question){
        .charges = &a->charge,
        .count = 1,
        .done = done,
        .ctx = (void *)(intptr_t)number,
    };
    lane_submit(&pending, &a->question);
    return number;
}

static int ask(void)
{
    const int number = submit();

    lane_commit(&pending);
    return number;
}

static void is_open(int number)
{
    assert_int_equal(asked[number].times_done, 0);
}

static void is_decided(int number)
{
    assert_int_equal(asked[number].times_done, 1);
    assert_int_equal(asked[number].question.err, WEIR_OK);
    assert_true(asked[number].question.allowed);
}

static void has_failed(int number)
{
    assert_int_equal(asked[number].times_done, 1);
    assert_int_equal(asked[number].question.err, WEIR_EIO);
}

/* ---- the lane ---------------------------------------------------------------------------------- */

static struct remote remote;
static char last_line[512];
static int lines;

static void log_line(void *ctx, const char *line)
{
    (void)ctx;
    snprintf(last_line, sizeof last_line, "%s", line);
    lines++;
}

static void begin(size_t link_count)
{
    memset(&world, 0, sizeof world);
    world.now = 1000;
    world.reactor = (struct reactor){
        .timer = add_timer, .set = set_timer, .unwatch = drop_watch, .now = tell_time
    };
    for (size_t i = 0; i < 8; i++)
        world.timers[i].at = -1;
    connection_count = 0;
    nothing_opens = answers_when_read = false;
    asked_count = done_count = lines = 0;
    last_line[0] = '\0';
    when_done = NULL;
    remote = (struct remote){ .ops = &server,
                              .backend = &world,
                              .name = "the server",
                              .deadline = DEADLINE,
                              .link_count = link_count,
                              .allocator = heap(),
                              .log = log_line };
    pending = (struct pending){ .lane = server_lane_attach(&remote, &world.reactor) };
    assert_non_null(pending.lane);
}

static void begin_up(void)
{
    begin(1);
    link_up(newest()->link);
}

/* Every question is done, and none waited longer than its deadline. */
static void end(void)
{
    lane_detach(pending.lane);
    for (int i = 0; i < asked_count; i++) {
        assert_int_equal(asked[i].times_done, 1);
        assert_true(asked[i].done_at - asked[i].at <= DEADLINE);
    }
    for (size_t i = 0; i < connection_count; i++)
        assert_false(connections[i].is_open);
    for (size_t i = 0; i < 8; i++)
        assert_false(world.timers[i].is_there);
}

static bool is_failing(void)
{
    weir_stats stats;

    remote_stats(&remote, &stats);
    return stats.has_failed;
}

static void open_breaker(void)
{
    while (!is_failing()) {
        ask();
        pass(DEADLINE);
    }
}

/* ---- R1, R2: deadlines ------------------------------------------------------------------------- */

static void a_question_is_answered(void **state)
{
    (void)state;
    begin_up();
    const int q = ask();

    is_open(q);
    answer(newest());
    is_decided(q);
    end();
}

static void a_question_without_an_answer_fails_at_its_deadline(void **state)
{
    (void)state;
    begin_up();
    const int first = ask();

    pass(40);
    const int second = ask();

    pass(59);
    is_open(first);
    pass(1);
    has_failed(first);
    is_open(second);
    pass(40);
    has_failed(second);
    end();
}

static void a_question_without_a_link_fails_at_its_deadline(void **state)
{
    (void)state;
    begin(1);
    const int q = ask();

    pass(DEADLINE - 1);
    is_open(q);
    pass(1);
    has_failed(q);
    end();
}

static void a_question_waits_for_the_link(void **state)
{
    (void)state;
    begin(1);
    const int q = ask();

    pass(DEADLINE / 2);
    link_up(newest()->link);
    answer(newest());
    is_decided(q);
    end();
}

static void a_late_answer_is_dropped(void **state)
{
    (void)state;
    begin_up();
    const int late = ask();

    pass(DEADLINE);
    has_failed(late);
    memset(&asked[late].question, 0x55, sizeof asked[late].question); /* the caller's again */
    const int next = ask();

    answer(newest());
    is_open(next);
    answer(newest());
    is_decided(next);
    assert_int_equal(asked[late].times_done, 1);
    end();
}

/* Some of a batch waited for room and are older than the others. */
static void questions_of_a_batch_have_deadlines_of_their_own(void **state)
{
    (void)state;
    begin_up();
    ask();
    const int older = ask();

    pass(30);
    const int younger = ask();

    pass(60);
    answer(newest()); /* both go */
    assert_int_equal(newest()->sizes[1], 2);
    pass(10);
    has_failed(older);
    is_open(younger);
    answer(newest());
    is_decided(younger);
    end();
}

/* The process was stopped: what has come meanwhile is read before questions time out. */
static void answers_that_are_here_are_not_late(void **state)
{
    (void)state;
    begin_up();
    const int q = ask();

    world.now += DEADLINE + 50;
    answers_when_read = true;
    pass(0);
    is_decided(q);
    asked[q].done_at = asked[q].at; /* late, but not by the lane */
    end();
}

static void a_silent_link_is_closed(void **state)
{
    (void)state;
    begin_up();
    ask();
    pass(STALE_MS - 1);
    assert_true(connections[0].is_open);
    pass(1);
    assert_false(connections[0].is_open);
    pass(BACKOFF_MS);
    assert_int_equal(connection_count, 2);
    end();
}

/* ---- R3: order --------------------------------------------------------------------------------- */

static void a_turn_is_one_batch(void **state)
{
    (void)state;
    begin_up();
    for (int i = 0; i < 10; i++)
        submit();
    lane_commit(&pending);
    lane_commit(&pending); /* nothing more */
    assert_int_equal(newest()->sent_count, 1);
    assert_int_equal(newest()->sizes[0], 10);
    answer(newest());
    for (int i = 0; i < 10; i++) {
        is_decided(i);
        assert_int_equal(done_order[i], i);
    }
    end();
}

static void full_batches_go_without_waiting_for_earlier_ones(void **state)
{
    (void)state;
    begin_up();
    for (int i = 0; i < (BATCHES_ON_LINK + 1) * BATCH_MOST; i++)
        submit();
    lane_commit(&pending);
    assert_int_equal(newest()->sent_count, BATCHES_ON_LINK);
    answer(newest());
    assert_int_equal(newest()->sent_count, BATCHES_ON_LINK + 1);
    while (done_count < asked_count)
        answer(newest());
    for (int i = 0; i < asked_count; i++)
        assert_int_equal(done_order[i], i);
    end();
}

static void a_link_that_takes_turns_has_one_batch_under_way(void **state)
{
    (void)state;
    begin_up();
    link_take_turns(newest()->link);
    for (int i = 0; i < 3 * BATCH_MOST; i++)
        submit();
    lane_commit(&pending);
    for (size_t i = 1; i <= 3; i++) {
        assert_int_equal(newest()->sent_count, i);
        answer(newest());
    }
    assert_int_equal(done_count, asked_count);
    end();
}

static void waiting_questions_go_in_one_batch(void **state)
{
    (void)state;
    begin_up();
    for (int i = 0; i < 20; i++)
        ask();
    assert_int_equal(newest()->sent_count, 1);
    answer(newest());
    assert_int_equal(newest()->sent_count, 2);
    assert_int_equal(newest()->sizes[1], 19);
    answer(newest());
    for (int i = 0; i < asked_count; i++)
        assert_int_equal(done_order[i], i);
    end();
}

static void a_large_turn_is_split(void **state)
{
    (void)state;
    begin_up();
    for (int i = 0; i < 2 * BATCH_MOST + 1; i++)
        submit();
    lane_commit(&pending);
    assert_int_equal(newest()->sent_count, 2); /* and the rest waits */
    while (done_count < asked_count)
        answer(newest());
    assert_int_equal(newest()->sizes[0], BATCH_MOST);
    assert_int_equal(newest()->sizes[1], BATCH_MOST);
    assert_int_equal(newest()->sizes[2], 1);
    for (int i = 0; i < asked_count; i++)
        assert_int_equal(done_order[i], i);
    end();
}

static void several_links_share_the_work(void **state)
{
    (void)state;
    begin(2);
    assert_int_equal(connection_count, 2);
    link_up(connections[0].link);
    link_up(connections[1].link);
    for (int i = 0; i < 4; i++)
        ask();
    assert_int_equal(connections[0].sent_count, 1);
    assert_int_equal(connections[1].sent_count, 1);
    answer(&connections[1]);
    is_decided(1);
    is_open(0);
    assert_int_equal(connections[1].sizes[1], 2);
    link_down(connections[0].link, "gone");
    has_failed(0);
    answer(&connections[1]);
    is_decided(2);
    is_decided(3);
    end();
}

static int chain;

static void ask_another(int number)
{
    (void)number;
    if (chain-- > 0)
        ask();
}

static void an_answered_callback_may_ask_again_at_once(void **state)
{
    (void)state;
    begin_up();
    chain = 20;
    when_done = ask_another;
    ask();
    while (done_count < asked_count)
        answer(newest());
    assert_int_equal(asked_count, 21);
    end();
}

static void a_failed_callback_may_ask_again_at_once(void **state)
{
    (void)state;
    begin_up();
    chain = 20;
    when_done = ask_another;
    for (int i = 0; i < 3; i++)
        ask();
    link_down(newest()->link, "gone");
    pass(BACKOFF_MS);
    newest()->cannot_send = true;
    link_up(newest()->link);
    pass(30 * DEADLINE);
    assert_int_equal(asked_count, 23);
    end();
}

/* ---- R4: what may be asked again ---------------------------------------------------------------- */

static void questions_on_a_lost_link_fail(void **state)
{
    (void)state;
    begin_up();
    const int sent = ask();

    link_down(newest()->link, "gone");
    has_failed(sent);
    assert_string_equal(last_line, "the server was lost: gone");
    const int next = ask();

    pass(BACKOFF_MS);
    assert_int_equal(connection_count, 2);
    link_up(newest()->link);
    assert_int_equal(newest()->sent_count, 1);
    answer(newest());
    is_decided(next);
    end();
}

static void an_undone_question_is_asked_again_once(void **state)
{
    (void)state;
    begin_up();
    const int q = ask();

    newest()->answered++;
    link_refused(newest()->link, REFUSAL_UNDONE, "deadlock");
    is_open(q);
    assert_int_equal(newest()->sent_count, 2);
    newest()->answered++;
    link_refused(newest()->link, REFUSAL_UNDONE, "deadlock");
    has_failed(q);
    assert_int_equal(newest()->sent_count, 2);
    end();
}

static void an_undone_question_is_asked_before_waiting_ones(void **state)
{
    (void)state;
    begin_up();
    for (int i = 0; i < 4; i++)
        ask();
    newest()->answered++;
    link_refused(newest()->link, REFUSAL_UNDONE, "deadlock");
    assert_int_equal(newest()->sizes[1], 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(newest()->sent[1][i], i);
    answer(newest());
    end();
}

static void a_final_error_fails_and_the_next_question_is_answered(void **state)
{
    (void)state;
    begin_up();
    const int bad = ask(), good = ask();

    newest()->answered++;
    link_refused(newest()->link, REFUSAL_FINAL, "cancelled");
    has_failed(bad);
    answer(newest());
    is_decided(good);
    end();
}

/* A server that has become a standby: all that is under way comes back undone, then the link goes. */
static void questions_of_a_server_that_became_a_standby_are_sent_elsewhere(void **state)
{
    (void)state;
    begin_up();
    for (int i = 0; i < 2 * BATCH_MOST; i++)
        submit();
    lane_commit(&pending);
    struct connection *standby = newest();

    link_refused(standby->link, REFUSAL_ELSEWHERE, "read-only");
    assert_true(standby->is_open);
    assert_int_equal(standby->sent_count, 2);
    link_refused(standby->link, REFUSAL_ELSEWHERE, "read-only");
    assert_false(standby->is_open);
    pass(BACKOFF_MS);
    assert_ptr_not_equal(newest(), standby);
    link_up(newest()->link);
    while (done_count < asked_count)
        answer(newest());
    for (int i = 0; i < asked_count; i++)
        is_decided(i);
    end();
}

/* ---- R5: the breaker ---------------------------------------------------------------------------- */

static void after_some_failures_questions_fail_at_once(void **state)
{
    (void)state;
    begin_up();
    for (int i = 0; i < BREAKER_FAILURES; i++) {
        assert_false(is_failing());
        const int q = ask();

        is_open(q);
        pass(DEADLINE);
        has_failed(q);
    }
    assert_true(is_failing());
    assert_string_equal(
        last_line, "the server has failed, on_error decides until it is back: no answer in time");
    const int q = ask();

    has_failed(q);
    assert_int_equal(asked[q].done_at, asked[q].at);
    end();
}

static int fail_one(void)
{
    const int q = ask();

    pass(DEADLINE);
    has_failed(q);
    return q;
}

/* A store that now and then does not answer opens no breaker, and decides nothing meanwhile. */
static void failures_that_open_no_breaker_are_logged_at_a_limited_rate(void **state)
{
    (void)state;
    begin_up();
    fail_one();
    assert_int_equal(lines, 1);
    assert_string_equal(
        last_line, "the server did not answer 1 times, and on_error decided: no answer in time");
    fail_one();
    assert_int_equal(lines, 1);
    world.now += FAILURE_LOG_MS;
    fail_one();
    assert_false(is_failing());
    assert_string_equal(
        last_line, "the server did not answer 2 times, and on_error decided: no answer in time");
    end();
}

static void questions_that_wait_when_the_breaker_opens_fail_too(void **state)
{
    (void)state;
    begin_up();
    for (int i = 0; i < BREAKER_FAILURES; i++) {
        ask(); /* the first is sent, the others wait for room */
        pass(1);
    }
    const int sent = 0, waits = ask();

    pass(DEADLINE - BREAKER_FAILURES);
    has_failed(sent);
    is_open(waits);
    for (int i = 1; i < BREAKER_FAILURES; i++) {
        assert_false(is_failing());
        is_open(waits);
        pass(1);
    }
    assert_true(is_failing());
    has_failed(waits);
    assert_int_equal(asked[waits].done_at - asked[waits].at, DEADLINE - 1);
    answer(newest());
    assert_true(is_failing()); /* its questions are done already */
    end();
}

static void late_ones_of_one_batch_are_failures_of_their_own(void **state)
{
    (void)state;
    begin_up();
    ask(); /* it alone is under way */
    for (int i = 0; i < BATCH_MOST; i++) {
        submit();
        if (i % 100 == 0) {
            lane_commit(&pending);
            pass(1);
        }
    }
    lane_commit(&pending); /* and with this one all others are, in one batch */
    pass(DEADLINE - 6);
    assert_int_equal(newest()->sent_count, 2);
    for (int i = 1; i < BREAKER_FAILURES; i++) {
        assert_false(is_failing());
        pass(1);
    }
    assert_true(is_failing());
    has_failed(asked_count - 1);
    end();
}

static void the_number_of_failures_can_be_configured_and_reloaded(void **state)
{
    _Atomic unsigned after_errors = 2;

    (void)state;
    begin_up();
    remote.after_errors = &after_errors;
    has_failed((ask(), pass(DEADLINE), asked_count - 1));
    assert_false(is_failing());
    has_failed((ask(), pass(DEADLINE), asked_count - 1));
    assert_true(is_failing());
    end();
    after_errors = 7;
    begin_up();
    remote.after_errors = &after_errors;
    for (int i = 0; i < 7; i++) {
        assert_false(is_failing());
        has_failed((ask(), pass(DEADLINE), asked_count - 1));
    }
    assert_true(is_failing());
    end();
}

static void one_question_a_second_is_sent_nevertheless(void **state)
{
    (void)state;
    begin_up();
    open_breaker();
    for (size_t i = 0; i < connection_count; i++)
        if (connections[i].is_open)
            while (connections[i].answered < connections[i].sent_count)
                answer(&connections[i]); /* late ones prove nothing */
    assert_true(is_failing());
    pass(PROBE_MS);
    for (int i = 0; i < 10; i++)
        submit();
    const int probe = asked_count - 10, other = probe + 1;

    lane_commit(&pending);
    is_open(probe);
    has_failed(other);
    has_failed(ask());
    answer(newest());
    is_decided(probe);
    assert_false(is_failing());
    assert_string_equal(last_line, "the server is back");
    is_open(ask());
    end();
}

static void a_new_link_is_tried_at_once(void **state)
{
    (void)state;
    begin(1);
    open_breaker();
    has_failed(ask());
    if (!newest()->is_open)
        pass(BACKOFF_MOST_MS);
    link_up(newest()->link);
    assert_true(is_failing());
    const int q = ask();

    is_open(q);
    answer(newest());
    is_decided(q);
    assert_false(is_failing());
    end();
}

static void a_new_link_closes_the_breaker_if_none_timed_out(void **state)
{
    (void)state;
    begin(1);
    while (!is_failing()) {
        if (newest()->is_open)
            link_down(newest()->link, "refused");
        pass(BACKOFF_MOST_MS);
    }
    assert_true(newest()->is_open);
    link_up(newest()->link);
    assert_false(is_failing());
    assert_string_equal(last_line, "the server is back");
    end();
}

/* The server hung, and no question comes any more that could be a probe. */
static void a_lane_without_questions_probes_by_itself(void **state)
{
    (void)state;
    begin_up();
    open_breaker();
    for (int i = 0; i < 10; i++) { /* the link is given up, and new ones are silent too */
        if (newest()->is_open && newest()->sent_count == 0)
            link_up(newest()->link);
        pass(PROBE_MS);
    }
    assert_true(is_failing());
    if (!newest()->is_open)
        pass(BACKOFF_MOST_MS);
    answers_when_read = true;
    if (newest()->sent_count == 0)
        link_up(newest()->link);
    pass(PROBE_ALONE_MS + DEADLINE);
    for (int i = 0; i < 3 && is_failing(); i++) {
        pass(PROBE_MS);
        read_connection(newest());
    }
    assert_false(is_failing());
    assert_string_equal(last_line, "the server is back");
    is_open(ask());
    end();
}

static void a_lane_probes_by_itself_only_while_its_breaker_is_open(void **state)
{
    (void)state;
    begin_up();
    is_decided((ask(), answer(newest()), 0));
    pass(100 * PROBE_MS);
    assert_int_equal(newest()->sent_count, 1);
    end();
}

static void a_lane_with_questions_sends_no_probe(void **state)
{
    size_t sent;

    (void)state;
    begin_up();
    open_breaker();
    while (!newest()->is_open || newest()->sent_count > 0)
        pass(BACKOFF_MOST_MS);
    link_up(newest()->link);
    sent = newest()->sent_count;
    is_open(ask());
    assert_int_equal(newest()->sent_count, sent + 1);
    pass(PROBE_ALONE_MS);
    assert_int_equal(newest()->sent_count, sent + 1);
    answer(newest());
    assert_true(is_failing()); /* that was late */
    end();
}

static void an_answer_forgives_failures(void **state)
{
    (void)state;
    begin_up();
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < BREAKER_FAILURES - 1; i++) {
            ask();
            link_refused(newest()->link, REFUSAL_FINAL, "cancelled");
            newest()->answered++;
        }
        ask();
        answer(newest());
    }
    assert_false(is_failing());
    end();
}

/* ---- R6: links come back ------------------------------------------------------------------------ */

static void a_link_reconnects_with_backoff(void **state)
{
    int64_t last = 0;

    (void)state;
    begin(1);
    for (int i = 0; i < 12; i++) {
        const int64_t most = BACKOFF_MS << i < BACKOFF_MOST_MS ? BACKOFF_MS << i : BACKOFF_MOST_MS;
        const size_t before = connection_count;
        const int64_t begun = world.now;

        link_down(newest()->link, "refused");
        pass(most);
        assert_int_equal(connection_count, before + 1);
        last = newest()->since - begun;
        assert_true(last >= most / 2);
    }
    assert_true(last >= BACKOFF_MOST_MS / 2);
    assert_int_equal(lines, 2); /* that it cannot be reached, and that on_error decides */
    end();
}

static void a_link_that_worked_resets_its_backoff(void **state)
{
    (void)state;
    begin(1);
    for (int i = 0; i < 4; i++) {
        link_down(newest()->link, "refused");
        pass(BACKOFF_MOST_MS);
    }
    link_up(newest()->link);
    ask();
    answer(newest());
    const size_t before = connection_count;

    link_down(newest()->link, "gone");
    pass(BACKOFF_MS);
    assert_int_equal(connection_count, before + 1);
    end();
}

static void a_link_that_cannot_be_made_is_tried_again(void **state)
{
    (void)state;
    begin_up();
    nothing_opens = true;
    link_down(newest()->link, "gone");
    pass(500);
    assert_int_equal(connection_count, 1);
    nothing_opens = false;
    pass(BACKOFF_MOST_MS);
    assert_int_equal(connection_count, 2);
    end();
}

static void a_link_that_cannot_send_is_lost(void **state)
{
    (void)state;
    begin_up();
    newest()->cannot_send = true;
    const int q = ask();

    has_failed(q);
    pass(BACKOFF_MS);
    link_up(newest()->link);
    const int next = ask();

    answer(newest());
    is_decided(next);
    end();
}

/* ---- the end ------------------------------------------------------------------------------------ */

static void pending_questions_fail_on_close(void **state)
{
    (void)state;
    begin_up();
    for (int i = 0; i < 5; i++)
        ask();
    end();
    for (int i = 0; i < asked_count; i++)
        has_failed(i);
}

static void without_a_lane_all_fail(void **state)
{
    struct pending none = { 0 };

    (void)state;
    begin_up();
    asked[0] = (struct parsed_request){ .question = { .done = done, .ctx = NULL } };
    asked_count = 1;
    lane_submit(&none, &asked[0].question);
    lane_commit(&none);
    has_failed(0);
    asked[0].at = asked[0].done_at;
    end();
}

static void let_something_happen(struct dice *dice)
{
    struct connection *c = &connections[dice_below(dice, (int64_t)connection_count)];
    const bool waits = c->is_open && link_next(c->link);
    const int64_t roll = dice_below(dice, 100);

    if (roll < 40) {
        for (int64_t n = roll < 30 ? 1 : dice_below(dice, 8); n > 0; n--)
            submit();
        lane_commit(&pending);
    } else if (roll < 60) {
        pass(dice_below(dice, 60));
    } else if (roll < 70 && c->is_open && c->sent_count == 0) {
        link_up(c->link);
    } else if (roll < 85 && waits) {
        answer(c);
    } else if (roll < 95 && waits) {
        c->answered++;
        link_refused(c->link, (enum refusal)dice_below(dice, 3), "no");
    } else if (c->is_open && (roll < 97 || c->sent_count > MOST_SENT - 8)) {
        link_down(c->link, "gone");
    }
}

/* Anything may happen at any time: end() says what holds. */
static void every_question_is_answered_in_time_under_random_faults(void **state)
{
    struct dice dice = dice_new();

    (void)state;
    for (int run = 0; run < scaled(300); run++) {
        begin((size_t)(1 + dice_below(&dice, 3)));
        while (asked_count < 400 && connection_count < MOST_CONNECTIONS - 4)
            let_something_happen(&dice);
        end();
    }
}

/* ---- R7: locked keys ----------------------------------------------------------------------------- */

static int ask_for(uint64_t key)
{
    const int number = submit();

    asked[number].charge.key = (struct key){ key, key };
    lane_commit(&pending);
    return number;
}

/* What a look finds: this key, if it is a candidate. */
static size_t look(struct locked_keys *locked, uint64_t key, const char *holder)
{
    struct key keys[LOCKED_KEYS_LOOK_MOST];
    struct key_lock found = { .key = { key, key } };
    const size_t n = locked_keys_to_look_at(locked, keys);
    bool is_candidate = false;

    for (size_t i = 0; i < n; i++)
        is_candidate = is_candidate || keys[i].low == key;
    if (holder)
        snprintf(found.holder, sizeof found.holder, "%s", holder);
    return locked_keys_found(locked, &found, is_candidate && holder ? 1 : 0);
}

static void a_question_for_a_locked_key_fails_at_once(void **state)
{
    struct locked_keys locked = { 0 };
    int first, next;

    (void)state;
    begin_up();
    locked_keys_init(&locked);
    remote.locked_keys = &locked;
    assert_int_equal(look(&locked, 7, "a"), 0); /* it is no candidate */
    first = ask_for(7);
    pass(DEADLINE);
    has_failed(first);
    assert_int_equal(look(&locked, 7, "a"), 0);
    assert_int_equal(look(&locked, 7, "b"),
                     0); /* another transaction has it: they end, as they should */
    assert_int_equal(look(&locked, 7, "b"), 1);
    for (int i = 0; i < 10 * BREAKER_FAILURES; i++)
        has_failed(ask_for(7));
    assert_false(is_failing());
    answer(newest());
    next = ask_for(8);
    is_open(next);
    answer(newest());
    is_decided(next);
    assert_int_equal(look(&locked, 7, NULL), 0);
    next = ask_for(7);
    is_open(next);
    answer(newest());
    is_decided(next);
    end();
    locked_keys_done(&locked);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_question_is_answered),
        cmocka_unit_test(a_question_without_an_answer_fails_at_its_deadline),
        cmocka_unit_test(a_question_without_a_link_fails_at_its_deadline),
        cmocka_unit_test(a_question_waits_for_the_link),
        cmocka_unit_test(a_late_answer_is_dropped),
        cmocka_unit_test(questions_of_a_batch_have_deadlines_of_their_own),
        cmocka_unit_test(answers_that_are_here_are_not_late),
        cmocka_unit_test(a_silent_link_is_closed),
        cmocka_unit_test(a_turn_is_one_batch),
        cmocka_unit_test(full_batches_go_without_waiting_for_earlier_ones),
        cmocka_unit_test(a_link_that_takes_turns_has_one_batch_under_way),
        cmocka_unit_test(waiting_questions_go_in_one_batch),
        cmocka_unit_test(a_large_turn_is_split),
        cmocka_unit_test(several_links_share_the_work),
        cmocka_unit_test(an_answered_callback_may_ask_again_at_once),
        cmocka_unit_test(a_failed_callback_may_ask_again_at_once),
        cmocka_unit_test(questions_on_a_lost_link_fail),
        cmocka_unit_test(an_undone_question_is_asked_again_once),
        cmocka_unit_test(an_undone_question_is_asked_before_waiting_ones),
        cmocka_unit_test(a_final_error_fails_and_the_next_question_is_answered),
        cmocka_unit_test(questions_of_a_server_that_became_a_standby_are_sent_elsewhere),
        cmocka_unit_test(after_some_failures_questions_fail_at_once),
        cmocka_unit_test(failures_that_open_no_breaker_are_logged_at_a_limited_rate),
        cmocka_unit_test(questions_that_wait_when_the_breaker_opens_fail_too),
        cmocka_unit_test(late_ones_of_one_batch_are_failures_of_their_own),
        cmocka_unit_test(the_number_of_failures_can_be_configured_and_reloaded),
        cmocka_unit_test(one_question_a_second_is_sent_nevertheless),
        cmocka_unit_test(a_new_link_is_tried_at_once),
        cmocka_unit_test(a_new_link_closes_the_breaker_if_none_timed_out),
        cmocka_unit_test(a_lane_without_questions_probes_by_itself),
        cmocka_unit_test(a_lane_probes_by_itself_only_while_its_breaker_is_open),
        cmocka_unit_test(a_lane_with_questions_sends_no_probe),
        cmocka_unit_test(an_answer_forgives_failures),
        cmocka_unit_test(a_link_reconnects_with_backoff),
        cmocka_unit_test(a_link_that_worked_resets_its_backoff),
        cmocka_unit_test(a_link_that_cannot_be_made_is_tried_again),
        cmocka_unit_test(a_link_that_cannot_send_is_lost),
        cmocka_unit_test(pending_questions_fail_on_close),
        cmocka_unit_test(without_a_lane_all_fail),
        cmocka_unit_test(every_question_is_answered_in_time_under_random_faults),
        cmocka_unit_test(a_question_for_a_locked_key_fails_at_once),
    };

    return cmocka_run_group_tests_name("remote", tests, NULL, NULL);
}
