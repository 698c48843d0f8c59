/* test_listener.c - addresses, the sockets opened for them, and those that are given. */
#include "support/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/listener.h"

static char folder[] = "/tmp/weir-listen-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder); /* fails if a socket was left behind */
}

static struct listeners opened(const char *address, size_t loops)
{
    struct listeners l;
    weir_diag diag = { "" };

    if (listeners_open(&l, &address, 1, loops, &diag))
        fail_msg("%s", diag.text);
    return l;
}

static void is_refused(const char *address, const char *said)
{
    struct listeners l;
    weir_diag diag = { "" };

    assert_true(listeners_open(&l, &address, 1, 1, &diag) != WEIR_OK);
    assert_int_equal(l.count, 0);
    if (!strstr(diag.text, said))
        fail_msg("%s: %s", address, diag.text);
}

static int port_of(const struct listener *l)
{
    return atoi(strrchr(l->name, ':') + 1);
}

/* A connection to the socket's own address; -1: refused. */
static int connect_to(const struct listener *l)
{
    struct sockaddr_storage a;
    socklen_t len = sizeof a;
    int fd;

    assert_int_equal(getsockname(l->fd, (struct sockaddr *)&a, &len), 0);
    fd = socket(a.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    if (connect(fd, (struct sockaddr *)&a, len) == 0)
        return fd;
    close(fd);
    return -1;
}

static bool is_free_of_v6(void)
{
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    struct sockaddr_in6 a = { .sin6_family = AF_INET6, .sin6_addr = in6addr_loopback };
    bool has = fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0;

    if (fd >= 0)
        close(fd);
    return !has;
}

/* ---- addresses ----------------------------------------------------------------------- */

static void an_address_tells_whether_it_is_loopback_or_public(void **state)
{
    const struct {
        const char *address;
        bool is_loopback;
    } all[] = {
        { "127.0.0.1:7878", true },
        { "127.9.9.9:0", true },
        { "[::1]:7878", true },
        { "localhost:7878", true },
        { "unix:/run/weir", true },
        { "[::ffff:127.0.0.1]:1", true },
        { "0.0.0.0:7878", false },
        { "[::]:7878", false },
        { "*:7878", false },
        { ":7878", false },
        { "192.0.2.1:65535", false },
        { "[2001:db8::1]:80", false },
        { "[::ffff:192.0.2.1]:1", false },
    };
    weir_diag diag;

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        bool is_loopback = !all[i].is_loopback;

        assert_int_equal(listener_check(all[i].address, &is_loopback, &diag), WEIR_OK);
        assert_int_equal(is_loopback, all[i].is_loopback);
    }
}

static void invalid_addresses_are_rejected_with_an_example(void **state)
{
    static const struct {
        const char *address, *said;
    } all[] = {
        { "", "HOST:PORT" },
        { "7878", "HOST:PORT" },
        { "localhost", "HOST:PORT" },
        { "localhost:", "a port is a number" },
        { "localhost:http", "a port is a number" },
        { "localhost:-1", "a port is a number" },
        { "localhost: 1", "a port is a number" },
        { "localhost:65536", "a port is a number" },
        { "localhost:99999999999999999999", "a port is a number" },
        { "localhost:80x", "a port is a number" },
        { "::1:7878", "in brackets" },
        { "[::1:7878", "bracket" },
        { "[::1]", "a port is a number" },
        { "[localhost]:7878", "not an IPv6 address" },
        { "[127.0.0.1]:7878", "not an IPv6 address" },
        { "[]:7878", "not an IPv6 address" },
        { "300.1.1.1:7878", "unknown host" },
        { "unix:", "a path is missing" },
    };
    char longest[400] = "unix:/";
    bool is_loopback;
    weir_diag diag;

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        diag.text[0] = '\0';
        if (listener_check(all[i].address, &is_loopback, &diag) != WEIR_EOPTION ||
            !strstr(diag.text, all[i].said))
            fail_msg("%s: %s", all[i].address, diag.text);
    }
    memset(longest + 6, 'x', 107); /* with the slash, one too many */
    assert_int_equal(listener_check(longest, &is_loopback, &diag), WEIR_EOPTION);
    assert_non_null(strstr(diag.text, "at most 107"));
    longest[6 + 106] = '\0';
    assert_int_equal(listener_check(longest, &is_loopback, &diag), WEIR_OK);
    memset(longest, 'x', sizeof longest - 4);
    memcpy(longest + sizeof longest - 4, ":80", 4);
    assert_int_equal(listener_check(longest, &is_loopback, &diag), WEIR_EOPTION);
}

