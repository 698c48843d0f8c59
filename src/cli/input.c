/* input.c - files and standard input, read whole. */
#include "cli/input.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cli/terminal.h"

static bool refuse(const char *path)
{
    const int why = errno;

    trouble("cannot read %s: %s%s", strcmp(path, "-") == 0 ? "standard input" : path, strerror(why),
            why == ENOENT   ? ": check the path"
            : why == EACCES ? ": let this user read it"
            : why == EISDIR ? ": name a file in it"
                            : "");
    return false;
}

bool input_is_there(const char *path)
{
    return access(path, R_OK) == 0 || refuse(path);
}

bool input_read(const char *path, size_t most, struct buf *into)
{
    const bool is_stdin = strcmp(path, "-") == 0;
    const int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    bool good = fd >= 0;

    if (!good)
        return refuse(path);
    while (good && into->len <= most && !into->failed) {
        char bytes[4096];
        ssize_t n = read(fd, bytes, sizeof bytes);

        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            break;
        if (n < 0)
            good = refuse(path);
        else
            buf_add(into, (struct span){ bytes, (size_t)n });
    }
    if (!is_stdin)
        close(fd);
    if (into->failed) {
        trouble("cannot read %s: out of memory", path);
        good = false;
    }
    return good;
}
