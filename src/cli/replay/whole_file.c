/* whole_file.c - a file that is written as a whole, or stays as it was. */
#include "cli/replay/whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/diag.h"

static weir_err fail(const char *path, int why, weir_diag *diag)
{
    diag_set(diag, "cannot write %s: %s", path, strerror(why));
    return WEIR_EIO;
}

/* The folder that the file is in, with its last slash: "" for the current one. */
static size_t folder_len(const char *path)
{
    const char *const slash = strrchr(path, '/');

    return slash ? (size_t)(slash - path) + 1 : 0;
}

weir_err whole_file_try(const char *path, weir_diag *diag)
{
    char folder[PATH_MAX];
    const size_t len = folder_len(path);
    struct stat st;

    if (!*path || len + sizeof ".XXXXXX" + strlen(path) > sizeof folder)
        return fail(path, *path ? ENAMETOOLONG : ENOENT, diag);
    snprintf(folder, sizeof folder, "%.*s", len > 0 ? (int)len : 1, len > 0 ? path : ".");
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return fail(path, EISDIR, diag);
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return access(path, W_OK) == 0 ? WEIR_OK : fail(path, errno, diag);
    return access(folder, W_OK | X_OK) == 0 ? WEIR_OK : fail(path, errno, diag);
}

/* 0, or the errno. */
static int write_all(int fd, struct span bytes)
{
    while (bytes.len > 0) {
        const ssize_t n = write(fd, bytes.at, bytes.len);

        if (n < 0 && errno != EINTR)
            return errno;
        if (n > 0)
            bytes = (struct span){ bytes.at + n, bytes.len - (size_t)n };
    }
    return 0;
}

/* As it was, or as a new file is. */
static mode_t mode_of(const char *path)
{
    struct stat st;
    mode_t mask;

    if (stat(path, &st) == 0)
        return st.st_mode & 0777;
    mask = umask(0);
    umask(mask);
    return 0666 & ~mask;
}

static int replace(const char *path, struct span bytes)
{
    const size_t len = folder_len(path);
    char temporary[PATH_MAX];
    int fd, why;

    snprintf(temporary, sizeof temporary, "%.*s.%s.XXXXXX", (int)len, path, path + len);
    fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0)
        return errno;
    why = write_all(fd, bytes);
    if (!why && fchmod(fd, mode_of(path)) != 0)
        why = errno;
    /* Some file systems say only now that there was no room; and a name must not point at bytes
     * that a power cut takes. */
    if (!why && fsync(fd) != 0)
        why = errno;
    if (close(fd) != 0 && !why)
        why = errno;
    if (!why && rename(temporary, path) != 0)
        why = errno;
    if (why)
        unlink(temporary);
    return why;
}

static int write_into(const char *path, struct span bytes)
{
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    int why;

    if (fd < 0)
        return errno;
    why = write_all(fd, bytes);
    if (close(fd) != 0 && !why)
        why = errno;
    return why;
}

weir_err whole_file_write(const char *path, struct span bytes, weir_diag *diag)
{
    weir_err err = whole_file_try(path, diag);
    struct stat st;
    int why;

    if (err)
        return err;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        why = write_into(path, bytes);
    } else {
        char *const file = realpath(path, NULL); /* so that a symbolic link stays one */

        why = replace(file ? file : path, bytes);
        free(file);
    }
    return why ? fail(path, why, diag) : WEIR_OK;
}