/* ---- TCP ------------------------------------------------------------------------------- */

static void every_loop_has_a_socket_of_its_own_on_one_port(void **state)
{
    struct listeners l = opened("127.0.0.1:0", 4);
    size_t accepted = 0;
    int clients[64];

    (void)state;
    assert_int_equal(l.count, 4);
    for (size_t i = 0; i < l.count; i++) {
        assert_int_equal(port_of(&l.all[i]), port_of(&l.all[0]));
        assert_true(port_of(&l.all[i]) > 0);
        assert_int_equal(l.all[i].loop, i);
        assert_true(listener_is_for(&l.all[i], i) && !listener_is_for(&l.all[i], i + 1));
        assert_true(l.all[i].is_loopback && l.all[i].is_own && !l.all[i].is_unix);
        assert_int_equal(fcntl(l.all[i].fd, F_GETFD), FD_CLOEXEC);
        assert_true(fcntl(l.all[i].fd, F_GETFL) & O_NONBLOCK);
    }
    for (size_t i = 0; i < 64; i++) {
        clients[i] = connect_to(&l.all[0]);
        assert_true(clients[i] >= 0);
    }
    for (size_t i = 0; i < l.count; i++)
        for (int fd; (fd = accept(l.all[i].fd, NULL, NULL)) >= 0; accepted++)
            close(fd);
    assert_int_equal(accepted, 64);
    for (size_t i = 0; i < 64; i++)
        close(clients[i]);
    listeners_close(&l, true);
}

static void localhost_and_everything_are_both_families_on_one_port(void **state)
{
    static const char *const addresses[] = { "localhost:0", "*:0", ":0" };

    (void)state;
    for (size_t a = 0; a < 3; a++) {
        struct listeners l = opened(addresses[a], 2);
        size_t v6 = 0;

        for (size_t i = 0; i < l.count; i++) {
            int fd = connect_to(&l.all[i]);

            assert_int_equal(port_of(&l.all[i]), port_of(&l.all[0]));
            assert_int_equal(l.all[i].is_loopback, a == 0);
            assert_int_equal(l.all[i].loop, i % 2);
            assert_true(fd >= 0);
            close(fd);
            v6 += l.all[i].name[0] == '[';
        }
        assert_int_equal(v6, is_free_of_v6() ? 0 : 2);
        assert_int_equal(l.count - v6, 2);
        listeners_close(&l, true);
    }
}

static void an_address_may_be_named_twice(void **state)
{
    struct listeners first = opened("127.0.0.1:0", 1), l;
    char one[64], two[64];
    const char *addresses[] = { one, two };
    weir_diag diag;

    (void)state;
    snprintf(one, sizeof one, "localhost:%d", port_of(&first.all[0]));
    snprintf(two, sizeof two, "127.0.0.1:%d", port_of(&first.all[0]));
    listeners_close(&first, true);
    assert_int_equal(listeners_open(&l, addresses, 2, 2, &diag), WEIR_OK);
    assert_int_equal(l.count, is_free_of_v6() ? 2 : 4);
    listeners_close(&l, true);
}

static void addresses_that_overlap_are_rejected(void **state)
{
    struct listeners first = opened("127.0.0.1:0", 1), l;
    char one[64], two[64];
    const char *addresses[] = { one, two };
    weir_diag diag;

    (void)state;
    snprintf(one, sizeof one, "0.0.0.0:%d", port_of(&first.all[0]));
    snprintf(two, sizeof two, "127.0.0.1:%d", port_of(&first.all[0]));
    listeners_close(&first, true);
    assert_int_equal(listeners_open(&l, addresses, 2, 2, &diag), WEIR_ESYSTEM);
    assert_non_null(strstr(diag.text, "has this port already"));
}

