/* top_terminal.c - a terminal taken over by a page: its size, its keys, and how it is given back. */
#include "cli/watch/top_terminal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/diag.h"

enum { REST_OF_KEY_MS = 40 }; /* what a terminal sends for one key comes together */

static volatile sig_atomic_t end_signal, was_stopped;
static struct termios usual_modes;
static sigset_t usual_mask;
static char waiting[64]; /* bytes of keys that were typed ahead */
static size_t waiting_len;

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

void top_terminal_write(struct span page)
{
    while (page.len > 0) {
        const ssize_t n = write(STDOUT_FILENO, page.at, page.len);

        if (n < 0 && errno != EINTR)
            return;
        page.at += n > 0 ? n : 0;
        page.len -= n > 0 ? (size_t)n : 0;
    }
}

/* Keys come one by one and are not shown; the page is on a screen of its own, whose lines are cut
 * and not continued. */
static void take_screen(void)
{
    struct termios modes = usual_modes;

    modes.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    tcsetattr(STDIN_FILENO, TCSANOW, &modes);
    top_terminal_write(span_of("\033[?1049h\033[?25l\033[?7l\033[2J"));
}

void top_terminal_give_back(void)
{
    top_terminal_write(span_of("\033[?7h\033[?25h\033[?1049l"));
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

bool top_terminal_take(weir_diag *diag)
{
    if (tcgetattr(STDIN_FILENO, &usual_modes) != 0) {
        diag_set(diag, "cannot use this terminal: %s", strerror(errno));
        return false;
    }
    catch_signals();
    take_screen();
    return true;
}

struct top_size top_terminal_size(void)
{
    struct winsize size = { .ws_row = 0 };

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0)
        return (struct top_size){ 80, 24 };
    return (struct top_size){ size.ws_col, size.ws_row };
}

bool top_terminal_is_ended(void)
{
    return end_signal != 0;
}

void top_terminal_obey(void)
{
    if (end_signal && end_signal != SIGINT) { /* the sender may want to know that it worked */
        signal(end_signal, SIG_DFL);
        sigprocmask(SIG_SETMASK, &usual_mask, NULL);
        raise(end_signal);
    }
}

/* ^Z: as if nothing had been drawn, until the process is continued. */
static void stop_for_a_while(void)
{
    was_stopped = 0;
    top_terminal_give_back();
    raise(SIGSTOP);
    take_screen();
}

/* ---- keys ----------------------------------------------------------------------------------- */

/* What terminals send after the escape. */
static const struct {
    const char *bytes;
    int key;
} sequences[] = {
    { "[A", TOP_KEY_UP },         { "OA", TOP_KEY_UP },       { "[B", TOP_KEY_DOWN },
    { "OB", TOP_KEY_DOWN },       { "[C", TOP_KEY_RIGHT },    { "OC", TOP_KEY_RIGHT },
    { "[D", TOP_KEY_LEFT },       { "OD", TOP_KEY_LEFT },     { "[5~", TOP_KEY_PAGE_UP },
    { "[6~", TOP_KEY_PAGE_DOWN }, { "[H", TOP_KEY_HOME },     { "OH", TOP_KEY_HOME },
    { "[1~", TOP_KEY_HOME },      { "[F", TOP_KEY_END },      { "OF", TOP_KEY_END },
    { "[4~", TOP_KEY_END },       { "[Z", TOP_KEY_BACK_TAB }, { "OP", TOP_KEY_F1 },
    { "[11~", TOP_KEY_F1 },
};

static void drop(size_t n)
{
    waiting_len -= n;
    memmove(waiting, waiting + n, waiting_len);
}

/* The end of a sequence that is not known: a letter or ~ after parameters. 0: it is not all there. */
static size_t sequence_end(void)
{
    size_t i = 2;

    if (waiting_len < 2 || (waiting[1] != '[' && waiting[1] != 'O'))
        return waiting_len < 2 ? 0 : 1;
    while (i < waiting_len && waiting[i] < '@')
        i++;
    return i < waiting_len ? i + 1 : 0;
}

/* The first key of what waits. TOP_KEY_NONE: more bytes are to come, or it was one without use. */
static int next_key(void)
{
    const char first = waiting[0];

    if (waiting_len == 0)
        return TOP_KEY_NONE;
    if (first != TOP_KEY_ESCAPE) {
        drop(1);
        return first == '\b'   ? TOP_KEY_BACKSPACE
               : first == '\r' ? TOP_KEY_ENTER
                               : (unsigned char)first;
    }
    for (size_t i = 0; i < sizeof sequences / sizeof *sequences; i++) {
        const size_t len = strlen(sequences[i].bytes);

        if (waiting_len > len && memcmp(waiting + 1, sequences[i].bytes, len) == 0) {
            drop(len + 1);
            return sequences[i].key;
        }
    }
    if (sequence_end() == 1) {
        drop(1);
        return TOP_KEY_ESCAPE;
    }
    drop(sequence_end());
    return TOP_KEY_NONE;
}

/* False: nothing came. */
static bool read_keys(int64_t wait_ms)
{
    struct pollfd keys = { .fd = STDIN_FILENO, .events = POLLIN };
    const struct timespec time = { .tv_sec = wait_ms / 1000, .tv_nsec = wait_ms % 1000 * 1000000 };
    ssize_t n;

    if (waiting_len == sizeof waiting || ppoll(&keys, 1, &time, &usual_mask) <= 0)
        return false;
    n = read(STDIN_FILENO, waiting + waiting_len, sizeof waiting - waiting_len);
    if (n <= 0)
        end_signal = SIGHUP;
    else
        waiting_len += (size_t)n;
    return n > 0;
}

int top_terminal_key(int64_t until_ms)
{
    int key = next_key();

    if (key == TOP_KEY_NONE && waiting_len == 0) {
        const int64_t now = clock_monotonic_ms();

        read_keys(until_ms > now ? until_ms - now : 0);
        key = next_key();
    }
    if (key == TOP_KEY_NONE && waiting_len > 0 && !read_keys(REST_OF_KEY_MS)) {
        drop(waiting_len); /* an escape with nothing after it is the key itself */
        key = TOP_KEY_ESCAPE;
    } else if (key == TOP_KEY_NONE) {
        key = next_key();
    }
    if (was_stopped)
        stop_for_a_while();
    return end_signal ? TOP_KEY_GONE : key;
}
