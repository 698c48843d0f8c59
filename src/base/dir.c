/* dir.c - the disk as the file store sees it: the real one. */
#include "base/dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/diag.h"

/* File systems that write in place, so that what was written once has its room for ever. */
enum { EXT = 0xef53, TMPFS = 0x01021994 };

static const char lock_name[] = "lock";

struct real_dir {
    struct dir dir;
    weir_allocator allocator;
    int fd, lock_fd;
};

struct file {
    struct real_dir *owner;
    int fd;
};

static weir_err fail(struct dir *d)
{
    d->why = errno;
    return WEIR_EIO;
}

static weir_err open_file(struct dir *d, const char *name, int flags, struct file **out)
{
    struct real_dir *r = (struct real_dir *)d;
    struct file *f = alloc_zeroed(&r->allocator, sizeof *f);

    if (!f)
        return WEIR_ENOMEM;
    f->owner = r;
    f->fd = openat(r->fd, name, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (f->fd < 0) {
        weir_err err = fail(d);

        alloc_free(&r->allocator, f);
        return err;
    }
    *out = f;
    return WEIR_OK;
}

static weir_err create_file(struct dir *d, const char *name, struct file **out)
{
    return open_file(d, name, O_RDWR | O_CREAT | O_TRUNC, out);
}

static weir_err open_existing(struct dir *d, const char *name, struct file **out)
{
    return open_file(d, name, O_RDWR, out);
}

static void close_file(struct file *f)
{
    close(f->fd);
    alloc_free(&f->owner->allocator, f);
}

static weir_err size_of(struct file *f, uint64_t *out)
{
    struct stat st;

    if (fstat(f->fd, &st) != 0)
        return fail(&f->owner->dir);
    *out = (uint64_t)st.st_size;
    return WEIR_OK;
}

static weir_err read_at(struct file *f, uint64_t at, void *into, size_t len)
{
    char *to = into;

    while (len > 0) {
        ssize_t n = pread(f->fd, to, len, (off_t)at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = EIO; /* shorter than it was said to be */
        if (n <= 0)
            return fail(&f->owner->dir);
        to += n;
        at += (uint64_t)n;
        len -= (size_t)n;
    }
    return WEIR_OK;
}

static weir_err write_at(struct file *f, uint64_t at, const void *bytes, size_t len)
{
    const char *from = bytes;

    while (len > 0) {
        ssize_t n = pwrite(f->fd, from, len, (off_t)at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = ENOSPC;
        if (n <= 0)
            return fail(&f->owner->dir);
        from += n;
        at += (uint64_t)n;
        len -= (size_t)n;
    }
    return WEIR_OK;
}

static weir_err truncate_to(struct file *f, uint64_t size)
{
    return ftruncate(f->fd, (off_t)size) == 0 ? WEIR_OK : fail(&f->owner->dir);
}

static weir_err sync_file(struct file *f)
{
    return fdatasync(f->fd) == 0 ? WEIR_OK : fail(&f->owner->dir);
}

static weir_err write_out(struct file *f, uint64_t at, uint64_t len)
{
    const unsigned all = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                         SYNC_FILE_RANGE_WAIT_AFTER;

    if (sync_file_range(f->fd, (off_t)at, (off_t)len, all) == 0)
        return WEIR_OK;
    return errno == EIO || errno == ENOSPC || errno == EDQUOT ? fail(&f->owner->dir) : WEIR_OK;
}

static weir_err map_file(struct file *f, size_t len, void **out)
{
    struct statfs fs;
    void *at;

    if (fstatfs(f->fd, &fs) != 0)
        return fail(&f->owner->dir);
    if (fs.f_type != EXT && fs.f_type != TMPFS) {
        errno = EOPNOTSUPP;
        return fail(&f->owner->dir);
    }
    at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, f->fd, 0);
    if (at == MAP_FAILED)
        return fail(&f->owner->dir);
    *out = at;
    return WEIR_OK;
}

static void unmap_file(struct file *f, void *at, size_t len)
{
    (void)f;
    munmap(at, len);
}

static weir_err rename_file(struct dir *d, const char *from, const char *to)
{
    const int fd = ((struct real_dir *)d)->fd;

    return renameat(fd, from, fd, to) == 0 ? WEIR_OK : fail(d);
}

static weir_err remove_file(struct dir *d, const char *name)
{
    return unlinkat(((struct real_dir *)d)->fd, name, 0) == 0 ? WEIR_OK : fail(d);
}

static weir_err sync_names(struct dir *d)
{
    return fsync(((struct real_dir *)d)->fd) == 0 ? WEIR_OK : fail(d);
}

static weir_err list_names(struct dir *d, void (*each)(void *ctx, const char *name), void *ctx)
{
    int fd = openat(((struct real_dir *)d)->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *names = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;

    if (!names) {
        weir_err err = fail(d);

        if (fd >= 0)
            close(fd);
        return err;
    }
    while ((entry = readdir(names)))
        each(ctx, entry->d_name);
    closedir(names);
    return WEIR_OK;
}

static void done(struct dir *d)
{
    struct real_dir *r = (struct real_dir *)d;
    weir_allocator allocator = r->allocator;

    close(r->lock_fd); /* releases the lock; the file stays, for the next owner */
    close(r->fd);
    alloc_free(&allocator, (void *)d->path);
    alloc_free(&allocator, r);
}

static const struct dir_ops real_ops = {
    .create = create_file,
    .open = open_existing,
    .close = close_file,
    .size = size_of,
    .read = read_at,
    .write = write_at,
    .truncate = truncate_to,
    .sync = sync_file,
    .write_out = write_out,
    .map = map_file,
    .unmap = unmap_file,
    .rename = rename_file,
    .remove = remove_file,
    .sync_dir = sync_names,
    .list = list_names,
    .done = done,
};

/* One owner at a time. The lock dies with the process, so a crash leaves nothing behind. */
static weir_err take_lock(struct real_dir *r, weir_diag *diag)
{
    char pid[32] = "";
    ssize_t n;

    r->lock_fd = openat(r->fd, lock_name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (r->lock_fd < 0)
        return diag_fail(diag, WEIR_ESYSTEM, "cannot open the lock of %s: %s", r->dir.path,
                         strerror(errno));
    if (flock(r->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK)
            return diag_fail(diag, WEIR_ESYSTEM, "cannot lock %s: %s", r->dir.path,
                             strerror(errno));
        n = pread(r->lock_fd, pid, sizeof pid - 1, 0);
        pid[n > 0 ? n : 0] = '\0';
        pid[strspn(pid, "0123456789")] = '\0';
        return diag_fail(diag, WEIR_EBUSY,
                         "%s is in use by process %s: stop it first, or send requests to it",
                         r->dir.path, pid[0] ? pid : "(unknown)");
    }
    n = snprintf(pid, sizeof pid, "%ld\n", (long)getpid());
    if (ftruncate(r->lock_fd, 0) != 0 || pwrite(r->lock_fd, pid, (size_t)n, 0) != n)
        errno = 0; /* a full disk must not keep the owner out; only the pid is missing */
    return WEIR_OK;
}

/* A directory that was just made must survive a power cut, or all in it would go. Its parent may
 * be closed to this process; then it was made by another process. */
static void sync_parent(const struct real_dir *r)
{
    int fd = openat(r->fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return;
    fsync(fd);
    close(fd);
}

/* Who may write to the directory can replace what is counted, and the secret. */
static weir_err refuse_if_others_may_write(const struct real_dir *r, weir_diag *diag)
{
    struct stat st;

    if (fstat(r->fd, &st) != 0)
        return diag_fail(diag, WEIR_ESYSTEM, "cannot stat the directory %s: %s", r->dir.path,
                         strerror(errno));
    if (st.st_mode & (S_IWGRP | S_IWOTH))
        return diag_fail(diag, WEIR_ESYSTEM,
                         "others may write to the directory %s (mode %04o): run chmod go-w %s",
                         r->dir.path, (unsigned)(st.st_mode & 07777), r->dir.path);
    return WEIR_OK;
}

weir_err dir_open(struct dir **out, const char *path, const weir_allocator *allocator,
                  weir_diag *diag)
{
    struct real_dir *r = alloc_zeroed(allocator, sizeof *r);
    char *copy = alloc_resize(allocator, NULL, strlen(path) + 1);
    weir_err err = WEIR_OK;

    if (!r || !copy) {
        alloc_free(allocator, r);
        alloc_free(allocator, copy);
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    }
    strcpy(copy, path);
    *r = (struct real_dir){
        .dir = { &real_ops, copy, 0 }, .allocator = *allocator, .fd = -1, .lock_fd = -1
    };
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        err = diag_fail(diag, WEIR_ESYSTEM, "cannot create the directory %s: %s", path,
                        strerror(errno));
    if (!err) {
        r->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (r->fd < 0)
            err = diag_fail(diag, WEIR_ESYSTEM, "cannot open the directory %s: %s", path,
                            strerror(errno));
    }
    if (!err)
        err = refuse_if_others_may_write(r, diag);
    if (!err)
        err = take_lock(r, diag);
    if (!err)
        sync_parent(r);
    if (err) {
        if (r->lock_fd >= 0)
            close(r->lock_fd);
        if (r->fd >= 0)
            close(r->fd);
        alloc_free(allocator, copy);
        alloc_free(allocator, r);
        return err;
    }
    *out = &r->dir;
    return WEIR_OK;
}
