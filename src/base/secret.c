/* secret.c - the secret that keys the hashing of identities, kept in a file.
 *
 * FORMAT: 64 hex digits, and at most one newline behind them.
 *
 * CREATION writes and syncs a temporary file beside the secret and then links it to its
 * name: link(2) fails if the name is there, so of several processes one wins, and none
 * can read half a secret. rename(2) would replace the winner's. */
#include "base/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/diag.h"

enum { HEX = 2 * SECRET_BYTES };

weir_err secret_random(struct secret *out, weir_diag *diag)
{
    if (sodium_init() < 0) /* may be called again and from several threads */
        return diag_fail(diag, WEIR_ESECRET, "the system gives no random numbers");
    randombytes_buf(out->bytes, sizeof out->bytes);
    return WEIR_OK;
}

static weir_err fail_at(weir_diag *diag, const char *step, const char *path)
{
    return diag_fail(diag, WEIR_ESECRET, "cannot %s the secret file %s: %s", step, path,
                     strerror(errno));
}

/* As much as there is, up to `room`; -1 with errno. */
static ssize_t read_fully(int fd, char *into, size_t room)
{
    size_t len = 0;

    while (len < room) {
        ssize_t n = read(fd, into + len, room - len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        len += (size_t)n;
    }
    return (ssize_t)len;
}

static bool write_fully(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, bytes, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        bytes += n;
        len -= (size_t)n;
    }
    return true;
}

/* `keeper` may have it, besides this user and root. */
static weir_err read_secret(int fd, const char *path, uid_t keeper, struct secret *out,
                            weir_diag *diag)
{
    char text[HEX + 2]; /* a newline, and one byte that tells of more */
    struct stat st;
    ssize_t len;
    size_t bytes = 0;

    if (fstat(fd, &st) < 0)
        return fail_at(diag, "look at", path);
    if (!S_ISREG(st.st_mode))
        return diag_fail(diag, WEIR_ESECRET, "the secret %s is not a regular file", path);
    if (st.st_uid != geteuid() && st.st_uid != keeper && st.st_uid != 0)
        return diag_fail(diag, WEIR_ESECRET,
                         "the secret file %s belongs to another user (%ld), who could change it: "
                         "run chown on it",
                         path, (long)st.st_uid);
    if (st.st_mode & (S_IRWXG | S_IRWXO))
        return diag_fail(
            diag, WEIR_ESECRET,
            "other users can access the secret file %s (mode %04o): run chmod 600 on it", path,
            (unsigned)(st.st_mode & 07777));
    len = read_fully(fd, text, sizeof text);
    if (len < 0)
        return fail_at(diag, "read", path);
    if (len == HEX + 1 && text[HEX] == '\n')
        len--;
    if (len != HEX ||
        sodium_hex2bin(out->bytes, SECRET_BYTES, text, HEX, NULL, &bytes, NULL) != 0 ||
        bytes != SECRET_BYTES) {
        sodium_memzero(text, sizeof text);
        return diag_fail(
            diag, WEIR_ESECRET,
            "the secret file %s does not have %d hex digits: fill it with 'openssl rand -hex %d', "
            "or remove it to get a new one (all counts then start from zero)",
            path, HEX, SECRET_BYTES);
    }
    sodium_memzero(text, sizeof text);
    return WEIR_OK;
}

/* -1 with errno. */
static int open_directory_of(const char *path)
{
    char dir[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t len = slash ? (size_t)(slash - path) : 0;

    if (len >= sizeof dir) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(dir, path, len);
    dir[len] = '\0';
    return open(len > 0 ? dir : slash ? "/" : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* The new name must survive a power cut, or the next start would make another secret. */
static int sync_directory_of(const char *path)
{
    int fd = open_directory_of(path), result;

    if (fd < 0)
        return -1;
    result = fsync(fd);
    close(fd);
    return result;
}

/* Success also if another process was faster. */
static weir_err create_secret(const char *path, weir_diag *diag)
{
    char temporary[PATH_MAX], text[HEX + 2];
    struct secret fresh;
    const char *step;
    int fd = -1;
    weir_err err;

    if (snprintf(temporary, sizeof temporary, "%s.XXXXXX", path) >= (int)sizeof temporary)
        return diag_fail(diag, WEIR_ESECRET, "the path of the secret file is too long");
    err = secret_random(&fresh, diag);
    if (err)
        return err;
    sodium_bin2hex(text, sizeof text, fresh.bytes, sizeof fresh.bytes);
    text[HEX] = '\n';

    err = WEIR_ESECRET;
    step = "create";
    fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0)
        goto out;
    if (fchmod(fd, S_IRUSR | S_IWUSR) < 0)
        goto out;
    step = "write";
    if (!write_fully(fd, text, HEX + 1))
        goto out;
    step = "sync";
    if (fsync(fd) < 0)
        goto out;
    step = "name";
    if (link(temporary, path) < 0 && errno != EEXIST)
        goto out;
    step = "sync the directory of";
    if (sync_directory_of(path) < 0)
        goto out;
    err = WEIR_OK;
out:
    if (err)
        fail_at(diag, step, path);
    if (fd >= 0) {
        unlink(temporary);
        close(fd);
    }
    sodium_memzero(text, sizeof text);
    sodium_memzero(&fresh, sizeof fresh);
    return err;
}

static weir_err load(const char *path, int links, uid_t keeper, struct secret *out, weir_diag *diag)
{
    /* O_NONBLOCK: a fifo must be refused, not waited for. */
    const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | links;
    int fd = open(path, flags);
    weir_err err;

    if (fd < 0 && errno == ENOENT) {
        err = create_secret(path, diag);
        if (err)
            return err;
        fd = open(path, flags);
    }
    if (fd < 0 && errno == ELOOP && links & O_NOFOLLOW)
        return diag_fail(
            diag, WEIR_ESECRET,
            "the secret %s is a symbolic link: give the file that it points to as the secret file",
            path);
    if (fd < 0)
        return fail_at(diag, "open", path);
    err = read_secret(fd, path, keeper, out, diag);
    close(fd);
    return err;
}

weir_err secret_load(const char *path, struct secret *out, weir_diag *diag)
{
    return load(path, 0, geteuid(), out, diag);
}

weir_err secret_load_beside(const char *path, struct secret *out, weir_diag *diag)
{
    int dir = open_directory_of(path);
    uid_t keeper = geteuid();
    struct stat st;

    /* Root looks at the store of a service: all that is in there is its owner's already. */
    if (dir >= 0 && fstat(dir, &st) == 0)
        keeper = st.st_uid;
    if (dir >= 0)
        close(dir);
    /* weir puts no link into a data directory: one that is there may lead to a file of ours that
     * another user knows. */
    return load(path, O_NOFOLLOW, keeper, out, diag);
}
