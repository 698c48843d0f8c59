/* dir.h - the disk as the file store sees it: one directory, through one table of calls.
 *
 * One table, so that a power cut, a full disk and a failing one can be test doubles. Nothing
 * here retries, buffers or decides. After a failure dir->why is the errno. */
#ifndef WEIR_BASE_DIR_H
#define WEIR_BASE_DIR_H

#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "weir.h"

enum { DIR_NAME = 64 }; /* bytes of a file's name, with the NUL */

struct file;

struct dir {
    const struct dir_ops *ops;
    const char *path; /* for messages */
    _Atomic int why;  /* several threads may fail at once: one of their reasons */
};

struct dir_ops {
    weir_err (*create)(struct dir *d, const char *name, struct file **out); /* empty, mode 0600 */
    weir_err (*open)(struct dir *d, const char *name, struct file **out);   /* an existing one */
    void (*close)(struct file *f);
    weir_err (*size)(struct file *f, uint64_t *out);
    weir_err (*read)(struct file *f, uint64_t at, void *into, size_t len); /* all of it, or fails */
    weir_err (*write)(struct file *f, uint64_t at, const void *bytes, size_t len);
    weir_err (*truncate)(struct file *f, uint64_t size);
    weir_err (*sync)(struct file *f);

    /* Have these bytes, which were written, leave memory now: a later sync has less to do. It
     * promises nothing of its own; if it fails, so has every sync that would follow. */
    weir_err (*write_out)(struct file *f, uint64_t at, uint64_t len);

    /* The file's first `len` bytes, which have been written, as memory that is shared with it: a
     * store there is a write. Fails where such a store could find the disk full, as it would
     * then end the process. */
    weir_err (*map)(struct file *f, size_t len, void **out);
    void (*unmap)(struct file *f, void *at, size_t len);

    weir_err (*rename)(struct dir *d, const char *from, const char *to);
    weir_err (*remove)(struct dir *d, const char *name);
    weir_err (*sync_dir)(struct dir *d);
    weir_err (*list)(struct dir *d, void (*each)(void *ctx, const char *name), void *ctx);
    void (*done)(struct dir *d);
};

/* The real one. Made with mode 0700 if it is missing, and owned by this process until done(): a
 * second owner is refused with the pid of the first, and one that others may write to with what to
 * do. */
WEIR_MUSTCHECK weir_err dir_open(struct dir **out, const char *path,
                                 const weir_allocator *allocator, weir_diag *diag);

#endif
