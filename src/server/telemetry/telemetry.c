/* telemetry.c - sends metrics and spans to a receiver of OpenTelemetry.
 *
 * The configuration is the sending thread's while it runs, and is only replaced while it does not:
 * so there is no lock. One request is under way at a time. */
#include "server/telemetry/telemetry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/diag.h"
#include "base/worker.h"
#include "server/http_post.h"
#include "server/log/event_log.h"
#include "server/telemetry/otlp.h"

enum { SPANS_EVERY_MS = 1000, FIRST_WAIT_MS = 1000 }; /* spans as often as metrics, or oftener */

const char *const telemetry_signal_names[TELEMETRY_SIGNALS] = { "metrics", "traces" };

static const char *const paths[TELEMETRY_SIGNALS] = { "/v1/metrics", "/v1/traces" };

struct telemetry {
    struct telemetry_options options;
    char instance_id[INSTANCE_ID + 1];
    struct telemetry_config *config;    /* NULL: not configured yet */
    _Atomic(struct tracing *) *tracing; /* one a loop; NULL: it was never wanted */
    struct worker worker;
    bool is_running;
    int cancel;               /* an eventfd that ends a request under way … */
    atomic_bool is_cancelled; /* … which then has not failed: it is sent again */

    struct stream {
        struct otlp_bodies bodies; /* to be sent */
        size_t next;               /* the first that was not */
        int64_t due;               /* the next look; by clock_monotonic_ms(), as is … */
        int64_t not_before;        /* … when the next request may be sent */
        int failures;              /* in a row */
        int tries;                 /* of the request that is next */
    } streams[TELEMETRY_SIGNALS];
    size_t spans[OTLP_MOST_BODIES]; /* how many are in each request */
    size_t next_loop;               /* whose spans are taken first */
    uint64_t random;                /* for pauses that differ between servers */

    atomic_uint_fast64_t sent[TELEMETRY_SIGNALS], failed[TELEMETRY_SIGNALS];
    atomic_uint_fast64_t sent_spans, dropped_spans, dropped_points;
};

/* ---- what is to be sent ---------------------------------------------------------------- */

static void forget(struct stream *s)
{
    otlp_bodies_done(&s->bodies);
    s->next = 0;
    s->tries = 0;
}

static bool has_more(const struct stream *s)
{
    return s->next < s->bodies.count;
}

static void collect_metrics(struct telemetry *t)
{
    const uint64_t started = (uint64_t)t->options.started_ms * 1000000, now = clock_wall_ns();
    struct stream *s = &t->streams[SIGNAL_METRICS];
    struct otlp_metrics m;

    forget(s);
    s->bodies.left_out = 0;
    otlp_metrics_begin(&m, &s->bodies, t->config->resource, started, now > started ? now : started);
    t->options.write_metrics(t->options.ctx, &m.sink);
    otlp_metrics_end(&m);
    count_up(&t->dropped_points, s->bodies.left_out);
}

static size_t spans_waiting(const struct telemetry *t)
{
    size_t n = 0;

    for (size_t i = 0; i < t->options.loop_count; i++) {
        const struct tracing *tracing = atomic_load(&t->tracing[i]);

        n += tracing ? tracing_waiting(tracing) : 0;
    }
    return n;
}

/* One request more, of spans of all loops in turn. False: there are none, or no room. */
static bool collect_spans(struct telemetry *t)
{
    struct otlp_bodies *bodies = &t->streams[SIGNAL_TRACES].bodies;
    struct trace_span *batch;
    size_t n = 0;

    if (spans_waiting(t) == 0 || bodies->count == OTLP_MOST_BODIES)
        return false;
    batch = malloc(TELEMETRY_MOST_BATCH * sizeof *batch);
    for (size_t i = 0; batch && i < t->options.loop_count; i++) {
        struct tracing *from = t->tracing[(t->next_loop + i) % t->options.loop_count];

        if (from)
            n += tracing_take(from, batch + n, TELEMETRY_MOST_BATCH - n);
    }
    t->next_loop++;
    if (n > 0) {
        otlp_spans(&bodies->all[bodies->count], t->config->resource, batch, n);
        t->spans[bodies->count++] = n;
    }
    free(batch);
    return n > 0;
}

