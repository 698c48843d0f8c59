/* test_change_feed.c - what is told of changes in a shared store, with a store that the test plays. */
#include "support/unit.h"

#include <poll.h>

#include "base/clock.h"
#include "store/remote/change_feed.h"
#include "store/remote/clock_skew.h"

enum { MOST_NEWS = 64 };

static struct stage {
    bool is_away; /* the store: no connect succeeds, and no event is heard */
    bool is_connected, is_asked;
    int connects, lines;
    int64_t clock;         /* the store's, beside ours */
    const char *announced; /* heard with the next beat */
    struct change_feed *feed;
    struct store_event events[MOST_NEWS];
    size_t count;
} stage;

static weir_err open_played(void *backend, struct change_feed *feed, void **out, weir_diag *diag)
{
    (void)backend;
    (void)diag;
    assert_false(stage.is_connected);
    stage.connects++;
    if (stage.is_away)
        return WEIR_EIO;
    stage.feed = feed;
    stage.is_connected = true;
    *out = &stage;
    return WEIR_OK;
}

static weir_err listen_played(void *connection, int ready_fd, int64_t ms, weir_diag *diag)
{
    struct pollfd fd = { .fd = ready_fd, .events = POLLIN };

    (void)connection;
    (void)diag;
    return !stage.is_away && poll(&fd, 1, (int)ms) >= 0 ? WEIR_OK : WEIR_EIO;
}

static weir_err clock_played(void *connection, int64_t patience, int64_t *out, weir_diag *diag)
{
    (void)connection;
    (void)patience;
    (void)diag;
    if (stage.announced)
        change_feed_heard(stage.feed, span_of(stage.announced));
    stage.announced = NULL;
    *out = clock_steady_ms() + stage.clock;
    return stage.is_away ? WEIR_EIO : WEIR_OK;
}

static void close_played(void *connection)
{
    (void)connection;
    stage.is_connected = false;
}

static bool is_asked_played(const void *connection)
{
    assert_ptr_equal(connection, &stage);
    return stage.is_asked;
}

static const struct change_feed_ops played = { open_played, listen_played, clock_played,
                                               is_asked_played, close_played };

static void note(void *ctx, const struct store_event *event)
{
    (void)ctx;
    assert_true(stage.count < MOST_NEWS);
    stage.events[stage.count++] = *event;
}

static void count_line(void *ctx, const char *line)
{
    (void)ctx;
    assert_non_null(strstr(line, "the store"));
    stage.lines++;
}

static struct change_feed *open_ear(bool no_thread)
{
    const struct change_feed_options options = {
        .ops = &played,
        .name = "the store",
        .heard = note,
        .log = count_line,
        .no_thread = no_thread,
        .allocator = heap(),
    };
    struct change_feed *feed;

    assert_int_equal(change_feed_new(&feed, &options, NULL), WEIR_OK);
    return feed;
}

static struct change_feed *begin(void)
{
    stage = (struct stage){ 0 };
    return open_ear(true);
}

/* Tick until it is told; all that was told before it stays in the list. */
static void tick_until(struct change_feed *feed, enum store_event_kind kind)
{
    const int64_t end = clock_steady_ms() + 20000;

    stage.count = 0;
    for (;;) {
        change_feed_tick(feed);
        for (size_t i = 0; i < stage.count; i++)
            if (stage.events[i].kind == kind)
                return;
        assert_true(clock_steady_ms() < end);
        poll(NULL, 0, 5);
    }
}

static void possibly_missed_events_are_reported(void **state)
{
    struct change_feed *feed = begin();

    (void)state;
    change_feed_tick(feed);
    assert_int_equal(stage.count, 2);
    assert_int_equal(stage.events[0].kind, STORE_EVENT_ALL);
    assert_int_equal(stage.events[1].kind, STORE_EVENT_UP_TO);

    stage.is_away = true;
    tick_until(feed, STORE_EVENT_ALL);
    assert_false(stage.is_connected);
    stage.is_away = false;
    tick_until(feed, STORE_EVENT_UP_TO);
    assert_int_equal(stage.events[0].kind, STORE_EVENT_ALL);

    stage.clock += 3600000;
    tick_until(feed, STORE_EVENT_ALL);
    stage.clock -= 3600000;
    tick_until(feed, STORE_EVENT_ALL);
    tick_until(feed, STORE_EVENT_UP_TO);
    tick_until(feed, STORE_EVENT_UP_TO);
    assert_int_equal(stage.count, 1);
    change_feed_free(feed);
    assert_false(stage.is_connected);
}

