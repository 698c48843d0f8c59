/* top.c - `weir top`: what a server is doing, live on a terminal, or as text. */
#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/diag.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "cli/told.h"
#include "cli/watch/top_screen.h"
#include "policy/rate.h"

enum { SERVER, TOKEN_FILE, INTERVAL, COUNT, JSON, OPTION_COUNT };

static const struct option options[OPTION_COUNT] = {
    [SERVER] = { "server", 's', "URL", "default: $WEIR_SERVER, or " SERVER_URL_DEFAULT },
    [TOKEN_FILE] = { "token-file", 0, "FILE", "default: $WEIR_TOKEN_FILE" },
    [INTERVAL] = { "interval", 'i', "TIME", "between two updates; default: 1s" },
    [COUNT] = { "count", 'n', "N", "end after N updates; default off a terminal: 1" },
    [JSON] = { "json", 'j', NULL, "one JSON object per line, as the server sends it" },
};

enum { LEAST_INTERVAL = 100 };

struct watch {
    struct client client;
    int64_t interval_ms, count; /* count 0: no end */
    struct top_stats stats;     /* the last; .rows NULL: none yet */
    struct buf stats_body, top_body;
    weir_diag diag;
};

/* ---- looking ------------------------------------------------------------------------------- */

/* Keep the body of an answer. */
static bool get(struct watch *w, const char *path, struct buf *into)
{
    into->len = 0;
    if (!client_call(&w->client, "GET", path, (struct span){ "", 0 }, &w->diag))
        return false;
    if (w->client.reply.status != 200) {
        client_explain(&w->client, &w->diag);
        return false;
    }
    buf_add(into, w->client.reply.body);
    if (into->failed)
        diag_set(&w->diag, "out of memory");
    return !into->failed;
}

/* A token may show the numbers and not the identities. */
static bool get_both(struct watch *w)
{
    if (!get(w, "/v1/stats", &w->stats_body))
        return false;
    return get(w, "/v1/top", &w->top_body) || w->client.reply.status == 401 ||
           w->client.reply.status == 403;
}

static bool look(struct watch *w)
{
    struct top_stats next;

    if (!get_both(w))
        return false;
    if (!top_stats_read(&next, w->stats.rows ? &w->stats : NULL, buf_span(&w->stats_body),
                        buf_span(&w->top_body))) {
        top_stats_done(&next);
        diag_set(&w->diag, "cannot parse the answer of %s: is it a weir server?",
                 w->client.url.text);
        return false;
    }
    top_stats_done(&w->stats);
    w->stats = next;
    return true;
}

/* ---- text ---------------------------------------------------------------------------------- */

static void wait_ms(int64_t ms)
{
    const struct timespec time = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

    nanosleep(&time, NULL);
}

/* Both bodies as one object: {"stats": {...}, "top": [...]}. */
static char *join_bodies(const struct watch *w)
{
    json_t *stats = told_read(buf_span(&w->stats_body));
    json_t *top = told_read(buf_span(&w->top_body));
    json_t *list = json_object_get(top, "top");
    json_t *both = list ? json_pack("{s:O, s:O}", "stats", stats, "top", list)
                        : json_pack("{s:O}", "stats", stats);
    char *text = json_dumps(both, JSON_COMPACT);

    json_decref(both);
    json_decref(top);
    json_decref(stats);
    return text;
}

static int run_json(struct watch *w)
{
    for (int64_t i = 0; i < w->count && !terminal_failed(); i++) {
        char *text;

        if (i > 0)
            wait_ms(w->interval_ms);
        if (!get_both(w))
            return trouble("%s", w->diag.text);
        text = join_bodies(w);
        if (!text)
            return trouble("cannot parse the answer of %s: is it a weir server?",
                           w->client.url.text);
        puts(text);
        fflush(stdout);
        free(text);
    }
    return STATUS_YES;
}

