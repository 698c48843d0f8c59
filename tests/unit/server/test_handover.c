/* test_handover.c - a program is replaced under its sockets, by a real successor; and systemd is
 * told.
 *
 * The test is its own successor: started with "successor HOW", it behaves like HOW. */
#include "support/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/handover.h"
#include "server/sd_notify.h"

enum { CLIENTS = 20, PATIENCE_MS = 30000 };

static char *self; /* how this program is called */
static char folder[] = "/tmp/weir-hand-XXXXXX";

static const char *path(const char *name)
{
    static char paths[4][128];
    static size_t next;
    char *out = paths[next++ % 4];

    snprintf(out, sizeof paths[0], "%s/%s", folder, name);
    return out;
}

/* ---- successors ------------------------------------------------------------------------- */

/* Serve so many connections, each with "successor". */
static int serve(char *const *addresses, size_t n, size_t loops, int connections)
{
    struct listeners l;
    struct pollfd polls[16] = { 0 };
    weir_diag diag;

    if (!handover_is_successor() ||
        listeners_open(&l, (const char *const *)addresses, n, loops, &diag) || l.count > 16)
        return 1;
    handover_tell_ready();
    if (!handover_is_successor() || getenv("LISTEN_FDS"))
        return 2;
    for (size_t i = 0; i < l.count; i++)
        polls[i] = (struct pollfd){ .fd = l.all[i].fd, .events = POLLIN };
    while (connections > 0) {
        if (poll(polls, l.count, PATIENCE_MS) <= 0)
            return 3;
        for (size_t i = 0; i < l.count; i++)
            for (int fd; (fd = accept(polls[i].fd, NULL, NULL)) >= 0; connections--) {
                if (write(fd, "successor", 9) != 9)
                    return 4;
                close(fd);
            }
    }
    listeners_close(&l, true);
    return 0;
}

/* Descriptors from `first` on that a program inherits. */
static int count_inherited(int first)
{
    int n = 0;

    for (int fd = first; fd < 1000; fd++)
        n += fcntl(fd, F_GETFD) == 0;
    return n;
}

/* Nothing of the predecessor is left but what it was meant to have. */
static int look_around(int descriptors)
{
    sigset_t blocked;
    struct sigaction usr1, pipe_signal;

    sigprocmask(SIG_SETMASK, NULL, &blocked);
    sigaction(SIGUSR1, NULL, &usr1);
    sigaction(SIGPIPE, NULL, &pipe_signal);
    if (sigismember(&blocked, SIGUSR2) || usr1.sa_handler != SIG_DFL ||
        pipe_signal.sa_handler != SIG_IGN || count_inherited(3) != descriptors)
        return 1;
    if (!getenv("WATCHDOG_PID") || atol(getenv("WATCHDOG_PID")) != (long)getpid() ||
        atol(getenv("LISTEN_PID")) != (long)getpid() || !getenv("KEPT") ||
        sd_notify_watchdog_interval_ms() != 1000)
        return 2;
    handover_tell_ready();
    return 0;
}

static int wait_for(struct handover *h, weir_diag *diag)
{
    enum handover_state state;

    do {
        struct pollfd p = { .fd = h->fd, .events = POLLIN };

        if (poll(&p, 1, PATIENCE_MS) != 1)
            return -1;
        state = handover_look(h, diag);
    } while (state == HANDOVER_WAITING);
    return (int)state;
}

/* A program whose file is replaced while it runs: what has its name now is started. */
static int be_replaced(void)
{
    char *const argv[] = { "a-name-that-is-nowhere", NULL };
    struct listeners l;
    struct handover h;
    const char *address = "127.0.0.1:0";
    weir_diag diag = { "" };

    if (listeners_open(&l, &address, 1, 1, &diag) || rename(path("new"), path("program")) != 0)
        return 1;
    if (handover_spawn(&l, argv, &h, &diag) || wait_for(&h, &diag) != HANDOVER_READY)
        return 2;
    waitpid(h.pid, NULL, 0);
    if (unlink(path("program")) != 0 || handover_spawn(&l, argv, &h, &diag) == WEIR_OK)
        return 3;
    listeners_close(&l, true);
    return strstr(diag.text, path("program")) && !strstr(diag.text, "(deleted)") ? 0 : 4;
}

