/* port_owner.c - who listens on a TCP port already, by what /proc has of sockets and processes. */
#include "net/port_owner.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    STATE_LISTEN = 0x0a,
    MOST_SOCKETS = 64, /* looked for; one is enough to find the process */
};

/* The inodes of the sockets that listen on a port. */
static size_t find_sockets(const char *table, int port, unsigned long *inodes, size_t room)
{
    FILE *f = fopen(table, "re");
    char line[512];
    size_t n = 0;

    while (f && n < room && fgets(line, sizeof line, f)) {
        unsigned local, state;
        unsigned long inode;

        if (sscanf(line, " %*[0-9]: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*s %*s %*s %*s %*s %lu",
                   &local, &state, &inode) == 3 &&
            state == STATE_LISTEN && local == (unsigned)port)
            inodes[n++] = inode;
    }
    if (f)
        fclose(f);
    return n;
}

static bool has_one_of(const char *pid, const unsigned long *inodes, size_t n)
{
    char path[320], target[64];
    struct dirent *entry;
    bool found = false;
    DIR *fds;

    snprintf(path, sizeof path, "/proc/%s/fd", pid);
    fds = opendir(path);
    if (!fds)
        return false;
    while (!found && (entry = readdir(fds))) {
        ssize_t len = readlinkat(dirfd(fds), entry->d_name, target, sizeof target - 1);

        if (len <= 0)
            continue;
        target[len] = '\0';
        if (strncmp(target, "socket:[", 8) != 0)
            continue;
        for (size_t i = 0; i < n; i++)
            found |= strtoul(target + 8, NULL, 10) == inodes[i];
    }
    closedir(fds);
    return found;
}

static void name_process(const char *pid, char *out, size_t room)
{
    char path[320], name[64] = "";
    FILE *f;

    snprintf(path, sizeof path, "/proc/%s/comm", pid);
    f = fopen(path, "re");
    if (f && fgets(name, sizeof name, f))
        name[strcspn(name, "\n")] = '\0';
    if (f)
        fclose(f);
    snprintf(out, room, "%s (process %s)", name[0] ? name : "a program", pid);
}

bool port_owner(int port, char *out, size_t room)
{
    unsigned long inodes[MOST_SOCKETS];
    struct dirent *entry;
    bool found = false;
    DIR *processes;
    size_t n;

    n = find_sockets("/proc/net/tcp", port, inodes, MOST_SOCKETS / 2);
    n += find_sockets("/proc/net/tcp6", port, inodes + n, MOST_SOCKETS / 2);
    processes = n > 0 ? opendir("/proc") : NULL;
    if (!processes)
        return false;
    while (!found && (entry = readdir(processes))) {
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
            continue;
        found = has_one_of(entry->d_name, inodes, n);
        if (found)
            name_process(entry->d_name, out, room);
    }
    closedir(processes);
    return found;
}