static void drop_spans(struct telemetry *t)
{
    struct stream *s = &t->streams[SIGNAL_TRACES];

    for (; has_more(s); s->next++)
        count_up(&t->dropped_spans, t->spans[s->next]);
    forget(s);
}

/* ---- one request ----------------------------------------------------------------------- */

enum result { DELIVERED, TRY_AGAIN, GIVEN_UP };

/* By the protocol, these and no others may be tried again. */
static bool is_temporary(int status)
{
    return status == 429 || status == 502 || status == 503 || status == 504;
}

/* An outage is told when it begins and when it is over. */
static void tell(struct telemetry *t, enum telemetry_signal signal, enum result result,
                 const char *why)
{
    int *failures = &t->streams[signal].failures;

    if (result == DELIVERED && *failures > 0)
        event_log_write(t->options.log, "info", "telemetry", "%s can be sent again",
                        telemetry_signal_names[signal]);
    else if (result != DELIVERED && *failures == 0)
        event_log_write(t->options.log, "warn", "telemetry", "%s cannot be sent: %s",
                        telemetry_signal_names[signal], why);
    *failures = result == DELIVERED ? 0 : *failures + 1;
    count_up(result == DELIVERED ? &t->sent[signal] : &t->failed[signal], 1);
}

static void count_rejected(struct telemetry *t, enum telemetry_signal signal, uint64_t rejected,
                           size_t spans)
{
    if (signal == SIGNAL_METRICS) {
        count_up(&t->dropped_points, rejected);
        return;
    }
    rejected = rejected < spans ? rejected : spans;
    count_up(&t->dropped_spans, rejected);
    count_up(&t->sent_spans, spans - rejected);
}