/* Rates are between two looks, so the first one prints nothing. */
static int run_text(struct watch *w)
{
    const struct top_page page = { .server = w->client.url.text, .width = 80, .line_end = "\n" };
    struct buf out;

    if (!look(w))
        return trouble("%s", w->diag.text);
    buf_init(&out, &w->stats_body.allocator);
    for (int64_t i = 0; i < w->count && !terminal_failed(); i++) {
        wait_ms(w->interval_ms);
        if (!look(w)) {
            buf_done(&out);
            return trouble("%s", w->diag.text);
        }
        out.len = 0;
        if (i > 0)
            buf_text(&out, "\n");
        top_screen_draw(&page, &w->stats, &out);
        fwrite(out.at, 1, out.len, stdout);
        fflush(stdout);
    }
    buf_done(&out);
    return STATUS_YES;
}

/* ---- a screen ------------------------------------------------------------------------------ */

static volatile sig_atomic_t end_signal, was_stopped;

static void on_end(int number)
{
    end_signal = number;
}

static void on_stop(int number)
{
    (void)number;
    was_stopped = 1;
}

static void on_resize(int number)
{
    (void)number; /* it is enough that it interrupts the wait */
}

static struct termios usual_modes;
static sigset_t usual_mask;

static void write_all(const char *at, size_t len)
{
    while (len > 0) {
        const ssize_t n = write(STDOUT_FILENO, at, len);

        if (n < 0 && errno != EINTR)
            return;
        at += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
}

/* Keys come one by one and are not shown; the page is on a screen of its own, whose lines are cut
 * and not continued. */
static void take_screen(void)
{
    static const char begin[] = "\033[?1049h\033[?25l\033[?7l\033[2J";
    struct termios modes = usual_modes;

    modes.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    tcsetattr(STDIN_FILENO, TCSANOW, &modes);
    write_all(begin, sizeof begin - 1);
}

static void give_screen_back(void)
{
    static const char end[] = "\033[?7h\033[?25h\033[?1049l";

    write_all(end, sizeof end - 1);
    tcsetattr(STDIN_FILENO, TCSANOW, &usual_modes);
}

static void catch_signal(int number, void (*handler)(int), sigset_t *caught)
{
    const struct sigaction action = { .sa_handler = handler };

    sigaction(number, &action, NULL);
    sigaddset(caught, number);
}

/* They come while a key is waited for and at no other time: one that came just before the wait
 * would be seen only after it. */
static void catch_signals(void)
{
    sigset_t caught;

    sigemptyset(&caught);
    catch_signal(SIGINT, on_end, &caught);
    catch_signal(SIGTERM, on_end, &caught);
    catch_signal(SIGHUP, on_end, &caught);
    catch_signal(SIGQUIT, on_end, &caught);
    catch_signal(SIGTSTP, on_stop, &caught);
    catch_signal(SIGWINCH, on_resize, &caught);
    sigprocmask(SIG_BLOCK, &caught, &usual_mask);
}

/* ^Z: as if nothing had been drawn, until the process is continued. */
static void stop_for_a_while(void)
{
    was_stopped = 0;
    give_screen_back();
    raise(SIGSTOP);
    take_screen();
}

/* More than there is room for would scroll. */
static void cut_after(struct buf *page, int lines)
{
    char *at = page->at;

    for (; lines > 0 && at; lines--) {
        at = strchr(at, '\n');
        at = at ? at + 1 : NULL;
    }
    if (at)
        page->len = (size_t)(at - page->at);
}

static void draw(const struct watch *w, bool is_fresh)
{
    struct winsize size = { .ws_row = 0 };
    struct top_page page = { .server = w->client.url.text,
                             .problem = is_fresh ? NULL : w->diag.text,
                             .width = 80,
                             .height = 24,
                             .line_end = "\033[K\r\n" };
    struct buf out;

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0) {
        page.width = size.ws_col;
        page.height = size.ws_row;
    }
    buf_init(&out, &w->stats_body.allocator);
    buf_text(&out, "\033[H");
    top_screen_draw(&page, &w->stats, &out);
    cut_after(&out, page.height - 1);
    buf_text(&out, "\033[J");
    buf_printf(&out, "\033[%d;1H%sq quits%s", page.height, colour(FAINT), colour(PLAIN));
    if (!out.failed)
        write_all(out.at, out.len);
    buf_done(&out);
}