static int be_successor(int argc, char **argv)
{
    const char *how = argv[2];

    if (strcmp(how, "serve") == 0)
        return serve(argv + 5, (size_t)(argc - 5), (size_t)atoi(argv[3]), atoi(argv[4]));
    if (strcmp(how, "look") == 0)
        return look_around(atoi(argv[3]));
    if (strcmp(how, "fail") == 0)
        return 3;
    if (strcmp(how, "abort") == 0)
        raise(SIGTERM);
    if (strcmp(how, "let-go") == 0) {
        for (int fd = 3; fd < 100; fd++)
            close(fd);
    }
    if (strcmp(how, "be-replaced") == 0) {
        snprintf(folder, sizeof folder, "%s", argv[3]);
        return be_replaced();
    }
    alarm(PATIENCE_MS / 1000); /* a failed test leaves no process behind */
    for (;;)
        pause();
}

/* ---- the running process ------------------------------------------------------------------ */

static struct listeners opened(const char *const *addresses, size_t n, size_t loops)
{
    struct listeners l;
    weir_diag diag = { "" };

    if (listeners_open(&l, addresses, n, loops, &diag))
        fail_msg("%s", diag.text);
    return l;
}

static struct handover spawned(const struct listeners *l, char *const argv[])
{
    struct handover h;
    weir_diag diag = { "" };

    if (handover_spawn(l, argv, &h, &diag))
        fail_msg("%s", diag.text);
    return h;
}

static int connect_to(const struct sockaddr_storage *a, socklen_t len)
{
    int fd = socket(a->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)a, len), 0);
    return fd;
}

static int reap(const struct handover *h)
{
    int status;

    assert_int_equal(waitpid(h->pid, &status, 0), h->pid);
    return status;
}

/* Connections made before, during and after are all served, though no process accepts for a
 * while, with any number of loops in the successor. */
static void no_connection_is_refused_or_reset(void **state)
{
    static char *const loops[] = { "1", "2", "4" };

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        char unix_address[160], connections[16];
        const char *addresses[] = { "127.0.0.1:0", unix_address };
        struct sockaddr_storage a[2];
        socklen_t len[2] = { sizeof a[0], sizeof a[1] };
        struct listeners l;
        struct handover h;
        struct stat st;
        weir_diag diag = { "" };
        int clients[3 * CLIENTS], n = 0;

        snprintf(unix_address, sizeof unix_address, "unix:%s", path("socket"));
        snprintf(connections, sizeof connections, "%d", 3 * CLIENTS);
        l = opened(addresses, 2, 2);
        getsockname(l.all[0].fd, (struct sockaddr *)&a[0], &len[0]);
        getsockname(l.all[2].fd, (struct sockaddr *)&a[1], &len[1]);
        while (n < CLIENTS) {
            clients[n] = connect_to(&a[n % 2], len[n % 2]);
            n++;
        }
        h = spawned(&l, (char *[]){ self, "successor", "serve", loops[i], connections,
                                    "127.0.0.1:0", unix_address, NULL });
        while (n < 2 * CLIENTS) {
            clients[n] = connect_to(&a[n % 2], len[n % 2]);
            n++;
        }
        assert_int_equal(wait_for(&h, &diag), HANDOVER_READY);
        assert_int_equal(h.fd, -1);
        listeners_close(&l, false);
        while (n < 3 * CLIENTS) {
            clients[n] = connect_to(&a[n % 2], len[n % 2]);
            n++;
        }
        for (n = 0; n < 3 * CLIENTS; n++) {
            char heard[16];

            assert_int_equal(recv(clients[n], heard, 9, MSG_WAITALL), 9);
            assert_memory_equal(heard, "successor", 9);
            close(clients[n]);
        }
        assert_int_equal(reap(&h), 0);
        assert_int_equal(stat(path("socket"), &st), -1); /* the last one has removed it */
    }
}

static void handle(int sig)
{
    (void)sig;
}

static void a_successor_gets_no_more_than_it_should(void **state)
{
    struct listeners l = opened((const char *[]){ "127.0.0.1:0" }, 1, 1);
    struct handover h;
    sigset_t some, before;
    char descriptors[16];
    weir_diag diag = { "" };

    (void)state;
    /* A socket and what it reports by, from 3 on, and what this test itself inherited. */
    snprintf(descriptors, sizeof descriptors, "%d", 2 + count_inherited(5));
    setenv("KEPT", "yes", 1);
    setenv("WATCHDOG_USEC", "2000000", 1);
    setenv("WATCHDOG_PID", "1", 1);
    setenv("LISTEN_FDNAMES", "stale", 1);
    signal(SIGUSR1, handle);
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&some);
    sigaddset(&some, SIGUSR2);
    sigprocmask(SIG_BLOCK, &some, &before);
    h = spawned(&l, (char *[]){ self, "successor", "look", descriptors, NULL });
    sigprocmask(SIG_SETMASK, &before, NULL);
    assert_int_equal(wait_for(&h, &diag), HANDOVER_READY);
    assert_int_equal(reap(&h), 0);
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    unsetenv("LISTEN_FDNAMES");
    listeners_close(&l, true);
}

