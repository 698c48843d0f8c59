/* handover.c - replacing the program under its listening sockets.
 *
 * The successor gets the sockets as systemd would give them: from descriptor 3 on, counted in
 * LISTEN_FDS. Behind them is one end of a socket pair, named in WEIR_HANDOVER_FD, that says one of:
 *     READY                the successor is able to serve
 *     FAILED, then errno   the program could not be run
 *     nothing, and its end the successor ended before
 *
 * WHY NOT /proc/self/exe: that is the running file, even after another took its name. */
#include "server/handover.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/diag.h"

enum {
    FIRST_FD = 3, /* where LISTEN_FDS begin */
    PID_DIGITS = 10,
    READY = 'r',
    FAILED = 'f',
};

extern char **environ;

static bool can_be_run(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* As a shell would find `name`. */
static bool find_in_path(const char *name, char *out, size_t room)
{
    const char *at = getenv("PATH");

    while (at && *at) {
        size_t len = strcspn(at, ":");
        int n = snprintf(out, room, "%.*s%s%s", (int)len, at, len > 0 ? "/" : "", name);

        if (n > 0 && (size_t)n < room && can_be_run(out))
            return true;
        at += len + (at[len] == ':');
    }
    return false;
}

/* The name under which this program was started, whatever file has that name now. A name that
 * was given is better than the kernel's: it may be a symbolic link to a newer release. */
static weir_err find_program(const char *given, char *out, size_t room, weir_diag *diag)
{
    static const char gone[] = " (deleted)";
    ssize_t len;

    if (strchr(given, '/') && strlen(given) < room && can_be_run(given)) {
        strcpy(out, given);
        return WEIR_OK;
    }
    if (!strchr(given, '/') && find_in_path(given, out, room))
        return WEIR_OK;
    len = readlink("/proc/self/exe", out, room - 1);
    if (len < 0)
        return diag_fail(diag, WEIR_ESYSTEM, "cannot find the file of this program: %s",
                         strerror(errno));
    out[len] = '\0';
    if ((size_t)len >= sizeof gone && !can_be_run(out) &&
        strcmp(out + len - (sizeof gone - 1), gone) == 0)
        out[(size_t)len - (sizeof gone - 1)] = '\0';
    if (!can_be_run(out))
        return diag_fail(diag, WEIR_ESYSTEM,
                         "there is no program %s any more: put the new one there, then try again",
                         out);
    return WEIR_OK;
}

/* ---- the successor's environment ----------------------------------------------------- */

/* All that must be known before fork(): behind it, nothing may be allocated. */
struct plan {
    char program[PATH_MAX];
    struct buf text; /* the variables that are ours, each with its NUL */
    char **env;
    size_t pid_at[2]; /* where in the text the successor's pid is to be written */
    int pair[2];      /* ours, and the successor's */
};

static bool is_ours(const char *variable)
{
    static const char *const names[] = { "LISTEN_FDS=", "LISTEN_PID=", "LISTEN_FDNAMES=",
                                         "WATCHDOG_PID=", "WEIR_HANDOVER_FD=" };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(variable, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static void end_variable(struct buf *text)
{
    buf_add(text, (struct span){ "", 1 });
}

static void write_variables(struct plan *p, const struct listeners *l)
{
    buf_printf(&p->text, "LISTEN_FDS=%zu", l->count);
    end_variable(&p->text);
    buf_printf(&p->text, "WEIR_HANDOVER_FD=%zu", FIRST_FD + l->count);
    end_variable(&p->text);
    buf_text(&p->text, "LISTEN_FDNAMES=");
    for (size_t i = 0; i < l->count; i++)
        buf_printf(&p->text, "%s%s", i > 0 ? ":" : "",
                   l->all[i].is_own ? LISTENER_OWN_NAME : "given");
    end_variable(&p->text);
    buf_text(&p->text, "LISTEN_PID=");
    p->pid_at[0] = p->text.len;
    buf_printf(&p->text, "%0*d", PID_DIGITS, 0);
    end_variable(&p->text);
    buf_text(&p->text, "WATCHDOG_PID=");
    p->pid_at[1] = p->text.len;
    buf_printf(&p->text, "%0*d", PID_DIGITS, 0);
    end_variable(&p->text);
}

static weir_err make_environment(struct plan *p, const struct listeners *l)
{
    size_t n = 0, kept = 0;

    while (environ[n])
        n++;
    write_variables(p, l);
    p->env = calloc(n + 8, sizeof *p->env);
    if (!p->env || p->text.failed)
        return WEIR_ENOMEM;
    for (size_t i = 0; i < n; i++)
        if (!is_ours(environ[i]))
            p->env[kept++] = environ[i];
    for (char *at = p->text.at; at < p->text.at + p->text.len; at += strlen(at) + 1)
        p->env[kept++] = at;
    return WEIR_OK;
}

/* ---- behind fork(): only what is safe in a signal handler ------------------------------ */

static void write_pid(const struct plan *p)
{
    for (size_t i = 0; i < sizeof p->pid_at / sizeof *p->pid_at; i++) {
        char digits[PID_DIGITS], *at = p->text.at + p->pid_at[i];
        size_t n = 0;

        for (unsigned long rest = (unsigned long)getpid(); rest > 0 && n < PID_DIGITS; rest /= 10)
            digits[n++] = (char)('0' + rest % 10);
        while (n > 0)
            *at++ = digits[--n];
        *at = '\0';
    }
}

/* Handlers of the parent must not run here: what they write to is shared with it. */
static void reset_signals(void)
{
    struct sigaction now;
    sigset_t none;

    for (int sig = 1; sig < NSIG; sig++)
        if (sigaction(sig, NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            (void)signal(sig, SIG_DFL); /* fails for those that cannot be handled */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Put the descriptors where they are looked for. First all go out of each other's way. */
static bool move_descriptors(const struct listeners *l, int *report_fd)
{
    int above = (int)(FIRST_FD + l->count + 1), at = FIRST_FD, aside;

    for (size_t i = 0; i < l->count; i++) {
        aside = fcntl(l->all[i].fd, F_DUPFD_CLOEXEC, above);
        if (aside < 0)
            return false;
        l->all[i].fd = aside;
    }
    aside = fcntl(*report_fd, F_DUPFD_CLOEXEC, above);
    if (aside < 0)
        return false;
    *report_fd = aside;
    for (size_t i = 0; i < l->count; i++)
        if (dup2(l->all[i].fd, at++) < 0)
            return false;
    return dup2(*report_fd, at) >= 0;
}

static _Noreturn void become_successor(struct plan *p, const struct listeners *l,
                                       char *const argv[])
{
    char said[1 + sizeof(int)] = { FAILED };

    reset_signals();
    write_pid(p);
    if (move_descriptors(l, &p->pair[1]))
        execve(p->program, argv, p->env);
    memcpy(said + 1, &errno, sizeof errno);
    (void)send(p->pair[1], said, sizeof said, MSG_NOSIGNAL);
    _exit(127);
}

/* ---- the running process --------------------------------------------------------------- */

static pid_t fork_quietly(void)
{
    sigset_t all, before;
    pid_t pid;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid = fork();
    if (pid != 0)
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    return pid;
}

weir_err handover_spawn(const struct listeners *l, char *const argv[], struct handover *out,
                        weir_diag *diag)
{
    struct plan p = { .pair = { -1, -1 } };
    const weir_allocator heap = alloc_or_default((weir_allocator){ 0 });
    weir_err err;

    *out = (struct handover){ .fd = -1, .pid = -1 };
    if (getpid() == 1)
        return diag_fail(diag, WEIR_EOPTION,
                         "weir is process 1 here, and its container would end with it: start a "
                         "new container instead, or run weir under an init");
    buf_init(&p.text, &heap);
    err = find_program(argv[0], p.program, sizeof p.program, diag);
    if (err)
        goto out;
    err = make_environment(&p, l);
    if (err) {
        diag_set(diag, "cannot start the new process: %s", weir_err_text(err));
        goto out;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, p.pair) == 0)
        out->pid = fork_quietly();
    if (out->pid == 0)
        become_successor(&p, l, argv);
    if (out->pid < 0) {
        err = diag_fail(diag, WEIR_ESYSTEM, "cannot start the new process: %s", strerror(errno));
        goto out;
    }
    out->fd = p.pair[0];
    p.pair[0] = -1;
out:
    for (size_t i = 0; i < 2; i++)
        if (p.pair[i] >= 0)
            close(p.pair[i]);
    free(p.env);
    buf_done(&p.text);
    return err;
}

/* The end of a child that has ended or is of no use. */
static int end_child(struct handover *h)
{
    int status = 0;

    close(h->fd);
    h->fd = -1;
    kill(h->pid, SIGKILL);
    while (waitpid(h->pid, &status, 0) < 0 && errno == EINTR)
        ;
    h->pid = -1;
    return status;
}

enum handover_state handover_look(struct handover *h, weir_diag *diag)
{
    char said[1 + sizeof(int)];
    ssize_t n = read(h->fd, said, sizeof said);
    int status, why;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return HANDOVER_WAITING;
    if (n > 0 && said[0] == READY) {
        close(h->fd);
        h->fd = -1;
        return HANDOVER_READY;
    }
    status = end_child(h);
    if (n == (ssize_t)sizeof said && said[0] == FAILED) {
        memcpy(&why, said + 1, sizeof why);
        diag_set(diag, "the new program cannot be run: %s", strerror(why));
    } else if (WIFEXITED(status)) {
        diag_set(diag, "the new program ended with status %d: its own message says why",
                 WEXITSTATUS(status));
    } else if (WTERMSIG(status) == SIGKILL) {
        diag_set(diag,
                 "the new program was killed, or closed its pipe without a report: is it weir?");
    } else {
        diag_set(diag, "the new program died: %s", strsignal(WTERMSIG(status)));
    }
    return HANDOVER_FAILED;
}

void handover_cancel(struct handover *h)
{
    if (h->fd >= 0)
        end_child(h);
}

/* ---- the successor --------------------------------------------------------------------- */

bool handover_is_successor(void)
{
    return getenv("WEIR_HANDOVER_FD") != NULL;
}

void handover_tell_ready(void)
{
    const char *name = getenv("WEIR_HANDOVER_FD");
    const char said = READY;
    struct stat st;
    int fd = name ? atoi(name) : -1;

    if (fd < FIRST_FD || fstat(fd, &st) != 0 || !S_ISSOCK(st.st_mode))
        return;
    (void)send(fd, &said, sizeof said, MSG_NOSIGNAL); /* it may have ended: then serve */
    close(fd);
    setenv("WEIR_HANDOVER_FD", "told", 1); /* the number may soon be another's */
}
