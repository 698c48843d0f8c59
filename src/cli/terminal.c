/* terminal.c - how the tool speaks: answers on stdout, trouble on stderr. */
#include "cli/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/printable.h"
#include "weir.h"

static bool ran_out_of_memory; /* for some of what was to be written */
static int write_error;        /* of a line that left nothing to flush at the end */

int trouble(const char *format, ...)
{
    weir_diag text;
    va_list args;

    va_start(args, format);
    vsnprintf(text.text, sizeof text.text, format, args);
    va_end(args);
    fflush(stdout);
    for (char *line = text.text; *line;) {
        size_t len = strcspn(line, "\n");

        printable_all(line, len);
        fprintf(stderr, "weir: %.*s\n", (int)len, line);
        line += len + (line[len] == '\n');
    }
    return STATUS_TROUBLE;
}

void terminal_begin(void)
{
    int fd;

    /* Else the next file opened would become stdout, and take what was meant for it. */
    while ((fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0 && fd <= STDERR_FILENO)
        continue;
    if (fd > STDERR_FILENO)
        close(fd);
    signal(SIGPIPE, SIG_IGN); /* a write that fails is told as any other */
}

bool terminal_failed(void)
{
    if (ferror(stdout) && write_error == 0)
        write_error = errno;
    return ferror(stdout) || ran_out_of_memory;
}

void terminal_line(struct buf *bytes)
{
    if (bytes->failed) {
        ran_out_of_memory = true;
    } else {
        fwrite(bytes->at, 1, bytes->len, stdout);
        putchar('\n');
    }
    buf_done(bytes);
}

int terminal_end(int status)
{
    if (ran_out_of_memory)
        return trouble("cannot write the output: out of memory");
    errno = 0;
    /* Some file systems tell only at the close that there was no room. */
    if (fflush(stdout) != 0 || ferror(stdout) || close(STDOUT_FILENO) != 0) {
        const int why = errno != 0 ? errno : write_error;

        return trouble("cannot write the output%s%s", why ? ": " : "", why ? strerror(why) : "");
    }
    return status;
}

const char *colour(enum colour colour)
{
    static const char *const codes[] = {
        [PLAIN] = "\033[0m",   [GREEN] = "\033[32m", [RED] = "\033[31m",
        [YELLOW] = "\033[33m", [BOLD] = "\033[1m",   [FAINT] = "\033[2m",
    };
    const char *no_color = getenv("NO_COLOR");

    return isatty(STDOUT_FILENO) && !(no_color && *no_color) ? codes[colour] : "";
}

struct duration_text duration_text(int64_t ms)
{
    static const struct {
        const char *name;
        int64_t ms;
    } units[] = { { "d", 24 * 3600 * 1000 }, { "h", 3600 * 1000 }, { "m", 60 * 1000 } };
    struct duration_text d = { "" };
    int len = 0;

    if (ms < 1000) {
        snprintf(d.text, sizeof d.text, "%" PRId64 "ms", ms);
        return d;
    }
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (ms >= units[i].ms) {
            len += snprintf(d.text + len, sizeof d.text - (size_t)len, "%" PRId64 "%s",
                            ms / units[i].ms, units[i].name);
            ms %= units[i].ms;
        }
    if (ms % 1000 != 0)
        snprintf(d.text + len, sizeof d.text - (size_t)len, "%" PRId64 ".%03" PRId64 "s", ms / 1000,
                 ms % 1000);
    else if (ms > 0)
        snprintf(d.text + len, sizeof d.text - (size_t)len, "%" PRId64 "s", ms / 1000);
    return d;
}

struct moment_text moment_text(int64_t ms, const char *format)
{
    const time_t seconds = (time_t)(ms / 1000);
    struct moment_text t = { "-" };
    struct tm tm;

    if (gmtime_r(&seconds, &tm))
        strftime(t.text, sizeof t.text, format, &tm);
    return t;
}