/* And the running process has all that it had. */
static void a_successor_that_ends_is_reported(void **state)
{
    static const struct {
        char *how;
        const char *said;
    } ends[] = { { "fail", "status 3" }, { "abort", "Terminated" }, { "let-go", "is it weir?" } };
    struct listeners l = opened((const char *[]){ "127.0.0.1:0" }, 1, 1);
    struct sockaddr_storage a;
    socklen_t len = sizeof a;

    (void)state;
    getsockname(l.all[0].fd, (struct sockaddr *)&a, &len);
    for (size_t i = 0; i < 3; i++) {
        struct handover h = spawned(&l, (char *[]){ self, "successor", ends[i].how, NULL });
        weir_diag diag = { "" };
        int client, accepted;

        assert_int_equal(wait_for(&h, &diag), HANDOVER_FAILED);
        assert_non_null(strstr(diag.text, ends[i].said));
        assert_int_equal(h.fd, -1);
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
        client = connect_to(&a, len);
        accepted = accept(l.all[0].fd, NULL, NULL);
        assert_true(accepted >= 0);
        close(client);
        close(accepted);
    }
    listeners_close(&l, true);
}

static void a_silent_successor_is_killed(void **state)
{
    struct listeners l = opened((const char *[]){ "127.0.0.1:0" }, 1, 1);
    struct handover h = spawned(&l, (char *[]){ self, "successor", "hang", NULL });
    weir_diag diag;

    (void)state;
    assert_int_equal(handover_look(&h, &diag), HANDOVER_WAITING);
    handover_cancel(&h);
    assert_int_equal(h.fd, -1);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    handover_cancel(&h); /* nothing more to do */
    listeners_close(&l, true);
}

