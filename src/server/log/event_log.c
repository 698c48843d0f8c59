/* event_log.c - lines about what happens, written by a thread of its own.
 *
 * Two bufs take turns: lines are put into one while the thread writes the other. No thread but the
 * thread touches the file, and it holds no lock while it does.
 *
 * WHY NOT O_NONBLOCK: stderr is shared with other processes, and would be non-blocking for all
 * of them. A pipe that poll() calls writable takes PIPE_BUF bytes without blocking, so the thread
 * waits by poll() and writes no more than that at once. Whole lines, too: another process may
 * append to the same file, and lines of both must not mix. */
#include "server/log/event_log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/diag.h"

enum {
    MOST_WAITING = 256 * 1024, /* bytes of lines */
    LOOK_MS = 50,              /* how often a thread that waits for a reader looks up */
    CLOSE_MS = 1000,           /* how long the last lines wait for a reader */
};

struct event_log {
    weir_allocator allocator;
    char *file; /* NULL: stderr */
    int fd;     /* the thread's */
    enum log_level least;
    enum log_format format; /* but for LOG_AUTO */
    bool is_torn;           /* the last line was not written to its end; the thread's */
    pthread_t thread;

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t wake;
    struct buf waiting;
    uint64_t untold;     /* dropped lines that no line of the log has reported yet */
    int next_fd;         /* to go on with; -1: none … */
    size_t old_len;      /* … behind so many bytes of what waits */
    atomic_bool closing; /* changed under the lock */

    atomic_uint_fast64_t dropped;
};

/* ---- writing, in the thread ----------------------------------------------------------- */

/* False: the reader of the pipe takes nothing, and the log is being closed. */
static bool wait_for_reader(struct event_log *log, int64_t *give_up)
{
    struct pollfd p = { .fd = log->fd, .events = POLLOUT };

    while (poll(&p, 1, LOOK_MS) <= 0) {
        if (!atomic_load(&log->closing))
            continue;
        if (*give_up == 0)
            *give_up = clock_monotonic_ms() + CLOSE_MS;
        else if (clock_monotonic_ms() >= *give_up)
            return false;
    }
    return true;
}

/* How much to write at once: as many whole lines as a pipe takes. */
static size_t piece_of(struct span rest)
{
    size_t len = rest.len < PIPE_BUF ? rest.len : PIPE_BUF;
    const char *newline = memrchr(rest.at, '\n', len);

    return newline ? (size_t)(newline - rest.at) + 1 : len;
}

static size_t count_lines(struct span text)
{
    size_t n = 0;

    for (size_t i = 0; i < text.len; i++)
        n += text.at[i] == '\n';
    return n;
}

static void drop(struct event_log *log, size_t lines)
{
    pthread_mutex_lock(&log->lock);
    atomic_fetch_add(&log->dropped, lines);
    log->untold += lines;
    pthread_mutex_unlock(&log->lock);
}

static void write_lines(struct event_log *log, struct span rest)
{
    int64_t give_up = 0;

    if (log->is_torn && write(log->fd, "\n", 1) == 1) /* what was cut off ends here */
        log->is_torn = false;
    while (rest.len > 0) {
        ssize_t n;

        if (!wait_for_reader(log, &give_up))
            break;
        n = write(log->fd, rest.at, piece_of(rest));
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n <= 0)
            break;
        log->is_torn = rest.at[n - 1] != '\n';
        rest.at += n;
        rest.len -= (size_t)n;
    }
    if (rest.len > 0)
        drop(log, count_lines(rest));
}

static void change_file(struct event_log *log, int fd)
{
    close(log->fd);
    log->fd = fd;
    log->is_torn = false;
}

/* What was put before a change of files belongs into the old one. */
static void write_batch(struct event_log *log, struct span lines, int next_fd, size_t old_len)
{
    if (next_fd >= 0) {
        write_lines(log, (struct span){ lines.at, old_len });
        change_file(log, next_fd);
        lines.at += old_len;
        lines.len -= old_len;
    }
    write_lines(log, lines);
}

static void *write_all(void *ctx)
{
    struct event_log *log = ctx;
    struct buf mine;

    buf_init(&mine, &log->allocator);
    pthread_mutex_lock(&log->lock);
    for (;;) {
        struct buf empty = mine;
        int next_fd;
        size_t old_len;

        while (log->waiting.len == 0 && log->next_fd < 0 && !log->closing)
            pthread_cond_wait(&log->wake, &log->lock);
        if (log->waiting.len == 0 && log->next_fd < 0)
            break;
        mine = log->waiting;
        log->waiting = empty;
        next_fd = log->next_fd;
        old_len = log->old_len;
        log->next_fd = -1;
        pthread_mutex_unlock(&log->lock);
        write_batch(log, buf_span(&mine), next_fd, old_len);
        mine.len = 0;
        pthread_mutex_lock(&log->lock);
    }
    pthread_mutex_unlock(&log->lock);
    buf_done(&mine);
    return NULL;
}

/* ---- putting -------------------------------------------------------------------------- */

static void make_line(const struct event_log *log, struct buf *line, const char *level,
                      const char *event, const char *message, const char *members)
{
    if (log->format == LOG_TEXT)
        log_format_text(line, level, event, message, members);
    else
        log_format_json(line, level, event, message, members);
}

