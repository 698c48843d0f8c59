/* change_feed.c - tells of changes that other processes make in a shared store, by its pub/sub. */
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
    bool is_down_logged; /* that it is down has been logged */

    int end_fd; /* an eventfd: the thread is to end */
    atomic_bool is_closing;
    bool has_thread;
    pthread_t thread;
};

/* ---- telling --------------------------------------------------------------------------------- */

static void tell(struct change_feed *f, enum store_event_kind kind, int64_t at)
{
    f->o.heard(f->o.heard_ctx, &(struct store_event){ .kind = kind, .at = at });
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

static bool is_about_key(struct span text, const char *word, struct key *out)
{
    const size_t n = strlen(word);

    return text.len > n && memcmp(text.at, word, n) == 0 &&
           read_key((struct span){ text.at + n, text.len - n }, out);
}

void change_feed_heard(struct change_feed *f, struct span text)
{
    struct store_event event = { .kind = STORE_EVENT_ALL };

    if (span_is(text, "ledger"))
        event.kind = STORE_EVENT_LEDGER;
    else if (is_about_key(text, "key ", &event.key))
        event.kind = STORE_EVENT_KEY;
    else if (is_about_key(text, "back ", &event.key))
        event.kind = STORE_EVENT_BACK;
    f->o.heard(f->o.heard_ctx, &event);
}

static void log_change(struct change_feed *f, const char *what, const char *why)
{
    char line[512];

    if (!f->o.log)
        return;
    snprintf(line, sizeof line, "%s %s%s%.300s", f->o.name, what, why ? ": " : "", why ? why : "");
    f->o.log(f->o.log_ctx, line);
}

/* ---- the connection -------------------------------------------------------------------------- */

static void lose(struct change_feed *f, const char *why)
{
    if (f->connection) {
        f->o.ops->close(f->connection);
        f->connection = NULL;
        tell(f, STORE_EVENT_ALL, 0);
    }
    if (!f->is_down_logged)
        log_change(f, "sends no change notifications: the deny cache is not used until it does",
                   why);
    f->is_down_logged = true;
    f->retry_at = clock_steady_ms() + f->backoff;
    f->backoff = f->backoff < CHANGE_FEED_RETRY_MOST_MS / 2 ? f->backoff * 2
                                                            : CHANGE_FEED_RETRY_MOST_MS;
}

static void connect_again(struct change_feed *f)
{
    weir_diag diag = { "" };

    if (f->o.ops->open(f->o.backend, f, &f->connection, &diag)) {
        f->connection = NULL;
        lose(f, diag.text);
        return;
    }
    f->skew = (struct clock_skew){ 0 };
    f->beat_at = clock_steady_ms();
    tell(f, STORE_EVENT_ALL, 0);
}

static bool is_asked(const struct change_feed *f)
{
    return f->o.ops->is_asked && f->o.ops->is_asked(f->connection);
}

static void beat(struct change_feed *f)
{
    const int64_t asked = clock_steady_ms();
    int64_t theirs;
    weir_diag diag = { "" };

    if (f->o.ops->clock(f->connection, CHANGE_FEED_PATIENCE_MS, &theirs, &diag)) {
        lose(f, diag.text);
        return;
    }
    if (clock_skew_has_changed(&f->skew, asked, clock_steady_ms(), theirs))
        tell(f, STORE_EVENT_ALL, 0);
    if (!is_asked(f))
        tell(f, STORE_EVENT_UP_TO, asked);
    f->beat_at = asked + (is_asked(f) ? CHANGE_FEED_POLL_MS : CHANGE_FEED_BEAT_MS);
    f->backoff = CHANGE_FEED_RETRY_MS;
    if (f->is_down_logged)
        log_change(f,
                   is_asked(f) ? "is asked for changes again" : "sends change notifications again",
                   NULL);
    f->is_down_logged = false;
}

/* ---- turns ----------------------------------------------------------------------------------- */

static void wait_for_end(const struct change_feed *f, int64_t ms)
{
    struct pollfd fd = { .fd = f->end_fd, .events = POLLIN };

    if (ms > 0 && poll(&fd, 1, (int)ms) < 0)
        return; /* interrupted: the next turn waits for the rest */
}

static void listen_until(struct change_feed *f, int64_t ms)
{
    weir_diag diag = { "" };

    if (f->o.ops->listen(f->connection, f->end_fd, ms, &diag))
        lose(f, diag.text);
}

/* Whatever is due; `patience` is how long it may wait for events. */
static void take_turn(struct change_feed *f, int64_t patience)
{
    int64_t rest = (f->connection ? f->beat_at : f->retry_at) - clock_steady_ms();

    if (rest > patience)
        rest = patience;
    if (!f->connection && f->retry_at > clock_steady_ms())
        wait_for_end(f, rest);
    else if (!f->connection)
        connect_again(f);
    else
        listen_until(f, rest > 0 ? rest : 0);
    if (f->connection && f->beat_at <= clock_steady_ms())
        beat(f);
}

void change_feed_tick(struct change_feed *f)
{
    if (!f->has_thread)
        take_turn(f, 0);
}

static void *keep_listening(void *feed)
{
    struct change_feed *f = feed;

    while (!atomic_load(&f->is_closing))
        take_turn(f, CHANGE_FEED_RETRY_MOST_MS);
    return NULL;
}

/* Signals are for threads that expect them. */
static int start_thread(struct change_feed *f)
{
    sigset_t all, before;
    int why;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    why = pthread_create(&f->thread, NULL, keep_listening, f);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    f->has_thread = why == 0;
    return why;
}

weir_err change_feed_new(struct change_feed **out, const struct change_feed_options *options,
                         weir_diag *diag)
{
    struct change_feed *f = alloc_zeroed(&options->allocator, sizeof *f);
    int why = 0;

    *out = NULL;
    if (!f)
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    f->o = *options;
    f->backoff = CHANGE_FEED_RETRY_MS;
    f->end_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (f->end_fd < 0)
        why = errno;
    else if (!options->no_thread)
        why = start_thread(f);
    if (why) {
        change_feed_free(f);
        return diag_fail(diag, WEIR_ESYSTEM, "cannot start the change feed of %s: %s",
                         options->name, strerror(why));
    }
    *out = f;
    return WEIR_OK;
}

weir_err change_feed_of_store(struct change_feed **out, const struct change_feed_ops *ops,
                              const void *backend, const char *name,
                              const struct store_options *options, weir_diag *diag)
{
    return change_feed_new(out,
                           &(struct change_feed_options){
                               .ops = ops,
                               .backend = (void *)backend,
                               .name = name,
                               .heard = options->heard,
                               .heard_ctx = options->heard_ctx,
                               .log = options->log,
                               .log_ctx = options->log_ctx,
                               .no_thread = options->no_thread,
                               .allocator = options->allocator,
                           },
                           diag);
}

void change_feed_free(struct change_feed *f)
{
    const uint64_t one = 1;
    weir_allocator allocator;

    if (!f)
        return;
    allocator = f->o.allocator;
    atomic_store(&f->is_closing, true);
    if (f->has_thread) {
        while (write(f->end_fd, &one, sizeof one) < 0 && errno == EINTR)
            continue;
        pthread_join(f->thread, NULL);
    }
    if (f->connection)
        f->o.ops->close(f->connection);
    if (f->end_fd >= 0)
        close(f->end_fd);
    alloc_free(&allocator, f);
}