static void write_script(const char *name, const char *text)
{
    int fd = open(path(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static void a_program_that_cannot_be_run_is_reported(void **state)
{
    struct listeners l = opened((const char *[]){ "127.0.0.1:0" }, 1, 1);
    char program[128];
    struct handover h;
    weir_diag diag = { "" };

    (void)state;
    write_script("broken", "#!/no/such/interpreter\n");
    snprintf(program, sizeof program, "%s", path("broken"));
    h = spawned(&l, (char *[]){ program, NULL });
    assert_int_equal(wait_for(&h, &diag), HANDOVER_FAILED);
    assert_non_null(strstr(diag.text, "cannot be run: No such file"));
    unlink(program);
    listeners_close(&l, true);
}

/* A release is often switched by a symbolic link, and a program often found by PATH. */
static void the_name_it_was_started_by_is_what_counts(void **state)
{
    struct listeners l = opened((const char *[]){ "127.0.0.1:0" }, 1, 1);
    char *before = strdup(getenv("PATH")), *after = NULL, link[128];
    struct handover h;
    weir_diag diag = { "" };

    (void)state;
    write_script("release-1", "#!/bin/sh\nexit 1\n");
    write_script("release-2", "#!/bin/sh\n[ $LISTEN_PID = $$ ] && printf r >&4\n");
    snprintf(link, sizeof link, "%s", path("current"));
    assert_int_equal(symlink("release-1", link), 0);
    h = spawned(&l, (char *[]){ link, NULL });
    assert_int_equal(wait_for(&h, &diag), HANDOVER_FAILED);
    assert_int_equal(unlink(link), 0);
    assert_int_equal(symlink("release-2", link), 0);
    h = spawned(&l, (char *[]){ link, NULL });
    assert_int_equal(wait_for(&h, &diag), HANDOVER_READY);
    reap(&h);

    assert_true(asprintf(&after, "/nowhere:%s:%s", folder, before) > 0);
    setenv("PATH", after, 1);
    h = spawned(&l, (char *[]){ "current", NULL });
    assert_int_equal(wait_for(&h, &diag), HANDOVER_READY);
    reap(&h);
    setenv("PATH", before, 1);
    free(before);
    free(after);
    unlink(link);
    unlink(path("release-1"));
    unlink(path("release-2"));
    listeners_close(&l, true);
}

static void a_file_that_took_the_programs_name_is_run(void **state)
{
    char command[4300], exe[2048] = "";
    pid_t pid;
    int status;

    (void)state;
    assert_true(readlink("/proc/self/exe", exe, sizeof exe - 1) > 0);
    snprintf(command, sizeof command, "cp %s %s", exe, path("program"));
    assert_int_equal(system(command), 0);
    write_script("new", "#!/bin/sh\nprintf r >&4\n");
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        execl(path("program"), "test", "successor", "be-replaced", folder, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void a_process_without_predecessor_notifies_no_process(void **state)
{
    (void)state;
    assert_false(handover_is_successor());
    handover_tell_ready();
    setenv("WEIR_HANDOVER_FD", "0",
           1); /* not a handover socket: must not be written to or closed */
    handover_tell_ready();
    assert_true(fcntl(0, F_GETFD) >= 0 || errno == EBADF);
    setenv("WEIR_HANDOVER_FD", "987", 1);
    handover_tell_ready();
    unsetenv("WEIR_HANDOVER_FD");
}

/* ---- systemd ---------------------------------------------------------------------------------- */

static void is_told(int fd, bool was_sent, const char *text)
{
    char heard[1024] = "";

    assert_true(was_sent);
    assert_true(recv(fd, heard, sizeof heard - 1, MSG_DONTWAIT) > 0);
    assert_int_equal(strncmp(heard, text, strlen(text)), 0);
    if (text[strlen(text) - 1] != '=')
        assert_int_equal(strlen(heard), strlen(text));
}

static void systemd_is_notified_by_path_or_abstract_name(void **state)
{
    char name[128];

    (void)state;
    for (int is_abstract = 0; is_abstract < 2; is_abstract++) {
        struct sockaddr_un a = { .sun_family = AF_UNIX };
        int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        size_t len;

        snprintf(name, sizeof name, "%s%s", is_abstract ? "@" : "", path("notify"));
        len = strlen(name);
        memcpy(a.sun_path, name, len);
        a.sun_path[0] = is_abstract ? '\0' : name[0];
        assert_int_equal(bind(fd, (struct sockaddr *)&a,
                              (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)),
                         0);
        setenv("NOTIFY_SOCKET", name, 1);
        is_told(fd, sd_notify_ready(), "READY=1");
        is_told(fd, sd_notify_stopping(), "STOPPING=1");
        is_told(fd, sd_notify_reloading(), "RELOADING=1\nMONOTONIC_USEC=");
        is_told(fd, sd_notify_main_pid(4711), "MAINPID=4711");
        is_told(fd, sd_notify_watchdog(), "WATCHDOG=1");
        close(fd);
        if (!is_abstract)
            unlink(name);
        assert_false(sd_notify_ready()); /* systemd does not listen any more */
    }
    unsetenv("NOTIFY_SOCKET");
}

static void without_systemd_nothing_is_sent(void **state)
{
    static const char *const names[] = { "", "@", "/", "relative", "vsock:2:1234" };

    (void)state;
    assert_false(sd_notify_ready());
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        setenv("NOTIFY_SOCKET", names[i], 1);
        assert_false(sd_notify_ready());
    }
    unsetenv("NOTIFY_SOCKET");
}

static void the_watchdog_is_fed_twice_as_often_as_needed(void **state)
{
    char pid[32];

    (void)state;
    assert_int_equal(sd_notify_watchdog_interval_ms(), 0);
    setenv("WATCHDOG_USEC", "30000000", 1);
    assert_int_equal(sd_notify_watchdog_interval_ms(), 15000);
    setenv("WATCHDOG_PID", "1", 1); /* of another process */
    assert_int_equal(sd_notify_watchdog_interval_ms(), 0);
    snprintf(pid, sizeof pid, "%ld", (long)getpid());
    setenv("WATCHDOG_PID", pid, 1);
    setenv("WATCHDOG_USEC", "10", 1);
    assert_int_equal(sd_notify_watchdog_interval_ms(), 1);
    setenv("WATCHDOG_USEC", "soon", 1);
    assert_int_equal(sd_notify_watchdog_interval_ms(), 0);
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
}

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return rmdir(folder);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_connection_is_refused_or_reset),
        cmocka_unit_test(a_successor_gets_no_more_than_it_should),
        cmocka_unit_test(a_successor_that_ends_is_reported),
        cmocka_unit_test(a_silent_successor_is_killed),
        cmocka_unit_test(a_program_that_cannot_be_run_is_reported),
        cmocka_unit_test(the_name_it_was_started_by_is_what_counts),
        cmocka_unit_test(a_file_that_took_the_programs_name_is_run),
        cmocka_unit_test(a_process_without_predecessor_notifies_no_process),
        cmocka_unit_test(systemd_is_notified_by_path_or_abstract_name),
        cmocka_unit_test(without_systemd_nothing_is_sent),
        cmocka_unit_test(the_watchdog_is_fed_twice_as_often_as_needed),
    };

    if (argc > 2 && strcmp(argv[1], "successor") == 0)
        return be_successor(argc, argv);
    self = argv[0];
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