/* Until it is time, or something else happened. False: the user wants to leave. */
static bool wait_for_key(int64_t until_ms)
{
    struct pollfd keys = { .fd = STDIN_FILENO, .events = POLLIN };
    const int64_t left = until_ms > clock_monotonic_ms() ? until_ms - clock_monotonic_ms() : 0;
    const struct timespec time = { .tv_sec = left / 1000, .tv_nsec = left % 1000 * 1000000 };
    char key;

    if (ppoll(&keys, 1, &time, &usual_mask) <= 0)
        return true;
    return read(STDIN_FILENO, &key, 1) == 1 && key != 'q' && key != 'Q' && key != '\004';
}

static int run_screen(struct watch *w)
{
    bool is_fresh = look(w), goes_on = true;
    int64_t next = clock_monotonic_ms() + w->interval_ms, looks = 1;

    if (!is_fresh)
        return trouble("%s", w->diag.text);
    if (tcgetattr(STDIN_FILENO, &usual_modes) != 0)
        return trouble("cannot use this terminal: %s", strerror(errno));
    catch_signals();
    take_screen();
    while (goes_on && !end_signal) {
        draw(w, is_fresh);
        goes_on = wait_for_key(next);
        if (was_stopped)
            stop_for_a_while();
        if (clock_monotonic_ms() < next)
            continue;
        if (w->count > 0 && looks++ == w->count)
            break;
        is_fresh = look(w);
        next = clock_monotonic_ms() + w->interval_ms;
    }
    give_screen_back();
    if (end_signal && end_signal != SIGINT) { /* the sender may want to know that it worked */
        signal(end_signal, SIG_DFL);
        sigprocmask(SIG_SETMASK, &usual_mask, NULL);
        raise(end_signal);
    }
    return STATUS_YES;
}

/* -------------------------------------------------------------------------------------------- */

static bool read_arguments(const struct arguments *a, struct watch *w, bool is_live)
{
    weir_diag diag;

    if (a->operand_count > 0) {
        trouble("top takes options only: see 'weir help top'");
        return false;
    }
    w->interval_ms = 1000;
    if (a->values[INTERVAL] &&
        duration_read(span_of(a->values[INTERVAL]), &w->interval_ms, &diag)) {
        trouble("--interval: %s", diag.text);
        return false;
    }
    if (w->interval_ms < LEAST_INTERVAL || w->interval_ms > 24 * 3600 * 1000) {
        trouble("--interval is from %dms to 1d", LEAST_INTERVAL);
        return false;
    }
    w->count = is_live ? 0 : 1;
    return option_int(a, COUNT, 1, &w->count);
}

static int run(const struct arguments *a)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    const bool is_live = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && !a->values[JSON];
    struct watch w = { .count = 0 };
    int status = STATUS_TROUBLE;

    buf_init(&w.stats_body, &usual);
    buf_init(&w.top_body, &usual);
    if (!read_arguments(a, &w, is_live))
        return STATUS_TROUBLE;
    if (client_open(&w.client, a->values[SERVER], a->values[TOKEN_FILE]))
        status = a->values[JSON] ? run_json(&w) : is_live ? run_screen(&w) : run_text(&w);
    client_close(&w.client);
    top_stats_done(&w.stats);
    buf_done(&w.stats_body);
    buf_done(&w.top_body);
    return status;
}

const struct command top_command = {
    .name = "top",
    .summary = "Show what a server does, and what it denies most.",
    .usage = "[OPTION]...",
    .options = options,
    .option_count = OPTION_COUNT,
    .notes = "On a terminal the screen is updated; q quits.\n",
    .run = run,
};
