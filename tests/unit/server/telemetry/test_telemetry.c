/* test_telemetry.c - how long what cannot be sent is tried, and that it then is dropped. */
#include "support/unit.h"

#include <time.h>

#include "policy/rate.h"
#include "server/log/event_log.h"
#include "server/telemetry/telemetry.h"

struct fixture {
    struct telemetry *telemetry;
    struct event_log *log;
    struct tracing *tracing; /* of the only loop */
};

static void write_metrics(void *ctx, struct metric_sink *m)
{
    (void)ctx;
    metric_alone(m, METRIC_GAUGE, "one", "One.", 1);
}

static void set_tracing(void *ctx, size_t loop, struct tracing *tracing)
{
    struct fixture *f = ctx;

    assert_int_equal(loop, 0);
    f->tracing = tracing;
}

static struct fixture *fixture_new(void)
{
    struct fixture *f = calloc(1, sizeof *f);
    const struct telemetry_options options = {
        .write_metrics = write_metrics,
        .set_tracing = set_tracing,
        .ctx = f,
        .loop_count = 1,
        .first_wait_ms = 1,
    };
    struct telemetry_options o = options;
    weir_diag diag;

    assert_int_equal(event_log_open("/dev/null", &f->log, &diag), WEIR_OK);
    o.log = f->log;
    assert_int_equal(telemetry_new(&f->telemetry, &o, &diag), WEIR_OK);
    return f;
}

static void fixture_free(struct fixture *f)
{
    telemetry_free(f->telemetry);
    event_log_close(f->log);
    free(f);
}

static void make_span(struct fixture *f)
{
    weir_answer a = { .allowed = true, .rule = "default" };
    const struct check check = { .verb = VERB_CHECK, .answer = &a };

    tracing_answer(f->tracing, NULL, &check, &(struct traceparent){ .is_set = false }, 1);
    tracing_decided(f->tracing, 2);
}

/* Nothing listens there: each attempt fails at once. */
static const struct telemetry_settings away = {
    .endpoint = "http://127.0.0.1:1",
    .interval_ms = 10,
    .timeout_ms = 10000,
    .all_share = SHARE_ALL,
};

static void spans_that_cannot_be_sent_are_given_up(void **state)
{
    struct fixture *f = fixture_new();
    struct telemetry_counts c;
    weir_diag diag;

    (void)state;
    assert_int_equal(telemetry_configure(f->telemetry, &away, &diag), WEIR_OK);
    assert_non_null(f->tracing);
    make_span(f);
    for (int i = 0; (c = telemetry_counts(f->telemetry)).dropped_spans == 0 && i < 30000; i++)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    assert_int_equal(c.dropped_spans, 1);
    assert_int_equal(c.failed[SIGNAL_TRACES], TELEMETRY_MOST_TRIES);
    assert_int_equal(c.sent[SIGNAL_TRACES] + c.spans, 0);
    fixture_free(f);
}

static void what_is_left_when_it_is_turned_off_is_dropped(void **state)
{
    struct fixture *f = fixture_new();
    struct telemetry_settings off = away;
    struct tracing *tracing;
    weir_diag diag;

    (void)state;
    assert_int_equal(telemetry_configure(f->telemetry, &off, &diag), WEIR_OK);
    tracing = f->tracing;
    off.endpoint = NULL;
    assert_int_equal(telemetry_configure(f->telemetry, &off, &diag), WEIR_OK);
    assert_null(f->tracing);
    assert_int_equal(telemetry_configure(f->telemetry, &away, &diag), WEIR_OK);
    assert_ptr_equal(f->tracing, tracing);
    make_span(f);
    assert_int_equal(telemetry_configure(f->telemetry, &off, &diag), WEIR_OK);
    telemetry_end(f->telemetry);
    telemetry_flush(f->telemetry);
    assert_int_equal(telemetry_counts(f->telemetry).dropped_spans, 1);
    fixture_free(f);
}

static void a_mistake_leaves_all_as_it_was(void **state)
{
    struct fixture *f = fixture_new();
    struct telemetry_settings wrong = away;
    weir_diag diag;

    (void)state;
    assert_int_equal(telemetry_configure(f->telemetry, &away, &diag), WEIR_OK);
    wrong.headers_file = "/nowhere/headers";
    assert_int_not_equal(telemetry_configure(f->telemetry, &wrong, &diag), WEIR_OK);
    make_span(f);
    for (int i = 0; telemetry_counts(f->telemetry).dropped_spans == 0 && i < 30000; i++)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    assert_int_equal(telemetry_counts(f->telemetry).dropped_spans, 1);
    fixture_free(f);
}

static void pauses_grow_and_end(void **state)
{
    (void)state;
    assert_int_equal(telemetry_pause(1000, 1, -1, 0), 1000);
    assert_int_equal(telemetry_pause(1000, 2, -1, 0), 2000);
    assert_int_equal(telemetry_pause(1000, 4, -1, 0), 8000);
    assert_int_equal(telemetry_pause(1000, 4, -1, 2000), 6000); /* up to a quarter less */
    assert_int_equal(telemetry_pause(1000, 4, -1, 2001), 8000);
    assert_int_equal(telemetry_pause(1000, 100, -1, 0), TELEMETRY_MOST_WAIT_MS);
    assert_int_equal(telemetry_pause(1000, 1, 0, 0), 1000);
    assert_int_equal(telemetry_pause(1000, 1, 7000, 0), 7000);
    assert_int_equal(telemetry_pause(1000, 1, INT64_MAX, 0), TELEMETRY_MOST_RETRY_AFTER_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spans_that_cannot_be_sent_are_given_up),
        cmocka_unit_test(what_is_left_when_it_is_turned_off_is_dropped),
        cmocka_unit_test(a_mistake_leaves_all_as_it_was),
        cmocka_unit_test(pauses_grow_and_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
