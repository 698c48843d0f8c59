/* webhook_queue.c - delivers messages to webhooks, and retries with backoff. */
#include "server/alerts/webhook_queue.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/diag.h"
#include "base/worker.h"
#include "server/http_post.h"
#include "server/log/event_log.h"

enum { FIRST_WAIT_MS = 1000, MOST_WAIT_MS = 60 * 1000 };

struct parcel {
    char *what, *url, *body;
    size_t len;
    int tries;
    int64_t due; /* by clock_monotonic_ms() */
};

struct webhook_queue {
    struct event_log *log;
    int64_t first_wait_ms;
    int cancel; /* an eventfd that ends a delivery under way */
    struct worker worker;

    pthread_mutex_t lock;                      /* of what follows */
    struct parcel parcels[WEBHOOK_QUEUE_MOST]; /* the oldest first */
    size_t count;
    struct webhook_queue_counts counts;
};

static void free_parcel(struct parcel *p)
{
    free(p->what);
    free(p->url);
    free(p->body);
}

static void take_out(struct webhook_queue *c, size_t i)
{
    c->count--;
    memmove(&c->parcels[i], &c->parcels[i + 1], (c->count - i) * sizeof *c->parcels);
}

/* The first that is due; how many there are: none. The lock is held. */
static size_t find_due(const struct webhook_queue *c, int64_t now)
{
    size_t i = 0;

    while (i < c->count && c->parcels[i].due > now)
        i++;
    return i;
}

/* The lock is held. */
static int64_t us_to_next_due(const struct webhook_queue *c)
{
    int64_t due = INT64_MAX, now = clock_monotonic_ms();

    for (size_t i = 0; i < c->count; i++)
        due = c->parcels[i].due < due ? c->parcels[i].due : due;
    if (due == INT64_MAX)
        return WORKER_UNTIL_WOKEN;
    return due > now ? (due - now) * 1000 : 0;
}

/* Twice as long each time. */
static int64_t wait_after(const struct webhook_queue *c, int tries)
{
    int64_t wait = c->first_wait_ms;

    while (--tries > 0 && wait < MOST_WAIT_MS)
        wait *= 2;
    return wait < MOST_WAIT_MS ? wait : MOST_WAIT_MS;
}

/* The lock is not held. True: there is nothing more to do for it. */
static bool deliver(struct webhook_queue *c, struct parcel *p, bool *is_sent)
{
    const struct http_post post = {
        .url = p->url,
        .body = { p->body, p->len },
        .cancel = c->cancel,
        .timeout_ms = WEBHOOK_QUEUE_TIMEOUT_MS,
    };
    weir_diag diag;
    weir_err err = http_post_deliver(&post, &diag);

    *is_sent = !err;
    p->tries++;
    if (err && p->tries == WEBHOOK_QUEUE_MOST_TRIES)
        event_log_write(c->log, "error", "webhook", "%s was not delivered after %d attempts: %s",
                        p->what, p->tries, diag.text);
    else if (err && p->tries == 1)
        event_log_write(c->log, "warn", "webhook", "%s is not delivered yet: %s", p->what,
                        diag.text);
    return !err || p->tries == WEBHOOK_QUEUE_MOST_TRIES;
}

/* The lock is held, but not meanwhile. No other thread takes parcels out, and those that come are
 * put behind it. */
static void try_one(struct webhook_queue *c, size_t i)
{
    struct parcel p = c->parcels[i];
    bool is_done, is_sent;

    pthread_mutex_unlock(&c->lock);
    is_done = deliver(c, &p, &is_sent);
    pthread_mutex_lock(&c->lock);
    c->counts.sent += is_sent;
    c->counts.failed += is_done && !is_sent;
    if (is_done) {
        take_out(c, i);
        free_parcel(&p);
        return;
    }
    c->parcels[i].tries = p.tries;
    c->parcels[i].due = clock_monotonic_ms() + wait_after(c, p.tries);
}

/* One message a call, so that the queue ends soon when it is stopped. */
static int64_t work(void *ctx)
{
    struct webhook_queue *c = ctx;
    int64_t pause;
    size_t i;

    pthread_mutex_lock(&c->lock);
    i = find_due(c, clock_monotonic_ms());
    if (i < c->count)
        try_one(c, i);
    pause = us_to_next_due(c);
    pthread_mutex_unlock(&c->lock);
    return pause;
}

bool webhook_queue_send(struct webhook_queue *c, const char *what, const char *url,
                        struct span body)
{
    struct parcel p = { strdup(what), strdup(url), malloc(body.len + 1),
                        body.len,     0,           clock_monotonic_ms() };
    bool is_taken;

    if (p.body)
        memcpy(p.body, body.at, body.len);
    pthread_mutex_lock(&c->lock);
    is_taken = p.what && p.url && p.body && c->count < WEBHOOK_QUEUE_MOST;
    if (is_taken)
        c->parcels[c->count++] = p;
    else
        c->counts.failed++;
    pthread_mutex_unlock(&c->lock);
    if (is_taken)
        worker_wake(&c->worker);
    else
        free_parcel(&p);
    return is_taken;
}

struct webhook_queue_counts webhook_queue_counts(struct webhook_queue *c)
{
    struct webhook_queue_counts counts = { 0 };

    if (!c)
        return counts;
    pthread_mutex_lock(&c->lock);
    counts = c->counts;
    counts.waiting = c->count;
    pthread_mutex_unlock(&c->lock);
    return counts;
}

static void free_queue(struct webhook_queue *c)
{
    for (size_t i = 0; i < c->count; i++)
        free_parcel(&c->parcels[i]);
    if (c->cancel >= 0)
        close(c->cancel);
    worker_done(&c->worker);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

weir_err webhook_queue_start(struct webhook_queue **out, struct event_log *log,
                             int64_t first_wait_ms, weir_diag *diag)
{
    struct webhook_queue *c = calloc(1, sizeof *c);
    weir_err err;

    if (!c)
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    c->log = log;
    c->first_wait_ms = first_wait_ms > 0 ? first_wait_ms : FIRST_WAIT_MS;
    c->cancel = eventfd(0, EFD_CLOEXEC);
    pthread_mutex_init(&c->lock, NULL);
    worker_init(&c->worker);
    if (c->cancel < 0)
        err = diag_fail(diag, WEIR_ESYSTEM, "cannot make an eventfd: %s", strerror(errno));
    else
        err = worker_start(&c->worker, "webhook", WORKER_UNTIL_WOKEN, work, c, diag);
    if (err)
        free_queue(c);
    else
        *out = c;
    return err;
}

void webhook_queue_stop(struct webhook_queue *c)
{
    if (!c)
        return;
    eventfd_write(c->cancel, 1);
    worker_stop(&c->worker);
    if (c->count > 0)
        event_log_write(c->log, "warn", "webhook", "%zu messages were not delivered before the end",
                        c->count);
    free_queue(c);
}