/* Under the lock. */
static void tell_of_dropped(struct event_log *log)
{
    char members[40];
    struct buf line;

    buf_init(&line, &log->allocator);
    snprintf(members, sizeof members, "\"dropped\":%llu", (unsigned long long)log->untold);
    make_line(log, &line, "warn", "log-dropped", "lines were dropped: the log could not be written",
              members);
    if (!line.failed)
        buf_add(&log->waiting, buf_span(&line));
    if (!line.failed && !log->waiting.failed)
        log->untold = 0;
    buf_done(&line);
}

void event_log_write_members(struct event_log *log, const char *level, const char *event,
                             const char *message, const char *members)
{
    struct buf line;

    if (!event_log_wants(log, log_level_of(level)))
        return;
    buf_init(&line, &log->allocator);
    make_line(log, &line, level, event, message, members);
    pthread_mutex_lock(&log->lock);
    if (log->untold > 0 && log->waiting.len < MOST_WAITING / 2)
        tell_of_dropped(log);
    if (line.failed || log->waiting.len + line.len > MOST_WAITING) {
        log->untold++;
        atomic_fetch_add(&log->dropped, 1);
    } else {
        buf_add(&log->waiting, buf_span(&line));
        log->untold += log->waiting.failed;
        log->waiting.failed = false; /* another time there may be memory again */
        pthread_cond_signal(&log->wake);
    }
    pthread_mutex_unlock(&log->lock);
    buf_done(&line);
}

void event_log_write(struct event_log *log, const char *level, const char *event,
                     const char *format, ...)
{
    weir_diag message;
    va_list args;

    if (!event_log_wants(log, log_level_of(level)))
        return;
    va_start(args, format);
    vsnprintf(message.text, sizeof message.text, format, args);
    va_end(args);
    event_log_write_members(log, level, event, message.text, "");
}

bool event_log_wants(const struct event_log *log, enum log_level level)
{
    return level >= log->least;
}

void event_log_style(struct event_log *log, enum log_level least, enum log_format format)
{
    log->least = least;
    log->format = format;
    if (format == LOG_AUTO)
        log->format = isatty(log->fd) ? LOG_TEXT : LOG_JSON;
}

uint64_t event_log_dropped(struct event_log *log)
{
    return atomic_load(&log->dropped);
}

/* ---- opening and closing -------------------------------------------------------------- */

static int open_file(const char *file)
{
    return open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0640);
}

void event_log_reopen(struct event_log *log)
{
    int fd;

    if (!log->file)
        return;
    fd = open_file(log->file);
    if (fd < 0) {
        event_log_write(log, "error", "log-not-reopened", "cannot open the log %s: %s", log->file,
                        strerror(errno));
        return;
    }
    pthread_mutex_lock(&log->lock);
    if (log->next_fd >= 0)
        close(log->next_fd);
    log->next_fd = fd;
    log->old_len = log->waiting.len;
    pthread_cond_signal(&log->wake);
    pthread_mutex_unlock(&log->lock);
}

/* No signal is for this thread, and a pipe without a reader must not end the process. */
static int start_thread(struct event_log *log)
{
    sigset_t all, before;
    int why;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    why = pthread_create(&log->thread, NULL, write_all, log);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return why;
}

static void free_log(struct event_log *log)
{
    if (log->fd >= 0)
        close(log->fd);
    pthread_cond_destroy(&log->wake);
    pthread_mutex_destroy(&log->lock);
    buf_done(&log->waiting);
    free(log->file);
    free(log);
}

weir_err event_log_open(const char *file, struct event_log **out, weir_diag *diag)
{
    struct event_log *log = calloc(1, sizeof *log);
    weir_err err = WEIR_OK;
    int why;

    *out = NULL;
    if (!log)
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    pthread_mutex_init(&log->lock, NULL);
    pthread_cond_init(&log->wake, NULL);
    log->allocator = alloc_or_default((weir_allocator){ 0 });
    buf_init(&log->waiting, &log->allocator);
    log->next_fd = -1;
    log->least = LOG_INFO;
    log->format = LOG_JSON;
    log->file = file ? strdup(file) : NULL;
    log->fd = file ? open_file(file) : fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    if (file && !log->file)
        err = diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    else if (log->fd < 0)
        err = diag_fail(diag, WEIR_ESYSTEM, "cannot open the log %s: %s", file ? file : "on stderr",
                        strerror(errno));
    else if ((why = start_thread(log)) != 0)
        err = diag_fail(diag, WEIR_ESYSTEM, "cannot start the thread that writes the log: %s",
                        strerror(why));
    if (err) {
        free_log(log);
        return err;
    }
    *out = log;
    return WEIR_OK;
}

void event_log_close(struct event_log *log)
{
    if (!log)
        return;
    pthread_mutex_lock(&log->lock);
    if (log->untold > 0)
        tell_of_dropped(log);
    atomic_store(&log->closing, true);
    pthread_cond_signal(&log->wake);
    pthread_mutex_unlock(&log->lock);
    pthread_join(log->thread, NULL);
    if (log->next_fd >= 0)
        close(log->next_fd);
    free_log(log);
}