static void it_is_up_to_date_only_while_it_is_connected(void **state)
{
    struct change_feed *feed = begin();
    int64_t before = clock_steady_ms();

    (void)state;
    tick_until(feed, STORE_EVENT_UP_TO);
    assert_in_range(stage.events[1].at, before, clock_steady_ms());
    stage.is_away = true;
    tick_until(feed, STORE_EVENT_ALL);
    stage.count = 0;
    while (stage.connects < 3) {
        change_feed_tick(feed);
        poll(NULL, 0, 5);
    }
    assert_int_equal(stage.count, 0);
    change_feed_free(feed);
}

static void one_that_is_asked_is_never_up_to_date(void **state)
{
    struct change_feed *feed = begin();

    (void)state;
    stage.is_asked = true;
    tick_until(feed, STORE_EVENT_ALL);
    stage.announced = "ledger";
    tick_until(feed, STORE_EVENT_LEDGER);
    assert_int_equal(stage.count, 1);
    stage.announced = "policies";
    tick_until(feed, STORE_EVENT_ALL);
    assert_int_equal(stage.count, 1);
    change_feed_free(feed);
}

static void words_are_understood(void **state)
{
    struct change_feed *feed = begin();
    const struct key key = { 0x0706050403020100, 0x0f0e0d0c0b0a0908 };
    unsigned char bytes[16];

    (void)state;
    for (unsigned char i = 0; i < 16; i++)
        bytes[i] = i;
    assert_memory_equal(&key, bytes, sizeof key);
    change_feed_tick(feed);
    stage.announced = "key 00010203-0405-0607-0809-0a0b0c0d0e0f";
    tick_until(feed, STORE_EVENT_KEY);
    assert_memory_equal(&stage.events[0].key, &key, sizeof key);
    assert_int_equal(stage.events[1].kind, STORE_EVENT_UP_TO); /* what was before is told before */
    stage.announced = "key 000102030405060708090A0B0C0D0E0F";
    tick_until(feed, STORE_EVENT_KEY);
    assert_memory_equal(&stage.events[0].key, &key, sizeof key);
    stage.announced = "ledger";
    tick_until(feed, STORE_EVENT_LEDGER);
    change_feed_free(feed);
}

static void an_unknown_announcement_may_mean_anything(void **state)
{
    static const char *const unknown[] = {
        "",
        "key",
        "key ",
        "key 0",
        "ledgers",
        "Ledger",
        "key 000102030405060708090a0b0c0d0e0g",
        "key 000102030405060708090a0b0c0d0e0f00",
        "everything",
    };
    struct change_feed *feed = begin();

    (void)state;
    change_feed_tick(feed);
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        stage.count = 0;
        change_feed_heard(feed, span_of(unknown[i]));
        assert_int_equal(stage.events[0].kind, STORE_EVENT_ALL);
    }
    change_feed_free(feed);
}

static void losing_the_store_is_logged_once(void **state)
{
    struct change_feed *feed = begin();

    (void)state;
    change_feed_tick(feed);
    assert_int_equal(stage.lines, 0);
    stage.is_away = true;
    tick_until(feed, STORE_EVENT_ALL);
    while (stage.connects < 3) {
        change_feed_tick(feed);
        poll(NULL, 0, 5);
    }
    assert_int_equal(stage.lines, 1);
    stage.is_away = false;
    tick_until(feed, STORE_EVENT_UP_TO);
    assert_int_equal(stage.lines, 2);
    change_feed_free(feed);
}

/* With a thread of its own it ends when it is told to, whatever it waits for. */
static void a_thread_ends_at_once(void **state)
{
    (void)state;
    for (int away = 0; away < 2; away++) {
        stage = (struct stage){ .is_away = away };
        change_feed_free(open_ear(false));
        assert_false(stage.is_connected);
    }
}

static void a_clock_that_is_set_is_noticed(void **state)
{
    struct clock_skew s = { 0 };

    (void)state;
    assert_false(clock_skew_has_changed(&s, 1000, 1040, 501020));
    assert_false(
        clock_skew_has_changed(&s, 2000, 2002, 502001)); /* narrows it to 499998 … 500002 */
    assert_false(clock_skew_has_changed(&s, 3000, 3900, 503100)); /* slow, but it may be so */
    assert_true(clock_skew_has_changed(&s, 4000, 4002, 504011));  /* by ten ms */
    assert_false(clock_skew_has_changed(&s, 5000, 5002, 505011));
    assert_true(clock_skew_has_changed(&s, 6000, 6002, 506001));
    assert_false(clock_skew_has_changed(&s, 7000, 7002, 507001));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(possibly_missed_events_are_reported),
        cmocka_unit_test(it_is_up_to_date_only_while_it_is_connected),
        cmocka_unit_test(one_that_is_asked_is_never_up_to_date),
        cmocka_unit_test(words_are_understood),
        cmocka_unit_test(an_unknown_announcement_may_mean_anything),
        cmocka_unit_test(losing_the_store_is_logged_once),
        cmocka_unit_test(a_thread_ends_at_once),
        cmocka_unit_test(a_clock_that_is_set_is_noticed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
