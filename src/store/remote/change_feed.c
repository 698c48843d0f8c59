/* change_feed.c - listens to what is changed in a shared store, by whomever. */
#include "store/remote/change_feed.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/diag.h"
#include "base/hex.h"
#include "store/remote/clock_skew.h"

struct change_feed {
    struct change_feed_options o;
    void *connection; /* NULL: none until retry_at */
    int64_t retry_at, beat_at;
    int64_t backoff;
    struct clock_skew skew;
    bool is_mourned; /* that it cannot hear has been told */

    int ready_fd; /* an eventfd: the thread is to end */
    atomic_bool is_closing;
    bool has_thread;
    pthread_t thread;
};

/* ---- telling ------------------------------------------------------------------------------------ */

static void tell(struct change_feed *e, enum store_event_kind kind, int64_t at)
{
    e->o.heard(e->o.heard_ctx, &(struct store_event){ .kind = kind, .at = at });
}

static bool read_key(struct span text, struct key *out)
{
    unsigned char bytes[sizeof *out] = { 0 };
    size_t digits = 0;

    for (size_t i = 0; i < text.len; i++) {
        const int value = hex_digit(text.at[i]);

        if (text.at[i] == '-')
            continue;
        if (value < 0 || digits == 2 * sizeof bytes)
            return false;
        bytes[digits / 2] = (unsigned char)(bytes[digits / 2] << 4 | value);
        digits++;
    }
    memcpy(out, bytes, sizeof *out);
    return digits == 2 * sizeof bytes;
}

void change_feed_heard(struct change_feed *e, struct span text)
{
    static const char key[] = "key ";
    const size_t n = sizeof key - 1;
    struct store_event event = { .kind = STORE_EVENT_ALL };

    if (span_is(text, "ledger"))
        event.kind = STORE_EVENT_LEDGER;
    else if (text.len > n && memcmp(text.at, key, n) == 0 &&
             read_key((struct span){ text.at + n, text.len - n }, &event.key))
        event.kind = STORE_EVENT_KEY;
    e->o.heard(e->o.heard_ctx, &event);
}

static void log_change(struct change_feed *e, const char *what, const char *why)
{
    char line[512];

    if (!e->o.log)
        return;
    snprintf(line, sizeof line, "%s %s%s%.300s", e->o.name, what, why ? ": " : "", why ? why : "");
    e->o.log(e->o.log_ctx, line);
}

/* ---- the connection ----------------------------------------------------------------------------- */

static void lose(struct change_feed *e, const char *why)
{
    if (e->connection) {
        e->o.ops->close(e->connection);
        e->connection = NULL;
        tell(e, STORE_EVENT_ALL, 0);
    }
    if (!e->is_mourned)
        log_change(e,
                   "does not tell of changes that others make: until it does, nothing is "
                   "denied from memory",
                   why);
    e->is_mourned = true;
    e->retry_at = clock_steady_ms() + e->backoff;
    e->backoff = e->backoff < CHANGE_FEED_RETRY_MOST_MS / 2 ? e->backoff * 2
                                                            : CHANGE_FEED_RETRY_MOST_MS;
}

static void connect_again(struct change_feed *e)
{
    weir_diag diag = { "" };

    if (e->o.ops->open(e->o.backend, e, &e->connection, &diag)) {
        e->connection = NULL;
        lose(e, diag.text);
        return;
    }
    e->skew = (struct clock_skew){ 0 };
    e->beat_at = clock_steady_ms();
    tell(e, STORE_EVENT_ALL, 0);
}

static void beat(struct change_feed *e)
{
    const int64_t asked = clock_steady_ms();
    int64_t theirs;
    weir_diag diag = { "" };

    if (e->o.ops->clock(e->connection, CHANGE_FEED_PATIENCE_MS, &theirs, &diag)) {
        lose(e, diag.text);
        return;
    }
    if (clock_skew_has_changed(&e->skew, asked, clock_steady_ms(), theirs))
        tell(e, STORE_EVENT_ALL, 0);
    tell(e, STORE_EVENT_UP_TO, asked);
    e->beat_at = asked + CHANGE_FEED_BEAT_MS;
    e->backoff = CHANGE_FEED_RETRY_MS;
    if (e->is_mourned)
        log_change(e, "tells of changes again", NULL);
    e->is_mourned = false;
}

/* ---- turns -------------------------------------------------------------------------------------- */

static void wait_for_bell(const struct change_feed *e, int64_t ms)
{
    struct pollfd fd = { .fd = e->ready_fd, .events = POLLIN };

    if (ms > 0 && poll(&fd, 1, (int)ms) < 0)
        return; /* interrupted: the next turn waits for the rest */
}

static void listen_until(struct change_feed *e, int64_t ms)
{
    weir_diag diag = { "" };

    if (e->o.ops->listen(e->connection, e->ready_fd, ms, &diag))
        lose(e, diag.text);
}

/* Whatever is due; `patience` is how long it may wait for event. */
static void take_turn(struct change_feed *e, int64_t patience)
{
    int64_t rest = (e->connection ? e->beat_at : e->retry_at) - clock_steady_ms();

    if (rest > patience)
        rest = patience;
    if (!e->connection && e->retry_at > clock_steady_ms())
        wait_for_bell(e, rest);
    else if (!e->connection)
        connect_again(e);
    else
        listen_until(e, rest > 0 ? rest : 0);
    if (e->connection && e->beat_at <= clock_steady_ms())
        beat(e);
}

void change_feed_tick(struct change_feed *e)
{
    if (!e->has_thread)
        take_turn(e, 0);
}

static void *keep_listening(void *feed)
{
    struct change_feed *e = feed;

    while (!atomic_load(&e->is_closing))
        take_turn(e, CHANGE_FEED_RETRY_MOST_MS);
    return NULL;
}

/* Signals are for threads that expect them. */
static int start_thread(struct change_feed *e)
{
    sigset_t all, before;
    int why;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    why = pthread_create(&e->thread, NULL, keep_listening, e);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    e->has_thread = why == 0;
    return why;
}

weir_err change_feed_new(struct change_feed **out, const struct change_feed_options *options,
                         weir_diag *diag)
{
    struct change_feed *e = alloc_zeroed(&options->allocator, sizeof *e);
    int why = 0;

    *out = NULL;
    if (!e)
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    e->o = *options;
    e->backoff = CHANGE_FEED_RETRY_MS;
    e->ready_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (e->ready_fd < 0)
        why = errno;
    else if (!options->no_thread)
        why = start_thread(e);
    if (why) {
        change_feed_free(e);
        return diag_fail(diag, WEIR_ESYSTEM, "cannot start to listen to %s: %s", options->name,
                         strerror(why));
    }
    *out = e;
    return WEIR_OK;
}

void change_feed_free(struct change_feed *e)
{
    const uint64_t one = 1;
    weir_allocator allocator;

    if (!e)
        return;
    allocator = e->o.allocator;
    atomic_store(&e->is_closing, true);
    if (e->has_thread) {
        while (write(e->ready_fd, &one, sizeof one) < 0 && errno == EINTR)
            continue;
        pthread_join(e->thread, NULL);
    }
    if (e->connection)
        e->o.ops->close(e->connection);
    if (e->ready_fd >= 0)
        close(e->ready_fd);
    alloc_free(&allocator, e);
}
