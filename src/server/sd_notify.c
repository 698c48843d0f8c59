/* sd_notify.c - tells systemd how the service is: one datagram with lines of NAME=VALUE. */
#include "server/sd_notify.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"

enum {
    SEND_TIMEOUT_US = 500 * 1000
}; /* a manager that does not listen must not stop the service */

static bool send_lines(const char *lines)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    struct timeval patience = { .tv_usec = SEND_TIMEOUT_US };
    size_t len = path ? strlen(path) : 0;
    ssize_t sent;
    int fd;

    if (len < 2 || len >= sizeof to.sun_path || (path[0] != '/' && path[0] != '@'))
        return false;
    memcpy(to.sun_path, path, len);
    if (path[0] == '@') /* abstract: without a NUL at the end, with one at the beginning */
        to.sun_path[0] = '\0';
    else
        len++;
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    sent = sendto(fd, lines, strlen(lines), MSG_NOSIGNAL, (const struct sockaddr *)&to,
                  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
    close(fd);
    return sent >= 0 && (size_t)sent == strlen(lines);
}

bool sd_notify_ready(void)
{
    return send_lines("READY=1");
}

bool sd_notify_stopping(void)
{
    return send_lines("STOPPING=1");
}

bool sd_notify_reloading(void)
{
    char lines[64];

    snprintf(lines, sizeof lines, "RELOADING=1\nMONOTONIC_USEC=%" PRId64, clock_monotonic_us());
    return send_lines(lines);
}

bool sd_notify_main_pid(pid_t pid)
{
    char lines[32];

    snprintf(lines, sizeof lines, "MAINPID=%ld", (long)pid);
    return send_lines(lines);
}

int64_t sd_notify_watchdog_interval_ms(void)
{
    const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    long long allowed = usec ? strtoll(usec, NULL, 10) : 0;

    if (allowed <= 0 || (pid && strtoll(pid, NULL, 10) != (long long)getpid()))
        return 0;
    return allowed / 2000 > 0 ? allowed / 2000 : 1;
}

bool sd_notify_watchdog(void)
{
    return send_lines("WATCHDOG=1");
}