/* Even one of the same user that shares its port, as SO_REUSEPORT would allow. */
static void a_port_in_use_is_reported_with_the_process_that_has_it(void **state)
{
    int told[2], port = 0, status;
    char address[64], who[64];
    pid_t other;

    (void)state;
    assert_int_equal(pipe(told), 0);
    other = fork();
    assert_true(other >= 0);
    if (other == 0) {
        struct listeners l = opened("127.0.0.1:0", 2);

        port = port_of(&l.all[0]);
        if (write(told[1], &port, sizeof port) == sizeof port)
            pause();
        _exit(1);
    }
    assert_int_equal(read(told[0], &port, sizeof port), sizeof port);
    snprintf(address, sizeof address, "127.0.0.1:%d", port);
    snprintf(who, sizeof who, "in use by test_listener (process %ld)", (long)other);
    is_refused(address, who);
    kill(other, SIGKILL);
    waitpid(other, &status, 0);
    close(told[0]);
    close(told[1]);
}

static void an_address_of_another_machine_is_rejected(void **state)
{
    (void)state;
    is_refused("192.0.2.1:0", "no interface of this machine");
}

/* Run in another process, which may lose its rights or descriptors. */
static void holds_elsewhere(bool (*check)(void))
{
    pid_t pid = fork();
    int status;

    assert_true(pid >= 0);
    if (pid == 0)
        _exit(check() ? 0 : 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static bool is_denied_a_low_port(void)
{
    const char *address = "127.0.0.1:79";
    struct listeners l;
    weir_diag diag = { "" };

    if (setgid(65534) != 0 || setuid(65534) != 0)
        return false;
    return listeners_open(&l, &address, 1, 1, &diag) == WEIR_ESYSTEM &&
           strstr(diag.text, "CAP_NET_BIND_SERVICE");
}

static void a_low_port_needs_a_right(void **state)
{
    FILE *f = fopen("/proc/sys/net/ipv4/ip_unprivileged_port_start", "re");
    int first = 1024;

    (void)state;
    if (f && fscanf(f, "%d", &first) != 1)
        first = 0;
    if (f)
        fclose(f);
    if (geteuid() != 0 || first <= 79)
        skip();
    holds_elsewhere(is_denied_a_low_port);
}

/* ---- Unix sockets ------------------------------------------------------------------------ */

static const char *unix_address(void)
{
    static char address[128];

    snprintf(address, sizeof address, "unix:%s/socket", folder);
    return address;
}

static void a_unix_socket_is_for_user_and_group_and_for_all_loops(void **state)
{
    mode_t before = umask(0077);
    struct listeners l = opened(unix_address(), 4);
    struct stat st;
    int fd;

    (void)state;
    umask(before);
    assert_int_equal(l.count, 1);
    assert_true(l.all[0].is_unix && l.all[0].is_loopback && l.all[0].is_shared);
    assert_true(listener_is_for(&l.all[0], 0) && listener_is_for(&l.all[0], 3));
    assert_string_equal(l.all[0].name, unix_address());
    assert_int_equal(stat(l.all[0].path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0660);
    fd = connect_to(&l.all[0]);
    assert_true(fd >= 0);
    close(fd);
    listeners_close(&l, true);
    assert_int_equal(stat(unix_address() + 5, &st), -1);
}

static void a_stale_unix_socket_is_replaced(void **state)
{
    struct listeners l = opened(unix_address(), 1);

    (void)state;
    listeners_close(&l, false); /* as if killed */
    l = opened(unix_address(), 1);
    listeners_close(&l, true);
}

static void a_unix_socket_in_use_is_left_alone(void **state)
{
    struct listeners l = opened(unix_address(), 1);
    int fd;

    (void)state;
    is_refused(unix_address(), "is listening there");
    fd = connect_to(&l.all[0]);
    assert_true(fd >= 0);
    close(fd);
    listeners_close(&l, true);
}

static void a_file_in_the_way_is_left_alone(void **state)
{
    const char *path = unix_address() + 5;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    is_refused(unix_address(), "is a file, not a socket");
    assert_int_equal(unlink(path), 0); /* it is still there */
    is_refused("unix:/nowhere/at/all", "directory is missing");
}

static void of_several_addresses_all_or_none_are_open(void **state)
{
    const char *addresses[] = { unix_address(), "127.0.0.1:0", "192.0.2.1:0" };
    struct listeners l;
    struct stat st;
    weir_diag diag;

    (void)state;
    assert_int_equal(listeners_open(&l, addresses, 3, 2, &diag), WEIR_ESYSTEM);
    assert_int_equal(stat(unix_address() + 5, &st), -1);
    assert_int_equal(listeners_open(&l, addresses, 2, 2, &diag), WEIR_OK);
    assert_int_equal(l.count, 3);
    listeners_close(&l, true);
}

/* ---- sockets that are given ---------------------------------------------------------------- */

static int new_socket(int type, bool listens)
{
    struct sockaddr_in any = { .sin_family = AF_INET };
    int fd = socket(AF_INET, type, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&any, sizeof any) != 0 ||
        (listens && listen(fd, 1) != 0))
        return -1;
    return fd;
}

/* As systemd does: descriptors from 3 on. */
static void give(const int *fds, int n, const char *names)
{
    char number[32];

    for (int i = 0; i < n; i++)
        dup2(fds[i], 100 + i);
    for (int i = 0; i < n; i++)
        dup2(100 + i, 3 + i);
    snprintf(number, sizeof number, "%d", n);
    setenv("LISTEN_FDS", number, 1);
    snprintf(number, sizeof number, "%ld", (long)getpid());
    setenv("LISTEN_PID", number, 1);
    if (names)
        setenv("LISTEN_FDNAMES", names, 1);
}

static bool the_sockets_of_systemd_are_all_there_is(void)
{
    const char *address = "127.0.0.1:0";
    struct listeners l, local;
    weir_diag diag = { "" };
    int fds[2];

    local = opened(unix_address(), 1);
    fds[0] = new_socket(SOCK_STREAM, true);
    fds[1] = local.all[0].fd;
    give(fds, 2, "weir.socket:weir.socket");
    return listeners_open(&l, &address, 1, 3, &diag) == WEIR_OK && l.count == 2 &&
           l.all[0].fd == 3 && !l.all[0].is_loopback && !l.all[0].is_unix && !l.all[0].is_own &&
           l.all[0].is_shared && strncmp(l.all[0].name, "0.0.0.0:", 8) == 0 && l.all[1].fd == 4 &&
           l.all[1].is_unix && l.all[1].is_loopback && l.all[1].path[0] == '\0' &&
           fcntl(3, F_GETFD) == FD_CLOEXEC && (fcntl(3, F_GETFL) & O_NONBLOCK) &&
           !getenv("LISTEN_FDS") && !getenv("LISTEN_PID") && !getenv("LISTEN_FDNAMES") &&
           unlink(local.all[0].path) == 0;
}

static bool those_of_another_process_are_not_ours(void)
{
    const char *address = "127.0.0.1:0";
    struct listeners l;
    weir_diag diag = { "" };
    int fd = new_socket(SOCK_STREAM, true);

    give(&fd, 1, NULL);
    setenv("LISTEN_PID", "1", 1);
    return listeners_open(&l, &address, 1, 1, &diag) == WEIR_OK && l.count == 1 &&
           l.all[0].is_own && l.all[0].is_loopback;
}

static bool is_given_in_vain(int fd)
{
    const char *address = "127.0.0.1:0";
    struct listeners l;
    weir_diag diag = { "" };

    give(&fd, 1, NULL);
    return listeners_open(&l, &address, 1, 1, &diag) == WEIR_EOPTION &&
           strstr(diag.text, "ListenStream=");
}

static bool only_listening_streams_are_taken(void)
{
    int file = open("/dev/null", O_RDONLY);

    return is_given_in_vain(new_socket(SOCK_DGRAM, false)) &&
           is_given_in_vain(new_socket(SOCK_STREAM, false)) && is_given_in_vain(file);
}

/* The sockets of a predecessor, for an address that is still wanted, one that is not, and one
 * that is new. */
static bool a_predecessors_sockets_are_used_where_wanted(void)
{
    struct listeners kept = opened("127.0.0.1:0", 3), dropped = opened("127.0.0.1:0", 1), l;
    const char *addresses[] = { kept.all[0].name, "127.0.0.2:0" };
    int fds[4] = { kept.all[0].fd, dropped.all[0].fd, kept.all[1].fd, kept.all[2].fd };
    weir_diag diag = { "" };

    give(fds, 4, "weir-own:weir-own:weir-own:weir-own");
    return listeners_open(&l, addresses, 2, 2, &diag) == WEIR_OK && l.count == 3 + 2 &&
           l.all[0].fd == 3 && l.all[1].fd == 5 && l.all[2].fd == 6 && l.all[0].loop == 0 &&
           l.all[1].loop == 1 && l.all[2].loop == 0 && !l.all[2].is_shared && l.all[2].is_own &&
           strncmp(l.all[3].name, "127.0.0.2:", 10) == 0 && fcntl(4, F_GETFD) == -1;
}

static bool a_chosen_port_stays(void)
{
    struct listeners before = opened("localhost:0", 1), l;
    const char *address = "localhost:0";
    int fds[2] = { before.all[0].fd, before.all[before.count - 1].fd };
    weir_diag diag = { "" };

    give(fds, (int)before.count, "weir-own:weir-own");
    return listeners_open(&l, &address, 1, 1, &diag) == WEIR_OK && l.count == before.count &&
           port_of(&l.all[0]) == port_of(&before.all[0]) && l.all[0].fd == 3;
}

static bool fewer_sockets_than_loops_are_shared(void)
{
    struct listeners before = opened("127.0.0.1:0", 2), l;
    const char *address = before.all[0].name;
    int fds[2] = { before.all[0].fd, before.all[1].fd };
    weir_diag diag = { "" };

    give(fds, 2, "weir-own:weir-own");
    return listeners_open(&l, &address, 1, 4, &diag) == WEIR_OK && l.count == 2 &&
           listener_is_for(&l.all[0], 3) && listener_is_for(&l.all[1], 0);
}

static void sockets_that_are_given_are_adopted(void **state)
{
    (void)state;
    holds_elsewhere(the_sockets_of_systemd_are_all_there_is);
    holds_elsewhere(those_of_another_process_are_not_ours);
    holds_elsewhere(only_listening_streams_are_taken);
}

static void sockets_that_are_handed_over_are_adopted(void **state)
{
    (void)state;
    holds_elsewhere(a_predecessors_sockets_are_used_where_wanted);
    holds_elsewhere(a_chosen_port_stays);
    holds_elsewhere(fewer_sockets_than_loops_are_shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_tells_whether_it_is_loopback_or_public),
        cmocka_unit_test(invalid_addresses_are_rejected_with_an_example),
        cmocka_unit_test(every_loop_has_a_socket_of_its_own_on_one_port),
        cmocka_unit_test(localhost_and_everything_are_both_families_on_one_port),
        cmocka_unit_test(an_address_may_be_named_twice),
        cmocka_unit_test(addresses_that_overlap_are_rejected),
        cmocka_unit_test(a_port_in_use_is_reported_with_the_process_that_has_it),
        cmocka_unit_test(an_address_of_another_machine_is_rejected),
        cmocka_unit_test(a_low_port_needs_a_right),
        cmocka_unit_test(a_unix_socket_is_for_user_and_group_and_for_all_loops),
        cmocka_unit_test(a_stale_unix_socket_is_replaced),
        cmocka_unit_test(a_unix_socket_in_use_is_left_alone),
        cmocka_unit_test(a_file_in_the_way_is_left_alone),
        cmocka_unit_test(of_several_addresses_all_or_none_are_open),
        cmocka_unit_test(sockets_that_are_given_are_adopted),
        cmocka_unit_test(sockets_that_are_handed_over_are_adopted),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