/* The next of its stream. *wait_ms: what the receiver asks for; -1: nothing. */
static enum result send_next(struct telemetry *t, enum telemetry_signal signal, int64_t timeout_ms,
                             int64_t *wait_ms)
{
    struct stream *s = &t->streams[signal];
    const struct buf *body = &s->bodies.all[s->next];
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    const struct http_post post = {
        .url = t->config->endpoint,
        .path = paths[signal],
        .headers = t->config->headers,
        .body = buf_span(body),
        .tls = t->config->tls,
        .cancel = t->cancel,
        .timeout_ms = timeout_ms,
    };
    struct http_post_reply reply = { 0, -1 };
    enum result result = TRY_AGAIN;
    struct buf answer;
    weir_diag diag;
    weir_err err = WEIR_OK;

    buf_init(&answer, &usual);
    if (body->failed)
        err = diag_fail(&diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    else
        err = http_post_send(&post, &reply, &answer, &diag);
    if (!err && http_post_expect(&post, reply.status, &diag))
        result = is_temporary(reply.status) ? TRY_AGAIN : GIVEN_UP;
    else if (!err)
        result = DELIVERED;
    if (!err || !atomic_load(&t->is_cancelled))
        tell(t, signal, result, diag.text);
    if (result == DELIVERED) {
        count_rejected(t, signal, otlp_rejected(buf_span(&answer)), t->spans[s->next]);
        s->next++;
        s->tries = 0;
    }
    *wait_ms = reply.retry_after_ms;
    buf_done(&answer);
    return result;
}

/* ---- the thread ------------------------------------------------------------------------ */

int64_t telemetry_pause(int64_t first_ms, int failures, int64_t asked_ms, uint64_t random)
{
    int64_t wait = first_ms;

    for (int i = 1; i < failures && wait < TELEMETRY_MOST_WAIT_MS; i++)
        wait *= 2;
    wait = wait < TELEMETRY_MOST_WAIT_MS ? wait : TELEMETRY_MOST_WAIT_MS;
    wait -= (int64_t)(random % (uint64_t)(wait / 4 + 1));
    asked_ms = asked_ms < TELEMETRY_MOST_RETRY_AFTER_MS ? asked_ms : TELEMETRY_MOST_RETRY_AFTER_MS;
    return asked_ms > wait ? asked_ms : wait;
}

static int64_t pause_after(struct telemetry *t, int failures, int64_t asked_ms)
{
    const int64_t first = t->options.first_wait_ms > 0 ? t->options.first_wait_ms : FIRST_WAIT_MS;

    t->random = t->random * UINT64_C(6364136223846793005) + 1442695040888963407;
    return telemetry_pause(first, failures, asked_ms, t->random >> 33);
}

/* The rest of a look at the metrics is of no use without its beginning: the next look has all. */
static void send_some(struct telemetry *t, enum telemetry_signal signal)
{
    struct stream *s = &t->streams[signal];
    int64_t wait_ms;
    const enum result result = send_next(t, signal, t->config->timeout_ms, &wait_ms);
    bool is_given_up = result == GIVEN_UP;

    if (result == TRY_AGAIN) {
        s->not_before = clock_monotonic_ms() + pause_after(t, s->failures, wait_ms);
        is_given_up = signal == SIGNAL_METRICS || ++s->tries == TELEMETRY_MOST_TRIES;
        if (signal == SIGNAL_METRICS)
            s->due = s->not_before;
    }
    if (is_given_up && signal == SIGNAL_TRACES)
        drop_spans(t);
    if (is_given_up || !has_more(s))
        forget(s);
}

static int64_t span_interval(const struct telemetry *t)
{
    return t->config->interval_ms < SPANS_EVERY_MS ? t->config->interval_ms : SPANS_EVERY_MS;
}

static void look(struct telemetry *t, enum telemetry_signal signal, int64_t now)
{
    struct stream *s = &t->streams[signal];

    if (has_more(s) || now < s->due)
        return;
    if (signal == SIGNAL_METRICS) {
        collect_metrics(t);
        s->due = now + t->config->interval_ms;
    } else {
        collect_spans(t);
        s->due = spans_waiting(t) > 0 ? now : now + span_interval(t);
    }
}

static bool is_on(const struct telemetry *t, int signal)
{
    return signal == SIGNAL_METRICS ? t->config->sends_metrics : t->config->sends_traces;
}

static int64_t next_due(const struct telemetry *t)
{
    int64_t next = INT64_MAX;

    for (int i = 0; i < TELEMETRY_SIGNALS; i++) {
        const struct stream *s = &t->streams[i];
        const int64_t due = has_more(s) || s->due < s->not_before ? s->not_before : s->due;

        if (is_on(t, i) && due < next)
            next = due;
    }
    return next;
}

static int64_t us_until(int64_t due, int64_t now)
{
    return due > now ? (due - now) * 1000 : 0;
}

static int64_t work(void *ctx)
{
    struct telemetry *t = ctx;

    for (int i = 0; i < TELEMETRY_SIGNALS; i++) {
        const int64_t now = clock_monotonic_ms();

        if (!is_on(t, i) || now < t->streams[i].not_before)
            continue;
        look(t, (enum telemetry_signal)i, now);
        if (has_more(&t->streams[i]))
            send_some(t, (enum telemetry_signal)i);
    }
    return us_until(next_due(t), clock_monotonic_ms());
}

static void stop(struct telemetry *t)
{
    eventfd_t ignored;

    if (!t->is_running)
        return;
    atomic_store(&t->is_cancelled, true);
    eventfd_write(t->cancel, 1);
    worker_stop(&t->worker);
    worker_done(&t->worker);
    eventfd_read(t->cancel, &ignored);
    atomic_store(&t->is_cancelled, false);
    t->is_running = false;
}

static weir_err start(struct telemetry *t, weir_diag *diag)
{
    const int64_t now = clock_monotonic_ms(), first = span_interval(t);
    weir_err err;

    for (int i = 0; i < TELEMETRY_SIGNALS; i++) {
        t->streams[i].due = now + first;
        t->streams[i].not_before = now;
        t->streams[i].failures = t->streams[i].tries = 0;
    }
    worker_init(&t->worker);
    err = worker_start(&t->worker, "telemetry", first * 1000, work, t, diag);
    t->is_running = !err;
    if (err)
        worker_done(&t->worker);
    return err;
}

/* ---- life ------------------------------------------------------------------------------ */

weir_err telemetry_new(struct telemetry **out, const struct telemetry_options *o, weir_diag *diag)
{
    struct telemetry *t = calloc(1, sizeof *t);

    *out = NULL;
    if (!t)
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    t->options = *o;
    t->tracing = calloc(o->loop_count, sizeof *t->tracing);
    t->cancel = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    for (int i = 0; i < TELEMETRY_SIGNALS; i++)
        otlp_bodies_init(&t->streams[i].bodies);
    telemetry_instance_id(t->instance_id);
    t->random = clock_monotonic_ns();
    if (!t->tracing || t->cancel < 0) {
        const weir_err err = diag_fail(diag, WEIR_ESYSTEM, "cannot set up telemetry: %s",
                                       strerror(errno));

        telemetry_free(t);
        return err;
    }
    *out = t;
    return WEIR_OK;
}

/* Room for the spans of each loop, once they are wanted. */
static weir_err make_tracing(struct telemetry *t, weir_diag *diag)
{
    for (size_t i = 0; i < t->options.loop_count; i++) {
        if (!t->tracing[i])
            t->tracing[i] = tracing_new();
        if (!t->tracing[i])
            return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    }
    return WEIR_OK;
}

weir_err telemetry_configure(struct telemetry *t, const struct telemetry_settings *settings,
                             weir_diag *diag)
{
    struct telemetry_config *config;
    weir_err err = telemetry_config_new(settings, t->instance_id, &config, diag);
    const bool wants_tracing = !err && (config->sends_traces || config->traces.is_logged);
    weir_diag problem;

    if (!err && wants_tracing)
        err = make_tracing(t, diag);
    if (err) {
        if (config)
            telemetry_config_free(config);
        return err;
    }
    stop(t);
    telemetry_config_free(t->config);
    t->config = config;
    for (size_t i = 0; i < t->options.loop_count; i++) {
        if (wants_tracing)
            tracing_set(t->tracing[i], &config->traces);
        t->options.set_tracing(t->options.ctx, i, wants_tracing ? t->tracing[i] : NULL);
    }
    if (config->sends_metrics || config->sends_traces)
        err = start(t, &problem);
    if (err)
        diag_set(diag, "%s", problem.text);
    return err;
}

void telemetry_end(struct telemetry *t)
{
    if (!t)
        return;
    stop(t);
    if (t->config && t->config->sends_metrics)
        collect_metrics(t);
    while (t->config && t->config->endpoint && collect_spans(t))
        ;
    count_up(&t->dropped_spans, spans_waiting(t));
}

/* After a failure the rest would fail as well. */
void telemetry_flush(struct telemetry *t)
{
    const int64_t deadline = clock_monotonic_ms() + TELEMETRY_FLUSH_MS;
    uint64_t dropped;

    if (!t)
        return;
    dropped = count_of(&t->dropped_spans);
    for (int i = 0; i < TELEMETRY_SIGNALS; i++) {
        enum result result = t->config && t->config->endpoint ? DELIVERED : GIVEN_UP;
        int64_t left = deadline - clock_monotonic_ms(), wait_ms;

        while (result == DELIVERED && left > 0 && has_more(&t->streams[i])) {
            result = send_next(t, (enum telemetry_signal)i, left, &wait_ms);
            left = deadline - clock_monotonic_ms();
        }
    }
    drop_spans(t);
    dropped = count_of(&t->dropped_spans) - dropped;
    if (dropped > 0)
        event_log_write(t->options.log, "warn", "telemetry",
                        "%llu spans were not sent before the end", (unsigned long long)dropped);
}

void telemetry_free(struct telemetry *t)
{
    if (!t)
        return;
    stop(t);
    for (size_t i = 0; t->tracing && i < t->options.loop_count; i++)
        tracing_free(t->tracing[i]);
    free(t->tracing);
    for (int i = 0; i < TELEMETRY_SIGNALS; i++)
        otlp_bodies_done(&t->streams[i].bodies);
    telemetry_config_free(t->config);
    if (t->cancel >= 0)
        close(t->cancel);
    free(t);
}

struct telemetry_counts telemetry_counts(const struct telemetry *t)
{
    struct telemetry_counts c = { .spans = 0 };

    if (!t)
        return c;
    for (int i = 0; i < TELEMETRY_SIGNALS; i++) {
        c.sent[i] = count_of(&t->sent[i]);
        c.failed[i] = count_of(&t->failed[i]);
    }
    c.spans = count_of(&t->sent_spans);
    c.dropped_spans = count_of(&t->dropped_spans);
    c.dropped_points = count_of(&t->dropped_points);
    for (size_t i = 0; i < t->options.loop_count; i++) {
        const struct tracing *tracing = atomic_load(&t->tracing[i]);

        c.dropped_spans += tracing ? tracing_dropped(tracing) : 0;
    }
    return c;
}
