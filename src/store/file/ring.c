/* ring.c - the end of the journal in mapped memory.
 *
 * WHY NOT MAP THE JOURNAL: its pages are synced all the time. Each synced page is
 * write-protected again, and the next store to it costs a page fault. The ring is never synced,
 * so its few pages stay writable. What it has is as durable as a write without fsync.
 *
 * The file is filled with zeros that are really written, so that a store never needs more room
 * on the disk. Where that is not enough, dir.c refuses to map it. */
#include "store/file/ring.h"

#include <errno.h>
#include <string.h>

struct ring {
    struct dir *dir;
    weir_allocator allocator;
    struct file *file;
    char *bytes;
    size_t size;
};

static weir_err write_zeros(struct dir *dir, struct file *f, size_t size)
{
    static char zeros[1 << 16]; /* a const would take 64 KiB of the library's file */
    weir_err err = WEIR_OK;

    for (size_t at = 0; at < size && !err; at += sizeof zeros)
        err = dir->ops->write(f, at, zeros, size - at < sizeof zeros ? size - at : sizeof zeros);
    return err;
}

weir_err ring_open(struct ring **out, struct dir *dir, size_t size, const weir_allocator *allocator)
{
    struct ring *r = alloc_zeroed(allocator, sizeof *r);
    weir_err err;

    if (!r)
        return WEIR_ENOMEM;
    *r = (struct ring){ .dir = dir, .allocator = *allocator, .size = size };
    err = dir->ops->create(dir, RING_NAME, &r->file);
    if (!err)
        err = write_zeros(dir, r->file, size);
    if (!err)
        err = dir->ops->map(r->file, size, (void **)&r->bytes);
    if (err) {
        dir->ops->remove(dir, RING_NAME);
        ring_close(r);
        return err;
    }
    *out = r;
    return WEIR_OK;
}

void ring_close(struct ring *r)
{
    weir_allocator allocator;

    if (!r)
        return;
    allocator = r->allocator;
    if (r->bytes)
        r->dir->ops->unmap(r->file, r->bytes, r->size);
    if (r->file)
        r->dir->ops->close(r->file);
    alloc_free(&allocator, r);
}

size_t ring_size(const struct ring *r)
{
    return r->size;
}

/* How many of `len` bytes at `at` come before the ring's end. */
static size_t unbroken(size_t size, uint64_t at, uint64_t len)
{
    const uint64_t left = size - at % size;

    return (size_t)(len < left ? len : left);
}

void ring_put(struct ring *r, uint64_t at, const void *bytes, size_t len)
{
    const size_t first = unbroken(r->size, at, len);

    memcpy(r->bytes + at % r->size, bytes, first);
    memcpy(r->bytes, (const char *)bytes + first, len - first);
}

weir_err ring_drain(const struct ring *r, struct file *journal, uint64_t from, uint64_t upto)
{
    const size_t first = unbroken(r->size, from, upto - from);
    weir_err err = r->dir->ops->write(journal, from, r->bytes + from % r->size, first);

    if (!err && from + first < upto)
        err = r->dir->ops->write(journal, from + first, r->bytes, upto - from - first);
    return err;
}

weir_err ring_read(struct dir *dir, uint64_t at, const weir_allocator *allocator, char **bytes,
                   size_t *size)
{
    struct file *f;
    uint64_t found;
    size_t first;
    weir_err err = dir->ops->open(dir, RING_NAME, &f);

    *bytes = NULL;
    *size = 0;
    if (err)
        return dir->why == ENOENT ? WEIR_OK : err;
    err = dir->ops->size(f, &found);
    if (!err && found > 0) {
        *size = found;
        *bytes = alloc_resize(allocator, NULL, found);
        first = unbroken(found, at, found);
        err = *bytes ? dir->ops->read(f, at % found, *bytes, first) : WEIR_ENOMEM;
        if (!err && first < found)
            err = dir->ops->read(f, 0, *bytes + first, found - first);
    }
    dir->ops->close(f);
    if (err) {
        alloc_free(allocator, *bytes);
        *bytes = NULL;
    }
    return err;
}
